"""LinOSS: forced harmonic oscillators, z' = -A y + B u and y' = z."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from pdssm.errors import check_choice, check_size
from pdssm.generators.base import Generator, RealInputs, state_precision
from pdssm.generators.invariant import everywhere
from pdssm.transitions import BlockDiagonal

Discretization = Literal["im", "imex"]


class LinOSSGenerator(Generator):
    """One oscillator is two components of the state, (z, y), and a block of 2 x 2; A = relu(a) and dt = sigmoid(d).

    With s = 1 / (1 + dt^2 A):

        im      [[1 - dt^2 A s, -dt A s], [dt s, s]]      both from the new y: loses energy
        imex    [[1, -dt A], [dt, 1 - dt^2 A]]            z from the old y: keeps it

    and the input is the block's first column times dt B u.
    """

    complex_state = False

    def __init__(self, dim: int, oscillators: int, discretization: Discretization = "im") -> None:
        check_size("oscillators", oscillators)
        super().__init__(dim, 2 * oscillators)
        check_choice("discretization", discretization, ("im", "imex"))
        self.discretization = discretization
        self.stiffness = nn.Parameter(torch.rand(oscillators))
        self.step = nn.Parameter(torch.rand(oscillators))
        self.inputs = RealInputs(dim, oscillators)

    def forward(self, u: Tensor) -> tuple[BlockDiagonal, Tensor]:
        a, dt = torch.relu(state_precision(self.stiffness)), torch.sigmoid(state_precision(self.step))
        ones = torch.ones_like(a)
        if self.discretization == "im":
            s = 1 / (1 + dt * dt * a)
            entries = (s, -dt * a * s, dt * s, s)  # 1 - dt^2 A s = s
            force = (s, dt * s)
        else:
            entries = (ones, -dt * a, dt, 1 - dt * dt * a)
            force = (ones, dt)
        blocks = torch.stack(entries, -1).unflatten(-1, (2, 2))
        column = dt[:, None] * torch.stack(force, -1)
        inputs = (self.inputs(u)[..., None] * column).flatten(-2)
        return BlockDiagonal(everywhere(blocks, u)), inputs
