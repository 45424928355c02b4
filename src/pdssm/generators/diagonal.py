"""The paper's diagonal relatives: P(u) = I, so A(u) = D(u), or |D(u)|."""

from __future__ import annotations

from torch import Tensor

from pdssm.generators.base import ComplexInputs, Generator, Init
from pdssm.generators.entries import DiagonalEntries, Magnitude, Phase
from pdssm.transitions import Diagonal


class DiagonalGenerator(Generator):
    """A(u) = D(u) from the same networks as PD's; with ``phase="zero"`` the real diagonal A(u) = |D(u)|."""

    def __init__(
        self,
        dim: int,
        state_dim: int,
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
    ) -> None:
        super().__init__(dim, state_dim)
        self.entries = DiagonalEntries(dim, state_dim, hidden_dim, init, magnitude, phase)
        self.inputs = ComplexInputs(dim, state_dim, init)

    def forward(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        return Diagonal(self.entries(u)), self.inputs(u)
