"""What a generator is: the learnt part of a linear recurrence, with no scan in it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdssm.errors import RangeError
from pdssm.kernels.linear import linear
from pdssm.transitions import Transition

Start = Literal["long", "paper"]
"""How |D| and the phases begin: near 1 and 0 (nothing is forgotten), or as published, near 0.5 and pi."""

# sigmoid(5) = 0.993: the signal of 100 steps ago has half its size, and the sigmoid still has a gradient.
LONG_BIAS = 5.0


class Generator(nn.Module, ABC):
    """Maps inputs u ``(..., dim)`` to transitions with batch ``(...)`` and inputs b ``(..., state_dim)``."""

    def __init__(self, dim: int, state_dim: int) -> None:
        super().__init__()
        for name, size in (("dim", dim), ("state_dim", state_dim)):
            if size < 1:
                raise RangeError(f"{name} is {size}; expected at least 1")
        self.dim, self.state_dim = dim, state_dim

    @abstractmethod
    def forward(self, u: Tensor) -> tuple[Transition, Tensor]: ...


class Linear(nn.Linear):
    """``nn.Linear`` through ``kernels.linear``."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class ComplexInputs(nn.Module):
    """b = B u with B complex: (Re b_0, Im b_0, Re b_1, ...) by one real matrix."""

    def __init__(self, dim: int, state_dim: int) -> None:
        super().__init__()
        self.linear = Linear(dim, 2 * state_dim, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        return torch.view_as_complex(self.linear(u).unflatten(-1, (-1, 2)))


class ComplexDiagonalEntries(nn.Module):
    """D(u): |D| = sigmoid(MLP_M(u)) in (0, 1), phase = 2 pi sigmoid(MLP_P(u)); one hidden layer of 2 N each."""

    def __init__(self, dim: int, state_dim: int, start: Start) -> None:
        super().__init__()
        if start not in ("long", "paper"):
            raise RangeError(f"start is {start!r}; expected 'long' or 'paper'")
        self.magnitude = _mlp(dim, 2 * state_dim, state_dim)
        self.phase = _mlp(dim, 2 * state_dim, state_dim)
        if start == "long":
            for mlp, bias in ((self.magnitude, LONG_BIAS), (self.phase, -LONG_BIAS)):
                nn.init.constant_(mlp[-1].bias, bias)  # type: ignore[arg-type]

    def forward(self, u: Tensor) -> Tensor:
        entries: Tensor = _Disc.apply(self.magnitude(u), self.phase(u))  # type: ignore[no-untyped-call]
        return entries


class _Disc(torch.autograd.Function):
    """z = sigmoid(m) exp(2 pi i sigmoid(p)), with a backward pass that is a third of autograd's.

    With r = sigmoid(m), s = sigmoid(p) and dz = z ((1 - r) dm + 2 pi i s (1 - s) dp):
    g_m = Re(g conj(z)) (1 - r),  g_p = Im(g conj(z)) 2 pi s (1 - s).
    """

    @staticmethod
    def forward(ctx: Any, m: Tensor, p: Tensor) -> Tensor:
        r, s = torch.sigmoid(m), torch.sigmoid(p)
        z = torch.polar(r, 2 * math.pi * s)
        ctx.save_for_backward(r, s, z)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        r, s, z = ctx.saved_tensors
        turned = torch.view_as_real((grads[0] * z.conj()).resolve_conj())
        return turned[..., 0] * (1 - r), turned[..., 1] * (s * (1 - s)).mul_(2 * math.pi)


def _mlp(dim: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(Linear(dim, hidden), nn.GELU(), Linear(hidden, out))
