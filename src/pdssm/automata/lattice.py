"""Integer lattices of full rank: what is left of Z^k when some integer combinations count as zero."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from pdssm.automata.permutation_group import IntArray


@final
class Lattice:
    """A subgroup L of Z^k with Z^k / L finite, kept as an upper triangular basis; it starts as the multiples of orders.

    A character of Z^k / L gives each of the k generators a fraction of a turn, so that every vector of L makes whole
    turns.
    """

    def __init__(self, orders: IntArray) -> None:
        self.basis = np.diag(orders)

    def reduce(self, rows: IntArray) -> IntArray:
        """The representatives of rows modulo L: zero exactly for the vectors of L."""
        rows = np.array(rows)
        for column, base in enumerate(self.basis):
            rows -= (rows[:, column] // base[column])[:, None] * base
        return rows

    def insert(self, rows: IntArray) -> None:
        """Make these vectors count as zero too."""
        while len(rows := self.reduce(rows)) and rows.any():
            rows = rows[rows.any(1)]
            self._insert_one(rows[0])

    def characters(self) -> tuple[IntArray, int]:
        """Generators of all characters: (k, count) numerators, a column each, over the denominator."""
        size = len(self.basis)
        denominator = math.prod(int(pivot) for pivot in np.diag(self.basis))
        if denominator == 1:
            return np.zeros((size, 0), dtype=np.int64), 1
        basis, inverse = self.basis.astype(object), np.zeros((size, size), dtype=object)
        for row in reversed(range(size)):  # denominator x the inverse of a triangular matrix: whole numbers
            target = np.zeros(size, dtype=object)
            target[row] = denominator
            inverse[row] = (target - basis[row, row + 1 :] @ inverse[row + 1 :]) // basis[row, row]
        columns = np.unique((inverse % denominator).astype(np.int64), axis=1)
        return columns[:, columns.any(0)], denominator

    def _insert_one(self, vector: IntArray) -> None:
        for column in range(len(vector)):
            if not vector[column]:
                continue
            base = self.basis[column].copy()
            common, x, y = _bezout(int(base[column]), int(vector[column]))
            self.basis[column] = x * base + y * vector
            vector = self.reduce(((base[column] // common) * vector - (vector[column] // common) * base)[None])[0]
        for column in range(1, len(self.basis)):
            above = self.basis[:column]
            above -= (above[:, column] // self.basis[column, column])[:, None] * self.basis[column]


def _bezout(a: int, b: int) -> tuple[int, int, int]:
    """(g, x, y) with g = gcd(a, b) = x a + y b, for positive a and b."""
    x, y, next_x, next_y = 1, 0, 0, 1
    while b:
        quotient, (a, b) = a // b, (b, a % b)
        x, y, next_x, next_y = next_x, next_y, x - quotient * next_x, y - quotient * next_y
    return a, x, y
