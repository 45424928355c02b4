"""The layers that ``benchmarks/layer.py`` compares, all from D to D with N = D, and how each of them streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdssm import PDSSM, SDSSM, ComplexDiagonal, RealDiagonal
from pdssm.layers import Mixer

HEADS = 4
STEP = Callable[[Tensor, Any], tuple[Tensor, Any]]


class Transformer(nn.Module):
    """A causal, pre-norm Transformer layer without positions: attention, then a feed-forward part of 4 D."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self._heads(x)
        return self._rest(x, functional.scaled_dot_product_attention(q, k, v, is_causal=True))

    def step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """One input ``(sequences, dim)`` against everything before it."""
        q, k, v = self._heads(x[:, None])
        keys, values = cache.append(k, v)
        return self._rest(x[:, None], functional.scaled_dot_product_attention(q, keys, values))[:, 0], cache

    def _heads(self, x: Tensor) -> tuple[Tensor, ...]:
        qkv = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, -1))
        return tuple(part.transpose(1, 2) for part in qkv.unbind(2))

    def _rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        y: Tensor = x + self.feed(self.between(x))
        return y


class Cache:
    """Keys and values of one sequence, in room that doubles when it is full."""

    def __init__(self, dim: int, length: int, device: torch.device) -> None:
        """As after ``length`` tokens of noise."""
        self.length = length
        self.room = torch.randn(2, 1, HEADS, max(16, 2 * length), dim // HEADS, device=device)

    @property
    def nbytes(self) -> int:
        """Of what is filled."""
        return self.room[:, :, :, : self.length].numel() * self.room.element_size()

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.length == self.room.shape[3]:
            self.room = torch.cat((self.room, torch.empty_like(self.room)), 3)
        self.room[0, :, :, self.length], self.room[1, :, :, self.length] = k[:, :, 0], v[:, :, 0]
        self.length += 1
        keys, values = self.room[:, :, :, : self.length].unbind(0)
        return keys, values


def variants(dim: int, terms: int) -> dict[str, Callable[[], nn.Module]]:
    """Each layer's name and what builds it."""
    return {
        "PD-SSM": lambda: PDSSM(dim, dim, terms),
        "PD-SSM, row form": lambda: PDSSM(dim, dim, terms, orientation="row"),
        "PD-SSM, MLP readout": lambda: PDSSM(dim, dim, terms, readout="mlp"),
        "PD-SSM, real readout": lambda: PDSSM(dim, dim, terms, readout="real"),
        "PD-SSM, convolution of 4": lambda: PDSSM(dim, dim, terms, conv=4),
        "PD-SSM, stochastic P": lambda: PDSSM(dim, dim, terms, stochastic=True),
        "complex diagonal": lambda: ComplexDiagonal(dim, dim),
        "real diagonal": lambda: RealDiagonal(dim, dim),
        "SD-SSM (dense)": lambda: SDSSM(dim, dim, terms),
        "LSTM": lambda: nn.LSTM(dim, dim, batch_first=True),
        "Transformer": lambda: Transformer(dim),
    }


def output(layer: nn.Module, x: Tensor) -> Tensor:
    """``(batch, time, dim)`` to the same."""
    y = layer(x)
    outputs: Tensor = y[0] if isinstance(layer, nn.LSTM) else y
    return outputs


def streaming(layer: nn.Module, dim: int, device: torch.device) -> tuple[STEP, Any]:
    """How a layer takes one token of one sequence, and its state at the start."""
    if isinstance(layer, Mixer):
        return layer.step, layer.initial_state(1)
    if isinstance(layer, Transformer):
        return layer.step, Cache(dim, 0, device)
    assert isinstance(layer, nn.LSTM)

    def step(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = layer(x[:, None], state)
        return y[:, 0], state

    zero = torch.zeros(1, 1, dim, device=device)
    return step, (zero, zero)


def state_bytes(state: Any) -> int:
    """Of all tensors in a state."""
    if isinstance(state, Tensor | Cache):
        return state.nbytes
    return sum(map(state_bytes, state))
