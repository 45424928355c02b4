"""S5: one diagonal state space with many inputs and outputs, discretised from continuous time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdssm.errors import RangeError, check_size
from pdssm.generators.base import ComplexInputs, Generator, state_precision
from pdssm.generators.invariant import everywhere, random_log_dt, zero_order_hold
from pdssm.transitions import Diagonal


class S5Generator(Generator):
    """A = exp(dt poles), b = ((A - 1) / poles) B u, with a time step dt of each state (a zero-order hold).

    The poles start as the eigenvalues of HiPPO-LegS's normal part, in ``blocks`` copies of state_dim / blocks, and B
    in its eigenvectors.
    """

    def __init__(self, dim: int, state_dim: int, blocks: int = 1, dt_min: float = 0.001, dt_max: float = 0.1) -> None:
        super().__init__(dim, state_dim)
        check_size("blocks", blocks)
        if state_dim % blocks:
            raise RangeError(f"state_dim is {state_dim}; expected a multiple of blocks, {blocks}")
        poles, vectors = hippo_normal(state_dim // blocks)
        self.poles = nn.Parameter(torch.view_as_real(poles.repeat(blocks)))
        self.log_dt = nn.Parameter(random_log_dt(state_dim, dt_min, dt_max))
        self.inputs = ComplexInputs(dim, state_dim, "long")
        plain = dim**-0.5 * torch.randn(blocks, state_dim // blocks, dim)
        turned = (vectors.mH @ plain.to(vectors.dtype)).flatten(0, 1)
        with torch.no_grad():
            self.inputs.linear.weight.copy_(torch.view_as_real(turned).transpose(1, 2).flatten(0, 1))

    def forward(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        poles = torch.view_as_complex(state_precision(self.poles))
        exponent, gain = zero_order_hold(poles, state_precision(self.log_dt).exp())
        return Diagonal(everywhere(exponent.exp(), u)), gain * self.inputs(u)


def hippo_normal(size: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of HiPPO-LegS's normal part: -1/2 on the diagonal, the rest skew-symmetric."""
    root = torch.sqrt(2 * torch.arange(size, dtype=torch.float64) + 1)
    outer = 0.5 * root[:, None] * root
    skew = outer.triu(1) - outer.tril(-1)
    turns, vectors = torch.linalg.eigh(-1j * skew)
    return torch.complex(torch.full_like(turns, -0.5), turns).to(torch.complex64), vectors.to(torch.complex64)
