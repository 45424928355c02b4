"""What a sequence mixer is: ``(batch, time, dim)`` to the same, as a whole or step by step.

Sequences come as a batch, as a pack (``cu_seqlens``) or padded (``mask``); inputs as they are or as a table with
``rows``.  ``Layout`` brings all of them into one form, packed steps, and the outputs back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pdssm.errors import DtypeError, RangeError, ShapeError, check_size
from pdssm.kernels.checks import check_below, check_offsets

INTEGERS = (torch.int64, torch.int32)


@dataclass(frozen=True)
class Layout:
    """Packed steps: sequence s owns the steps cu_seqlens[s]..cu_seqlens[s + 1]."""

    batch: int
    time: int
    cu_seqlens: Tensor
    mask: Tensor | None
    even: bool
    """All sequences have the same length, ``time``."""

    @property
    def sequences(self) -> int:
        return self.cu_seqlens.shape[0] - 1

    def pack(self, x: Tensor) -> Tensor:
        """``(batch, time, ...)`` to ``(steps, ...)``."""
        if self.mask is None:
            return x.flatten(0, 1)
        packed: Tensor = x[self.mask]
        return packed

    def unpack(self, y: Tensor) -> Tensor:
        """``(steps, ...)`` to ``(batch, time, ...)``; padding gets zeros."""
        if self.mask is None:
            steps: Tensor = y.unflatten(0, (self.batch, self.time))
            return steps
        out = y.new_zeros(self.batch, self.time, *y.shape[1:])
        out[self.mask] = y
        return out


def readable(tensor: Tensor) -> bool:
    """Whether its values can be checked here at no cost: a compiled graph, or another device, has none to show."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def make_layout(batch: int, time: int, cu_seqlens: Tensor | None, mask: Tensor | None, device: torch.device) -> Layout:
    """The layout of ``(batch, time)`` steps; ``cu_seqlens`` wins over ``mask``."""
    if batch == 0 or time == 0:
        raise RangeError(f"x has {batch} sequences of {time} steps; expected at least one of each")
    if cu_seqlens is not None:
        if cu_seqlens.ndim != 1 or cu_seqlens.shape[0] < 2:
            raise ShapeError(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}; expected (sequences + 1,)")
        if cu_seqlens.dtype not in INTEGERS:
            raise DtypeError(f"cu_seqlens is {cu_seqlens.dtype}; expected torch.int64 or torch.int32")
        if batch != 1:
            raise ShapeError(f"x has batch size {batch}; expected 1 with cu_seqlens, whose sequences lie along time")
        if readable(cu_seqlens):
            check_offsets(cu_seqlens, time)
        return Layout(batch, time, cu_seqlens.long(), None, False)
    if mask is None:
        return Layout(batch, time, torch.arange(batch + 1, device=device) * time, None, True)
    if mask.shape != (batch, time):
        raise ShapeError(f"mask has shape {tuple(mask.shape)}; expected {(batch, time)}, x's batch and time")
    if mask.dtype.is_floating_point or mask.dtype.is_complex:
        raise DtypeError(f"mask is {mask.dtype}; expected torch.bool, true where there is a step")
    real = mask.bool()
    if not bool(real.any()):
        raise RangeError("mask leaves no step in any sequence; expected at least one")
    offsets = torch.cat((real.new_zeros(1, dtype=torch.int64), real.sum(1).cumsum(0)))
    return Layout(batch, time, offsets, real, False)


