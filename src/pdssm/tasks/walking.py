"""Packed words through an automaton: every word at once, one step of time after the other."""

from __future__ import annotations

import numpy as np

from pdssm.tasks.batch import IntArray, offsets


class TimeMajor:
    """Packed words in the order of time: all first symbols, then all second ones, the longest word first.

    So the words still running at step t are the first ``running[t]`` ones, and their symbols lie side by side.
    """

    def __init__(self, lengths: IntArray) -> None:
        self.order: IntArray = np.argsort(-lengths, kind="stable")
        ordered = lengths[self.order]
        steps = np.arange(ordered[0])[:, None]
        runs = steps < ordered
        self.running: list[int] = runs.sum(axis=1).tolist()
        self.runs = runs
        self.places: IntArray = (offsets(lengths)[self.order] + steps)[runs]

    def left(self, lengths: IntArray) -> IntArray:
        """The symbols of the word from each place on, its own included."""
        steps = np.arange(len(self.runs))[:, None]
        left: IntArray = (lengths[self.order] - steps)[self.runs]
        return left


def walk(transitions: IntArray, initial: int, tokens: IntArray, lengths: IntArray) -> IntArray:
    """The state after every symbol, packed like ``tokens``; ``transitions`` is (states, symbols)."""
    symbols = transitions.shape[1]
    layout = TimeMajor(lengths)
    # A state is held as the offset of its row, so that a step is one addition and one look-up.
    rows = (transitions * symbols).reshape(-1)
    symbol = tokens[layout.places]
    visited = np.empty_like(symbol)
    state = np.full(len(lengths), initial * symbols, dtype=np.int64)
    start = 0
    for running in layout.running:
        stop = start + running
        state = np.take(rows, state[:running] + symbol[start:stop], out=visited[start:stop], mode="clip")
        start = stop
    states = np.empty_like(tokens)
    states[layout.places] = visited // symbols
    return states
