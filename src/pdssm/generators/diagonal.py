"""The paper's diagonal relative: P(u) = I, so A(u) = D(u)."""

from __future__ import annotations

from torch import Tensor

from pdssm.generators.base import ComplexDiagonalEntries, ComplexInputs, Generator, Start
from pdssm.transitions import Diagonal


class ComplexDiagonalGenerator(Generator):
    """A(u) = D(u), complex diagonal, from the same two networks as PD's."""

    def __init__(self, dim: int, state_dim: int, start: Start = "long") -> None:
        super().__init__(dim, state_dim)
        self.entries = ComplexDiagonalEntries(dim, state_dim, start)
        self.inputs = ComplexInputs(dim, state_dim)

    def forward(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        return Diagonal(self.entries(u)), self.inputs(u)