class Mixer(nn.Module, ABC):
    """The one interface of all sequence mixers, linear recurrences or not.

    A state is a tensor, or a named tuple of tensors, with the sequences first.
    """

    dim: int

    def __init__(self, dim: int) -> None:
        super().__init__()
        check_size("dim", dim)
        self.dim = dim

    @property
    def rowwise(self) -> bool:
        """Whether a table with ``rows`` saves work; where not, ``SequenceModel`` hands over the inputs themselves."""
        return False

    @abstractmethod
    def initial_state(self, sequences: int) -> Any:
        """The state before the first step of so many sequences."""

    @abstractmethod
    def mix(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Any]:
        """Packed inputs ``(steps, dim)``, or a table ``(R, dim)`` and rows ``(steps,)``, to outputs ``(steps, dim)``.

        With ``positions``, the outputs of those steps only.  Also the state after each sequence.
        """

    @abstractmethod
    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One input ``(sequences, dim)`` of each sequence to one output, and the next state."""

    def freeze(self) -> None:
        """Make inference with weights that no longer change faster, where that can be, to the same bits."""

    def unfreeze(self) -> None:
        """Undo ``freeze``, before training."""

    def forward(
        self,
        x: Tensor,
        initial_state: Any = None,
        *,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        return_state: bool = False,
    ) -> Any:
        """``(batch, time, dim)`` to the same, or to ``(outputs, final state)`` with ``return_state``.

        Parameters
        ----------
        x
            The inputs; with ``rows``, a table ``(R, dim)`` of the distinct ones.
        initial_state
            What ``return_state`` gave after the steps before these.
        cu_seqlens
            ``(sequences + 1,)`` offsets of packed sequences, which lie one after the other along time, with batch 1.
        mask
            ``(batch, time)``, true where there is a step.  Padding, wherever it stands, carries the state through
            unchanged and has outputs of zero.  ``cu_seqlens`` wins over it.
        rows
            ``(batch, time)``: step t's input is ``x[rows[t]]``.
        positions
            ``(P,)`` indices into the steps as ``(batch * time)``: only their outputs, ``(P, dim)``, are computed.
        return_state
            Whether to return the final state as well; it is differentiable.
        """
        batch, time = self._check_input(x, rows)
        layout = make_layout(batch, time, cu_seqlens, mask, x.device)
        packed = x if rows is not None else layout.pack(x)
        packed_rows = None if rows is None else layout.pack(rows)
        at = None if positions is None else packed_positions(positions, layout)
        state = self.initial_state(layout.sequences) if initial_state is None else initial_state
        y, final = self.mix(packed, state, layout, packed_rows, at)
        if positions is None:
            y = layout.unpack(y)
        return (y, final) if return_state else y

    def _check_input(self, x: Tensor, rows: Tensor | None) -> tuple[int, int]:
        expected = ("batch", "time", self.dim) if rows is None else ("rows", self.dim)
        if x.ndim != len(expected) or x.shape[-1] != self.dim:
            raise ShapeError(f"x has shape {tuple(x.shape)}; expected ({', '.join(map(str, expected))})")
        self._check_dtype(x)
        if rows is None:
            return x.shape[0], x.shape[1]
        if rows.ndim != 2:
            raise ShapeError(f"rows has shape {tuple(rows.shape)}; expected (batch, time)")
        if rows.dtype not in INTEGERS:
            raise DtypeError(f"rows is {rows.dtype}; expected torch.int64 or torch.int32")
        if readable(rows):
            check_below("rows", rows, x.shape[0], "rows of x")
        return rows.shape[0], rows.shape[1]

    def _check_step(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[-1] != self.dim:
            raise ShapeError(f"x has shape {tuple(x.shape)}; expected (sequences, {self.dim})")
        self._check_dtype(x)

    def _check_dtype(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise DtypeError(f"x is {x.dtype}; expected a floating-point tensor")
        own = next((parameter.dtype for parameter in self.parameters()), x.dtype)
        if x.dtype != own and not torch.is_autocast_enabled(x.device.type):
            raise DtypeError(f"x is {x.dtype}; expected {own}, the layer's parameters' element type")


def packed_positions(positions: Tensor, layout: Layout) -> Tensor:
    """Indices into (batch * time) as indices into the packed steps."""
    if positions.ndim != 1 or positions.dtype not in INTEGERS:
        raise ShapeError(
            f"positions is {positions.dtype} of shape {tuple(positions.shape)}; expected integers of shape (P,)"
        )
    if readable(positions):
        check_below("positions", positions, layout.batch * layout.time, "steps")
    if layout.mask is None:
        return positions
    flat = layout.mask.flatten()
    if not bool(flat[positions].all()):
        raise RangeError("positions holds a padded step; expected steps where mask is true")
    return (flat.cumsum(0) - 1)[positions]
