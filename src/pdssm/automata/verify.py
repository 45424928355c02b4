"""Is it the right automaton? A proof or the shortest counterexample; and how far the model itself agrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.equivalence import counterexample
from pdssm.automata.errors import AutomatonError
from pdssm.automata.extract import make_oracle
from pdssm.automata.oracle import CHUNK, Oracle
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.statistics import check_confidence, clopper_pearson
from pdssm.automata.testing import MOST_WORDS, differences
from pdssm.automata.validation import Label
from pdssm.errors import check_size
from pdssm.models import SequenceModel

EXHAUSTIVE_WORDS = 1 << 14
"""Of the greatest length, unless a length is given."""


@final
@dataclass(frozen=True)
class Verdict:
    """What comparing an automaton with a target showed; true where they are equal."""

    equal: bool
    """The same label after every word: the minimal forms are isomorphic."""
    counterexample: tuple[str, ...] | None
    """A shortest word after which the labels differ."""
    label: Label | None
    """Of the automaton, after the counterexample."""
    expected: Label | None
    """Of the target."""

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.counterexample is None:
            return "equal: the same label after every word of every length"
        return (
            f"not equal: after {spelt(self.counterexample)} the label is {self.label!r}; expected {self.expected!r} "
            "(no shorter word shows a difference)"
        )


def spelt(word: Sequence[str]) -> str:
    """A word for people."""
    return " ".join(word) if word else "the empty word"


def verify(dfa: DFA, target: DFA, *, empty: bool = True) -> Verdict:
    """Compare with a target; ``empty=False`` leaves the empty word out, on which a model has nothing to say."""
    if not empty:
        label = target.outputs[target.initial]
        dfa, target = with_empty_label(dfa, label), with_empty_label(target, label)
    word = counterexample(dfa, target)
    if word is None:
        return Verdict(True, None, None, None)
    return Verdict(False, word, dfa.label(word), target.label(word))


def with_empty_label(dfa: DFA, label: Label) -> DFA:
    """The same automaton, but for the empty word's label: it begins in a copy of its initial state."""
    transitions = np.concatenate([dfa.transitions, dfa.transitions[dfa.initial][None]])
    return DFA(dfa.alphabet, transitions, len(dfa), (*dfa.outputs, label))


# -------------------------------------------------------------------------------------------- the model itself


@final
@dataclass(frozen=True)
class Agreement:
    """How far a model and an automaton have the same labels."""

    exhaustive_length: int
    """All words of 1 to so many symbols were compared."""
    exhaustive_words: int
    words: int
    """Random ones, ..."""
    length: int
    """... of 1 to so many symbols."""
    disagreements: int
    """Random words whose own labels, those after their last symbol, differ."""
    interval: tuple[float, float]
    """Clopper and Pearson's, of the share of agreement among all such words."""
    confidence: float
    """Of the interval."""
    counterexample: tuple[str, ...] | None
    """The shortest found, a prefix of a random word or one of the short words; None where there was none at all."""

    @property
    def rate(self) -> float:
        """Of the random words."""
        return 1 - self.disagreements / self.words

    def __str__(self) -> str:
        short = f"all {self.exhaustive_words:,} words of up to {self.exhaustive_length} symbols agree"
        if self.counterexample is not None and len(self.counterexample) <= self.exhaustive_length:
            short = f"not all words of up to {self.exhaustive_length} symbols agree"
        found = ""
        if self.counterexample is not None:
            found = f"; the shortest difference found is after {len(self.counterexample):,} symbols"
        low, high = self.interval
        return (
            f"{short}; of {self.words:,} random words of up to {self.length:,} symbols, {self.rate:.4%} agree "
            f"({self.confidence:.0%} interval {low:.4%} to {high:.4%}){found}"
        )


