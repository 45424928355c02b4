"""Finite groups of permutations, their elements numbered: the word problems, and the groups of automata.

The one convention: ``g * s`` is first g, then s, so ``(g * s)(point) = s(g(point))``. The running product of a word is
``g_t = g_{t-1} * s_t``, which is how an automaton reads it, and how sympy multiplies permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdssm.errors import RangeError, ShapeError

if TYPE_CHECKING:
    from pdssm.automata.subgroups import Subgroup

IntArray = NDArray[np.int64]
TABLE_LIMIT = 2_000
"""Up to this order the whole multiplication table is kept."""
ENTRY_LIMIT = 4_000_000
"""The most entries, order x degree, that the elements may have."""


@final
@dataclass(frozen=True, eq=False)
class PermutationGroup:
    """A group whose elements are permutations of ``degree`` points; element 0 is the identity.

    ``generators`` are the indices of a small generating set; that they generate exactly these elements is checked.
    """

    name: str
    elements: IntArray
    """(order, degree), read-only: ``elements[g, point]`` is where g takes the point."""
    generators: tuple[int, ...]

    def __post_init__(self) -> None:
        elements = np.array(self.elements, dtype=np.int64)
        _check_permutations(self.name, elements)
        elements.flags.writeable = False
        object.__setattr__(self, "elements", elements)
        if not self.generates(self.generators):
            raise RangeError(f"generators of {self.name} are {self.generators}; they generate a smaller group")

    @classmethod
    def from_generators(cls, name: str, permutations: ArrayLike, limit: int = 50_000) -> Self:
        """All products of the given permutations, one a row: (count, degree)."""
        rows = np.atleast_2d(np.asarray(permutations, dtype=np.int64))
        _check_permutations(name, rows, group=False)
        elements = [np.arange(rows.shape[1])]
        found = {elements[0].tobytes(): 0}
        for element in elements:  # grows while we walk it
            for product in rows[:, element]:
                if found.setdefault(product.tobytes(), len(elements)) == len(elements):
                    elements.append(product)
            if len(elements) > limit:
                raise RangeError(f"the permutations of {name} generate more than {limit} elements; raise limit")
        return cls(name, np.stack(elements), tuple(dict.fromkeys(found[row.tobytes()] for row in rows)))

    @property
    def order(self) -> int:
        """How many elements."""
        return int(self.elements.shape[0])

    @property
    def degree(self) -> int:
        """How many points they permute."""
        return int(self.elements.shape[1])

    def __len__(self) -> int:
        return self.order

    def __repr__(self) -> str:
        return f"PermutationGroup({self.name}, order {self.order}, degree {self.degree})"

    def index(self, permutation: Sequence[int] | IntArray) -> int:
        """The number of an element given as a permutation."""
        row = np.asarray(permutation)
        if row.shape == (self.degree,):
            found = int(self._lookup.find(row[self._lookup.base])) if self._in_range(row) else -1
            if found >= 0 and np.array_equal(self.elements[found], row):
                return found
        raise RangeError(f"permutation {list(permutation)} is not in {self.name}, on {self.degree} points")

    def multiply(self, i: ArrayLike, j: ArrayLike) -> IntArray:
        """The indices of ``i * j``, first i, then j; arrays broadcast."""
        first, then = self._indices("i", i), self._indices("j", j)
        if self.order <= TABLE_LIMIT:
            return self._table[first, then]
        return self._multiply(first, then)

    def inverse(self, i: ArrayLike) -> IntArray:
        """The indices of the inverses."""
        rows = np.argsort(self.elements[self._indices("i", i)], axis=-1)
        return self._lookup.find(rows[..., self._lookup.base])

    def cayley(self, generators: ArrayLike | None = None) -> IntArray:
        """``(order, n)``: the index of ``g * s`` for each element g and generator s."""
        chosen = np.atleast_1d(np.asarray(self.generators if generators is None else generators, dtype=np.int64))
        return self.multiply(np.arange(self.order)[:, None], chosen[None, :])

    def generates(self, generators: ArrayLike) -> bool:
        """Whether every element is a product of these: a walk through the Cayley graph."""
        from pdssm.automata.subgroups import closure

        return len(closure(self, np.atleast_1d(np.asarray(generators, dtype=np.int64)))) == self.order

    def generating_set(self, n: int, seed: int) -> IntArray:
        """n distinct elements, none the identity: the known generators, then random ones."""
        least, most = len(self.generators), self.order - 1
        if not least <= n <= most:
            raise RangeError(f"n is {n}; expected {least} to {most}, generators of {self.name} without the identity")
        others = np.setdiff1d(np.arange(1, self.order), self.generators)
        drawn = np.random.default_rng(seed).choice(others, n - least, replace=False)
        return np.concatenate([np.array(self.generators, dtype=np.int64), drawn])

    @cached_property
    def is_abelian(self) -> bool:
        """Whether the order of the factors does not matter."""
        own = np.array(self.generators)
        return bool(np.array_equal(self.multiply(own[:, None], own), self.multiply(own, own[:, None])))

    @cached_property
    def is_solvable(self) -> bool:
        """Whether the derived series ends in the trivial group."""
        return self.derived_series()[-1].order == 1

    def derived_series(self) -> tuple[Subgroup, ...]:
        """G, G', G'', ... until it stands still."""
        from pdssm.automata.subgroups import derived_series

        return derived_series(self)

    def normal_series(self) -> tuple[Subgroup, ...]:
        """From G down to {e}, each normal in the one before: the derived series, and {e} where that stops early."""
        from pdssm.automata.subgroups import normal_series

        return normal_series(self)

    def _indices(self, name: str, value: ArrayLike) -> IntArray:
        indices = np.asarray(value, dtype=np.int64)
        if indices.size and not (indices.min() >= 0 and indices.max() < self.order):
            raise RangeError(f"{name} has {indices.min()}..{indices.max()}; expected elements 0..{self.order - 1}")
        return indices

    def _in_range(self, row: IntArray) -> bool:
        return bool(np.issubdtype(row.dtype, np.integer)) and row.min() >= 0 and int(row.max()) < self.degree

    def _multiply(self, first: IntArray, then: IntArray) -> IntArray:
        images = self.elements[first][..., self._lookup.base]
        return self._lookup.find(self.elements[then[..., None], images])

    @cached_property
    def _lookup(self) -> _Lookup:
        return _Lookup.of(self.elements)

    @cached_property
    def _table(self) -> IntArray:
        everything = np.arange(self.order)
        step = max(1, ENTRY_LIMIT // (self.order * len(self._lookup.base)))
        rows = [everything[start : start + step, None] for start in range(0, self.order, step)]
        return np.concatenate([self._multiply(some, everything) for some in rows])


@dataclass(frozen=True)
class _Lookup:
    """From a permutation to its number, by a hash of where it takes a few points that tell all elements apart."""

    base: IntArray
    weights: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    order: IntArray

    @classmethod
    def of(cls, elements: IntArray) -> _Lookup:
        base: list[int] = []
        classes = np.zeros(len(elements), dtype=np.int64)
        for point in range(elements.shape[1]):
            finer = np.unique(classes * elements.shape[1] + elements[:, point], return_inverse=True)[1]
            if finer.max() > classes.max():
                classes, base = finer, [*base, point]
        base = base or [0]
        for seed in range(100):  # a collision among at most ENTRY_LIMIT keys of 64 bits is a matter of bad luck
            shape = (len(base), elements.shape[1])
            weights = np.random.default_rng(seed).integers(2**64, size=shape, dtype=np.uint64)
            lookup = cls(np.array(base), weights, np.zeros(0, np.uint64), np.zeros(0, np.int64))
            keys = lookup.hash(elements[:, lookup.base])
            order = np.argsort(keys)
            if (np.diff(keys[order].astype(np.uint64)) != 0).all():
                return cls(lookup.base, weights, keys[order], order)
        raise AssertionError("the elements are distinct on the base")

    def hash(self, images: IntArray) -> NDArray[np.uint64]:
        keys: NDArray[np.uint64] = self.weights[np.arange(len(self.base)), images].sum(-1, dtype=np.uint64)
        return keys

    def find(self, images: IntArray) -> IntArray:
        keys = self.hash(images)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.order[places], -1)


def _check_permutations(name: str, rows: IntArray, group: bool = True) -> None:
    if rows.ndim != 2 or not rows.size:
        raise ShapeError(f"elements of {name} have shape {rows.shape}; expected (order, degree), neither of them 0")
    if rows.size > ENTRY_LIMIT:
        raise RangeError(f"{name} has {rows.shape[0]} x {rows.shape[1]} entries; expected at most {ENTRY_LIMIT}")
    wrong = (np.sort(rows, axis=1) != np.arange(rows.shape[1])).any(1)
    if wrong.any():
        raise RangeError(f"{name} has {rows[wrong][0].tolist()}; expected a permutation of 0..{rows.shape[1] - 1}")
    if group and not np.array_equal(rows[0], np.arange(rows.shape[1])):
        raise RangeError(f"element 0 of {name} is {rows[0].tolist()}; expected the identity")
    if group and len(np.unique(rows, axis=0)) < len(rows):
        raise RangeError(f"elements of {name} repeat; expected each one once")
