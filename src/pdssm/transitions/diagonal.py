"""Diagonal matrices, real or complex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import torch
from torch import Tensor

from pdssm.transitions.base import KernelForm, Transition, check_number, real_form
from pdssm.transitions.block_diagonal import BlockDiagonal


@final
@dataclass(frozen=True, eq=False)
class Diagonal(Transition):
    """A = diag(diag)."""

    diag: Tensor
    """(*batch, N)."""

    closed: ClassVar[bool] = True
    event_axes = {"diag": 1}

    def _check(self) -> None:
        check_number("diag", self.diag)

    @property
    def dim(self) -> int:
        return self.diag.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.diag.dtype

    def _apply(self, h: Tensor) -> Tensor:
        return self.diag[..., None, :] * h

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return self.diag.conj()[..., None, :] * g

    def _compose(self, earlier: Self) -> Self:
        return type(self)(self.diag * earlier.diag)

    def to_dense(self) -> Tensor:
        return torch.diag_embed(self.diag)

    def identity(self) -> Self:
        return type(self)(torch.ones_like(self.diag))

    def to_real(self) -> Transition:
        """Rotations and scalings: 2 x 2 blocks."""
        return BlockDiagonal(real_form(self.diag[..., None, None])) if self.dtype.is_complex else self

    def kernel_form(self) -> KernelForm:
        return KernelForm("diagonal", None, [self.diag])
