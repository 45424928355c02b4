"""PD matrices: one non-zero in each column (``PD``, the paper's A = P D) or in each row (``RowPD``, A = D P).

The two are adjoint to each other, and not to be confused: a column one-hot P sends state j to state index[j],
so several states may merge (an automaton's transition); a row one-hot P lets state i read state index[i].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import torch
from torch import Tensor

from pdssm.errors import DtypeError, RangeError, ShapeError
from pdssm.kernels.checks import check_below
from pdssm.kernels.reference import compose, gather, scatter
from pdssm.transitions.base import KernelForm, Transition, check_number, check_square


@dataclass(frozen=True, eq=False)
class _OneHot(Transition):
    """What the two forms share: index and diag, both (*batch, N)."""

    index: Tensor
    """int64 or int32, in 0..N."""
    diag: Tensor
    """The non-zero values."""

    closed: ClassVar[bool] = True
    event_axes = {"index": 1, "diag": 1}
    row_form: ClassVar[bool]

    def _check(self) -> None:
        check_number("diag", self.diag)
        if self.index.dtype not in (torch.int64, torch.int32):
            raise DtypeError(f"index is {self.index.dtype}; expected torch.int64 or torch.int32")
        if self.index.shape[-1] != self.diag.shape[-1]:
            raise ShapeError(
                f"index has {self.index.shape[-1]} entries a matrix and diag {self.diag.shape[-1]}; expected as many"
            )
        if self.index.device.type == "cpu" and not torch.compiler.is_compiling():
            check_below("index", self.index, self.index.shape[-1], "state components")

    @property
    def dim(self) -> int:
        return self.diag.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.diag.dtype

    def _act(self, h: Tensor, row_form: bool, diag: Tensor) -> Tensor:
        index, diag = self.index[..., None, :], diag[..., None, :]
        return gather(index, diag, h) if row_form else scatter(index, diag, h)

    def _apply(self, h: Tensor) -> Tensor:
        return self._act(h, self.row_form, self.diag)

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return self._act(g, not self.row_form, self.diag.conj())

    def _compose(self, earlier: Self) -> Self:
        both = (self.index, self.diag, earlier.index, earlier.diag)
        batch = torch.broadcast_shapes(self.batch_shape, earlier.batch_shape)
        return type(self)(*compose(self.row_form, *(tensor.expand(*batch, self.dim) for tensor in both)))

    def to_dense(self) -> Tensor:
        one_hot = torch.nn.functional.one_hot(self.index.long(), self.dim).to(self.dtype)
        by_rows = self.diag[..., None] * one_hot
        return by_rows if self.row_form else by_rows.transpose(-1, -2)

    def identity(self) -> Self:
        index = torch.arange(self.dim, device=self.device, dtype=self.index.dtype)
        return type(self)(index.expand_as(self.index), torch.ones_like(self.diag))

    @classmethod
    def from_dense(cls, matrices: Tensor) -> Self:
        """The PD form of ``(*batch, N, N)`` matrices that have at most one non-zero in each column (row)."""
        if matrices.ndim < 2:
            raise ShapeError(f"matrices has shape {tuple(matrices.shape)}; expected (*batch, N, N)")
        check_square("matrices", matrices)
        axis, name = (-1, "row") if cls.row_form else (-2, "column")
        most = int((matrices != 0).sum(axis).max())
        if most > 1:
            raise RangeError(f"matrices has a {name} with {most} non-zeros; expected at most one in each {name}")
        index = (matrices != 0).to(torch.int8).argmax(axis)
        return cls(index, matrices.gather(axis, index.unsqueeze(axis)).squeeze(axis))

    def kernel_form(self) -> KernelForm:
        return KernelForm("row_pd" if self.row_form else "pd", self.index, [self.diag])


@final
@dataclass(frozen=True, eq=False)
class PD(_OneHot):
    """Column form: A e_j = diag[j] e_index[j]; the paper's, and what automata compile to."""

    row_form: ClassVar[bool] = False

    def adjoint(self) -> RowPD:
        """A^H: a row form."""
        return RowPD(self.index, self.diag.conj())


@final
@dataclass(frozen=True, eq=False)
class RowPD(_OneHot):
    """Row form: (A x)[i] = diag[i] x[index[i]]; the published PyTorch code's."""

    row_form: ClassVar[bool] = True

    def adjoint(self) -> PD:
        """A^H: a column form."""
        return PD(self.index, self.diag.conj())
