"""PD matrices, in column and in row form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class PDArrays(NamedTuple):
    """Column form, A e_j = diag[j] e_index[j].  Gradients: diag's, and ``right``, see ``pd_retreat``."""

    index: Any
    diag: Any


class RowPDArrays(NamedTuple):
    """Row form, (A x)[i] = diag[i] x[index[i]]."""

    index: Any
    diag: Any


def pd_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """y[index[j]] += diag[j] x[j], a scatter: the products first, in vectors."""
    index, diag, products = p.index[r, h], p.diag[r, h], scratch[0]
    for j in range(x.shape[0]):
        products[j] = diag[j] * x[j]
    for j in range(x.shape[0]):
        y[np.uint32(index[j])] += products[j]


def pd_retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    """g_diag[j] = g[index[j]] conj(x[j]), A^H g [j] = conj(diag[j]) g[index[j]]; right = diag x (with left = g)."""
    g_diag, right = grads
    index, diag, g_diag_row = p.index[r, h], p.diag[r, h], g_diag[t, h]
    # The gather alone first: what follows then runs over neighbours, and in vectors.
    for j in range(x.shape[0]):
        carry[j] = g[np.uint32(index[j])]
    if v == 0:
        for j in range(x.shape[0]):
            g_diag_row[j] = carry[j] * np.conj(x[j])
    else:
        for j in range(x.shape[0]):
            g_diag_row[j] += carry[j] * np.conj(x[j])
    if right.size:
        re = right[t, h, v, 0]
        for j in range(x.shape[0]):
            re[j] = (diag[j] * x[j]).real
    if right.size and right.shape[3] == 2:
        im = right[t, h, v, 1]
        for j in range(x.shape[0]):
            im[j] = (diag[j] * x[j]).imag
    for j in range(x.shape[0]):
        carry[j] *= np.conj(diag[j])


def row_pd_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """y[i] += diag[i] x[index[i]], a gather."""
    index, diag = p.index[r, h], p.diag[r, h]
    for i in range(x.shape[0]):
        y[i] += diag[i] * x[np.uint32(index[i])]


def row_pd_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """g_diag[i] = g[i] conj(x[index[i]]), A^H g [index[i]] += conj(diag[i]) g[i]; right = conj(diag) g, left = x."""
    g_diag, right = grads
    index, diag, g_diag_row, back = p.index[r, h], p.diag[r, h], g_diag[t, h], scratch[0]
    for i in range(x.shape[0]):
        product = g[i] * np.conj(x[np.uint32(index[i])])
        g_diag_row[i] = product if v == 0 else g_diag_row[i] + product
    for i in range(x.shape[0]):
        back[i] = np.conj(diag[i]) * g[i]
        carry[i] = 0
    for i in range(x.shape[0]):
        carry[np.uint32(index[i])] += back[i]
    if right.size:
        re = right[t, h, v, 0]
        for i in range(x.shape[0]):
            re[i] = back[i].real
    if right.size and right.shape[3] == 2:
        im = right[t, h, v, 1]
        for i in range(x.shape[0]):
            im[i] = back[i].imag
