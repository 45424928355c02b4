"""The five SLiCEs: h <- h + A(u) h, with A(u) linear in (1, u) and of one structure each.

Of all: ``init_std``, the size of A's weights and of the learnt h_0 at the start; ``scale``, the time between two
inputs; ``input_term``, whether B (1, u) is added to the state.  The others are as of ``PDSSM``.

As published, with weights of size 1, the states grow by orders of magnitude over hundreds of steps: normalise the
outputs, and take a smaller ``init_std`` for long sequences.
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import torch
from torch import Tensor, nn

from pdssm.generators import Generator
from pdssm.generators.slices import (
    BDSliceGenerator,
    DDESliceGenerator,
    DPLRSliceGenerator,
    DSliceGenerator,
    SliceGenerator,
    WHSliceGenerator,
)
from pdssm.layers.readout import Readout
from pdssm.layers.recurrence import DEFAULTS, LinearRecurrence, RecurrenceOptions

STD, SCALE = 1.0, 1 / 40
LARGEST = 1e11


class BoundedReadout(Readout):
    """Sees states of at most ``LARGEST``, and such that a sum over them is finite."""

    def forward(self, states: Tensor) -> Tensor:
        bound = min(LARGEST, torch.finfo(self._dtype).max / states.shape[-1])
        return super().forward(states.clamp(-bound, bound))


class Slice(LinearRecurrence):
    """What the five share: float64 states, and the start of h_0, as random as A: a diagonal A never leaves zero."""

    defaults: ClassVar[RecurrenceOptions] = {**DEFAULTS, "initial_state": "learned"}

    def __init__(self, generator: SliceGenerator, init_std: float, options: RecurrenceOptions) -> None:
        super().__init__(generator, **options)
        if self.start == "learned":
            nn.init.normal_(self.first, std=init_std)

    @staticmethod
    def _make_readout(generator: Generator, chosen: RecurrenceOptions) -> Readout:
        return BoundedReadout(
            generator.state_dim, generator.dim, chosen["readout"], False, chosen["bias"], chosen["dropout"]
        )

    def _first(self) -> Tensor:
        return super()._first().double()


class DSlice(Slice):
    """D-SLiCE: A(u) = I + a diagonal."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        init_std: float = STD,
        scale: float = SCALE,
        input_term: bool = False,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        generator = DSliceGenerator(dim, state_dim, init_std, scale, input_term)
        super().__init__(generator, init_std, options)


class BDSlice(Slice):
    """BD-SLiCE: A(u) = I + dense blocks along the diagonal."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        block_size: int = 4,
        init_std: float = STD,
        scale: float = SCALE,
        input_term: bool = False,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        generator = BDSliceGenerator(dim, state_dim, block_size, init_std, scale, input_term)
        super().__init__(generator, init_std, options)


class DPLRSlice(Slice):
    """DPLR-SLiCE: I + a diagonal + U(u) V(u)^T; U and V are linear in (1, u), so their product is not."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        rank: int = 4,
        init_std: float = STD,
        scale: float = SCALE,
        input_term: bool = False,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        generator = DPLRSliceGenerator(dim, state_dim, rank, init_std, scale, input_term)
        super().__init__(generator, init_std, options)


class WHSlice(Slice):
    """WH-SLiCE: A(u) = I + a Walsh-Hadamard matrix times a diagonal.

    ``state_dim`` is the next power of two by default.
    """

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        init_std: float = STD,
        scale: float = SCALE,
        input_term: bool = False,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = 1 << (dim - 1).bit_length() if state_dim is None else state_dim
        generator = WHSliceGenerator(dim, state_dim, init_std, scale, input_term)
        super().__init__(generator, init_std, options)


class DDESlice(Slice):
    """D-DE-SLiCE: I + a diagonal and one dense block, which comes on top of ``dim`` by default."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        block_size: int = 16,
        init_std: float = STD,
        scale: float = SCALE,
        input_term: bool = False,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim + block_size if state_dim is None else state_dim
        generator = DDESliceGenerator(dim, state_dim, block_size, init_std, scale, input_term)
        super().__init__(generator, init_std, options)
