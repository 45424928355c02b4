"""The delta rule: DeltaNet, with eigenvalues down to -1 too, Gated DeltaNet and Gated DeltaProduct.

A step writes the value v at the key k, over what was there: X <- X (I - beta k k^T) + beta v k^T with |k| = 1.  The
eigenvalue along k is 1 - beta: in (0, 1) for beta in (0, 1), in (-1, 1) for beta in (0, 2), a reflection at 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdssm.errors import check_size
from pdssm.generators.base import state_precision
from pdssm.kernels.linear import Linear
from pdssm.layers.matrix_state import MatrixState, Pieces
from pdssm.transitions import Householder


def unit(vectors: Tensor) -> Tensor:
    """Length 1, but for vectors near zero, whose gradient must not blow up."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-6)


class Decay(nn.Module):
    """alpha = exp(-a softplus(W x + c)) of each head, begun as in Mamba-2: a in 0..16, softplus(c) in 0.001..0.1."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.linear = Linear(dim, heads, bias=False)
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(0, 16).log())
        step = torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        self.bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus of it is the step

    def forward(self, x: Tensor) -> Tensor:
        """``(..., dim)`` to ``(..., heads)``."""
        step = functional.softplus(state_precision(self.linear(x)) + state_precision(self.bias))
        return torch.exp(-torch.exp(state_precision(self.log_rate)) * step)


class DeltaRule(MatrixState):
    """``factors`` writes a token; where ``gated``, after one decay, and the normalised outputs have a gate."""

    def __init__(
        self, dim: int, heads: int, key_dim: int, value_dim: int, conv: int, factors: int, negative: bool, gated: bool
    ) -> None:
        check_size("factors", factors)
        channels = heads * (key_dim + factors * (key_dim + value_dim))
        super().__init__(dim, heads, value_dim, key_dim, channels, conv)
        self.substeps, self.strongest = factors, 2.0 if negative else 1.0
        self.queries_keys_values = Linear(dim, channels, bias=False)
        self.beta = Linear(dim, factors * heads, bias=False)
        self.decay = Decay(dim, heads) if gated else None
        self.gate = Linear(dim, heads * value_dim, bias=False) if gated else None
        self.norm = nn.RMSNorm(value_dim, eps=1e-5)
        self.out = Linear(heads * value_dim, dim, bias=False)

    def project(self, x: Tensor) -> Tensor:
        projected: Tensor = self.queries_keys_values(x)
        return projected

    def pieces(self, x: Tensor, convolved: Tensor) -> Pieces:
        factors, heads = self.substeps, self.heads
        widths = [heads * self.key_dim, factors * heads * self.key_dim, factors * heads * self.value_dim]
        q, k, v = state_precision(convolved).split(widths, -1)
        queries = unit(q.unflatten(-1, (heads, self.key_dim))) * self.key_dim**-0.5
        keys = unit(k.unflatten(-1, (factors, heads, self.key_dim)))
        values = v.unflatten(-1, (factors, heads, self.value_dim))
        beta = self.strongest * torch.sigmoid(state_precision(self.beta(x))).unflatten(-1, (factors, heads, 1))
        decay = None
        if self.decay is not None:  # with the first factor only
            decay = functional.pad(self.decay(x)[:, None, :, None], (0, 0, 0, 0, 0, factors - 1), value=1.0)
        return Pieces(Householder(keys[..., None, :], beta, decay), beta * values, keys, queries)

    def finish(self, x: Tensor, outputs: Tensor, *kept: Tensor) -> Tensor:
        y = self.norm(outputs).flatten(-2)
        if self.gate is not None:
            y = y * functional.silu(self.gate(x))
        finished: Tensor = self.out(y)
        return finished


def _head_dim(dim: int, heads: int, head_dim: int | None, share: float = 1.0) -> int:
    """As asked, or the heads' keys together as wide as this share of the inputs."""
    check_size("heads", heads)
    return max(1, int(share * dim / heads)) if head_dim is None else head_dim


class DeltaNet(DeltaRule):
    """DeltaNet: A = I - beta k k^T, beta in (0, 1).

    ``head_dim`` numbers a key and a value of each head, ``dim / heads`` by default.
    """

    def __init__(self, dim: int, *, heads: int = 4, head_dim: int | None = None, conv: int = 4) -> None:
        size = _head_dim(dim, heads, head_dim)
        super().__init__(dim, heads, size, size, conv, factors=1, negative=False, gated=False)


class DeltaNetNegative(DeltaRule):
    """DeltaNet[-1,1]: beta in (0, 2), so that a step can reflect.  Arguments as of ``DeltaNet``."""

    def __init__(self, dim: int, *, heads: int = 4, head_dim: int | None = None, conv: int = 4) -> None:
        size = _head_dim(dim, heads, head_dim)
        super().__init__(dim, heads, size, size, conv, factors=1, negative=True, gated=False)


class GatedDeltaNet(DeltaRule):
    """Gated DeltaNet: the delta rule after a decay.

    ``head_dim`` is a key's size, by default such that all heads' keys are 3/4 as wide as the inputs, the library's
    proportion; values are ``expand`` times as wide.  ``negative`` allows beta in (0, 2).
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int = 4,
        head_dim: int | None = None,
        expand: int = 2,
        conv: int = 4,
        negative: bool = False,
    ) -> None:
        size = _head_dim(dim, heads, head_dim, 0.75)
        super().__init__(dim, heads, size, expand * size, conv, factors=1, negative=negative, gated=True)


class GatedDeltaProduct(DeltaRule):
    """Gated DeltaProduct[-1,1]: ``factors`` keys, values and betas a token, one decay before them.

    Other arguments as of ``GatedDeltaNet``.
    """

    def __init__(
        self,
        dim: int,
        factors: int = 2,
        *,
        heads: int = 4,
        head_dim: int | None = None,
        expand: int = 2,
        conv: int = 4,
        negative: bool = True,
    ) -> None:
        size = _head_dim(dim, heads, head_dim, 0.75)
        super().__init__(dim, heads, size, expand * size, conv, factors=factors, negative=negative, gated=True)
