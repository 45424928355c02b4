"""Which automata one layer of Householder products emulates: A = H_m ... H_1 with H = I - beta k k^T, 0 <= beta <= 2.

Such products are exactly the matrices of spectral norm at most 1 (no bound on m): O S with an orthogonal O, a product
of rank(I - O) reflections, and a symmetric S with eigenvalues s in [0, 1], a product of factors with beta = 1 - s. So
the question is whether the states have different codes that every letter moves by a contraction and an offset.

No, in any dimension, if two idempotents e, f of the automaton's monoid have ef != fe and yet ef(q) = fe(q) for a state
q. For on the differences of codes e and f are contractions, so orthogonal projections, and those that generate a finite
monoid commute; then the codes of ef(p) and fe(p) differ by the same vector for all p, which is 0 at q.

Yes where every letter permutes the states or is constant (codes: the unit vectors), or does so up to a sink (whose code
is 0), or where a complex diagonal layer is enough. In between no sharp criterion is known to us.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from pdssm.automata.permutation_group import IntArray

FloatArray = NDArray[np.float64]
_SMALL = 1e-9
WITNESS_LIMIT = 128
"""Up to this many states the layer itself is made."""


@final
@dataclass(frozen=True)
class HouseholderWitness:
    """x -> H_m ... H_1 x + offset[s] takes the code of each state to that of the next."""

    codes: FloatArray
    """(states, dimension)."""
    vectors: tuple[FloatArray, ...]
    """For each symbol (m, dimension): unit vectors, the first to be applied first."""
    betas: tuple[FloatArray, ...]
    """For each symbol (m,): in [0, 2]."""
    offset: FloatArray
    """(symbols, dimension)."""

    @property
    def factors(self) -> int:
        """The most factors that a symbol needs."""
        return max(len(beta) for beta in self.betas)


def simple_codes(transitions: IntArray) -> FloatArray | None:
    """The unit vectors, or those and 0 for a sink, where every letter then is a contraction; else None."""
    states = len(transitions)
    letters = [column for column in transitions.T if len(np.unique(column)) > 1]
    if all(len(np.unique(column)) == states for column in letters):
        return np.eye(states)
    for sink in range(states):
        counts = [np.bincount(column[column != sink], minlength=states).max() for column in letters]
        if max(counts) <= 1 and all(column[sink] == sink for column in letters):
            codes = np.eye(states)
            codes[sink] = 0
            return codes
    return None


def householder_witness(codes: FloatArray, transitions: IntArray) -> HouseholderWitness:
    """Each letter's map of the codes as an affine contraction, and that in factors.

    Codes of more coordinates than there are states first move into the space that they span.
    """
    if codes.shape[1] > len(codes):
        spread = codes - codes[0]
        rank = int(np.linalg.matrix_rank(spread, tol=_SMALL))
        codes = spread @ np.linalg.svd(spread)[2][:rank].T
    vectors, betas, offsets = [], [], []
    for column in transitions.T:
        matrix, offset = _affine(codes, codes[column])
        directions, strengths = factors(matrix)
        vectors.append(directions)
        betas.append(strengths)
        offsets.append(offset)
    return HouseholderWitness(codes, tuple(vectors), tuple(betas), np.array(offsets))


def factors(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A contraction as (vectors, betas), the factors in the order in which they are applied."""
    left, values, right = np.linalg.svd(matrix)
    rotation: FloatArray = left @ right if values.max(initial=0) > _SMALL else np.eye(len(matrix))
    shrunk = values < 1 - _SMALL
    reflections = []
    for _ in matrix:
        moved = rotation - np.eye(len(matrix))
        column = int(np.linalg.norm(moved, axis=0).argmax())
        direction = moved[:, column]  # reflects it back to where it was; what is fixed already stays so
        if np.abs(direction).max() < _SMALL:
            break
        direction = direction / np.linalg.norm(direction)
        rotation = rotation - 2 * np.outer(direction, direction @ rotation)
        reflections.append(direction)
    vectors = np.array([*right[shrunk], *reflections[::-1]], dtype=np.float64).reshape(-1, len(matrix))
    betas = np.array([*(1 - values[shrunk]), *([2.0] * len(reflections))], dtype=np.float64)
    return vectors, betas


def obstruction(idempotents: IntArray) -> tuple[IntArray, IntArray] | None:
    """Two idempotents with ef != fe that agree at some state, or None."""
    for number, e in enumerate(idempotents):
        others = idempotents[:number]
        same = others[:, e] == e[others]  # e then f, and f then e
        found = np.flatnonzero(same.any(1) & ~same.all(1))
        if found.size:
            return e, others[found[0]]
    return None


def _affine(before: FloatArray, after: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A contraction with after = matrix @ before + offset, where there is one; without an offset if that can be."""
    if np.abs(after - after[0]).max() < _SMALL:
        return np.zeros((before.shape[1], before.shape[1])), after[0]
    linear: FloatArray = np.linalg.lstsq(before, after, rcond=None)[0].T.astype(np.float64)
    if np.allclose(before @ linear.T, after, atol=_SMALL) and np.linalg.norm(linear, 2) < 1 + _SMALL:
        return linear, np.zeros(before.shape[1])
    centre, image = before.mean(0), after.mean(0)
    matrix: FloatArray = np.linalg.lstsq(before - centre, after - image, rcond=None)[0].T.astype(np.float64)
    return matrix, image - matrix @ centre
