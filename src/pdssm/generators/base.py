"""What a generator is: the learnt part of a linear recurrence, with no scan in it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn

from pdssm.errors import RangeError, check_choice, check_size
from pdssm.kernels.linear import GELU, Linear
from pdssm.transitions import Transition

Init = Literal["long", "paper"]
"""How a layer begins: remembering everything (|D| near 1, phases near 0), or as published (near 0.5 and pi)."""


class Generator(nn.Module, ABC):
    """Maps inputs u ``(..., dim)`` to transitions with batch ``(...)`` and inputs b ``(..., state_dim)``."""

    complex_state = True
    """Whether the states are complex numbers."""

    def __init__(self, dim: int, state_dim: int) -> None:
        super().__init__()
        check_size("dim", dim)
        check_size("state_dim", state_dim)
        self.dim, self.state_dim = dim, state_dim

    @property
    def rowwise(self) -> bool:
        """Whether equal inputs give equal transitions, so that ``rows`` may share them."""
        return True

    def freeze(self) -> None:
        """Prepare what inference with weights that no longer change can reuse, if anything."""

    def unfreeze(self) -> None:
        """Undo ``freeze``."""

    @abstractmethod
    def forward(self, u: Tensor) -> tuple[Transition, Tensor]: ...


def mlp(dim: int, hidden_dim: int, out: int) -> nn.Sequential:
    """One hidden layer with GELU."""
    return nn.Sequential(Linear(dim, hidden_dim), GELU(), Linear(hidden_dim, out))


def state_precision(tensor: Tensor) -> Tensor:
    """float64 as it is, anything less as float32: the recurrence never runs in half precision."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast off: what feeds the recurrence, and the recurrence, keep their own precision."""
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


class ComplexInputs(nn.Module):
    """b = B u with B complex: (Re b_0, Im b_0, Re b_1, ...) by one real matrix."""

    def __init__(self, dim: int, state_dim: int, init: Init) -> None:
        super().__init__()
        self.linear = Linear(dim, 2 * state_dim, bias=False)
        if init == "paper":
            nn.init.normal_(self.linear.weight, std=(2 * state_dim) ** -0.5)

    def forward(self, u: Tensor) -> Tensor:
        return torch.view_as_complex(state_precision(self.linear(u)).unflatten(-1, (-1, 2)))


class RealInputs(nn.Module):
    """b = B u with B real."""

    def __init__(self, dim: int, state_dim: int) -> None:
        super().__init__()
        self.linear = Linear(dim, state_dim, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        return state_precision(self.linear(u))


def check_init(init: str) -> None:
    """The two starts."""
    check_choice("init", init, ("long", "paper"))


def check_positive(name: str, value: float) -> None:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise RangeError(f"{name} is {value!r}; expected a positive number")
