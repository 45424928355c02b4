"""Block-diagonal matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import torch
from torch import Tensor

from pdssm.transitions.base import KernelForm, Transition, check_number, check_square, real_form


@final
@dataclass(frozen=True, eq=False)
class BlockDiagonal(Transition):
    """N / b dense blocks along the diagonal."""

    blocks: Tensor
    """(*batch, N / b, b, b)."""

    closed: ClassVar[bool] = True
    event_axes = {"blocks": 3}

    def _check(self) -> None:
        check_number("blocks", self.blocks)
        check_square("blocks", self.blocks)

    @property
    def dim(self) -> int:
        return self.blocks.shape[-3] * self.blocks.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.blocks.dtype

    def _act(self, blocks: Tensor, h: Tensor) -> Tensor:
        split = h.unflatten(-1, (blocks.shape[-3], blocks.shape[-1]))
        return torch.einsum("...kij,...vkj->...vki", blocks, split).flatten(-2)

    def _apply(self, h: Tensor) -> Tensor:
        return self._act(self.blocks, h)

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return self._act(self.blocks.mH, g)

    def _compose(self, earlier: Self) -> Self:
        return type(self)(self.blocks @ earlier.blocks)

    def to_dense(self) -> Tensor:
        count, size = self.blocks.shape[-3:-1]
        place = torch.eye(count, dtype=self.dtype, device=self.device)
        return torch.einsum("...kij,kl->...kilj", self.blocks, place).reshape(
            *self.batch_shape, count * size, count * size
        )

    def identity(self) -> Self:
        eye = torch.eye(self.blocks.shape[-1], dtype=self.dtype, device=self.device)
        return type(self)(eye.expand_as(self.blocks))

    def to_real(self) -> Transition:
        return type(self)(real_form(self.blocks)) if self.dtype.is_complex else self

    def kernel_form(self) -> KernelForm:
        return KernelForm("block", None, [self.blocks])
