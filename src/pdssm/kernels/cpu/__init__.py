"""The compiled CPU kernels behind functions of tensors.

Imported at the first call that needs them, so that ``import pdssm`` does not pay for Numba.  All inputs are
contiguous CPU tensors in the axes of ``recurrence.py`` and ``selection.py``; ``kernels.ops`` sees to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu import recurrence, selection
from pdssm.kernels.cpu.pool import run
from pdssm.kernels.cpu.vector import LANES

_ARRAYS: dict[str, Any] = {
    "pd": recurrence.PDArrays,
    "row_pd": recurrence.RowPDArrays,
    "diagonal": recurrence.DiagonalArrays,
    "block": recurrence.BlockArrays,
    "householder": recurrence.HouseholderArrays,
}
# Enough tasks for a few cores even where there are few tiles; fixed, so that sums have one order.
_MIN_TASKS = 8
_MIN_PART = 64
# Steps a transition from which summing dP first pays, and how many elements of dP exist at a time.
_MANY_STEPS = 8
_SUMS = 1 << 22


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _array(tensor: Tensor) -> Any:
    return tensor.detach().numpy()


def _bind(kind: str, index: Tensor | None, params: list[Tensor]) -> Any:
    tensors = params if index is None else [index, *params]
    return _ARRAYS[kind](*(_array(tensor) for tensor in tensors))


def _depth(kind: str, params: list[Tensor]) -> int:
    """Rows of scratch: a Householder product keeps the argument of each of its factors."""
    return int(params[0].shape[2]) + 1 if kind == "householder" else 0


# ----------------------------------------------------------------------------------------------- recurrence


def scan_forward(
    kind: str,
    index: Tensor | None,
    params: list[Tensor],
    inputs: Tensor,
    initial: Tensor,
    rows: Tensor,
    cu: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """The states of every step, and the final ones of every sequence."""
    sequences, heads, channels, size = initial.shape
    states = empty((rows.shape[0], heads, channels, size), inputs)
    final = empty((sequences, heads, channels, size), inputs)
    arrays = [_array(tensor) for tensor in (inputs, initial, rows, cu)]
    run(
        recurrence.forward, sequences * heads, 4 * states.numel(),
        _bind(kind, index, params), *arrays, reverse, _depth(kind, params), _array(states), _array(final),
    )  # fmt: skip
    return states, final


def scan_backward(
    kind: str, index: Tensor | None, params: list[Tensor], initial: Tensor, rows: Tensor, cu: Tensor, reverse: bool, states: Tensor,
    g_states: Tensor | None, g_final: Tensor | None, right: Tensor | None = None,
) -> tuple[list[Tensor], Tensor, Tensor]:  # fmt: skip
    """Per step, the gradients of the parameters and the inputs; per sequence, that of the initial state.

    ``right`` (PD only) receives the right factor of dP, see ``recurrence.pd_retreat``.
    """
    sequences, heads, channels, size = initial.shape
    steps = rows.shape[0]
    grads = [empty((steps, *param.shape[1:]), param) for param in params]
    g_inputs = empty((steps, heads, channels, size), initial)
    g_initial = empty((sequences, heads, channels, size), initial)
    outputs = [_array(grad) for grad in grads]
    if index is not None:
        real = initial.real.dtype
        outputs.append(_array(torch.empty((0, 0, 0, 0, 0), dtype=real) if right is None else right))
    cotangents = [_array(initial.new_empty((0, 0, 0, 0)) if g is None else g) for g in (g_states, g_final)]
    arrays = [_array(tensor) for tensor in (initial, rows, cu)]
    run(
        recurrence.backward, sequences * heads, 8 * states.numel(),
        _bind(kind, index, params), *arrays, reverse, _depth(kind, params), _array(states), *cotangents,
        tuple(outputs), _array(g_inputs), _array(g_initial),
    )  # fmt: skip
    return grads, g_inputs, g_initial


def pd_backward(
    index: Tensor, diag: Tensor, initial: Tensor, rows: Tensor, cu: Tensor, reverse: bool, row_form: bool,
    states: Tensor, g_states: Tensor | None, g_final: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``scan_backward`` of PD with dP's factors, left (E, N, C) and right (E, C, padded N), as ``surrogate`` reads them."""
    heads, channels, size = initial.shape[1:]
    parts = 2 if diag.is_complex() else 1
    right = empty((rows.shape[0], heads, channels, parts, padded_columns(size)), states, states.real.dtype)
    right[..., size:] = 0
    kind = "row_pd" if row_form else "pd"
    (g_diag,), g_inputs, g_initial = scan_backward(
        kind, index, [diag], initial, rows, cu, reverse, states, g_states, g_final, right
    )
    left = _states_before(states, initial, cu, reverse) if row_form else g_inputs
    left = torch.view_as_real(left) if left.is_complex() else left[..., None]
    return g_diag, g_inputs, g_initial, left.view(-1, size, parts), right.view(-1, parts, padded_columns(size))


