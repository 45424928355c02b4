"""Products of Householder factors with a decay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pdssm.kernels.cpu.families.inner import inner


class HouseholderArrays(NamedTuple):
    """A = (I - beta_n k_n k_n^H) ... (I - beta_1 k_1 k_1^H) diag(decay); beta real, decay real, of N or 1."""

    keys: Any
    beta: Any
    decay: Any


def householder_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """Factor by factor, on one row of scratch."""
    keys, beta, decay, z = p.keys[r, h], p.beta[r, h], p.decay[r, h], scratch[0]
    for j in range(x.shape[0]):
        z[j] = decay[j % decay.shape[0]] * x[j]
    for m in range(keys.shape[0]):
        key = keys[m]
        factor = beta[m] * inner(key, z)
        for j in range(x.shape[0]):
            z[j] -= factor * key[j]
    for j in range(x.shape[0]):
        y[j] += z[j]


def householder_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """Forward again, keeping each factor's argument y; then back through them, with p = k^H y and q = k^H g:

    g_beta = -Re(conj(q) p),  g_k = -beta (conj(p) g + conj(q) y),  g <- g - beta q k;  g_decay = Re(conj(g) x).
    """
    keys, beta, decay = p.keys[r, h], p.beta[r, h], p.decay[r, h]
    g_keys, g_beta, g_decay = grads[0][t, h], grads[1][t, h], grads[2][t, h]
    size, spread = x.shape[0], decay.shape[0]
    if v == 0:
        g_keys[:] = 0
        g_beta[:] = 0
        g_decay[:] = 0
    first = scratch[0]
    for j in range(size):
        first[j] = decay[j % spread] * x[j]
    for m in range(keys.shape[0]):
        key, before, after = keys[m], scratch[m], scratch[m + 1]
        factor = beta[m] * inner(key, before)
        for j in range(size):
            after[j] = before[j] - factor * key[j]
    carry[:] = g
    for m in range(keys.shape[0] - 1, -1, -1):
        key, g_key, before = keys[m], g_keys[m], scratch[m]
        along, q = inner(key, before), inner(key, carry)
        g_beta[m] -= (np.conj(q) * along).real
        for j in range(size):
            g_key[j] -= beta[m] * (np.conj(along) * carry[j] + np.conj(q) * before[j])
            carry[j] -= beta[m] * q * key[j]
    for j in range(size):
        g_decay[j % spread] += (np.conj(carry[j]) * x[j]).real
        carry[j] *= decay[j % spread]
