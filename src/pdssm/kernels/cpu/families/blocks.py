"""Diagonal, block-diagonal and dense matrices, and a diagonal with one dense block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pdssm.kernels.cpu.compiling import compiled
from pdssm.kernels.cpu.families.inner import dot


class DiagonalArrays(NamedTuple):
    diag: Any


class BlockArrays(NamedTuple):
    """Blocks (R, H, N / b, b, b); a dense matrix is one block."""

    blocks: Any


class DiagonalDenseArrays(NamedTuple):
    """A diagonal (R, H, N - b), then a block (R, H, b, b)."""

    diag: Any
    block: Any


# ------------------------------------------------------------------------------------ one part of a matrix


@compiled
def _scale(diag: Any, x: Any, y: Any) -> None:
    """y += diag x."""
    for j in range(diag.shape[0]):
        y[j] += diag[j] * x[j]


@compiled
def _scale_back(diag: Any, fresh: Any, x: Any, g: Any, g_diag: Any, carry: Any) -> None:
    """g_diag = g conj(x), added to what is there unless ``fresh``; carry = conj(diag) g."""
    if fresh:
        for j in range(diag.shape[0]):
            g_diag[j] = g[j] * np.conj(x[j])
    else:
        for j in range(diag.shape[0]):
            g_diag[j] += g[j] * np.conj(x[j])
    for j in range(diag.shape[0]):
        carry[j] = np.conj(diag[j]) * g[j]


@compiled
def _multiply(block: Any, x: Any, y: Any) -> None:
    """y += block x."""
    for i in range(block.shape[0]):
        y[i] += dot(block[i], x)


@compiled
def _multiply_back(block: Any, fresh: Any, x: Any, g: Any, g_block: Any, carry: Any) -> None:
    """g_block[i, j] = g[i] conj(x[j]), added to what is there unless ``fresh``; carry = block^H g."""
    for j in range(block.shape[0]):
        carry[j] = 0
    for i in range(block.shape[0]):
        row, g_row, gi = block[i], g_block[i], g[i]
        if fresh:
            g_row[:] = 0
        for j in range(row.shape[0]):
            g_row[j] += gi * np.conj(x[j])
            carry[j] += np.conj(row[j]) * gi


# ------------------------------------------------------------------------------------ many narrow blocks

# Up to here an array view for each row of a block costs more than the row: 2 x 2 blocks took 20 times as long.
NARROW = 8


@compiled
def _multiply_narrow(blocks: Any, width: Any, x: Any, y: Any) -> None:
    """``_multiply`` of all blocks, which lie one after the other; unsigned indices cannot be negative ones."""
    b, at, start = np.uint64(width), np.uint64(0), np.uint64(0)
    while start < np.uint64(x.shape[0]):
        for i in range(b):
            total = y[start + i]
            for j in range(b):
                total += blocks[at] * x[start + j]
                at += np.uint64(1)
            y[start + i] = total
        start += b


@compiled
def _multiply_back_narrow(blocks: Any, width: Any, fresh: Any, x: Any, g: Any, g_blocks: Any, carry: Any) -> None:
    """``_multiply_back`` of all blocks."""
    if fresh:
        g_blocks[:] = 0
    carry[:] = 0
    b, at, start = np.uint64(width), np.uint64(0), np.uint64(0)
    while start < np.uint64(x.shape[0]):
        for i in range(b):
            gi = g[start + i]
            for j in range(b):
                g_blocks[at] += gi * np.conj(x[start + j])
                carry[start + j] += np.conj(blocks[at]) * gi
                at += np.uint64(1)
        start += b


# ------------------------------------------------------------------------------------------- the families


def diagonal_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    _scale(p.diag[r, h], x, y)


def diagonal_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    _scale_back(p.diag[r, h], v == 0, x, g, grads[0][t, h], carry)


def block_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    blocks, b = p.blocks[r, h], p.blocks.shape[-1]
    if b <= NARROW:
        _multiply_narrow(blocks.ravel(), b, x, y)
    else:
        for k in range(blocks.shape[0]):
            _multiply(blocks[k], x[k * b : k * b + b], y[k * b : k * b + b])


def block_retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    blocks, g_blocks, b = p.blocks[r, h], grads[0][t, h], p.blocks.shape[-1]
    if b <= NARROW:
        _multiply_back_narrow(blocks.ravel(), b, v == 0, x, g, g_blocks.ravel(), carry)
    else:
        for k in range(blocks.shape[0]):
            at = slice(k * b, k * b + b)
            _multiply_back(blocks[k], v == 0, x[at], g[at], g_blocks[k], carry[at])


def diagonal_dense_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    split = p.diag.shape[-1]
    _scale(p.diag[r, h], x, y)
    _multiply(p.block[r, h], x[split:], y[split:])


def diagonal_dense_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    split = p.diag.shape[-1]
    _scale_back(p.diag[r, h], v == 0, x, g, grads[0][t, h], carry)
    _multiply_back(p.block[r, h], v == 0, x[split:], g[split:], grads[1][t, h], carry[split:])
