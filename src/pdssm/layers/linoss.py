"""LinOSS: forced harmonic oscillators in two discretisations."""

from __future__ import annotations

from typing import ClassVar, Unpack

from torch import Tensor

from pdssm.generators import Generator
from pdssm.generators.linoss import Discretization, LinOSSGenerator
from pdssm.layers.readout import Readout
from pdssm.layers.recurrence import DEFAULTS, LinearRecurrence, RecurrenceOptions


class PositionReadout(Readout):
    """Of each oscillator's (z, y), sees y only."""

    def forward(self, states: Tensor) -> Tensor:
        return super().forward(states[..., 1::2])


class LinOSS(LinearRecurrence):
    """The state is (z, y) of each oscillator side by side; ``oscillators`` is ``dim`` by default."""

    defaults: ClassVar[RecurrenceOptions] = {**DEFAULTS, "initial_state": "zero", "bias": False}
    discretization: ClassVar[Discretization]

    def __init__(self, dim: int, oscillators: int | None = None, **options: Unpack[RecurrenceOptions]) -> None:
        oscillators = dim if oscillators is None else oscillators
        super().__init__(LinOSSGenerator(dim, oscillators, self.discretization), **options)

    @staticmethod
    def _make_readout(generator: Generator, chosen: RecurrenceOptions) -> Readout:
        oscillators = generator.state_dim // 2
        return PositionReadout(oscillators, generator.dim, chosen["readout"], False, chosen["bias"], chosen["dropout"])


class LinOSSIM(LinOSS):
    """LinOSS-IM, oscillators discretised implicitly: they lose energy."""

    discretization = "im"


class LinOSSIMEX(LinOSS):
    """LinOSS-IMEX, oscillators discretised symplectically: they keep their energy."""

    discretization = "imex"
