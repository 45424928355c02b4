"""The four regular languages of the published tables, with their vocabularies.

In all four, input and output share one vocabulary whose entry 0 was the published code's padding (nothing is padded
here, the entry stays so that models have the published sizes), words are uniform, and the one label is at the last
symbol.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pdssm.tasks.base import Task
from pdssm.tasks.batch import IntArray, offsets

PAD = "<pad>"


class FormalLanguage(Task):
    """One vocabulary for symbols and answers, the label at the end."""

    vocabulary: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.tokens = self.labels = self.vocabulary


class Parity(FormalLanguage):
    """Is the number of b's even? Symbols a = 1 and b = 2; the answer is 1 (a) for even, 2 (b) for odd."""

    name = "parity"
    summary = "is the number of b's even?"
    vocabulary = (PAD, "a", "b")
    answers = (1, 2)

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        tokens = rng.integers(1, 3, size=int(lengths.sum()), dtype=np.int64)
        ones = np.add.reduceat(tokens - 1, offsets(lengths)[:-1])
        return tokens, 1 + (ones & 1)


class EvenPairs(FormalLanguage):
    """Is the number of ab's and ba's even? It is exactly when the first and the last symbol are equal.

    Symbols a = 1 and b = 2; the answer is 1 (a) for equal, 2 (b) for different.
    """

    name = "even_pairs"
    summary = "are there as many ab as ba (the first symbol equals the last)?"
    vocabulary = (PAD, "a", "b")
    answers = (1, 2)

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        tokens = rng.integers(1, 3, size=int(lengths.sum()), dtype=np.int64)
        cu_seqlens = offsets(lengths)
        return tokens, 1 + (tokens[cu_seqlens[:-1]] ^ tokens[cu_seqlens[1:] - 1] != 0)


class CycleNavigation(FormalLanguage):
    """Where is a walker on a cycle of five places? Symbols stay = 1, +1 = 2, -1 = 3; place p is answered with 4 + p."""

    name = "cycle_navigation"
    summary = "where on a cycle of 5 places do steps of 0, +1, -1 end?"
    vocabulary = (PAD, "stay", "+1", "-1", "0", "1", "2", "3", "4")
    answers = (4, 5, 6, 7, 8)

    _MOVES: ClassVar[IntArray] = np.array([0, 0, 1, -1], dtype=np.int64)

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        tokens = rng.integers(1, 4, size=int(lengths.sum()), dtype=np.int64)
        place = np.add.reduceat(self._MOVES[tokens], offsets(lengths)[:-1])
        return tokens, 4 + place % 5


class ModularArithmetic(FormalLanguage):
    """The value, modulo 5, of digits joined by + - * (no brackets, * binds tighter), closed by ``=``.

    Symbols + = 1, - = 2, * = 3, ``=`` is 4, digit d is 5 + d; the answer is 5 + value. Digits stand at even places and
    operators at odd ones, each uniform, so a word has an even length: a drawn odd length is rounded up (3..40 gives
    4..40, 41 would give 42). The label is at the ``=``.
    """

    name = "modular_arithmetic"
    summary = "the value modulo 5 of an expression of + - * without brackets"
    vocabulary = (PAD, "+", "-", "*", "=", "0", "1", "2", "3", "4")
    answers = (5, 6, 7, 8, 9)

    _MINUS, _TIMES, _EQUALS, _ZERO = 2, 3, 4, 5
    # Products are sums of logarithms to base 2 modulo 5. A factor 0 counts as 2**32, which no sum of others reaches.
    _LOG: ClassVar[IntArray] = np.array([2**32, 0, 1, 3, 2], dtype=np.int64)
    _POWER: ClassVar[IntArray] = np.array([1, 2, 4, 3], dtype=np.int64)

    def rounded(self, lengths: IntArray) -> IntArray:
        return lengths + (lengths & 1)

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        terms = lengths >> 1
        cu_terms = offsets(terms)
        digits = rng.integers(0, 5, size=int(cu_terms[-1]), dtype=np.int64)
        operators = rng.integers(1, 4, size=len(digits), dtype=np.int64)
        operators[cu_terms[1:] - 1] = self._EQUALS
        tokens = np.stack([digits + self._ZERO, operators], axis=1).reshape(-1)
        return tokens, self._ZERO + self._values(digits, operators, cu_terms[:-1])

    def _values(self, digits: IntArray, operators: IntArray, starts: IntArray) -> IntArray:
        """``operators[i]`` follows ``digits[i]``; the words begin at ``starts``."""
        before = np.concatenate([[self._EQUALS], operators[:-1]])  # the operator that leads to each digit
        opens = np.flatnonzero(before != self._TIMES)  # the first factor of every product
        logs = np.add.reduceat(self._LOG[digits], opens)
        products = np.where(logs < 2**32, self._POWER[logs & 3], 0)
        signed = np.where(before[opens] == self._MINUS, -products, products)
        totals: IntArray = np.add.reduceat(signed, np.searchsorted(opens, starts)) % 5
        return totals
