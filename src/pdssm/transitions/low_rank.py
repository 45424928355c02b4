"""Diagonal plus low rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from pdssm.errors import DtypeError, ShapeError
from pdssm.transitions.base import KernelForm, Transition, check_number


@final
@dataclass(frozen=True, eq=False)
class DiagonalPlusLowRank(Transition):
    """A = diag(diag) + left right^H."""

    diag: Tensor
    """(*batch, N)."""
    left: Tensor
    """(*batch, N, r)."""
    right: Tensor
    """(*batch, N, r)."""

    event_axes = {"diag": 1, "left": 2, "right": 2}

    def _check(self) -> None:
        check_number("diag", self.diag)
        size = self.diag.shape[-1]
        if self.left.shape[-2:] != self.right.shape[-2:] or self.left.shape[-2] != size:
            raise ShapeError(
                f"left and right end in {tuple(self.left.shape[-2:])} and {tuple(self.right.shape[-2:])}; "
                f"expected both to end in ({size}, r)"
            )
        for name, tensor in (("left", self.left), ("right", self.right)):
            if tensor.dtype != self.diag.dtype:
                raise DtypeError(f"{name} is {tensor.dtype}; expected {self.diag.dtype}, diag's element type")

    @property
    def dim(self) -> int:
        return self.diag.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.diag.dtype

    def _apply(self, h: Tensor) -> Tensor:
        return self.diag[..., None, :] * h + (h @ self.right.conj()) @ self.left.mT

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return self.diag.conj()[..., None, :] * g + (g @ self.left.conj()) @ self.right.mT

    def to_dense(self) -> Tensor:
        return torch.diag_embed(self.diag) + self.left @ self.right.mH

    def identity(self) -> Self:
        return type(self)(torch.ones_like(self.diag), torch.zeros_like(self.left), self.right)

    def kernel_form(self) -> KernelForm:
        return KernelForm("low_rank", None, [self.diag, self.left.mT, self.right.mT])
