"""The selection's kernels as functions of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu import selection
from pdssm.kernels.cpu.loops import array
from pdssm.kernels.cpu.pool import run
from pdssm.kernels.cpu.vector import LANES

# Enough tasks for a few cores even where there are few tiles; fixed, so that sums have one order.
_MIN_TASKS = 8
_MIN_PART = 64
# Steps a transition from which summing dP first pays, and how many elements of dP exist at a time.
_MANY_STEPS = 8
_SUMS = 1 << 22


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def pad(tensor: Tensor, widths: tuple[int, ...]) -> Tensor:
    """torch's, which copies the tensor even where there is nothing to add."""
    return functional.pad(tensor, widths) if any(widths) else tensor


def _pack(dictionary: Tensor) -> Tensor:
    """(K, N, N) to (tiles, N, K, LANES): a tile's columns lie together, K made even and N whole tiles by zeros."""
    terms, size = dictionary.shape[:2]
    columns = _round_up(size, LANES)
    padded = pad(dictionary, (0, columns - size, 0, 0, 0, terms % 2))
    tiled = padded.view(-1, size, columns // LANES, LANES).permute(2, 1, 0, 3)
    return empty(tuple(tiled.shape), dictionary).copy_(tiled)


def _pack_scores(scores: Tensor, multiple: int) -> Tensor:
    """(U, K) to (K, U), K made even and U a whole number of blocks by zeros."""
    count, terms = scores.shape
    return pad(scores, (0, terms % 2, 0, _round_up(count, multiple) - count)).t().contiguous()


def _parts(count: int, tiles: int, block: int) -> Any:
    """Bounds of the parts of ``count`` transitions, each but the last whole blocks."""
    parts = max(1, min(-(-_MIN_TASKS // tiles), count // _MIN_PART))
    step = _round_up(-(-count // parts), block)
    return np.minimum(np.arange(parts + 1, dtype=np.int64) * step, count)


def _keys(noise: Tensor | None, padded: int) -> Any:
    return np.zeros(0, np.int64) if noise is None else array(pad(noise, (0, padded - noise.shape[0])))


def select(scores: Tensor, dictionary: Tensor, noise: Tensor | None) -> Tensor:
    """index[u, b] = argmax_a of the logits; (U, N) int32."""
    packed, columns = _pack(dictionary), _pack_scores(scores, 1)
    tiles, size = packed.shape[:2]
    count = scores.shape[0]
    index = empty((count, tiles * LANES), scores, torch.int32)
    bounds = _parts(count, tiles, selection.FORWARD_BLOCK)
    run(
        selection.select, tiles * (len(bounds) - 1), count * packed.numel() // LANES,
        array(columns), array(packed), _keys(noise, count), bounds, array(index),
    )  # fmt: skip
    return index[:, :size].contiguous()


def surrogate(
    scores: Tensor, dictionary: Tensor, index: Tensor, noise: Tensor | None, temperature: float,
    left: Tensor, right: Tensor, order: Tensor, offsets: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of scores and dictionary from left (E, N, C) and right (E, C, padded_columns(N))."""
    packed, columns = _pack(dictionary), _pack_scores(scores, selection.BACKWARD_BLOCK)
    tiles, size, terms = packed.shape[:3]
    count, padded = scores.shape[0], columns.shape[1]
    index = pad(index, (0, tiles * LANES - size, 0, padded - count))
    offsets = torch.cat((offsets, offsets[-1:].expand(padded - count)))
    # Where a transition serves many steps, its dP is summed first, as a matrix product, a few transitions at a time.
    summed = order.shape[0] >= _MANY_STEPS * count
    block = _round_up(_SUMS // (size * tiles * LANES), selection.BACKWARD_BLOCK) if summed else padded
    g_scores = empty((tiles, padded, terms), scores)
    g_dictionary = torch.zeros((tiles, size, terms, LANES), dtype=scores.dtype)
    scale = np.dtype(str(scores.dtype).removeprefix("torch.")).type(1.0 / temperature)
    steps = [array(tensor) for tensor in (left, right, order, offsets)]
    for first in range(0, padded, block):
        some = min(block, padded - first)
        sums = empty((some if summed else 0, size, tiles * LANES), scores)
        if summed:
            groups = min(2, tiles)
            run(selection.sum_outer, some * groups, left.numel() * tiles, first, *steps, groups, array(sums))
        bounds = first + _parts(some, tiles, selection.BACKWARD_BLOCK)
        parts = len(bounds) - 1
        g_tiles = empty((parts * tiles, size, terms, LANES), scores)
        run(
            selection.surrogate, parts * tiles, 4 * some * packed.numel() // LANES,
            array(columns), array(packed), array(index), _keys(noise, padded), scale,
            *steps, array(sums), first, bounds, array(g_scores), array(g_tiles),
        )  # fmt: skip
        g_dictionary += _ordered_sum(g_tiles.view(parts, tiles, size, terms, LANES))
    g_dictionary = g_dictionary.permute(2, 1, 0, 3).reshape(terms, size, tiles * LANES)
    g_dictionary = g_dictionary[: dictionary.shape[0], :, :size].contiguous()
    return _ordered_sum(g_scores)[:count, : scores.shape[1]].contiguous(), g_dictionary


def padded_columns(size: int) -> int:
    return _round_up(size, LANES)


def _ordered_sum(parts: Tensor) -> Tensor:
    """The sum over axis 0, one after the other: the same bits on any number of threads."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total
