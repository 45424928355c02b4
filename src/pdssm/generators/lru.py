"""LRU: a diagonal, time-invariant recurrence, stable by its parametrisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pdssm.errors import RangeError, check_fraction
from pdssm.generators.base import ComplexInputs, Generator, check_positive, state_precision
from pdssm.generators.invariant import everywhere
from pdssm.transitions import Diagonal


class LRUGenerator(Generator):
    """A = exp(-exp(nu) + i exp(theta)), b = exp(g) B u; exp(g) starts as sqrt(1 - |A|^2).

    A starts uniform on the ring r_min <= |A| <= r_max, with phases up to max_phase.
    """

    def __init__(
        self, dim: int, state_dim: int, r_min: float = 0.0, r_max: float = 1.0, max_phase: float = 2 * math.pi
    ) -> None:
        super().__init__(dim, state_dim)
        check_fraction("r_min", r_min)
        check_fraction("r_max", r_max, whole=True)
        check_positive("max_phase", max_phase)
        if r_min >= r_max:
            raise RangeError(f"r_min is {r_min!r}; expected less than r_max, {r_max!r}")
        # Off zero, whose logarithms are infinite.
        square = (r_min**2 + (r_max**2 - r_min**2) * torch.rand(state_dim)).clamp(1e-6, 1 - 1e-6)
        phase = (max_phase * torch.rand(state_dim)).clamp(min=1e-6)
        self.log_rate = nn.Parameter((-0.5 * square.log()).log())
        self.log_phase = nn.Parameter(phase.log())
        self.log_gain = nn.Parameter(0.5 * torch.log1p(-square))
        self.inputs = ComplexInputs(dim, state_dim, "long")
        nn.init.normal_(self.inputs.linear.weight, std=(2 * dim) ** -0.5)

    def forward(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        rate, phase, gain = (state_precision(p).exp() for p in (self.log_rate, self.log_phase, self.log_gain))
        return Diagonal(everywhere(torch.polar(torch.exp(-rate), phase), u)), gain * self.inputs(u)
