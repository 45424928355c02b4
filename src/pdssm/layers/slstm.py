"""sLSTM: an LSTM with exponential gates, whose memory can be rewritten, and with recurrent weights inside of heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm

from pdssm.errors import RangeError, check_size
from pdssm.generators.base import full_precision, state_precision
from pdssm.kernels import slstm
from pdssm.layers.base import Layout, Mixer
from pdssm.layers.conv import ShortConvolution
from pdssm.layers.recurrence import ConvState
from pdssm.layers.states import check_state, check_tensor


class SLSTM(Mixer):
    """The xLSTM paper's sLSTM layer: convolution, cell, a norm for each head; ``kernels/slstm.py`` has the equations.

    Input and forget gate read the convolved inputs, the other two the inputs themselves, head by head.  The state is
    ``ConvState``, with a recurrent part ``(sequences, heads, 4, size)``: h, c, n, m; that part alone without a
    convolution.
    """

    def __init__(self, dim: int, *, heads: int = 4, conv: int = 4) -> None:
        super().__init__(dim)
        check_size("heads", heads)
        check_size("conv", conv, 0)
        if dim % heads:
            raise RangeError(f"heads is {heads} with dim {dim}; expected a divisor of dim")
        self.heads, self.size = heads, dim // heads
        self.conv = ShortConvolution(dim, conv) if conv else None
        std = math.sqrt(2 / (5 * dim))
        self.convolved_gates = nn.Parameter(std * torch.randn(heads, self.size, 2, self.size))
        self.direct_gates = nn.Parameter(std * torch.randn(heads, self.size, 2, self.size))
        self.recurrent = nn.Parameter(torch.zeros(heads, self.size, 4, self.size))
        self.bias = nn.Parameter(torch.zeros(heads, 4, self.size))
        self.open_forget_gates(power=0.3)
        self.norm = nn.Parameter(torch.ones(dim))

    @torch.no_grad()
    def open_forget_gates(self, power: float) -> None:
        """Begin with forget gates from open (5) to shut (-7); the greater the power, the more of them open."""
        self.bias[:, 1] = 5 - 12 * torch.linspace(0, 1, self.size, device=self.bias.device) ** power

    # ------------------------------------------------------------------------------------------------- states

    def initial_state(self, sequences: int) -> Any:
        check_size("sequences", sequences)
        recurrent = state_precision(self.bias).new_zeros(sequences, self.heads, 4, self.size)
        return recurrent if self.conv is None else ConvState(recurrent, self.conv.initial_window(sequences))

    def _split(self, name: str, state: Any, sequences: int) -> tuple[Tensor, Tensor | None]:
        """The recurrent state and the convolution's window."""
        recurrent = (sequences, self.heads, 4, self.size)
        if self.conv is None:
            check_tensor(name, state, recurrent)
            return state, None
        check_state(name, state, ConvState, (recurrent, (sequences, self.conv.width - 1, self.dim)))
        return state[0], state[1]

    # --------------------------------------------------------------------------------------- forward and step

    def mix(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Any]:
        recurrent, window = self._split("initial_state", state, layout.sequences)
        x = x if rows is None else x[rows]
        convolved = x
        if self.conv is not None:
            assert window is not None
            convolved, window = self.conv(x, window, layout.cu_seqlens)
        with full_precision(x.device):
            gates, weights = self._gates(x, convolved), state_precision(self.recurrent)
            outputs, recurrent = slstm.scan(gates, weights, recurrent, layout.cu_seqlens)
        y = self._normed(outputs if positions is None else outputs[positions])
        return y, recurrent if window is None else ConvState(recurrent, window)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        self._check_step(x)
        recurrent, window = self._split("state", state, x.shape[0])
        convolved = x
        if self.conv is not None:
            assert window is not None
            convolved, window = self.conv.step(x, window)
        with full_precision(x.device):
            recurrent = slstm.advance(self._gates(x, convolved), state_precision(self.recurrent), recurrent)
        y = self._normed(recurrent[:, :, 0])
        return y, recurrent if window is None else ConvState(recurrent, window)

    def _gates(self, x: Tensor, convolved: Tensor) -> Tensor:
        """The inputs' share of the raw gates i, f, z, o: (steps, heads, 4, size)."""
        parts = (
            torch.einsum("thk,hkgj->thgj", self._by_head(u), state_precision(weight))
            for u, weight in ((convolved, self.convolved_gates), (x, self.direct_gates))
        )
        return torch.cat(tuple(parts), 2) + state_precision(self.bias)

    def _by_head(self, x: Tensor) -> Tensor:
        return state_precision(x).view(*x.shape[:-1], self.heads, self.size)

    def _normed(self, outputs: Tensor) -> Tensor:
        """(steps, heads, size) to (steps, dim), each head with its own mean and variance."""
        return group_norm(outputs.flatten(1).to(self.norm.dtype), self.heads, self.norm)