def _states_before(states: Tensor, initial: Tensor, cu: Tensor, reverse: bool) -> Tensor:
    """x_{t-1} of every step, in the direction of the recurrence."""
    before = states.roll(-1 if reverse else 1, 0)
    full = cu[1:] > cu[:-1]
    first = (cu[1:] - 1 if reverse else cu[:-1])[full]
    before[first] = initial[full]
    return before


def sum_rows(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """(T, ...) to (count, ...): the sum over the steps of each row."""
    flat = values.reshape(values.shape[0], -1)
    out = torch.zeros((count, flat.shape[1]), dtype=values.dtype)
    tasks = -(-flat.shape[1] // recurrence.SUM_COLUMNS)
    run(recurrence.sum_rows, tasks, flat.numel(), _array(flat), _array(rows), _array(out))
    return out.reshape(count, *values.shape[1:])


def steps_of_rows(rows: Tensor, count: int, heads: int, channels: int) -> tuple[Tensor, Tensor]:
    """The steps that use each transition, as (order, offsets); see ``recurrence.steps_of_rows``."""
    order = torch.empty(rows.shape[0] * heads * channels, dtype=torch.int64)
    offsets = torch.empty(count * heads + 1, dtype=torch.int64)
    recurrence.steps_of_rows(_array(rows), heads, channels, _array(order), _array(offsets))
    return order, offsets


# ------------------------------------------------------------------------------------------------ selection


def _pack(dictionary: Tensor) -> Tensor:
    """(K, N, N) to (tiles, N, K, LANES): a tile's columns lie together, K made even and N whole tiles by zeros."""
    terms, size = dictionary.shape[:2]
    columns = _round_up(size, LANES)
    padded = pad(dictionary, (0, columns - size, 0, 0, 0, terms % 2))
    return padded.view(-1, size, columns // LANES, LANES).permute(2, 1, 0, 3).contiguous()


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
    return np.zeros(0, np.int64) if noise is None else _array(pad(noise, (0, padded - noise.shape[0])))


def select(scores: Tensor, dictionary: Tensor, noise: Tensor | None) -> Tensor:
    """index[u, b] = argmax_a of the logits; (U, N) int32."""
    packed, columns = _pack(dictionary), _pack_scores(scores, 1)
    tiles, size = packed.shape[:2]
    count = scores.shape[0]
    index = empty((count, tiles * LANES), scores, torch.int32)
    bounds = _parts(count, tiles, selection.FORWARD_BLOCK)
    run(
        selection.select, tiles * (len(bounds) - 1), count * packed.numel() // LANES,
        _array(columns), _array(packed), _keys(noise, count), bounds, _array(index),
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
    steps = [_array(tensor) for tensor in (left, right, order, offsets)]
    for first in range(0, padded, block):
        some = min(block, padded - first)
        sums = empty((some if summed else 0, size, tiles * LANES), scores)
        if summed:
            run(selection.sum_outer, some * tiles, left.numel() * tiles, first, *steps, _array(sums))
        bounds = first + _parts(some, tiles, selection.BACKWARD_BLOCK)
        parts = len(bounds) - 1
        g_tiles = empty((parts * tiles, size, terms, LANES), scores)
        run(
            selection.surrogate, parts * tiles, 4 * some * packed.numel() // LANES,
            _array(columns), _array(packed), _array(index), _keys(noise, padded), scale,
            *steps, _array(sums), first, bounds, _array(g_scores), _array(g_tiles),
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
