"""Products of generalised Householder factors with a decay: DeltaNet, Gated DeltaNet, DeltaProduct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from pdssm.errors import DtypeError, ShapeError
from pdssm.transitions.base import KernelForm, Transition, check_number


@final
@dataclass(frozen=True, eq=False)
class Householder(Transition):
    """A = (I - beta_n k_n k_n^H) ... (I - beta_1 k_1 k_1^H) diag(decay).

    The decay acts first, then factor after factor.  Keys are used as they are (normalise them yourself); with
    |k| = 1 a factor's eigenvalue along k is 1 - beta: a reflection at beta = 2, a projection at 1.
    """

    keys: Tensor
    """(*batch, n, N), real or complex."""
    beta: Tensor
    """(*batch, n), real."""
    decay: Tensor | None = None
    """(*batch, 1) or (*batch, N), real; None for no decay."""

    event_axes = {"keys": 2, "beta": 1, "decay": 1}

    def _check(self) -> None:
        check_number("keys", self.keys)
        factors, size = self.keys.shape[-2:]
        real = self.keys.real.dtype
        if self.beta.shape[-1] != factors:
            raise ShapeError(f"beta has {self.beta.shape[-1]} entries a matrix; expected {factors}, one for each key")
        if self.decay is None:
            ones = torch.ones((*self.beta.shape[:-1], 1), dtype=real, device=self.keys.device)
            object.__setattr__(self, "decay", ones)
        assert self.decay is not None
        if self.decay.shape[-1] not in (1, size):
            raise ShapeError(f"decay has {self.decay.shape[-1]} entries a matrix; expected 1 or {size}")
        for name, tensor in (("beta", self.beta), ("decay", self.decay)):
            if tensor.dtype != real:
                raise DtypeError(f"{name} is {tensor.dtype}; expected {real}, real and of the keys' precision")

    @property
    def dim(self) -> int:
        return self.keys.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.keys.dtype

    def _decay(self) -> Tensor:
        assert self.decay is not None
        return self.decay[..., None, :]

    def _reflect(self, factor: int, h: Tensor) -> Tensor:
        key, beta = self.keys[..., factor, None, :], self.beta[..., factor, None, None]
        return h - beta * (key.conj() * h).sum(-1, keepdim=True) * key

    def _apply(self, h: Tensor) -> Tensor:
        h = self._decay() * h
        for factor in range(self.keys.shape[-2]):
            h = self._reflect(factor, h)
        return h

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        for factor in reversed(range(self.keys.shape[-2])):
            g = self._reflect(factor, g)
        return self._decay() * g

    def to_dense(self) -> Tensor:
        assert self.decay is not None
        eye = torch.eye(self.dim, dtype=self.dtype, device=self.device)
        product = torch.diag_embed(self.decay.expand(*self.batch_shape, self.dim)).to(self.dtype)
        for factor in range(self.keys.shape[-2]):
            key, beta = self.keys[..., factor, :], self.beta[..., factor, None, None]
            product = (eye - beta * key[..., :, None] * key.conj()[..., None, :]) @ product
        return product

    def identity(self) -> Self:
        assert self.decay is not None
        return type(self)(self.keys, torch.zeros_like(self.beta), torch.ones_like(self.decay))

    def to_real(self) -> Transition:
        """A complex factor is two real ones, since k and ik are orthogonal in R^2N."""
        if not self.dtype.is_complex:
            return self
        assert self.decay is not None
        pairs = torch.stack((self.keys, 1j * self.keys), -2)
        keys = torch.view_as_real(pairs).flatten(-2).flatten(-3, -2)
        decay = self.decay.repeat_interleave(2, -1) if self.decay.shape[-1] > 1 else self.decay
        return type(self)(keys, self.beta.repeat_interleave(2, -1), decay)

    def kernel_form(self) -> KernelForm:
        assert self.decay is not None
        return KernelForm("householder", None, [self.keys, self.beta, self.decay])
