"""The families as the time loops see them.

A family is a named tuple of parameter arrays and two functions of one step: ``advance`` adds A x to y, ``retreat``
computes A^H g and the parameters' gradients (channel v adds to those of the channels before it).  The loops find them
by the tuple's type when they are compiled.  Axes as in ``recurrence.py``.

Rows are taken out of the arrays before a loop runs over their entries: an index with four axes, or one that Numba
takes for a negative one, would keep LLVM from making vectors of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pdssm.kernels.cpu.families import blocks, hadamard, householder, low_rank, one_hot

SOURCES = tuple(Path(__file__).parent.glob("*.py"))


class Family(NamedTuple):
    arrays: Any
    """The type of the named tuple."""
    advance: Any
    """(p, r, h, x, y, scratch)."""
    retreat: Any
    """(p, grads, r, t, h, v, x, g, carry, scratch)."""


FAMILIES: dict[str, Family] = {
    "pd": Family(one_hot.PDArrays, one_hot.pd_advance, one_hot.pd_retreat),
    "row_pd": Family(one_hot.RowPDArrays, one_hot.row_pd_advance, one_hot.row_pd_retreat),
    "diagonal": Family(blocks.DiagonalArrays, blocks.diagonal_advance, blocks.diagonal_retreat),
    "block": Family(blocks.BlockArrays, blocks.block_advance, blocks.block_retreat),
    "householder": Family(
        householder.HouseholderArrays, householder.householder_advance, householder.householder_retreat
    ),
    "low_rank": Family(low_rank.LowRankArrays, low_rank.low_rank_advance, low_rank.low_rank_retreat),
    "hadamard": Family(hadamard.HadamardArrays, hadamard.hadamard_advance, hadamard.hadamard_retreat),
    "diagonal_dense": Family(blocks.DiagonalDenseArrays, blocks.diagonal_dense_advance, blocks.diagonal_dense_retreat),
}
"""By the kind that ``Transition.kernel_form`` names."""

BY_ARRAYS: dict[type, Family] = {family.arrays: family for family in FAMILIES.values()}
