"""RWKV-7's time mixing: a decay for each component, and a delta rule whose rate is one for each component too.

From x mixed with the input before it, in six ways, come keys k, values v, queries r, decays w in (exp(-0.607), 1),
rates a in (0, 1) and a gate; with the removal key u = normalised k * k_k:

    X <- X (diag(w) - u (a * u)^T) + v k'^T  with  k' = k * (1 + (a - 1) * k_a),
    y = W ((norm(X r) + <r * r_k, k'> v) * gate).

The value residual, which mixes in the first layer's values, is left out: a mixer does not see other layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdssm.errors import RangeError, check_size
from pdssm.generators.base import state_precision
from pdssm.kernels.linear import Linear
from pdssm.layers.matrix_state import MatrixState, Pieces
from pdssm.layers.token_shift import TokenShift
from pdssm.transitions import DiagonalPlusLowRank

STRONGEST_DECAY = 0.6065306597126334  # exp(-1/2), of log w
MIXED = {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}
"""What the six mixtures are for, and the power with which their shares of the input before begin."""


class LowRank(nn.Module):
    """Two thin matrices with an activation between: W2 f(W1 x) + c.

    The original begins with W1 = 0, so that W2 has no gradient in the first step; W1 begins as any matrix here.
    """

    def __init__(self, dim: int, rank: int, activation: nn.Module, bias: Tensor | None) -> None:
        super().__init__()
        self.down, self.activation = Linear(dim, rank, bias=False), activation
        self.up = Linear(rank, dim, bias=bias is not None)
        nn.init.orthogonal_(self.up.weight, gain=0.1 * max(1.0, (rank / dim) ** 0.5))
        if bias is not None:
            self.up.bias.data.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.up(self.activation(self.down(x)))
        return y


class RWKV7(MatrixState):
    """RWKV-7's time mixing, begun as the first layer of the original.

    ``head_dim`` is 64, or ``dim`` where that is smaller, and must divide it; the ranks of the networks behind decays,
    rates and gates are by default the original's, which grow with the root of ``dim``.
    """

    conv: TokenShift

    def __init__(
        self,
        dim: int,
        *,
        head_dim: int | None = None,
        decay_rank: int | None = None,
        rate_rank: int | None = None,
        gate_rank: int | None = None,
    ) -> None:
        check_size("dim", dim)
        size = min(64, dim) if head_dim is None else head_dim
        check_size("head_dim", size)
        if dim % size:
            raise RangeError(f"head_dim is {size}; expected a divisor of {dim}, dim")
        super().__init__(dim, dim // size, size, size, dim, conv=0)
        self.conv = TokenShift(dim)
        place = torch.arange(dim) / dim
        self.shares = nn.Parameter(torch.stack([1 - place**power for power in MIXED.values()]))
        across = torch.arange(dim) / max(1, dim - 1)
        within = (torch.arange(dim) % size) / max(1, size - 1) * 2 - 1
        zigzag = within * within.abs()
        self.queries, self.keys, self.values = (Linear(dim, dim, bias=False) for _ in range(3))
        for linear, gain in ((self.queries, 1.0), (self.keys, 0.1), (self.values, 1.0)):
            nn.init.orthogonal_(linear.weight, gain)
        self.decay = LowRank(dim, _rank(2.5, dim, size / 64, decay_rank), nn.Tanh(), 6 * across - 5.5 + 2.5 * zigzag)
        self.rate = LowRank(
            dim, _rank(2.5, dim, size / 64, rate_rank), nn.Identity(), 0.4 * (across - 0.5) - 0.19 + 0.3 * zigzag
        )
        self.gate = LowRank(dim, _rank(5.0, dim, 1.0, gate_rank), nn.Sigmoid(), None)
        self.removal = nn.Parameter(0.71 - 0.1 * (across - 0.5))
        self.replacement = nn.Parameter(torch.full((dim,), 1.02))
        self.bonus = nn.Parameter(torch.full((self.heads, size), -0.04))
        self.norm = nn.GroupNorm(self.heads, dim, eps=size * 1e-5)
        self.out = Linear(dim, dim, bias=False)

    def project(self, x: Tensor) -> Tensor:
        return x

    def pieces(self, x: Tensor, convolved: Tensor) -> Pieces:
        r, w, k, v, a, g = x + (convolved - x) * self.shares[:, None]
        queries, keys, values = (state_precision(part) for part in (self.queries(r), self.keys(k), self.values(v)))
        decay = torch.exp(-STRONGEST_DECAY * torch.sigmoid(state_precision(self.decay(w))))
        rate = torch.sigmoid(state_precision(self.rate(a)))
        removal = functional.normalize(self._by_heads(keys * self.removal), dim=-1)
        queries, decay, rate, values, keys = map(
            self._by_heads, (queries, decay, rate, values, keys * (1 + (rate - 1) * self.replacement))
        )
        transition = DiagonalPlusLowRank(decay, (rate * removal)[..., None], -removal[..., None])
        bonus = (queries * keys * self.bonus).sum(-1, keepdim=True) * values
        return Pieces(transition, values, keys, queries, (bonus.to(x.dtype), self.gate(g)))

    def _by_heads(self, tensor: Tensor) -> Tensor:
        by_heads: Tensor = tensor.unflatten(-1, (self.heads, self.key_dim))
        return by_heads

    def finish(self, x: Tensor, outputs: Tensor, *kept: Tensor) -> Tensor:
        bonus, gate = kept
        y: Tensor = self.out((self.norm(outputs.flatten(-2)) + bonus.flatten(-2)) * gate)
        return y


def _rank(share: float, dim: int, factor: float, given: int | None) -> int:
    """As given, or a multiple of 32 near share * factor * sqrt(dim)."""
    return max(32, round(share * dim**0.5 * factor / 32) * 32) if given is None else given
