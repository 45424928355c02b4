"""One long sequence on several threads: cut it, scan the pieces side by side, join them by their products.

Three phases: (1) each piece alone, from zero, and the product of its maps; (2) a short scan over the pieces, whose
transitions are those products: what each piece starts from; (3) each piece again, from there.  A product of PD
maps is a PD map, so a joint costs O(N).  About 2.5 times the work of the plain scan, so it pays from four threads
on, when there are fewer sequences than threads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu import recurrence
from pdssm.kernels.cpu.loops import array, bind, scan_backward, scan_forward
from pdssm.kernels.cpu.pool import run

_PAYS_FROM_THREADS = 4
_SHORTEST_PIECE = 512
_ADJOINT = {"pd": "row_pd", "row_pd": "pd", "diagonal": "diagonal"}


def pieces_for(kind: str, tasks: int, steps: int, forced: bool) -> int:
    """Into how many pieces each sequence is to be cut; 1 where cutting does not pay, unless ``forced``."""
    threads = torch.get_num_threads()
    if kind not in _ADJOINT:
        return 1
    if forced:
        return max(2, threads)
    if threads < _PAYS_FROM_THREADS or tasks * 2 > threads:
        return 1
    return min(threads // tasks, max(1, steps // (tasks * _SHORTEST_PIECE)))


def _cut(cu: Tensor, pieces: int) -> Tensor:
    """Offsets with every sequence in ``pieces`` (nearly) equal parts."""
    part = torch.arange(pieces)
    starts = cu[:-1, None] + (cu.diff()[:, None] * part) // pieces
    return torch.cat((starts.flatten(), cu[-1:]))


def _products(
    kind: str, index: Tensor | None, params: list[Tensor], rows: Tensor, cuts: Tensor, reverse: bool
) -> tuple[Tensor | None, list[Tensor]]:
    """The product of each piece's maps, in the family's own form."""
    diag = params[-1]
    pieces, (heads, size) = cuts.shape[0] - 1, diag.shape[1:]
    out_diag = empty((pieces, heads, size), diag)
    out_index = None if index is None else empty((pieces, heads, size), index)
    outputs = tuple(array(out) for out in (out_index, out_diag) if out is not None)
    kernel: Any = recurrence.compose_diagonal if index is None else recurrence.compose_pd
    run(
        kernel, pieces * heads, 4 * rows.shape[0] * heads * size,
        bind(kind, index, params), array(rows), array(cuts), reverse, kind == "row_pd", outputs,
    )  # fmt: skip
    return out_index, [out_diag]


def _shifted(carried: Tensor, first: Tensor, pieces: int, reverse: bool) -> Tensor:
    """What each piece starts from: ``first`` for the first of a sequence, its forerunner's result for the others."""
    split = carried.unflatten(0, (-1, pieces))
    if reverse:
        return torch.cat((split[:, 1:], first[:, None]), 1).flatten(0, 1)
    return torch.cat((first[:, None], split[:, :-1]), 1).flatten(0, 1)


def _joined(
    kind: str, index: Tensor | None, params: list[Tensor], local: Tensor, first: Tensor, pieces: int, reverse: bool
) -> Tensor:
    """Phase 2: the recurrence over pieces, given their products and what each adds."""
    count = local.shape[0]
    joints = torch.arange(first.shape[0] + 1) * pieces
    carried, _ = scan_forward(kind, index, params, local, first, torch.arange(count), joints, reverse)
    return _shifted(carried, first, pieces, reverse)


def forward(
    kind: str, index: Tensor | None, params: list[Tensor], inputs: Tensor, initial: Tensor, rows: Tensor, cu: Tensor,
    reverse: bool, pieces: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``scan_forward`` in three phases."""
    cuts = _cut(cu, pieces)
    zeros = torch.zeros((cuts.shape[0] - 1, *initial.shape[1:]), dtype=initial.dtype)
    _, local = scan_forward(kind, index, params, inputs, zeros, rows, cuts, reverse)
    products = _products(kind, index, params, rows, cuts, reverse)
    starts = _joined(kind, *products, local, initial, pieces, reverse)
    states, last = scan_forward(kind, index, params, inputs, starts, rows, cuts, reverse)
    return states, last.unflatten(0, (-1, pieces))[:, 0 if reverse else -1].contiguous()


def _starts(states: Tensor, initial: Tensor, cu: Tensor, cuts: Tensor, pieces: int, reverse: bool) -> Tensor:
    """The state before each piece; a piece at the beginning of its sequence has the initial one."""
    edges, first = (cuts[1:], cu[1:]) if reverse else (cuts[:-1], cu[:-1])
    before = (edges if reverse else edges - 1).clamp(0, states.shape[0] - 1)
    at_first = (edges == first.repeat_interleave(pieces)).view(-1, 1, 1, 1)
    return torch.where(at_first, initial.repeat_interleave(pieces, 0), states[before])


def backward(
    kind: str, index: Tensor | None, params: list[Tensor], initial: Tensor, rows: Tensor, place: Tensor, cu: Tensor,
    reverse: bool, states: Tensor, g_states: Tensor | None, g_final: Tensor | None, right: Tensor | None, pieces: int,
) -> tuple[list[Tensor], Tensor, Tensor]:  # fmt: skip
    """``scan_backward`` in three phases: the joints are the adjoint recurrence, from the last piece to the first."""
    cuts = _cut(cu, pieces)
    starts = _starts(states, initial, cu, cuts, pieces, reverse)
    _, _, local = scan_backward(kind, index, params, starts, rows, place, cuts, reverse, states, g_states, None)
    maps, (diag,) = _products(kind, index, params, rows, cuts, reverse)
    last = torch.zeros_like(initial) if g_final is None else g_final
    ends = _joined(_ADJOINT[kind], maps, [diag.conj().resolve_conj()], local, last, pieces, not reverse)
    grads, g_inputs, g_first = scan_backward(
        kind, index, params, starts, rows, place, cuts, reverse, states, g_states, ends, right
    )
    return grads, g_inputs, g_first.unflatten(0, (-1, pieces))[:, -1 if reverse else 0].contiguous()
