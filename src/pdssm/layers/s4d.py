"""S4D: a time-invariant diagonal state space of its own for each channel."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdssm.errors import RangeError, ShapeError, check_fraction, check_size
from pdssm.generators.base import full_precision, state_precision
from pdssm.generators.invariant import random_log_dt, zero_order_hold
from pdssm.kernels.linear import GELU, Linear
from pdssm.layers.base import Layout, Mixer
from pdssm.scanning.invariant import convolve


class S4D(Mixer):
    """S4D: a diagonal system in each channel, which no input changes.

    y = GLU(W gelu(2 Re C x + d u)) with x' = poles x + u, of ``state_dim`` / 2 conjugate pairs, in each channel.

    A zero-order hold with a learnt time step a channel; poles -1/2 + i pi n at the start ("S4D-Lin").  A state is
    (sequences, dim, state_dim / 2), in units of the hold's gain, which the readout has taken over.
    """

    def __init__(
        self, dim: int, state_dim: int = 64, *, dt_min: float = 0.001, dt_max: float = 0.1, dropout: float = 0.0
    ) -> None:
        super().__init__(dim)
        check_size("state_dim", state_dim, 2)
        if state_dim % 2:
            raise RangeError(f"state_dim is {state_dim}; expected an even number, conjugate pairs")
        check_fraction("dropout", dropout)
        self.pairs = state_dim // 2
        self.log_dt = nn.Parameter(random_log_dt(dim, dt_min, dt_max))
        self.log_decay = nn.Parameter(torch.full((dim, self.pairs), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(self.pairs).repeat(dim, 1).float())
        self.output = nn.Parameter(torch.randn(dim, self.pairs, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.randn(dim))
        self.activation, self.dropout = GELU(), nn.Dropout(dropout)
        self.mixing = Linear(dim, 2 * dim)

    def initial_state(self, sequences: int) -> Tensor:
        check_size("sequences", sequences)
        exponent, _ = self._system()
        return exponent.new_zeros((sequences, self.dim, self.pairs))

    def mix(
        self, x: Tensor, state: Tensor, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._check_state("initial_state", state, layout.sequences)
        u = x if rows is None else x[rows]
        with full_precision(u.device):
            y, final = convolve(*self._system(), state_precision(u), state, layout.cu_seqlens)
        if positions is not None:
            y, u = y[positions], u[positions]
        return self._mixed(y, u), final

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self._check_step(x)
        self._check_state("state", state, x.shape[0])
        exponent, weights = self._system()
        state = exponent.exp() * state + state_precision(x)[..., None]
        return self._mixed((weights * state).real.sum(-1), x), state

    def _system(self) -> tuple[Tensor, Tensor]:
        """Log A and 2 C times the hold's gain, both (dim, pairs) and complex."""
        decay, frequency = state_precision(self.log_decay).exp(), state_precision(self.frequency)
        dt = state_precision(self.log_dt).exp()
        exponent, gain = zero_order_hold(torch.complex(-decay, frequency), dt[:, None])
        return exponent, 2 * gain * torch.view_as_complex(state_precision(self.output))

    def _mixed(self, y: Tensor, u: Tensor) -> Tensor:
        """The channels have not met so far."""
        y = self.dropout(self.activation(y.to(u.dtype) + self.skip * u))
        return functional.glu(self.mixing(y), -1)

    def _check_state(self, name: str, state: Tensor, sequences: int) -> None:
        expected = (sequences, self.dim, self.pairs)
        if not isinstance(state, Tensor) or tuple(state.shape) != expected:
            shape = tuple(state.shape) if isinstance(state, Tensor) else type(state).__name__
            raise ShapeError(f"{name} has shape {shape}; expected {expected}")
