"""Words of an automaton in which the labels come equally often, however rare one of them is among all words.

Let W(r, s, c) be the number of words of length r that lead from state s to a state of class c: W(0, s, c) = 1 if s is
of class c, W(r, s, c) = sum over symbols a of W(r - 1, s a, c). A word of length r ending in class c, uniform among all
such words, is drawn from the left: in state s the next symbol is a with probability W(r - 1, s a, c) / W(r, s, c).
W grows like symbols**r, so it is kept as its logarithm, and relative to the largest of a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdssm.errors import RangeError
from pdssm.tasks.batch import IntArray
from pdssm.tasks.walking import TimeMajor

FloatArray = NDArray[np.float64]
TABLE_BYTES = 2**30


class BalancedWords:
    """Draws words: first a class, uniform among those the length allows, then a word uniform among those of the class.

    The tables reach up to the longest word asked for and are kept. Symbols come from them by Walker's aliases: of n
    equally likely columns one is drawn, then its own symbol with probability ``share``, otherwise its ``alias``.
    """

    def __init__(self, transitions: IntArray, initial: int, classes: IntArray) -> None:
        self.transitions, self.initial = transitions, initial
        self.states, self.symbols = transitions.shape
        self.classes = int(classes.max()) + 1
        with np.errstate(divide="ignore"):
            self.logs: FloatArray = np.log(np.eye(self.classes)[classes])[None]
        # A row of the tables is a (state, class), here as the offset of its first symbol; a class stays on the way.
        row = np.arange(self.states * self.classes).reshape(self.states, self.classes) * self.symbols
        self.rows: IntArray = row
        self.next_row: IntArray = np.swapaxes(row[transitions], 1, 2).reshape(-1)
        self.share: FloatArray = np.empty(0)
        self.alias: IntArray = np.empty(0, dtype=np.int64)

    def possible(self, lengths: IntArray) -> NDArray[np.bool_]:
        """(lengths, classes): which classes have a word of each length."""
        self._extend(int(lengths.max()))
        return np.asarray(self.logs[lengths, self.initial] > -np.inf)

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Packed words of these lengths, and the state after every symbol."""
        layout = TimeMajor(lengths)
        wanted = self._classes(self.possible(lengths[layout.order]), rng)
        uniform = rng.random(len(layout.places)) * self.symbols
        column = uniform.astype(np.int64)
        uniform -= column
        # The table of a step is the one for the symbols still to come, this one included.
        place = column + (layout.left(lengths) - 1) * self.next_row.size
        taken = np.empty_like(column)  # row + symbol: the transitions gone through
        row = self.rows[self.initial, wanted]
        start = 0
        for running in layout.running:
            step = slice(start, start + running)
            row = row[:running]
            at = row + place[step]
            symbol = np.where(uniform[step] < self.share.take(at), column[step], self.alias.take(at))
            row = self.next_row.take(np.add(row, symbol, out=taken[step]))
            start += running
        tokens, states = np.empty_like(taken), np.empty_like(taken)
        tokens[layout.places] = taken - taken // self.symbols * self.symbols  # % takes ten times as long
        states[layout.places] = self.next_row[taken] // (self.symbols * self.classes)
        return tokens, states

    def _classes(self, possible: NDArray[np.bool_], rng: np.random.Generator) -> IntArray:
        """For every word a class, uniform among its possible ones."""
        rank = np.cumsum(possible, axis=1)
        chosen = 1 + np.floor(rng.random(len(possible)) * rank[:, -1])
        classes: IntArray = np.argmax(rank >= chosen[:, None], axis=1)
        return classes

    def _extend(self, longest: int) -> None:
        known = len(self.logs) - 1
        if longest <= known:
            return
        self._check_size(longest)
        logs = np.concatenate([self.logs, np.empty((longest - known, self.states, self.classes))])
        weights = np.empty((longest - known, self.states, self.symbols, self.classes))
        for left in range(known + 1, longest + 1):
            after = logs[left - 1][self.transitions]
            peak = after.max(axis=1)
            # No word at all: every weight is 1, which keeps the numbers finite; no walk comes here.
            weight = np.exp(after - np.where(np.isfinite(peak), peak, 0)[:, None])
            logs[left] = peak + np.log(np.maximum(weight.sum(axis=1), 1))
            weights[left - known - 1] = np.where(np.isfinite(peak)[:, None], weight, 1)
        share, alias = alias_tables(np.swapaxes(weights, 2, 3).reshape(-1, self.symbols))
        self.share = np.concatenate([self.share, share.reshape(-1)])
        self.alias = np.concatenate([self.alias, alias.reshape(-1)])
        self.logs = logs

    def _check_size(self, longest: int) -> None:
        size = 16 * longest * self.next_row.size
        if size > TABLE_BYTES:
            raise RangeError(
                f"balanced words of {longest} symbols need {size / 2**30:.1f} GiB of tables for {self.states} states, "
                f"{self.classes} labels and {self.symbols} symbols; expected at most {TABLE_BYTES / 2**30:.0f} GiB: "
                "use shorter words, or uniform ones (balanced=False)"
            )


def alias_tables(weights: FloatArray) -> tuple[FloatArray, IntArray]:
    """Walker's tables for every row of ``weights`` (rows, n): the share of each column's own symbol, and its alias.

    n - 1 times, in all rows at once, the column furthest below the mean is closed: what it lacks comes from the column
    furthest above, which is its alias.
    """
    rows, n = np.arange(len(weights)), weights.shape[1]
    height = weights * (n / weights.sum(axis=1, keepdims=True))
    closed = np.zeros(weights.shape, dtype=bool)
    share, alias = np.ones_like(height), np.tile(np.arange(n), (len(weights), 1))
    for _ in range(n - 1):
        low = np.where(closed, np.inf, height).argmin(axis=1)
        high = np.where(closed, -np.inf, height).argmax(axis=1)
        share[rows, low], alias[rows, low] = height[rows, low], high
        height[rows, high] -= 1 - height[rows, low]
        closed[rows, low] = True
    return share, alias
