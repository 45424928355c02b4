"""Groups by name: "A5", "S4", "Z7", "D4" (of order 8), and their products, "Z2xZ4"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from pdssm.automata.permutation_group import ENTRY_LIMIT, IntArray, PermutationGroup
from pdssm.errors import RangeError

__all__ = ["PermutationGroup", "group"]


class _Part(NamedTuple):
    elements: IntArray
    generators: list[list[int]]


class _Family(NamedTuple):
    least: int
    order: Callable[[int], int]
    build: Callable[[int], _Part]


def _cycle(degree: int, *points: int) -> list[int]:
    """points[0] -> points[1] -> ... -> points[0]; the other points stay."""
    images = list(range(degree))
    for point, after in zip(points, (*points[1:], points[0]), strict=True):
        images[point] = after
    return images


def _symmetric(n: int) -> _Part:
    elements = np.array(list(permutations(range(n))), dtype=np.int64)
    generators = [_cycle(n, *range(n)), _cycle(n, 0, 1)]
    return _Part(elements, generators if n > 2 else generators[:1])


def _alternating(n: int) -> _Part:
    elements = _symmetric(n).elements
    inversions = sum((elements[:, i] > elements[:, j]).astype(int) for j in range(n) for i in range(j))
    rotation = _cycle(n, *range(n)) if n % 2 else _cycle(n, *range(1, n))  # an odd length is an even permutation
    swaps = list(range(n))
    swaps[:4] = [1, 0, 3, 2]
    other = swaps if n == 5 else _cycle(n, 0, 1, 2)
    return _Part(elements[np.asarray(inversions) % 2 == 0], [rotation, other] if n > 3 else [rotation])


def _cyclic(n: int) -> _Part:
    return _Part((np.arange(n)[:, None] + np.arange(n)) % n, [_cycle(n, *range(n))])


def _dihedral(n: int) -> _Part:
    rotations = _cyclic(n).elements
    flipped = rotations[:, ::-1]
    return _Part(np.concatenate([rotations, flipped]), [_cycle(n, *range(n)), list(range(n))[::-1]])


_FAMILIES = {
    "A": _Family(3, lambda n: math.factorial(n) // 2, _alternating),
    "S": _Family(2, math.factorial, _symmetric),
    "Z": _Family(2, lambda n: n, _cyclic),
    "D": _Family(3, lambda n: 2 * n, _dihedral),
}
_EXPECTED = 'A3.., S2.., Z2.., D3.. (order 2n), or a product of them such as "Z2xZ4"'


@lru_cache(maxsize=32)
def group(name: str) -> PermutationGroup:
    """The group of that name; the generators it knows are a 5-cycle and (0 1)(2 3) for A5."""
    parts = [re.fullmatch(r"([A-Z])(\d{1,4})", part.strip()) for part in name.split("x")]
    chosen = []
    for part in parts:
        family = _FAMILIES.get(part[1]) if part else None
        if part is None or family is None or int(part[2]) < family.least:
            raise RangeError(f"name is {name!r}; expected {_EXPECTED}")
        chosen.append((family, int(part[2])))
    order, degree = math.prod(family.order(n) for family, n in chosen), sum(n for _, n in chosen)
    if order * degree > ENTRY_LIMIT:
        raise RangeError(f"name is {name!r}, which is too large; expected order x degree up to {ENTRY_LIMIT:,}")
    whole = _Part(np.zeros((1, 0), dtype=np.int64), [])
    for family, n in chosen:
        whole = _product(whole, family.build(n))
    place = {row.tobytes(): index for index, row in enumerate(whole.elements)}
    generators = tuple(place[np.array(row, dtype=np.int64).tobytes()] for row in whole.generators)
    return PermutationGroup(name, whole.elements, generators)


def _product(left: _Part, right: _Part) -> _Part:
    """The right one's points lie behind the left one's; elements in the order of pairs."""
    n, m = left.elements.shape[1], right.elements.shape[1]
    elements = np.concatenate(
        [
            np.repeat(left.elements, len(right.elements), axis=0),
            np.tile(right.elements + n, (len(left.elements), 1)),
        ],
        axis=1,
    )
    behind = list(range(n, n + m))
    ahead = list(range(n))
    generators = [row + behind for row in left.generators]
    return _Part(elements, generators + [ahead + [n + point for point in row] for row in right.generators])
