"""The frozen selection: the argmax over each column's listed candidates, with the bits of ``selection.py``.

A tile is LANES neighbouring columns; its step c holds the c-th candidate of each, as row numbers and values, rows
ascending.  A column with fewer candidates than its tile's longest list repeats its last one, which cannot win twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from pdssm.kernels import buffers
from pdssm.kernels.cpu.candidates import list_candidates
from pdssm.kernels.cpu.loops import array
from pdssm.kernels.cpu.pool import run
from pdssm.kernels.cpu.vector import LANES, broadcast, fma, load, splat, store, where_greater

BLOCK = 8  # transitions whose logits share one pass over a tile's candidates
_MIN_TASKS = 8
_MIN_PART = 64
_WORK = 1000  # elementary operations that listing costs an entry of a column, roughly

compiled: Any = njit(nogil=True, cache=True, error_model="numpy")


def candidates(dictionary: Tensor) -> Tensor:
    """The mask (N, N) of the rows a that column b must search, as [b, a]; dictionary (K, N, N) is finite."""
    columns = dictionary.permute(2, 1, 0).contiguous()
    size = columns.shape[0]
    kept = torch.empty((size, size), dtype=torch.bool)
    limits = torch.finfo(dictionary.dtype)
    format_of = (limits.eps / 2, limits.tiny, limits.max)
    run(list_candidates, size, size * size * _WORK, array(columns), *format_of, array(kept))
    return kept


def pack(rows: Tensor, values: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(rows (C, LANES) int32, values (C, K, LANES), starts (tiles + 1)) of lists (N, longest) and (N, longest, K)."""
    size = rows.shape[0]
    columns = torch.arange(-(-size // LANES) * LANES).clamp(max=size - 1).view(-1, LANES)
    longest = [int(counts[tile].max()) for tile in columns]
    packed_rows = [rows[tile, :c].t() for tile, c in zip(columns, longest, strict=True)]
    packed_values = [values[tile, :c].permute(1, 2, 0) for tile, c in zip(columns, longest, strict=True)]
    starts = torch.tensor([0, *longest]).cumsum(0)
    return torch.cat(packed_rows).to(torch.int32), torch.cat(packed_values), starts


@compiled
def checked_columns(scores: Any, tolerance: Any) -> Any:
    """The scores as (K, U), and the first transition that is not on the simplex, or -1."""
    count, terms = scores.shape
    columns, bad = np.empty((terms, count), scores.dtype), -1
    for u in range(count):
        total, negative = 0.0, False
        for k in range(terms):
            total += scores[u, k]
            negative = negative or scores[u, k] < 0
            columns[k, u] = scores[u, k]
        if bad < 0 and (negative or not abs(total - 1.0) <= tolerance):
            bad = u
    return columns, bad


@compiled
def _search_eight(u: Any, tile: Any, scores: Any, values: Any, rows: Any, starts: Any, index: Any) -> None:
    terms = values.shape[1]
    kind = values.dtype.type
    zero, none = splat(kind(0)), splat(np.int32(0))
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = splat(kind(-np.inf))
    i0 = i1 = i2 = i3 = i4 = i5 = i6 = i7 = none
    for c in range(starts[tile], starts[tile + 1]):
        l0 = l1 = l2 = l3 = l4 = l5 = l6 = l7 = zero
        for k in range(terms):
            w = load(values, (c, k, 0))
            l0 = fma(broadcast(scores, (k, u)), w, l0)
            l1 = fma(broadcast(scores, (k, u + 1)), w, l1)
            l2 = fma(broadcast(scores, (k, u + 2)), w, l2)
            l3 = fma(broadcast(scores, (k, u + 3)), w, l3)
            l4 = fma(broadcast(scores, (k, u + 4)), w, l4)
            l5 = fma(broadcast(scores, (k, u + 5)), w, l5)
            l6 = fma(broadcast(scores, (k, u + 6)), w, l6)
            l7 = fma(broadcast(scores, (k, u + 7)), w, l7)
        row = load(rows, (c, 0))
        i0, m0 = where_greater(l0, m0, row, i0), where_greater(l0, m0, l0, m0)
        i1, m1 = where_greater(l1, m1, row, i1), where_greater(l1, m1, l1, m1)
        i2, m2 = where_greater(l2, m2, row, i2), where_greater(l2, m2, l2, m2)
        i3, m3 = where_greater(l3, m3, row, i3), where_greater(l3, m3, l3, m3)
        i4, m4 = where_greater(l4, m4, row, i4), where_greater(l4, m4, l4, m4)
        i5, m5 = where_greater(l5, m5, row, i5), where_greater(l5, m5, l5, m5)
        i6, m6 = where_greater(l6, m6, row, i6), where_greater(l6, m6, l6, m6)
        i7, m7 = where_greater(l7, m7, row, i7), where_greater(l7, m7, l7, m7)
    store(index, (u, tile * LANES), i0)
    store(index, (u + 1, tile * LANES), i1)
    store(index, (u + 2, tile * LANES), i2)
    store(index, (u + 3, tile * LANES), i3)
    store(index, (u + 4, tile * LANES), i4)
    store(index, (u + 5, tile * LANES), i5)
    store(index, (u + 6, tile * LANES), i6)
    store(index, (u + 7, tile * LANES), i7)


@compiled
def _search_one(u: Any, tile: Any, scores: Any, values: Any, rows: Any, starts: Any, index: Any) -> None:
    """The same arithmetic for one transition."""
    kind = values.dtype.type
    zero = splat(kind(0))
    best, at = splat(kind(-np.inf)), splat(np.int32(0))
    for c in range(starts[tile], starts[tile + 1]):
        logit = zero
        for k in range(values.shape[1]):
            logit = fma(broadcast(scores, (k, u)), load(values, (c, k, 0)), logit)
        row = load(rows, (c, 0))
        at, best = where_greater(logit, best, row, at), where_greater(logit, best, logit, best)
    store(index, (u, tile * LANES), at)


@compiled
def _search(lo: Any, hi: Any, parts: Any, scores: Any, values: Any, rows: Any, starts: Any, index: Any) -> None:
    """Tasks lo..hi of ``index`` (U, Np), a task being (part of the transitions, tile of columns)."""
    tiles, count = starts.shape[0] - 1, scores.shape[1]
    for task in range(lo, hi):
        part, tile = task // tiles, task % tiles
        u, stop = count * part // parts, count * (part + 1) // parts
        while u + BLOCK <= stop:
            _search_eight(u, tile, scores, values, rows, starts, index)
            u += BLOCK
        while u < stop:
            _search_one(u, tile, scores, values, rows, starts, index)
            u += 1


def search(scores: Tensor, rows: Tensor, values: Tensor, starts: Tensor, size: int, tolerance: float) -> Tensor | int:
    """index (U, N) of contiguous scores (U, K) and what ``pack`` made, or the first transition off the simplex."""
    columns, bad = checked_columns(array(scores), tolerance)
    if bad >= 0:
        return int(bad)
    count, tiles = scores.shape[0], starts.shape[0] - 1
    parts = max(1, min(-(-_MIN_TASKS // tiles), count // _MIN_PART))
    index = buffers.empty((count, tiles * LANES), scores, torch.int32)
    work = count * values.numel() // LANES
    run(_search, parts * tiles, work, parts, columns, array(values), array(rows), array(starts), array(index))
    return index[:, :size].contiguous()
