"""The complex-diagonal layer, PD-SSM with P = I."""

from __future__ import annotations

from pdssm.generators import ComplexDiagonalGenerator
from pdssm.generators.base import Start
from pdssm.layers.base import LinearRecurrence


class ComplexDiagonal(LinearRecurrence):
    """A(u) = D(u): what the paper compares with, and what cannot track non-solvable automata."""

    def __init__(self, dim: int, state_dim: int, *, start: Start = "long") -> None:
        super().__init__(ComplexDiagonalGenerator(dim, state_dim, start))
