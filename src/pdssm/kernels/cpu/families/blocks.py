"""Diagonal, block-diagonal and dense matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class DiagonalArrays(NamedTuple):
    diag: Any


class BlockArrays(NamedTuple):
    """Blocks (R, H, N / b, b, b); a dense matrix is one block."""

    blocks: Any


def diagonal_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    diag = p.diag[r, h]
    for j in range(x.shape[0]):
        y[j] += diag[j] * x[j]


def diagonal_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """g_diag = g conj(x), A^H g = conj(diag) g."""
    (g_diag,) = grads
    diag, g_diag_row = p.diag[r, h], g_diag[t, h]
    if v == 0:
        for j in range(x.shape[0]):
            g_diag_row[j] = g[j] * np.conj(x[j])
    else:
        for j in range(x.shape[0]):
            g_diag_row[j] += g[j] * np.conj(x[j])
    for j in range(x.shape[0]):
        carry[j] = np.conj(diag[j]) * g[j]


def block_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    b = p.blocks.shape[-1]
    for k in range(p.blocks.shape[2]):
        for i in range(b):
            total = y[k * b + i]
            for j in range(b):
                total += p.blocks[r, h, k, i, j] * x[k * b + j]
            y[k * b + i] = total


def block_retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    """g_block[i, j] = g[i] conj(x[j]), A^H g [j] = sum_i conj(block[i, j]) g[i]."""
    (g_blocks,) = grads
    b = p.blocks.shape[-1]
    carry[:] = 0
    for k in range(p.blocks.shape[2]):
        for i in range(b):
            gi = g[k * b + i]
            for j in range(b):
                product = gi * np.conj(x[k * b + j])
                g_blocks[t, h, k, i, j] = product if v == 0 else g_blocks[t, h, k, i, j] + product
                carry[k * b + j] += np.conj(p.blocks[r, h, k, i, j]) * gi
