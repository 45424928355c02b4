"""The selection of P with frozen weights: exact, and faster because hopeless rows are listed once and left out.

Scores lie on the simplex, so in column b the argmax over rows is a vertex of the upper envelope of N points in R^K:
few of many.  A row is left out only where others beat it by more than the rounding of a K-term product for all
scores (``cpu/candidates.py`` has the proof and the search), so the index is that of the full selection, to the bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from pdssm.errors import DeviceError, DtypeError, RangeError, ShapeError
from pdssm.kernels import device, reference
from pdssm.kernels.checks import check_finite

TOLERANCE = 1e-3  # how far from 1 a sum of scores may be


@dataclass(frozen=True, eq=False)
class FrozenDictionary(ABC):
    """A dictionary (K, N, N) and, for each column, the rows that can be the argmax for some scores."""

    counts: Tensor
    """(N,): how many candidates each column has."""
    terms: int

    @abstractmethod
    def select(self, scores: Tensor) -> Tensor:
        """index[u, b] = argmax_a sum_k scores[u, k] dictionary[k, a, b], ties to the lowest a; (U, K) to (U, N) int32.

        Every row of scores must lie on the simplex, as a softmax's does.
        """

    def _check(self, scores: Tensor, values: Tensor) -> None:
        if scores.ndim != 2 or scores.shape[1] != self.terms:
            raise ShapeError(
                f"scores has shape {tuple(scores.shape)}; expected (U, {self.terms}), one weight for each of the "
                f"{self.terms} frozen matrices"
            )
        if scores.dtype != values.dtype:
            raise DtypeError(f"scores has dtype {scores.dtype}; expected {values.dtype}, the frozen dictionary's")
        if scores.device != values.device:
            raise DeviceError(f"scores is on {scores.device}; expected {values.device}, the frozen dictionary's device")


def _off_simplex(u: int, row: Tensor) -> RangeError:
    return RangeError(
        f"scores[{u}] has smallest entry {float(row.min()):.3g} and sum {float(row.sum()):.6g}; expected entries of at "
        f"least 0 whose sum is within {TOLERANCE:g} of 1, as a softmax's"
    )


# --------------------------------------------------------------------------------------------------- on the CPU


@final
@dataclass(frozen=True, eq=False)
class CompiledCandidates(FrozenDictionary):
    """Candidate lists in the layout of ``cpu/searching.py``."""

    rows: Tensor
    values: Tensor
    starts: Tensor

    def select(self, scores: Tensor) -> Tensor:
        self._check(scores, self.values)
        # The op costs more than one token's search; only a compiled graph needs it.
        search = _frozen_selection if torch.compiler.is_compiling() else _search
        index: Tensor = search(scores.detach(), self.rows, self.values, self.starts, self.counts.shape[0])
        return index


def _search(scores: Tensor, rows: Tensor, values: Tensor, starts: Tensor, size: int) -> Tensor:
    from pdssm.kernels.cpu import searching

    scores = scores.resolve_neg().contiguous()
    index = searching.search(scores, rows, values, starts, size, TOLERANCE)
    if isinstance(index, int):
        raise _off_simplex(index, scores[index])
    return index


_frozen_selection = torch.library.custom_op("pdssm::frozen_selection", _search, mutates_args=())


@_frozen_selection.register_fake
def _(scores: Tensor, rows: Tensor, values: Tensor, starts: Tensor, size: int) -> Tensor:
    return scores.new_empty((scores.shape[0], size), dtype=torch.int32)


# --------------------------------------------------------------------------------------------- on other devices


@final
@dataclass(frozen=True, eq=False)
class GatheredCandidates(FrozenDictionary):
    """Candidate lists padded to the longest, in plain torch; the bits of ``device.select``.

    A product of fewer columns may round differently.  So a winner is believed where it leads by more than the
    rounding of both products; the full selection decides the transitions where one does not.
    """

    rows: Tensor
    """(N, longest)."""
    values: Tensor
    """(K, N longest)."""
    padding: Tensor
    """(N, longest): 0 at candidates, -inf behind them."""
    lead: Tensor
    """(N, 1): by how much a winner must lead."""
    dictionary: Tensor
    pays_from: int = 1 << 27
    """Logits from which the shorter lists pay; for fewer, launches decide (measured on an H200)."""

    def select(self, scores: Tensor) -> Tensor:
        self._check(scores, self.values)
        scores = scores.detach()
        off = (scores.amin(1) < 0) | ~((scores.sum(1) - 1).abs() <= TOLERANCE)
        if bool(off.any()):
            bad = int(off.nonzero()[0, 0])
            raise _off_simplex(bad, scores[bad])
        few = scores.shape[0] * self.counts.shape[0] ** 2 < self.pays_from
        if few or _coarse_products(scores):
            return device.select(scores, self.dictionary, None)
        parts = [self._search(part) for part in scores.split(max(1, reference.TILE // self.rows.numel()))]
        index, unclear = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        if bool(unclear.any()):
            index[unclear] = device.select(scores[unclear], self.dictionary, None)
        return index

    def _search(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """(index, whether the transition has a column without a clear winner)."""
        size, longest = self.rows.shape
        logits = (scores @ self.values).view(-1, size, longest) + self.padding
        top, at = logits.max(2, keepdim=True)
        # Not "more than 1": where sums overflow, NaN is above nothing.
        unclear = ((logits >= top - self.lead).sum(2) != 1).any(1)
        return self.rows.expand(scores.shape[0], -1, -1).gather(2, at)[..., 0], unclear


def _coarse_products(scores: Tensor) -> bool:
    """Whether float32 products may be made with fewer bits, so that no bound on their rounding is known here."""
    return scores.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"


# ------------------------------------------------------------------------------------------------------ freezing


def freeze(dictionary: Tensor) -> FrozenDictionary:
    """List the rows of each column of ``dictionary`` (K, N, N) that can win; float32 or float64.

    The result holds copies: changes of the dictionary do not reach it.
    """
    if dictionary.ndim != 3 or dictionary.shape[1] != dictionary.shape[2] or 0 in dictionary.shape:
        raise ShapeError(f"dictionary has shape {tuple(dictionary.shape)}; expected (K, N, N), none of them 0")
    if dictionary.dtype not in (torch.float32, torch.float64):
        raise DtypeError(f"dictionary has dtype {dictionary.dtype}; expected torch.float32 or torch.float64")
    check_finite("dictionary", dictionary)
    from pdssm.kernels.cpu import searching

    dictionary = dictionary.detach().resolve_neg()
    host = dictionary.cpu()
    rows, values, counts = _lists(host, searching.candidates(host))
    if dictionary.device.type == "cpu":
        return CompiledCandidates(counts, dictionary.shape[0], *searching.pack(rows, values, counts))
    return _gathered(dictionary, rows, values, counts)


def _lists(dictionary: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(rows (N, longest) ascending, values (N, longest, K), counts) of a mask [b, a]; a short list repeats its last."""
    counts = kept.sum(1)
    longest = int(counts.max())
    first = torch.sort(~kept, dim=1, stable=True).indices[:, :longest]
    rows = first.gather(1, torch.minimum(torch.arange(longest), counts[:, None] - 1))
    columns = torch.arange(rows.shape[0])[:, None]
    return rows, dictionary[:, rows, columns].permute(1, 2, 0).contiguous(), counts


def _gathered(dictionary: Tensor, rows: Tensor, values: Tensor, counts: Tensor) -> GatheredCandidates:
    """The lists on the dictionary's device."""
    terms = dictionary.shape[0]
    limits = torch.finfo(dictionary.dtype)
    real = torch.arange(rows.shape[1]) < counts[:, None]
    padding = torch.zeros(rows.shape, dtype=values.dtype).masked_fill(~real, -torch.inf)
    # Two logits, each rounded twice (here, in the full selection): 4 K units in the last place of the largest entry,
    # and a little for the sum of scores and the bound's own rounding.  An infinite lead leaves all to it.
    largest = values.abs().amax((1, 2)).double()
    lead = (4.1 * terms + 2) * limits.eps / 2 * largest + 8 * (terms + 1) * limits.tiny
    lead = torch.where(largest > limits.max / 4, torch.inf, lead)[:, None].to(values.dtype)
    flat = values.permute(2, 0, 1).reshape(terms, -1).contiguous()
    device = dictionary.device
    return GatheredCandidates(
        counts.to(device), terms, rows.to(device, torch.int32), flat.to(device), padding.to(device), lead.to(device),
        dictionary.clone(),
    )  # fmt: skip
