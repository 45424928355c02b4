"""A diagonal plus a matrix of low rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pdssm.kernels.cpu.families.inner import inner


class LowRankArrays(NamedTuple):
    """A = diag(diag) + sum_m left_m right_m^H, with left and right (R, H, r, N): each vector lies in one row."""

    diag: Any
    left: Any
    right: Any


def low_rank_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    diag, left, right = p.diag[r, h], p.left[r, h], p.right[r, h]
    for j in range(x.shape[0]):
        y[j] += diag[j] * x[j]
    for m in range(left.shape[0]):
        column, factor = left[m], inner(right[m], x)
        for j in range(x.shape[0]):
            y[j] += factor * column[j]


def low_rank_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """With s = right_m^H x and q = left_m^H g:

    g_diag = g conj(x),  g_left_m = conj(s) g,  g_right_m = conj(q) x,  A^H g = conj(diag) g + sum_m q right_m.
    """
    diag, left, right = p.diag[r, h], p.left[r, h], p.right[r, h]
    g_diag, g_left, g_right = grads[0][t, h], grads[1][t, h], grads[2][t, h]
    if v == 0:
        g_diag[:] = 0
        g_left[:] = 0
        g_right[:] = 0
    for j in range(x.shape[0]):
        g_diag[j] += g[j] * np.conj(x[j])
        carry[j] = np.conj(diag[j]) * g[j]
    for m in range(left.shape[0]):
        row, g_column, g_row = right[m], g_left[m], g_right[m]
        s, q = np.conj(inner(row, x)), inner(left[m], g)
        back = np.conj(q)
        for j in range(x.shape[0]):
            g_column[j] += s * g[j]
            g_row[j] += back * x[j]
            carry[j] += q * row[j]
