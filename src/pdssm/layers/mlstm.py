"""mLSTM: a matrix memory with exponential gates, the half of the xLSTM that runs in parallel along time."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm, logsigmoid, silu

from pdssm.errors import RangeError, check_size
from pdssm.generators.base import full_precision, state_precision
from pdssm.kernels.linear import Linear
from pdssm.kernels.packing import Padded, Uniform
from pdssm.layers.base import Layout, Mixer, make_layout
from pdssm.layers.conv import ShortConvolution
from pdssm.layers.states import check_state
from pdssm.scanning import decay_readout

BLOCK = 4
"""q, k and v of so many channels depend on those channels alone."""
EPSILON = 1e-6


class MLSTMState(NamedTuple):
    """Of each sequence."""

    memory: Tensor
    """(sequences, heads, size + 1, size): C and, as its last row, the normaliser n, both divided by exp(m)."""
    stabiliser: Tensor
    """(sequences, heads): m."""
    window: Tensor
    """(sequences, width - 1, 2 dim): the last inputs of the convolution."""


class MLSTM(Mixer):
    """The xLSTM paper's mLSTM layer: y = W_down (norm(h) + skip * u) silu(z), u the convolved half of W_up x.

    With gates i and f of each head, and q, k, v of u, u and x's half as it is,

        m_t = max(log f + m_{t-1}, i),   C_t = f' C_{t-1} + i' v k^T / sqrt(size),   n_t likewise with v = 1,
        f' = exp(log f + m_{t-1} - m_t),  i' = exp(i - m_t),   h_t = C_t q / max(|n_t . q|, exp(-m_t)).
    """

    def __init__(self, dim: int, *, heads: int = 4, conv: int = 4) -> None:
        super().__init__(dim)
        check_size("heads", heads)
        inner = 2 * dim
        if inner % heads or inner % BLOCK:
            raise RangeError(f"heads is {heads} with dim {dim}; expected 2 dim to be a multiple of it and of {BLOCK}")
        self.heads, self.inner, self.size = heads, inner, inner // heads
        self.up = Linear(dim, 2 * inner, bias=False)
        self.conv = ShortConvolution(inner, conv)
        std = math.sqrt(2 / (5 * dim))
        self.queries_keys = nn.Parameter(std * torch.randn(inner // BLOCK, BLOCK, 2, BLOCK))
        self.values = nn.Parameter(std * torch.randn(inner // BLOCK, BLOCK, BLOCK))
        self.gates = Linear(3 * inner, 2 * heads)
        self.norm = nn.Parameter(torch.ones(inner))
        self.skip = nn.Parameter(torch.ones(inner))
        self.down = Linear(inner, dim, bias=False)
        nn.init.normal_(self.up.weight, std=std)
        nn.init.normal_(self.down.weight, std=dim**-0.5)
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            self.gates.bias[:heads].normal_(std=0.1)
            self.gates.bias[heads:] = torch.linspace(3, 6, heads)

    def initial_state(self, sequences: int) -> MLSTMState:
        check_size("sequences", sequences)
        like = state_precision(self.norm)
        memory = like.new_zeros(sequences, self.heads, self.size + 1, self.size)
        return MLSTMState(memory, like.new_zeros(sequences, self.heads), self.conv.initial_window(sequences))

    def mix(
        self, x: Tensor, state: MLSTMState, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, MLSTMState]:
        count, heads = layout.sequences, self.heads
        shapes = (count, heads, self.size + 1, self.size), (count, heads), (count, self.conv.width - 1, self.inner)
        check_state("initial_state", state, MLSTMState, shapes)
        projected = self.up(x if rows is None else x[rows])
        u, z = projected.chunk(2, -1)
        convolved, window = self.conv(u, state.window, layout.cu_seqlens)
        q, k, v, raw = self._read(u, convolved)
        with full_precision(x.device):
            h, memory, stabiliser = self._remember(q, k, v, raw, state, layout)
        if positions is not None:
            h, z, convolved = h[positions], z[positions], convolved[positions]
        normed = group_norm(h.flatten(1).to(self.norm.dtype), self.heads, self.norm)
        y: Tensor = self.down((normed + self.skip * convolved) * silu(z))
        return y, MLSTMState(memory, stabiliser, window)

    def step(self, x: Tensor, state: MLSTMState) -> tuple[Tensor, MLSTMState]:
        self._check_step(x)
        return self.mix(x, state, make_layout(x.shape[0], 1, None, None, x.device), None, None)

    def _read(self, u: Tensor, convolved: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, k, v (steps, heads, size) and both raw gates (steps, 2 heads)."""
        both = torch.einsum("tbi,bigo->gtbo", convolved.unflatten(-1, (-1, BLOCK)), self.queries_keys).flatten(2)
        v = torch.einsum("tbi,bio->tbo", u.unflatten(-1, (-1, BLOCK)), self.values).flatten(1)
        q, k = both.unbind(0)
        raw = self.gates(torch.cat((q, k, v), -1))
        q, k, v = (part.unflatten(-1, (self.heads, self.size)) for part in (q, k, v))
        return q, k, v, raw

    def _remember(
        self, q: Tensor, k: Tensor, v: Tensor, raw: Tensor, state: MLSTMState, layout: Layout
    ) -> tuple[Tensor, Tensor, Tensor]:
        """h, the memory and the stabiliser after each sequence."""
        q, k, v, raw = (state_precision(part) for part in (q, k, v, raw))
        i, log_f = raw[..., : self.heads], logsigmoid(raw[..., self.heads :])
        peak, before, stabiliser = peaks(log_f, i, state.stabiliser, layout)
        values = torch.cat((v, torch.ones_like(v[..., :1])), -1) * torch.exp(i - peak)[..., None]
        shape = (layout.batch, layout.time) if layout.even else (1, -1)
        decay, values, keys, queries = (
            part.unflatten(0, shape) for part in (log_f + before - peak, values, k * self.size**-0.5, q)
        )
        cu = None if layout.even else layout.cu_seqlens
        read, memory = decay_readout(decay, values, keys, queries, state.memory, cu_seqlens=cu)
        read = read.flatten(0, 1)
        scale = torch.maximum(read[..., -1].abs(), torch.exp(-peak)) + EPSILON
        return read[..., :-1] / scale[..., None], memory, stabiliser


def peaks(log_f: Tensor, i: Tensor, initial: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """m_t = max(log f_t + m_{t-1}, i_t), ``(steps, heads)``; what it was one step before; and the last ones.

    Less the running sum of log f, it is a running maximum.
    """
    sequences = Uniform(layout.sequences, False) if layout.even else Padded(layout.cu_seqlens, False)
    total = sequences.pad(log_f).cumsum(1)
    start = initial[:, None]
    highest = torch.cat((start, sequences.pad(i) - total), 1).cummax(1).values
    after = highest[:, 1:] + total
    before = torch.cat((start, after[:, :-1]), 1)
    return sequences.unpad(after), sequences.unpad(before), sequences.final(after, initial)
