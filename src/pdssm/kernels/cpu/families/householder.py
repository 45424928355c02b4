"""Products of Householder factors with a decay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pdssm.kernels.cpu.compiling import compiled


class HouseholderArrays(NamedTuple):
    """A = (I - beta_n k_n k_n^H) ... (I - beta_1 k_1 k_1^H) diag(decay); beta real, decay real, of N or 1."""

    keys: Any
    beta: Any
    decay: Any


@compiled
def _inner(keys: Any, r: Any, h: Any, m: Any, y: Any) -> Any:
    """k_m^H y."""
    total = y.dtype.type(0)
    for j in range(y.shape[0]):
        total += np.conj(keys[r, h, m, j]) * y[j]
    return total


def householder_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """Factor by factor, on one row of scratch."""
    z = scratch[0]
    for j in range(x.shape[0]):
        z[j] = p.decay[r, h, j % p.decay.shape[2]] * x[j]
    for m in range(p.keys.shape[2]):
        factor = p.beta[r, h, m] * _inner(p.keys, r, h, m, z)
        for j in range(x.shape[0]):
            z[j] -= factor * p.keys[r, h, m, j]
    for j in range(x.shape[0]):
        y[j] += z[j]


def householder_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """Forward again, keeping each factor's argument y; then back through them, with p = k^H y and q = k^H g:

    g_beta = -Re(conj(q) p),  g_k = -beta (conj(p) g + conj(q) y),  g <- g - beta q k;  g_decay = Re(conj(g) x).
    """
    g_keys, g_beta, g_decay = grads
    factors, size, spread = p.keys.shape[2], x.shape[0], p.decay.shape[2]
    if v == 0:
        g_keys[t, h] = 0
        g_beta[t, h] = 0
        g_decay[t, h] = 0
    for j in range(size):
        scratch[0, j] = p.decay[r, h, j % spread] * x[j]
    for m in range(factors):
        factor = p.beta[r, h, m] * _inner(p.keys, r, h, m, scratch[m])
        for j in range(size):
            scratch[m + 1, j] = scratch[m, j] - factor * p.keys[r, h, m, j]
    carry[:] = g
    for m in range(factors - 1, -1, -1):
        before, q, b = _inner(p.keys, r, h, m, scratch[m]), _inner(p.keys, r, h, m, carry), p.beta[r, h, m]
        g_beta[t, h, m] -= (np.conj(q) * before).real
        for j in range(size):
            g_keys[t, h, m, j] -= b * (np.conj(before) * carry[j] + np.conj(q) * scratch[m, j])
            carry[j] -= b * q * p.keys[r, h, m, j]
    for j in range(size):
        g_decay[t, h, j % spread] += (np.conj(carry[j]) * x[j]).real
        carry[j] = p.decay[r, h, j % spread] * carry[j]
