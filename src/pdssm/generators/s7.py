"""S7: a real, diagonal recurrence that depends on the input, stable by its parametrisation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdssm.generators.base import Generator, RealInputs, state_precision
from pdssm.kernels.linear import Linear
from pdssm.transitions import Diagonal


class S7Generator(Generator):
    """A(u) = 1 - 1 / (l(u)^2 + 1/2), in (-1, 1); inputs B(u) u + b(u), with l and b affine in u.

    A free B(u) has dim^2 N parameters; here its rows' sizes depend on u, B(u) = diag(w(u)) B with w affine.
    """

    complex_state = False

    def __init__(self, dim: int, state_dim: int) -> None:
        super().__init__(dim, state_dim)
        self.rate = Linear(dim, state_dim)
        self.inputs = RealInputs(dim, state_dim)
        self.size = Linear(dim, state_dim)
        self.offset = Linear(dim, state_dim)
        # A(0) from 1/3 to 0.99: memories of one step up to a hundred.
        nn.init.uniform_(self.rate.bias, 1, 10)
        nn.init.ones_(self.size.bias)

    def forward(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        rate, size, offset = (state_precision(part(u)) for part in (self.rate, self.size, self.offset))
        return Diagonal(1 - 1 / (rate.square() + 0.5)), torch.addcmul(offset, size, self.inputs(u))
