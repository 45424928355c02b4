"""The diagonal relatives of PD-SSM, which the paper compares with."""

from __future__ import annotations

from typing import Unpack

from pdssm.generators import DiagonalGenerator
from pdssm.generators.base import Init
from pdssm.generators.entries import Magnitude, Phase
from pdssm.layers.recurrence import LinearRecurrence, RecurrenceOptions


class ComplexDiagonal(LinearRecurrence):
    """A(u) = D(u), PD-SSM with P = I: it cannot track non-solvable automata.  Arguments as of ``PDSSM``."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        super().__init__(DiagonalGenerator(dim, state_dim, hidden_dim, init, magnitude, phase), **options)


class RealDiagonal(LinearRecurrence):
    """A(u) = |D(u)|: no phases, so it cannot even count modulo 2.  The inputs b, and so the states, stay complex."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        super().__init__(DiagonalGenerator(dim, state_dim, hidden_dim, init, magnitude, "zero"), **options)
