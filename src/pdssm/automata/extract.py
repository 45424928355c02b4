"""From a model, or any function that labels words, to the automaton that it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.exploring import explore
from pdssm.automata.learning import Table, TooManyStatesError
from pdssm.automata.oracle import FunctionOracle, ModelOracle, Oracle
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.statistics import check_confidence, words_needed
from pdssm.automata.testing import Evidence, random_test, w_method, walk_test
from pdssm.automata.validation import Label
from pdssm.errors import check_choice, check_fraction, check_size
from pdssm.models import SequenceModel

Test = Literal["random", "w-method"]
HIDDEN_STATES = 4
"""Hidden states to look at, for each automaton state allowed."""
WALKS = 8
"""From every node, before the statistical test."""


@final
@dataclass(frozen=True)
class Extraction:
    """An automaton, and why to believe in it."""

    dfa: DFA
    """Minimal; states in the order of their shortest words."""
    evidence: Evidence
    words: int
    """That the machine was asked, each perhaps from a state it was left in."""
    symbols: int
    """That it read."""
    rounds: int
    """Counterexamples learnt from."""

    @property
    def confidence(self) -> float:
        """Of the evidence."""
        return self.evidence.confidence


def extract_dfa(
    source: SequenceModel | Callable[[tuple[str, ...]], Label],
    alphabet: Sequence[str] | None = None,
    *,
    vocabulary: Sequence[str] | None = None,
    labels: Sequence[Label] | None = None,
    empty: Label | None = None,
    hidden: bool = True,
    test: Test = "random",
    length: int = 64,
    error: float = 1e-3,
    confidence: float = 0.99,
    extra_states: int = 1,
    tolerance: float = 0.0,
    max_states: int = 1000,
    seed: int = 0,
) -> Extraction:
    """The Moore machine that the source is, by asking it for the labels of words.

    Parameters
    ----------
    source
        A token model of any depth and mixer, asked by streaming; or a function from a tuple of symbols to a label.
    alphabet
        The symbols of the automaton; for a model, those of its tokens that words are made of (all, unless given).
    vocabulary, labels
        The names of a model's tokens and of its classes, in the order of their numbers; the numbers, unless given.
    empty
        The label of the empty word.  A model has none, and a function is asked for it; unless given, a model's is
        one that makes the automaton as small as possible.
    hidden
        Try first whether the model has finitely many hidden states, which proves the result.
    test
        Of what was learnt: ``"random"`` words of ``length`` symbols, as many as show with ``confidence`` that fewer
        than ``error`` of them differ somewhere; or the ``"w-method"``, a proof if the machine has at most
        ``extra_states`` more.
    tolerance
        Be content where, with ``confidence``, no more than this fraction of random words differ: a trained model
        that errs now and then is no automaton.
    max_states
        Give up where there are more.
    """
    check_choice("test", test, ("random", "w-method"))
    for name, count in (("length", length), ("max_states", max_states)):
        check_size(name, count)
    check_size("extra_states", extra_states, 0)
    check_confidence("error", error)
    check_confidence("confidence", confidence)
    check_fraction("tolerance", tolerance)
    oracle = make_oracle(source, alphabet, vocabulary, labels, empty)
    if hidden and (machine := explore(oracle, HIDDEN_STATES * max_states)) is not None:
        found = _extraction(oracle, machine, Evidence("states", 1.0), 0)
    else:
        learner = _Learner(
            oracle, test, length, error, confidence, extra_states, tolerance, np.random.default_rng(seed)
        )
        found = learner.run(max_states)
    if len(found.dfa) > max_states:
        raise TooManyStatesError(
            f"the automaton has {len(found.dfa)} states; expected at most max_states = {max_states}"
        )
    return found


def make_oracle(
    source: SequenceModel | Callable[[tuple[str, ...]], Label],
    alphabet: Sequence[str] | None = None,
    vocabulary: Sequence[str] | None = None,
    labels: Sequence[Label] | None = None,
    empty: Label | None = None,
) -> Oracle:
    """What extraction and verification ask."""
    if not isinstance(source, SequenceModel):
        if alphabet is None or vocabulary is not None or labels is not None:
            raise AutomatonError("a function needs an alphabet, and has neither vocabulary nor labels")
        if empty is None:
            return FunctionOracle(source, alphabet)
        return FunctionOracle(lambda word: source(word) if word else empty, alphabet)
    oracle = ModelOracle(source, alphabet, vocabulary, labels)
    if empty is not None:
        oracle.empty = oracle.number(empty)
    return oracle


def _extraction(oracle: Oracle, machine: DFA, evidence: Evidence, rounds: int) -> Extraction:
    outputs = tuple(oracle.label(int(number)) for number in machine.outputs)
    dfa = DFA(oracle.alphabet, machine.transitions, machine.initial, outputs).minimised()  # labels may share a name
    return Extraction(dfa, evidence, oracle.words, oracle.symbols, rounds)


@dataclass
class _Learner:
    oracle: Oracle
    test: Test
    length: int
    error: float
    confidence: float
    extra_states: int
    tolerance: float
    rng: np.random.Generator
    rounds: int = 0
    best: Evidence | None = None

    def run(self, max_states: int) -> Extraction:
        """Learn and test in turns."""
        try:
            table = Table(self.oracle, max_states)
            while True:
                evidence, word = self._test(table)
                if word is None:
                    return _extraction(self.oracle, table.machine(), evidence, self.rounds)
                self.rounds += 1
                table.split(word)
        except TooManyStatesError as error:
            raise TooManyStatesError(
                f"{error} (max_states), after {self.rounds} counterexamples; {self._advice()}"
            ) from None

    def _test(self, table: Table) -> tuple[Evidence, IntArray | None]:
        if self.test == "w-method":
            return w_method(self.oracle, table, self.extra_states)
        if self.tolerance == 0:
            word = walk_test(self.oracle, table, WALKS, self.length, self.rng)
            if word is not None:
                return Evidence("random", 0.0), word
        # Each further test gets half of the doubt that is left, so that all of them together keep the confidence.
        certain = 1 - (1 - self.confidence) / 2 ** (self.rounds + 1)
        count = words_needed(max(self.error, self.tolerance / 4), certain)
        evidence, word = random_test(self.oracle, table.machine(), count, self.length, certain, self.rng)
        if self.best is None or evidence.error < self.best.error:
            self.best = evidence
        return evidence, None if evidence.error <= self.tolerance else word

    def _advice(self) -> str:
        closest = "" if self.best is None else f"the closest automaton so far: {self.best}; "
        return f"{closest}expected fewer: raise max_states, shorten length, or allow for errors with tolerance"
