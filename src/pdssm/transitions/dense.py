"""Unstructured matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import torch
from torch import Tensor

from pdssm.transitions.base import KernelForm, Transition, check_number, check_square


@final
@dataclass(frozen=True, eq=False)
class Dense(Transition):
    """A itself."""

    matrices: Tensor
    """(*batch, N, N)."""

    closed: ClassVar[bool] = True
    event_axes = {"matrices": 2}

    def _check(self) -> None:
        check_number("matrices", self.matrices)
        check_square("matrices", self.matrices)

    @property
    def dim(self) -> int:
        return self.matrices.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.matrices.dtype

    def _apply(self, h: Tensor) -> Tensor:
        return torch.einsum("...ij,...vj->...vi", self.matrices, h)

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return torch.einsum("...ij,...vi->...vj", self.matrices.conj(), g)

    def _compose(self, earlier: Self) -> Self:
        return type(self)(self.matrices @ earlier.matrices)

    def to_dense(self) -> Tensor:
        return self.matrices

    def identity(self) -> Self:
        eye = torch.eye(self.dim, dtype=self.dtype, device=self.device)
        return type(self)(eye.expand_as(self.matrices))

    def kernel_form(self) -> KernelForm:
        return KernelForm("block", None, [self.matrices.unsqueeze(-3)])
