"""Is the machine this automaton? Words on which they differ, and what it says where none is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, final

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.learning import Table
from pdssm.automata.oracle import CHUNK, Oracle
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.statistics import upper_bound

MOST_WORDS = 10_000_000


@final
@dataclass(frozen=True)
class Evidence:
    """Why an extracted automaton is believed to be the machine; ``str`` says it in words."""

    kind: Literal["states", "w-method", "random"]
    confidence: float
    """1.0 for the first two kinds, under the condition that the second states."""
    words: int = 0
    """Tested."""
    length: int = 0
    """Of each of them; all their prefixes are tested too."""
    disagreements: int = 0
    """Words with a label that differs, somewhere on the way."""
    error: float = 0.0
    """With that confidence, a random word of this length has a disagreement with no larger probability."""
    extra_states: int = 0
    hidden_states: int = 0

    def __str__(self) -> str:
        if self.kind == "states":
            return "all hidden states were visited: the automaton is the machine, for words of every length"
        if self.kind == "w-method":
            return (
                f"W-method, {self.words:,} words: the automaton is the machine if that has at most {self.extra_states} "
                "states more"
            )
        return (
            f"{self.disagreements:,} of {self.words:,} random words of length {self.length} differ: with confidence "
            f"{self.confidence:.2%} no more than {self.error:.3g} of all do"
        )


def differences(oracle: Oracle, machine: DFA, words: IntArray) -> IntArray:
    """(words,): how many symbols until the labels differ, 0 where they never do."""
    numbers = np.array(machine.outputs, dtype=np.int64)
    wrong = oracle.trace(words) != numbers[machine.run_many(words)]
    return np.where(wrong.any(1), wrong.argmax(1) + 1, 0)


def random_test(
    oracle: Oracle, machine: DFA, count: int, length: int, confidence: float, rng: np.random.Generator
) -> tuple[Evidence, IntArray | None]:
    """``count`` uniform words; also the shortest prefix of one on which the two differ, if any."""
    disagreements, shortest = 0, None
    rows = max(1, 16 * CHUNK // length)
    for start in range(0, count, rows):
        words = rng.integers(len(oracle.alphabet), size=(min(rows, count - start), length))
        first = differences(oracle, machine, words)
        disagreements += int((first > 0).sum())
        if first.any():
            row = int(np.where(first > 0, first, length + 1).argmin())
            if shortest is None or first[row] < len(shortest):
                shortest = words[row, : first[row]]
    error = upper_bound(disagreements, count, confidence)
    return Evidence("random", confidence, count, length, disagreements, error), shortest


def walk_test(oracle: Oracle, table: Table, walks: int, length: int, rng: np.random.Generator) -> IntArray | None:
    """Random walks from every node of the table, so that states a random word hardly ever reaches are tested too."""
    nodes = np.repeat(np.arange(len(table)), walks)
    words = rng.integers(len(oracle.alphabet), size=(len(nodes), length))
    return _first_difference(oracle, table, nodes, words)


def w_method(oracle: Oracle, table: Table, extra: int) -> tuple[Evidence, IntArray | None]:
    """Chow's W-method: every node, every word of up to ``extra + 1`` symbols, every suffix of the table.

    The table has compared up to one symbol.
    """
    symbols, tested = len(oracle.alphabet), 0
    count = len(table) * sum(symbols**size for size in range(2, extra + 2)) * len(table.suffixes)
    if count > MOST_WORDS:
        raise AutomatonError(
            f"the W-method with {extra} extra states would ask {count:,} words; expected at most {MOST_WORDS:,}: fewer "
            "extra states, or random tests"
        )
    for middle in _middles(symbols, extra):
        for suffix in table.suffixes:
            word = np.concatenate([middle, suffix])
            tested += len(table)
            words = np.broadcast_to(word, (len(table), len(word)))
            found = _first_difference(oracle, table, np.arange(len(table)), words)
            if found is not None:
                return Evidence("w-method", 0.0, tested), found
    return Evidence("w-method", 1.0, tested, extra_states=extra), None


def _middles(symbols: int, extra: int) -> Iterator[IntArray]:
    for size in range(2, extra + 2):
        for word in product(range(symbols), repeat=size):
            yield np.array(word, dtype=np.int64)


def _first_difference(oracle: Oracle, table: Table, nodes: IntArray, words: IntArray) -> IntArray | None:
    """The shortest word, access word and all, after which table and machine differ."""
    labels, _ = oracle.follow(oracle.take(table.places, nodes), words)
    transitions, expected, at = table.transitions(), np.empty_like(labels), nodes
    for step, symbol in enumerate(words.T):
        expected[:, step] = table.labels[at, symbol]
        at = transitions[at, symbol]
    wrong = labels != expected
    if not wrong.any():
        return None
    lengths = np.where(wrong.any(1), wrong.argmax(1) + 1 + np.array([len(table.access[n]) for n in nodes]), 1 << 40)
    row = int(lengths.argmin())
    return np.concatenate([np.array(table.access[nodes[row]], dtype=np.int64), words[row, : wrong[row].argmax() + 1]])
