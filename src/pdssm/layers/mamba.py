"""Mamba (S6): a diagonal state-space model whose step size, input and output maps depend on the input; gated."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from pdssm.errors import check_size
from pdssm.generators.base import full_precision, state_precision
from pdssm.kernels.linear import Linear
from pdssm.layers.base import Layout, Mixer, make_layout
from pdssm.layers.conv import ShortConvolution
from pdssm.layers.recurrence import ConvState
from pdssm.layers.states import check_state
from pdssm.scanning import selective_readout

SLOWEST, FASTEST = 1e-3, 0.1
"""Where the step sizes begin, before the input changes them."""


class Mamba(Mixer):
    """Mamba (S6), the whole block.

    y = W_out ((C . X + D u) silu(z)), (u, z) = W_in x, u convolved, and for each of ``expand`` * dim channels

        X_t = exp(dt A) X_{t-1} + dt u_t B,   dt = softplus(W_dt r + c),   (r, B, C) = W u_t,   A = -exp(log_rates).

    A channel's state has ``state_dim`` numbers; ``rank``, that of dt's map, is dim / 16, rounded up, by default.  The
    state is ``ConvState``, with a recurrent part ``(sequences, channels, state_dim)``.
    """

    def __init__(
        self, dim: int, state_dim: int = 16, *, expand: int = 2, conv: int = 4, rank: int | None = None
    ) -> None:
        super().__init__(dim)
        rank = math.ceil(dim / 16) if rank is None else rank
        for name, size in (("state_dim", state_dim), ("expand", expand), ("rank", rank)):
            check_size(name, size)
        channels = expand * dim
        self.state_dim, self.channels, self.rank = state_dim, channels, rank
        self.inputs = Linear(dim, 2 * channels, bias=False)
        self.conv = ShortConvolution(channels, conv)
        self.selection = Linear(channels, rank + 2 * state_dim, bias=False)
        self.steps = Linear(rank, channels)
        rates = torch.arange(1, state_dim + 1, dtype=torch.float32)
        self.log_rates = nn.Parameter(rates.log().repeat(channels, 1))
        self.skip = nn.Parameter(torch.ones(channels))
        self.output = Linear(channels, dim, bias=False)
        nn.init.uniform_(self.steps.weight, -(rank**-0.5), rank**-0.5)
        with torch.no_grad():
            self.steps.bias.copy_(softplus_inverse(log_uniform(channels, SLOWEST, FASTEST)))

    def initial_state(self, sequences: int) -> ConvState:
        check_size("sequences", sequences)
        recurrent = state_precision(self.skip).new_zeros(sequences, self.channels, self.state_dim)
        return ConvState(recurrent, self.conv.initial_window(sequences))

    def mix(
        self, x: Tensor, state: ConvState, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, ConvState]:
        recurrent = (layout.sequences, self.channels, self.state_dim)
        window = (layout.sequences, self.conv.width - 1, self.channels)
        check_state("initial_state", state, ConvState, (recurrent, window))
        projected = self.inputs(x if rows is None else x[rows])
        u, z = projected.chunk(2, -1)
        u, last = self.conv(u, state.window, layout.cu_seqlens)
        read, final = self._scan(u, state.recurrent, layout)
        if positions is not None:
            read, u, z = read[positions], u[positions], z[positions]
        y: Tensor = self.output((read.to(u.dtype) + self.skip * u) * silu(z))
        return y, ConvState(final, last)

    def step(self, x: Tensor, state: ConvState) -> tuple[Tensor, ConvState]:
        self._check_step(x)
        return self.mix(x, state, make_layout(x.shape[0], 1, None, None, x.device), None, None)

    def _scan(self, u: Tensor, recurrent: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """C . X of every step and channel, and the state after each sequence."""
        low_rank, keys, queries = self.selection(u).split((self.rank, self.state_dim, self.state_dim), -1)
        dt = softplus(state_precision(self.steps(low_rank)))
        with full_precision(u.device):
            rates = -torch.exp(state_precision(self.log_rates))
            x, keys, queries = (state_precision(part) for part in (u, keys, queries))
            return selective_readout(dt, x, rates, keys, queries, recurrent, layout.cu_seqlens)


def log_uniform(count: int, low: float, high: float) -> Tensor:
    """Random numbers in low..high whose logarithms are uniform."""
    return torch.empty(count).uniform_(math.log(low), math.log(high)).exp()


def softplus_inverse(y: Tensor) -> Tensor:
    """x with softplus(x) = y."""
    return y + torch.log(-torch.expm1(-y))
