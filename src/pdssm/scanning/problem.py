"""The arguments of ``scan``, checked and brought into the one form that every backend reads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pdssm.errors import DtypeError, RangeError, ShapeError
from pdssm.kernels.checks import check_below, check_offsets
from pdssm.kernels.packing import Padded, Uniform
from pdssm.transitions import Transition
from pdssm.transitions.base import check_same

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@dataclass(frozen=True)
class Problem:
    """x_t = A_r x_{t-1} + b_r with r = rows[t], for packed sequences.

    The axes are those of ``kernels/cpu/recurrence.py``: R transitions, H heads, V channels, S sequences, T steps.
    """

    transition: Transition
    """A batch of (R, H)."""
    inputs: Tensor
    """(R, H, V, N)."""
    initial: Tensor
    """(S, H, V, N)."""
    rows: Tensor | None
    """(T,); None when step t uses transition t."""
    cu_seqlens: Tensor
    """(S + 1,)."""
    reverse: bool
    uniform: bool
    """All sequences are equally long."""
    states_shape: tuple[int, ...]
    final_shape: tuple[int, ...]

    def layout(self) -> Padded | Uniform:
        """The sequences side by side."""
        return Uniform(self.initial.shape[0], self.reverse) if self.uniform else Padded(self.cu_seqlens, self.reverse)

    def side_by_side(self) -> tuple[Transition, Tensor]:
        """Transitions (S, L, H) and inputs (S, L, H, V, N), step after step."""
        layout = self.layout()
        if self.rows is None:
            return self.transition.map(layout.pad), layout.pad(self.inputs)
        rows = layout.pad(self.rows)
        return self.transition[rows], self.inputs[rows]

    def packed(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(S, L, H, V, N), as a backend made them side by side, to packed states and final ones."""
        layout = self.layout()
        return layout.unpad(states), layout.final(states, self.initial)

    def check_values(self) -> None:
        """For the backends whose ops do not look themselves; a graph under compilation cannot."""
        if torch.compiler.is_compiling():
            return
        if self.rows is not None:
            check_below("rows", self.rows, self.inputs.shape[0], "transitions")
        check_offsets(self.cu_seqlens, self.inputs.shape[0] if self.rows is None else self.rows.shape[0])


def make_problem(
    transition: Transition,
    inputs: Tensor,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
    rows: Tensor | None,
    reverse: bool,
) -> Problem:
    """Check the arguments of ``scan`` against each other and give them one form."""
    if transition.dtype not in _DTYPES:
        raise DtypeError(
            f"transition is {transition.dtype}; expected one of {', '.join(map(str, _DTYPES))}: "
            "a recurrence in half precision drifts"
        )
    check_same("inputs", inputs, transition.dtype, transition.device, "the transition's")
    transition, inputs, channels = _match_batches(transition, inputs, rows)
    if rows is None:
        batch, time, *heads = transition.batch_shape
    else:
        batch, time = _check_rows(rows, transition)
        heads = list(transition.batch_shape[1:])
    if time == 0 or batch == 0:
        what = "inputs" if rows is None else "rows"
        raise RangeError(f"{what} has {batch} sequences of {time} steps; expected at least one of each")
    offsets, uniform = packed_offsets(cu_seqlens, batch, time, transition.device)
    event = inputs.shape[-2:] if channels else inputs.shape[-1:]
    final_shape = (offsets.shape[0] - 1, *heads, *event)
    initial = initial_states(initial_state, final_shape, transition)
    count = len(heads) + (2 if rows is None else 1)
    width, size = (inputs.shape[-2] if channels else 1), inputs.shape[-1]
    flat = -1 if rows is None else inputs.shape[0]
    lanes = 1
    for head in heads:
        lanes *= head
    return Problem(
        transition=transition.reshape(flat, lanes),
        inputs=inputs.reshape(flat, lanes, width, size),
        initial=initial.reshape(-1, lanes, width, size),
        rows=None if rows is None else rows.reshape(-1).long(),
        cu_seqlens=offsets,
        reverse=reverse,
        uniform=uniform,
        states_shape=(batch, time, *heads, *event) if count else (),
        final_shape=final_shape,
    )


def _match_batches(transition: Transition, inputs: Tensor, rows: Tensor | None) -> tuple[Transition, Tensor, bool]:
    """Both with one batch shape (expanded where one has size 1), and whether the inputs have channels."""
    own = transition.batch_shape
    axes, least = ("(batch, time, *heads)", 2) if rows is None else ("(rows, *heads)", 1)
    if len(own) < least:
        raise ShapeError(f"transition has batch axes {tuple(own)}; expected {axes}")
    extra = inputs.ndim - len(own)
    if extra not in (1, 2) or inputs.shape[-1] != transition.dim:
        raise ShapeError(
            f"inputs has shape {tuple(inputs.shape)}; expected {(*own, transition.dim)} or "
            f"{(*own, 'V', transition.dim)}, the transition's batch axes and dimension"
        )
    theirs = inputs.shape[: len(own)]
    if own == theirs:
        return transition, inputs, extra == 2
    try:
        batch = torch.broadcast_shapes(own, theirs)
    except RuntimeError:
        raise ShapeError(f"inputs has batch axes {tuple(theirs)}, which do not broadcast with {tuple(own)}") from None
    if own != batch:
        transition = transition.map(lambda tensor: tensor.expand((*batch, *tensor.shape[len(own) :])))
    return transition, inputs.expand((*batch, *inputs.shape[len(own) :])), extra == 2


def _check_rows(rows: Tensor, transition: Transition) -> tuple[int, int]:
    if rows.ndim != 2:
        raise ShapeError(f"rows has shape {tuple(rows.shape)}; expected (batch, time)")
    if rows.dtype not in (torch.int64, torch.int32):
        raise DtypeError(f"rows is {rows.dtype}; expected torch.int64 or torch.int32")
    check_same("rows", rows, rows.dtype, transition.device, "the transition's")
    return rows.shape[0], rows.shape[1]


def packed_offsets(cu_seqlens: Tensor | None, batch: int, time: int, device: torch.device) -> tuple[Tensor, bool]:
    """The sequences' offsets among all steps, and whether all are equally long."""
    if cu_seqlens is None:
        return torch.arange(batch + 1, device=device) * time, True
    if cu_seqlens.ndim != 1 or cu_seqlens.shape[0] < 2:
        raise ShapeError(
            f"cu_seqlens has shape {tuple(cu_seqlens.shape)}; expected (sequences + 1,), so at least 2 entries"
        )
    if cu_seqlens.dtype not in (torch.int64, torch.int32):
        raise DtypeError(f"cu_seqlens is {cu_seqlens.dtype}; expected torch.int64 or torch.int32")
    check_same("cu_seqlens", cu_seqlens, cu_seqlens.dtype, device, "the transition's")
    if batch != 1:
        raise ShapeError(f"the batch has size {batch}; expected 1 with cu_seqlens, whose sequences lie along time")
    return cu_seqlens.long(), False


def initial_states(initial_state: Tensor | None, shape: tuple[int, ...], transition: Transition) -> Tensor:
    """Zeros by default; else what was given, checked."""
    if initial_state is None:
        return torch.zeros(shape, dtype=transition.dtype, device=transition.device)
    check_same("initial_state", initial_state, transition.dtype, transition.device, "the transition's")
    if tuple(initial_state.shape) != shape:
        raise ShapeError(f"initial_state has shape {tuple(initial_state.shape)}; expected {shape}, (sequences, ...)")
    return initial_state
