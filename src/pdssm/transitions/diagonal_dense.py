"""A diagonal and one dense block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import torch
from torch import Tensor

from pdssm.errors import DtypeError
from pdssm.transitions.base import KernelForm, Transition, check_number, check_square
from pdssm.transitions.dense import Dense
from pdssm.transitions.diagonal import Diagonal


@final
@dataclass(frozen=True, eq=False)
class DiagonalDense(Transition):
    """The first N - b components by a diagonal, the last b by a dense block."""

    diag: Tensor
    """(*batch, N - b)."""
    block: Tensor
    """(*batch, b, b)."""

    closed: ClassVar[bool] = True
    event_axes = {"diag": 1, "block": 2}

    def _check(self) -> None:
        check_number("diag", self.diag)
        check_square("block", self.block)
        if self.block.dtype != self.diag.dtype:
            raise DtypeError(f"block is {self.block.dtype}; expected {self.diag.dtype}, diag's element type")

    @property
    def dim(self) -> int:
        return self.diag.shape[-1] + self.block.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.diag.dtype

    def _parts(self) -> tuple[Diagonal, Dense]:
        return Diagonal(self.diag), Dense(self.block)

    def _apply(self, h: Tensor) -> Tensor:
        diagonal, dense = self._parts()
        split = diagonal.dim
        return torch.cat((diagonal._apply(h[..., :split]), dense._apply(h[..., split:])), -1)

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        diagonal, dense = self._parts()
        split = diagonal.dim
        return torch.cat((diagonal._apply_adjoint(g[..., :split]), dense._apply_adjoint(g[..., split:])), -1)

    def _compose(self, earlier: Self) -> Self:
        return type(self)(self.diag * earlier.diag, self.block @ earlier.block)

    def to_dense(self) -> Tensor:
        size, split = self.dim, self.diag.shape[-1]
        top = torch.cat((torch.diag_embed(self.diag), self.diag.new_zeros(*self.batch_shape, split, size - split)), -1)
        bottom = torch.cat((self.diag.new_zeros(*self.batch_shape, size - split, split), self.block), -1)
        return torch.cat((top, bottom), -2)

    def identity(self) -> Self:
        diagonal, dense = self._parts()
        return type(self)(diagonal.identity().diag, dense.identity().matrices)

    def kernel_form(self) -> KernelForm:
        return KernelForm("diagonal_dense", None, [self.diag, self.block])
