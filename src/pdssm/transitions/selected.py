"""PD matrices whose P is selected from a dictionary, with the surrogate gradient of the selection.

An index is an integer and carries no gradient, so the generator hands over what it selects from.  The index
is computed once, by the fused op, and kept; gradients reach scores and dictionary through ``apply`` and
``pdssm.scan``, which run the fused op as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from pdssm.errors import DtypeError, RangeError, ShapeError
from pdssm.kernels import ops
from pdssm.kernels.reference import gather, gumbel, scatter
from pdssm.transitions.base import Transition, check_number, check_square
from pdssm.transitions.dense import Dense
from pdssm.transitions.pd import PD, RowPD


@dataclass(frozen=True, eq=False)
class Selected(Transition):
    """P = hardmax(sum_k scores[k] dictionary[k]) in the forward pass, the softmax's gradient in the backward pass."""

    scores: Tensor
    """(*batch, K), real: the weights of the dictionary's matrices."""
    dictionary: Tensor
    """(K, N, N), real, shared by the whole batch."""
    diag: Tensor
    """(*batch, N), real or complex."""
    temperature: float = 1.0
    """The surrogate is softmax(logits / temperature)."""
    noise: Tensor | None = None
    """(*batch) keys of Gumbel noise on the logits (``gumbel_keys``): a hash of (key, row, column), never stored."""
    known_index: Tensor | None = field(default=None, repr=False)
    """The selection, (*batch, N), where it has been made already."""

    event_axes = {"scores": 1, "diag": 1, "noise": 0, "known_index": 1}
    row_form: ClassVar[bool]

    def _check(self) -> None:
        for name in ("scores", "dictionary"):
            tensor = getattr(self, name)
            if tensor.dtype not in (torch.float32, torch.float64):
                raise DtypeError(f"{name} is {tensor.dtype}; expected torch.float32 or torch.float64")
        check_number("diag", self.diag)
        if self.scores.dtype != self.dictionary.dtype or self.diag.real.dtype != self.scores.dtype:
            raise DtypeError(
                f"scores is {self.scores.dtype}, dictionary {self.dictionary.dtype} and diag {self.diag.dtype}; "
                "expected one precision"
            )
        if self.dictionary.ndim != 3:
            raise ShapeError(f"dictionary has shape {tuple(self.dictionary.shape)}; expected (K, N, N)")
        if 0 in self.dictionary.shape:
            raise RangeError(f"dictionary has shape {tuple(self.dictionary.shape)}; expected K and N of at least 1")
        check_square("dictionary", self.dictionary)
        terms, size = self.dictionary.shape[:2]
        if self.scores.shape[-1] != terms:
            raise ShapeError(
                f"scores has {self.scores.shape[-1]} weights a matrix; expected {terms}, the dictionary's K"
            )
        if self.diag.shape[-1] != size:
            raise ShapeError(f"diag has {self.diag.shape[-1]} entries a matrix; expected {size}, the dictionary's N")
        if not self.temperature > 0:
            raise RangeError(f"temperature is {self.temperature}; expected a positive number")

    @property
    def dim(self) -> int:
        return self.diag.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.diag.dtype

    @property
    def index(self) -> Tensor:
        """The selection, (*batch, N) int32; computed at the first use."""
        if self.known_index is None:
            flat = self.scores.reshape(-1, self.scores.shape[-1])
            index = ops.select(flat.detach(), self.dictionary.detach(), self.row_form, self._flat_noise())
            self.remember(index)
        assert self.known_index is not None
        return self.known_index

    def remember(self, index: Tensor) -> None:
        """Keep a selection that an op has made on the way."""
        object.__setattr__(self, "known_index", index.view(*self.batch_shape, self.dim))

    def recurrence(
        self, inputs: Tensor, initial: Tensor, rows: Tensor | None, cu_seqlens: Tensor, reverse: bool, backend: str
    ) -> tuple[Tensor, Tensor]:
        """The fused op, for a batch of (R, H); axes as in ``kernels/cpu/recurrence.py``."""
        scores = self.scores.reshape(-1, self.scores.shape[-1])
        known = None if self.known_index is None else self.known_index.reshape(-1, self.dim)
        states, final_state, index = ops.selected_recurrence(
            scores, self.dictionary, self.diag, inputs, initial, rows, cu_seqlens, known,
            reverse, self.row_form, self.temperature, self._flat_noise(), backend,
        )  # fmt: skip
        if known is None:
            self.remember(index)
        return states, final_state

    def _flat_noise(self) -> Tensor | None:
        return None if self.noise is None else self.noise.reshape(-1)

    def _apply(self, h: Tensor) -> Tensor:
        if not self._needs_gradient(h):  # then the op, which is there for the surrogate's gradient, is a detour
            act = gather if self.row_form else scatter
            return act(self.index[..., None, :], self.diag[..., None, :], h)
        batch = torch.broadcast_shapes(self.batch_shape, h.shape[:-2])
        maps = self.map(lambda t: t.expand((*batch, *t.shape[len(self.batch_shape) :]))).reshape(-1, 1)
        h = h.expand(*batch, *h.shape[-2:]).reshape(-1, 1, *h.shape[-2:])
        steps = torch.arange(h.shape[0] + 1, device=h.device)
        backend = "cpu" if h.device.type == "cpu" else "associative"
        states, _ = maps.recurrence(torch.zeros_like(h), h, None, steps, False, backend)
        return states.reshape(*batch, *h.shape[-2:])

    def _needs_gradient(self, h: Tensor) -> bool:
        tensors = (self.scores, self.dictionary, self.diag, h)
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)

    def to_dense(self) -> Tensor:
        """The matrices, P materialised: hardmax forward, softmax backward.  For tests and small sizes."""
        soft = self._softmax()
        hard = torch.nn.functional.one_hot(self.index.long(), self.dim).to(soft.dtype)
        hard = hard if self.row_form else hard.transpose(-1, -2)
        return self._scaled((hard - soft).detach() + soft)

    def soft_dense(self) -> Tensor:
        """The matrices with P = softmax of the logits, materialised: the paper's dense inference."""
        return self._scaled(self._softmax())

    def _softmax(self) -> Tensor:
        """softmax(logits / temperature) over the rows (row form: over the columns), (*batch, N, N)."""
        size = self.dim
        logits = torch.einsum("...k,kij->...ij", self.scores, self.dictionary)
        if self.noise is not None:
            noise = gumbel(self.noise.reshape(-1), size, logits.dtype).view(*self.batch_shape, size, size)
            logits = logits + (noise.transpose(-1, -2) if self.row_form else noise)
        return torch.softmax(logits / self.temperature, -1 if self.row_form else -2)

    def _scaled(self, p: Tensor) -> Tensor:
        return self.diag[..., None] * p if self.row_form else p * self.diag[..., None, :]

    def plain(self) -> Transition:
        return Dense(self.to_dense())

    def identity(self) -> Self:
        terms = self.scores.shape[-1]
        dictionary = torch.eye(self.dim, dtype=self.scores.dtype, device=self.device).expand_as(self.dictionary)
        changes: Mapping[str, Any] = {
            "scores": torch.full_like(self.scores, 1.0 / terms),
            "dictionary": dictionary,
            "diag": torch.ones_like(self.diag),
            "noise": None,
            "known_index": None,
        }
        return self._replace(changes)


