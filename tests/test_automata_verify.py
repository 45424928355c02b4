"""Verification: equal, or the shortest counterexample; and how far a model agrees."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pdssm.automata import DFA, AutomatonError, agreement, compile_dfa, extract_dfa, verify
from pdssm.automata.compile import layer_of
from pdssm.errors import RangeError
from pdssm.models import SequenceModel


def broken(dfa: DFA, rng: np.random.Generator) -> tuple[SequenceModel, DFA]:
    """A compiled model with one transition changed, and the automaton that it then is."""
    state, symbol = int(rng.integers(len(dfa))), int(rng.integers(len(dfa.alphabet)))
    table = dfa.transitions.copy()
    table[state, symbol] = (table[state, symbol] + 1 + rng.integers(len(dfa) - 1)) % len(dfa)
    model = compile_dfa(dfa)
    layer = layer_of(model)
    letter = int(layer.generator.selector.weight[:, symbol].argmax())
    with torch.no_grad():
        layer.generator.dictionary[letter, :, state] = 0
        layer.generator.dictionary[letter, table[state, symbol], state] = 1
    return model, DFA(dfa.alphabet, table, dfa.initial, dfa.outputs)


def shortest(a: DFA, b: DFA, most: int) -> int | None:
    """By trying all words."""
    for word in a.words(most):
        if a.label(word) != b.label(word):
            return len(word)
    return None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(2, 3))
def test_one_changed_transition_is_found_by_a_shortest_word(seed: int, states: int, symbols: int) -> None:
    rng = np.random.default_rng(seed)
    dfa = DFA.random(states, symbols, rng)
    if len(np.unique(dfa.transitions, axis=1).T) < symbols:
        return  # two symbols share a matrix: changing it changes two transitions
    model, other = broken(dfa, rng)
    found = extract_dfa(model, dfa.alphabet, labels=(False, True), empty=dfa.label(""))
    verdict = verify(found.dfa, dfa)
    expected = shortest(other, dfa, 8)
    if verdict.counterexample is None:
        assert verdict
        assert expected is None
    else:
        assert not verdict
        assert other.label(verdict.counterexample) == verdict.label != verdict.expected
        assert dfa.label(verdict.counterexample) == verdict.expected
        assert expected is None or len(verdict.counterexample) == expected
        assert repr(verdict.label) in str(verdict)


def test_the_empty_word_counts_only_where_it_should() -> None:
    a = DFA.from_regex("(a|b)*a")
    b = DFA(a.alphabet, a.transitions, a.initial, a.outputs)
    other = DFA.from_regex("((a|b)*a)?")
    assert verify(a, b)
    assert verify(a, other).counterexample == ()
    assert "the empty word" in str(verify(a, other))
    assert verify(a, other, empty=False)
    assert str(verify(a, b)).startswith("equal")


def test_another_alphabet_is_refused() -> None:
    with pytest.raises(AutomatonError, match="the alphabets differ"):
        verify(DFA.from_regex("a*", "a"), DFA.from_regex("(ab)*"))


# --------------------------------------------------------------------------------------------------- agreement


def test_a_compiled_model_agrees() -> None:
    dfa = DFA.random(10, 3, np.random.default_rng(0))
    found = agreement(compile_dfa(dfa), dfa, labels=(False, True), words=100, length=2000)
    assert found.counterexample is None
    assert found.rate == 1
    assert found.exhaustive_length == 8
    assert found.exhaustive_words == (3**9 - 3) // 2
    low, high = found.interval
    assert high == 1
    assert 0.96 < low < 0.97
    assert "all 9,840 words of up to 8 symbols agree; of 100 random words" in str(found)


def test_a_model_that_forgets_is_caught_at_length() -> None:
    dfa = DFA.from_table({"e": {"a": "e", "b": "o"}, "o": {"a": "o", "b": "e"}}, "e", ["o"])

    def forgets(word: tuple[str, ...]) -> bool:
        return dfa.label(word) if len(word) < 40 else False

    found = agreement(forgets, dfa, words=60, length=80, exhaustive=6)
    assert found.counterexample is not None
    assert 40 <= len(found.counterexample) < 50
    assert dfa.label(found.counterexample) is True
    assert 0.5 < found.rate < 0.95
    assert found.interval[0] < found.rate < found.interval[1]
    assert f"found is after {len(found.counterexample)} symbols" in str(found)


def test_every_short_word_is_tried() -> None:
    dfa = DFA.from_regex("(a|b)*abb")
    secret = ("b", "b", "a", "a", "b")
    found = agreement(lambda word: dfa.label(word) != (word == secret), dfa, words=1, length=1, exhaustive=7)
    assert found.counterexample == secret
    assert "not all words of up to 7 symbols agree" in str(found)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_disagreements_are_counted_at_the_ends(seed: int) -> None:
    """Exactly the words whose length is a multiple of 3 differ, so the share of agreement is known."""
    dfa = DFA.random(4, 2, np.random.default_rng(seed))
    found = agreement(
        lambda word: dfa.label(word) != (len(word) % 3 == 0), dfa, words=50, length=30, seed=seed, exhaustive=3
    )
    lengths = np.random.default_rng(seed).integers(1, 31, size=50)
    assert found.disagreements == int((lengths % 3 == 0).sum())
    assert len(found.counterexample or ()) == 3


def test_one_symbol_is_an_alphabet() -> None:
    dfa = DFA(("a",), np.array([[1], [0]]), 0, (False, True))
    assert agreement(compile_dfa(dfa), dfa, labels=(False, True), words=10, length=100).counterexample is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": (0, 1)}, "the automaton has label False; expected one of the model's (0, 1)"),
        ({"labels": (False, True), "vocabulary": ("a", "b", "c")}, "vocabulary has 3 tokens; expected 2"),
        ({"labels": (False, True), "exhaustive": 40}, "exhaustive is 40, which makes 1,099,511,627,776 words"),
        ({"labels": (False, True), "words": 0}, "words is 0; expected a whole number of at least 1"),
        ({"labels": (False, True), "confidence": 1.0}, "confidence is 1.0; expected a probability"),
    ],
)
def test_bad_input_is_named(options, message) -> None:
    dfa = DFA.from_regex("(a|b)*abb")
    with pytest.raises((AutomatonError, RangeError)) as caught:
        agreement(compile_dfa(dfa), dfa, **options)
    assert message in str(caught.value)
