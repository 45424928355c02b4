"""The compiled CPU kernels behind functions of tensors.

Imported at the first call that needs them, so that ``import pdssm`` does not pay for Numba.  All inputs are
contiguous CPU tensors in the axes of ``recurrence.py`` and ``selection.py``; ``kernels.ops`` sees to that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu import chunked, loops
from pdssm.kernels.cpu.loops import sort_steps, sum_rows
from pdssm.kernels.cpu.selecting import padded_columns, select, surrogate

__all__ = ["pd_backward", "scan_backward", "scan_forward", "select", "sort_steps", "sum_rows", "surrogate"]


def scan_forward(
    kind: str, index: Tensor | None, params: list[Tensor], inputs: Tensor, initial: Tensor, rows: Tensor, cu: Tensor,
    reverse: bool, cut: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The states of every step, and the final ones of every sequence; ``cut`` forces the three-phase scan."""
    pieces = chunked.pieces_for(kind, initial.shape[0] * initial.shape[1], rows.shape[0], cut)
    if pieces > 1:
        return chunked.forward(kind, index, params, inputs, initial, rows, cu, reverse, pieces)
    return loops.scan_forward(kind, index, params, inputs, initial, rows, cu, reverse)


def scan_backward(
    kind: str, index: Tensor | None, params: list[Tensor], initial: Tensor, rows: Tensor, place: Tensor, cu: Tensor,
    reverse: bool, cut: bool, states: Tensor, g_states: Tensor | None, g_final: Tensor | None,
    right: Tensor | None = None,
) -> tuple[list[Tensor], Tensor, Tensor]:  # fmt: skip
    """The gradients, as in ``loops.scan_backward``."""
    pieces = chunked.pieces_for(kind, initial.shape[0] * initial.shape[1], rows.shape[0], cut)
    arguments = (kind, index, params, initial, rows, place, cu, reverse, states, g_states, g_final, right)
    return chunked.backward(*arguments, pieces) if pieces > 1 else loops.scan_backward(*arguments)


def pd_backward(
    index: Tensor, diag: Tensor, initial: Tensor, rows: Tensor, place: Tensor, cu: Tensor, reverse: bool,
    row_form: bool, cut: bool,
    states: Tensor, g_states: Tensor | None, g_final: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``scan_backward`` of PD, with dP's factors as ``surrogate`` reads them: left (E, N, C), right (E, C, Np)."""
    heads, channels, size = initial.shape[1:]
    parts = 2 if diag.is_complex() else 1
    shape = (rows.shape[0], heads, channels, parts, padded_columns(size))
    right = empty(shape, states, states.real.dtype)
    right[..., size:] = 0
    kind = "row_pd" if row_form else "pd"
    (g_diag,), g_inputs, g_initial = scan_backward(
        kind, index, [diag], initial, rows, place, cu, reverse, cut, states, g_states, g_final, right
    )
    left = _states_before(states, initial, place, cu, reverse) if row_form else g_inputs
    left = torch.view_as_real(left) if left.is_complex() else left[..., None]
    return g_diag, g_inputs, g_initial, left.view(-1, size, parts), right.view(-1, parts, padded_columns(size))


def _states_before(states: Tensor, initial: Tensor, place: Tensor, cu: Tensor, reverse: bool) -> Tensor:
    """x_{t-1} of every step, in the direction of the recurrence, at the step's place."""
    before = states.roll(-1 if reverse else 1, 0)
    full = cu[1:] > cu[:-1]
    first = (cu[1:] - 1 if reverse else cu[:-1])[full]
    before[first] = initial[full]
    return torch.empty_like(before).index_copy_(0, place, before)


def steps_of_rows(offsets: Tensor, heads: int, channels: int) -> tuple[Tensor, Tensor]:
    """Which (place, head, channel), flattened, belong to each (row, head), as (order, offsets)."""
    places = torch.arange(int(offsets[-1]) * heads * channels).view(-1, heads, channels)
    if heads == 1:
        return places.flatten(), offsets * channels
    counts = offsets.diff().repeat_interleave(heads) * channels
    by_head = [part.transpose(0, 1).flatten() for part in places.split(offsets.diff().tolist())]
    return torch.cat(by_head), torch.cat((offsets[:1], counts.cumsum(0)))