@final
@dataclass(frozen=True, eq=False)
class SelectedPD(Selected):
    """Column form: P[:, j] = hardmax_i of the logits' column j, A = P diag(diag)."""

    row_form: ClassVar[bool] = False

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return self.adjoint()._apply(g)

    def adjoint(self) -> SelectedRowPD:
        """A^H, with the same selection and the same surrogate gradient."""
        transposed = self.dictionary.transpose(1, 2)
        return SelectedRowPD(self.scores, transposed, self.diag.conj(), self.temperature, self.noise, self.index)

    def hard(self) -> PD:
        """The matrices without the way back to scores and dictionary."""
        return PD(self.index, self.diag)


@final
@dataclass(frozen=True, eq=False)
class SelectedRowPD(Selected):
    """Row form: P[i, :] = hardmax_j of the logits' row i, A = diag(diag) P."""

    row_form: ClassVar[bool] = True

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return self.adjoint()._apply(g)

    def adjoint(self) -> SelectedPD:
        """A^H, with the same selection and the same surrogate gradient."""
        transposed = self.dictionary.transpose(1, 2)
        return SelectedPD(self.scores, transposed, self.diag.conj(), self.temperature, self.noise, self.index)

    def hard(self) -> RowPD:
        """The matrices without the way back to scores and dictionary."""
        return RowPD(self.index, self.diag)
