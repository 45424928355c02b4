"""Walsh-Hadamard matrices, modulated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pdssm.kernels.cpu.compiling import compiled


class HadamardArrays(NamedTuple):
    """A = I + W diag(scale) with W = H / sqrt(N), which is symmetric."""

    scale: Any


@compiled
def transform(z: Any) -> None:
    """Z <- H z / sqrt(N) in place, by log2(N) rounds of sums and differences."""
    size = z.shape[0]
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            low, high = z[start : start + half], z[start + half : start + 2 * half]
            for j in range(half):
                first, second = low[j], high[j]
                low[j], high[j] = first + second, first - second
        half *= 2
    norm = z.real.dtype.type(1 / np.sqrt(size))
    for j in range(size):
        z[j] *= norm


def hadamard_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    scale, z = p.scale[r, h], scratch[0]
    for j in range(x.shape[0]):
        z[j] = scale[j] * x[j]
    transform(z)
    for j in range(x.shape[0]):
        y[j] += x[j] + z[j]


def hadamard_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """g_scale = (W g) conj(x), A^H g = g + conj(scale) (W g)."""
    scale, g_scale, z = p.scale[r, h], grads[0][t, h], scratch[0]
    for j in range(x.shape[0]):
        z[j] = g[j]
    transform(z)
    if v == 0:
        g_scale[:] = 0
    for j in range(x.shape[0]):
        g_scale[j] += z[j] * np.conj(x[j])
        carry[j] = g[j] + np.conj(scale[j]) * z[j]
