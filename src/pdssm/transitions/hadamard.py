"""Walsh-Hadamard matrices, modulated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from pdssm.errors import ShapeError
from pdssm.transitions.base import KernelForm, Transition, check_number


@final
@dataclass(frozen=True, eq=False)
class WalshHadamard(Transition):
    """A = I + H diag(scale) / sqrt(N), with H the symmetric +-1 matrix of Sylvester; N a power of two."""

    scale: Tensor
    """(*batch, N)."""

    event_axes = {"scale": 1}

    def _check(self) -> None:
        check_number("scale", self.scale)
        size = self.scale.shape[-1]
        if size & (size - 1):
            raise ShapeError(f"scale has {size} entries a matrix; expected a power of two")

    @property
    def dim(self) -> int:
        return self.scale.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.scale.dtype

    def _apply(self, h: Tensor) -> Tensor:
        return h + walsh_transform(self.scale[..., None, :] * h)

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return g + self.scale.conj()[..., None, :] * walsh_transform(g)

    def to_dense(self) -> Tensor:
        eye = torch.eye(self.dim, dtype=self.dtype, device=self.device)
        return eye + hadamard(self.dim).to(eye) * self.scale[..., None, :] / math.sqrt(self.dim)

    def identity(self) -> Self:
        return type(self)(torch.zeros_like(self.scale))

    def kernel_form(self) -> KernelForm:
        return KernelForm("hadamard", None, [self.scale])


def hadamard(size: int) -> Tensor:
    """Sylvester's matrix: entry (i, j) is -1 to the number of ones that i and j share in binary."""
    bits = torch.arange(size)
    shared = bits[:, None] & bits
    parity = torch.zeros_like(shared)
    while bool(shared.any()):
        parity, shared = parity ^ (shared & 1), shared >> 1
    return 1.0 - 2.0 * parity


def walsh_transform(h: Tensor) -> Tensor:
    """H h / sqrt(N) along the last axis, by log2(N) sums and differences."""
    size = h.shape[-1]
    half = 1
    while half < size:
        pairs = h.unflatten(-1, (-1, 2, half))
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        h = torch.stack((low + high, low - high), -2).flatten(-3)
        half *= 2
    return h / math.sqrt(size)
