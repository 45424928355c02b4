"""xLSTM[1:1]: a matrix memory, then a scalar one that rewrites itself, each in its residual block."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import gelu

from pdssm.errors import check_size
from pdssm.kernels.linear import Linear
from pdssm.layers.base import Layout, Mixer
from pdssm.layers.mlstm import MLSTM, MLSTMState
from pdssm.layers.recurrence import ConvState
from pdssm.layers.slstm import SLSTM
from pdssm.layers.states import check_fields

MULTIPLE = 64


class XLSTMState(NamedTuple):
    """Of each sequence: ``MLSTMState`` and the sLSTM's ``ConvState``."""

    memory: Tensor
    stabiliser: Tensor
    window: Tensor
    scalars: Tensor
    scalars_window: Tensor


class XLSTM(Mixer):
    """xLSTM[1:1]: an mLSTM block, then an sLSTM block.

    x <- x + mLSTM(norm(x)), then x <- x + sLSTM(norm(x)) and x <- x + W (gelu(g) * u), (g, u) = V norm(x).

    The gated network has ``ffn_dim`` hidden units, by default 1.3 dim, rounded up to a multiple of 64.
    """

    def __init__(self, dim: int, *, heads: int = 4, conv: int = 4, ffn_dim: int | None = None) -> None:
        super().__init__(dim)
        ffn_dim = math.ceil(1.3 * dim / MULTIPLE) * MULTIPLE if ffn_dim is None else ffn_dim
        check_size("ffn_dim", ffn_dim)
        check_size("conv", conv, 2)
        self.mlstm, self.slstm = MLSTM(dim, heads=heads, conv=conv), SLSTM(dim, heads=heads, conv=conv)
        self.slstm.open_forget_gates(power=1.6)
        self.norms = nn.ModuleList(nn.LayerNorm(dim, bias=False) for _ in range(3))
        self.up, self.down = Linear(dim, 2 * ffn_dim, bias=False), Linear(ffn_dim, dim, bias=False)
        nn.init.normal_(self.up.weight, std=math.sqrt(2 / (5 * dim)))
        nn.init.normal_(self.down.weight, std=dim**-0.5)

    def initial_state(self, sequences: int) -> XLSTMState:
        return XLSTMState(*self.mlstm.initial_state(sequences), *self.slstm.initial_state(sequences))

    def mix(
        self, x: Tensor, state: XLSTMState, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, XLSTMState]:
        check_fields("initial_state", state, XLSTMState)
        x = x if rows is None else x[rows]
        mixed, matrix = self.mlstm.mix(self.norms[0](x), MLSTMState(*state[:3]), layout, None, None)
        x = x + mixed
        mixed, scalars = self.slstm.mix(self.norms[1](x), ConvState(*state[3:]), layout, None, positions)
        x = mixed + (x if positions is None else x[positions])
        return self._feed_forward(x), XLSTMState(*matrix, *scalars)

    def step(self, x: Tensor, state: XLSTMState) -> tuple[Tensor, XLSTMState]:
        self._check_step(x)
        check_fields("state", state, XLSTMState)
        mixed, matrix = self.mlstm.step(self.norms[0](x), MLSTMState(*state[:3]))
        x = x + mixed
        mixed, scalars = self.slstm.step(self.norms[1](x), ConvState(*state[3:]))
        return self._feed_forward(x + mixed), XLSTMState(*matrix, *scalars)

    def _feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.up(self.norms[2](x)).chunk(2, -1)
        y: Tensor = x + self.down(gelu(gate) * up)
        return y