def agreement(
    source: SequenceModel | Callable[[tuple[str, ...]], Label],
    dfa: DFA,
    *,
    vocabulary: Sequence[str] | None = None,
    labels: Sequence[Label] | None = None,
    exhaustive: int | None = None,
    words: int = 1000,
    length: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Compare the labels of the source, as ``extract_dfa`` has it, with those of the automaton.

    All words of up to ``exhaustive`` symbols (as many as make about 16,000 words, unless given), and ``words`` random
    ones whose lengths are uniform from 1 to ``length``.
    """
    for name, count in (("words", words), ("length", length)):
        check_size(name, count)
    check_confidence("confidence", confidence)
    oracle = make_oracle(source, dfa.alphabet, vocabulary, labels)
    machine = DFA(dfa.alphabet, dfa.transitions, dfa.initial, tuple(map(oracle.number, dfa.outputs)))
    depth = _depth(len(dfa.alphabet), exhaustive)
    shortest = _all_words(oracle, machine, depth)
    rng = np.random.default_rng(seed)
    disagreements, found = _random_words(oracle, machine, rng.integers(1, length + 1, size=words), rng)
    if shortest is None or (found is not None and len(found) < len(shortest)):
        shortest = found
    low, high = clopper_pearson(disagreements, words, confidence)
    return Agreement(
        depth, sum(len(dfa.alphabet) ** size for size in range(1, depth + 1)), words, length, disagreements,
        (1 - high, 1 - low), confidence, None if shortest is None else dfa.decode(shortest),
    )  # fmt: skip


def _depth(symbols: int, exhaustive: int | None) -> int:
    if exhaustive is None:
        depth = 1
        while symbols ** (depth + 1) <= EXHAUSTIVE_WORDS and depth < EXHAUSTIVE_WORDS.bit_length():
            depth += 1
        return depth
    check_size("exhaustive", exhaustive)
    if symbols**exhaustive > MOST_WORDS:
        raise AutomatonError(
            f"exhaustive is {exhaustive}, which makes {symbols**exhaustive:,} words; expected at most {MOST_WORDS:,}"
        )
    return exhaustive


def _all_words(oracle: Oracle, machine: DFA, length: int) -> IntArray | None:
    """The shortest word of up to that length that differs: all words of that length, with their prefixes."""
    symbols, shortest = len(machine.alphabet), None
    count, rows = symbols**length, max(1, CHUNK // length)
    for start in range(0, count, rows):
        numbers = np.arange(start, min(count, start + rows))
        words = (
            np.stack(np.unravel_index(numbers, (symbols,) * length), 1) if symbols > 1 else np.zeros((1, length), int)
        )
        first = differences(oracle, machine, words)
        if first.any():
            row = int(np.where(first > 0, first, length + 1).argmin())
            if shortest is None or first[row] < len(shortest):
                shortest = words[row, : first[row]]
    return shortest


def _random_words(
    oracle: Oracle, machine: DFA, lengths: IntArray, rng: np.random.Generator
) -> tuple[int, IntArray | None]:
    """Words whose last labels differ, and the shortest prefix of one whose label does; all words read side by side."""
    lengths = np.sort(lengths)[::-1]  # those that are still being read come first
    words = rng.integers(len(machine.alphabet), size=(len(lengths), int(lengths[0])), dtype=np.int32)
    numbers = np.array(machine.outputs, dtype=np.int64)
    places = oracle.take(oracle.start(), np.zeros(len(lengths), dtype=np.int64))
    at, wrong_ends, shortest, start = np.full(len(lengths), machine.initial), 0, None, 0
    while start < lengths[0]:
        reading = int((lengths > start).sum())
        stop = min(int(lengths[0]), start + max(1, CHUNK // reading))
        piece = words[:reading, start:stop].astype(np.int64)
        labels, places = oracle.follow(oracle.take(places, np.arange(reading)), piece)
        states = machine.run_many(piece, at[:reading])
        wrong = labels != numbers[states]
        wrong &= np.arange(start, stop) < lengths[:reading, None]
        ends = np.flatnonzero(lengths[:reading] <= stop)
        wrong_ends += int(wrong[ends, lengths[ends] - 1 - start].sum())
        if shortest is None and wrong.any():
            step = int(wrong.any(0).argmax())
            shortest = words[int(wrong[:, step].argmax()), : start + step + 1].astype(np.int64)
        at, start = states[:, -1], stop
    return wrong_ends, shortest
