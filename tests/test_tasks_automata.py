"""Automata of one's own as tasks: labels against ``re`` and a step-by-step run, and how balanced words are drawn."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdssm.automata import DFA
from pdssm.errors import PDSSMError, RangeError
from pdssm.tasks import AutomatonTask, make_task, sample_batch
from pdssm.tasks.words import BalancedWords, alias_tables

PATTERNS = ["(ab)*", "a*b", "(a|b)*abb(a|b)*", "(aa)*b*", "a(a|b)*a", "((a|b)(a|b)(a|b))*"]
MOORE = DFA(("x", "y", "z"), np.array([[1, 2, 0], [3, 0, 1], [2, 3, 3], [0, 1, 2]]), 1, ("p", 7, "p", True))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("label_at", ["end", "every"])
@given(low=st.integers(1, 12), span=st.integers(2, 20), seed=st.integers(0, 2**32))
def test_membership_is_that_of_the_regular_expression(
    pattern: str, balanced: bool, label_at: str, low: int, span: int, seed: int
) -> None:
    task = make_task("regex", pattern=pattern, balanced=balanced, label_at=label_at)
    batch = sample_batch(task, seed, "train", 0, 6, (low, low + span))
    for index in range(6):
        tokens, labels = batch.sequence(index)
        word = "".join(task.tokens[t] for t in tokens.tolist())
        prefixes = [word[:end] for end in range(1, len(word) + 1)] if label_at == "every" else [word]
        assert labels.tolist() == [re.fullmatch(pattern, prefix) is not None for prefix in prefixes]


@given(
    states=st.integers(2, 9),
    symbols=st.integers(1, 5),
    machine=st.integers(0, 10_000),
    seed=st.integers(0, 2**32),
    options=st.sampled_from([("output", True), ("output", False), ("state", False)]),
)
def test_labels_are_those_of_a_step_by_step_run(
    states: int, symbols: int, machine: int, seed: int, options: tuple[str, bool]
) -> None:
    dfa = DFA.random(states, symbols, np.random.default_rng(machine), ("no", "yes", "perhaps"))
    target, balanced = options
    ends = np.unique(dfa.transitions[dfa.reachable()])
    if len({dfa.outputs[s] if target == "output" else s for s in ends}) == 1:
        with pytest.raises(RangeError, match=f"the same {target}"):
            AutomatonTask(dfa, target, balanced=balanced)
        return
    task = AutomatonTask(dfa, target, balanced=balanced, label_at="every")
    batch = sample_batch(task, seed, "test", 0, 5, (1, 25))
    for index in range(5):
        tokens, labels = batch.sequence(index)
        state, expected = dfa.initial, []
        for token in tokens.tolist():
            state = int(dfa.transitions[state, token])
            expected.append(str(dfa.outputs[state] if target == "output" else state))
        assert [task.labels[label] for label in labels.tolist()] == expected


def test_labels_keep_their_types_apart() -> None:
    dfa = DFA(("a",), np.array([[1], [2], [0]]), 0, (1, True, "1"))
    assert AutomatonTask(dfa).output_size == 3
    assert AutomatonTask(DFA(("a",), np.array([[1], [0]]), 0, (True, False))).labels == ("False", "True")


@pytest.mark.parametrize("pattern", ["(ab)*", "a*b", "(a|b)*abb(a|b)*", "a(a|b)*a"])
def test_balanced_words_are_uniform_within_each_label(pattern: str) -> None:
    length, count = 6, 40_000
    task = make_task("regex", pattern=pattern)
    batch = sample_batch(task, 0, "train", 0, count, (length, length))
    words = batch.tokens.view(count, length).tolist()
    for label in (0, 1):
        language = [
            word
            for word in itertools.product((0, 1), repeat=length)
            if (re.fullmatch(pattern, "".join(task.tokens[t] for t in word)) is not None) == bool(label)
        ]
        drawn = [tuple(w) for w, l in zip(words, batch.labels.tolist(), strict=True) if l == label]  # noqa: E741
        assert abs(len(drawn) - count / 2) < 5 * (count / 4) ** 0.5
        counts = np.array([drawn.count(word) for word in language])
        assert counts.sum() == len(drawn)
        expected = len(drawn) / len(language)
        assert np.abs(counts - expected).max() <= 5 * expected**0.5
    assert len(batch) == count


def test_three_labels_are_equally_frequent() -> None:
    labels = sample_batch(AutomatonTask(MOORE), 0, "train", 0, 9_000, (10, 20)).labels
    assert (torch.bincount(labels) - 3_000).abs().max() < 5 * 2_000**0.5


def test_a_label_that_a_length_does_not_allow_is_not_drawn() -> None:
    batch = sample_batch(make_task("regex:(ab)*"), 0, "train", 0, 2_000, (3, 10))
    odd = batch.lengths % 2 == 1
    assert not batch.labels[odd].any()
    assert 0.4 < float(batch.labels[~odd].double().mean()) < 0.6


def test_a_word_in_2_to_the_3000_is_drawn_half_the_time() -> None:
    batch = sample_batch(make_task("regex:(ab)*"), 0, "train", 0, 400, (3_000, 3_000))
    assert 150 < int(batch.labels.sum()) < 250


def test_counts_of_different_scale_in_one_row() -> None:
    # At even lengths "a" leads to a state with 2**(length - 1) words, from which none has the right parity, and the
    # single word b...b is the only one accepted: it must not be lost to the range of floating point.
    table = {
        "start": {"a": "many-1", "b": "one"},
        "one": {"a": "sink", "b": "one"},
        "many-1": {"a": "many-0", "b": "many-0"},
        "many-0": {"a": "many-1", "b": "many-1"},
        "sink": {"a": "sink", "b": "sink"},
    }
    task = AutomatonTask(DFA.from_table(table, "start", {"many-1", "one"}))
    batch = sample_batch(task, 0, "train", 0, 100, (3_000, 3_000))
    accepted = batch.tokens.view(100, -1)[batch.labels == 1]
    assert 30 < len(accepted) < 70
    assert (accepted == 1).all()


def test_one_symbol_and_many_symbols() -> None:
    batch = sample_batch(make_task("regex:(aa)*", alphabet="a"), 0, "train", 0, 50, (1, 9))
    assert batch.labels.equal(1 - batch.lengths % 2)
    letters = "abcdefghijklmnopqrstuvwxyz"
    batch = sample_batch(make_task(f"regex:({'|'.join(letters)})*zz"), 0, "train", 0, 500, (2, 30))
    assert 150 < int(batch.labels.sum()) < 350


@given(
    weights=st.integers(1, 7).flatmap(
        lambda n: st.lists(st.lists(st.sampled_from([0.0, 1e-300, 1e-9, 0.3, 1.0]), min_size=n, max_size=n), min_size=1)
    )
)
def test_alias_tables_give_back_the_weights(weights: list[list[float]]) -> None:
    table = np.array([row for row in weights if sum(row) > 0] or [[1.0]])
    share, alias = alias_tables(table)
    rows, n = table.shape
    probability = share / n
    np.add.at(probability, (np.repeat(np.arange(rows), n), alias.reshape(-1)), ((1 - share) / n).reshape(-1))
    np.testing.assert_allclose(probability, table / table.sum(axis=1, keepdims=True), atol=1e-12)
    own = np.where(table == 0, share, 0)
    assert (own <= 0).all(), "an impossible symbol is never drawn as itself"
    assert (np.take_along_axis(table, alias, axis=1)[share < 1] > 0).all(), "nor as an alias"


def test_tables_grow_without_changing() -> None:
    def words(longest_first: bool) -> tuple[np.ndarray, np.ndarray]:
        balanced = BalancedWords(MOORE.transitions, MOORE.initial, np.array([0, 1, 0, 2]))
        for longest in (40,) if longest_first else (5, 7, 40):
            balanced.possible(np.array([longest]))
        return balanced.draw(np.array([3, 40, 12]), np.random.default_rng(0))

    for grown, whole in zip(words(False), words(True), strict=True):
        assert (grown == whole).all()


def test_a_dfa_from_a_file_and_as_an_object(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    MOORE.to_json(path)
    tasks = [make_task(f"dfa:{path}"), make_task("dfa", dfa=path), make_task("dfa", dfa=MOORE), AutomatonTask(MOORE)]
    batches = [sample_batch(task, 0, "train", 0, 30, (3, 9)) for task in tasks]
    assert all(b.tokens.equal(batches[0].tokens) and b.labels.equal(batches[0].labels) for b in batches)
    assert make_task("dfa", dfa=MOORE, target="state").label_at == "every"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_task("regex:(a|b)*"), "every word has the same output, True"),
        (lambda: make_task("regex", pattern="a*", alphabet=""), "alphabet"),
        (lambda: AutomatonTask(MOORE, "label"), "target is 'label'; expected one of 'output', 'state'"),
        (lambda: AutomatonTask(MOORE, label_at="last"), "label_at is 'last'"),
        (lambda: AutomatonTask(MOORE, "state", balanced=True), 'balanced=True with target="state"'),
        (lambda: make_task("dfa:/no/such/file.json"), "/no/such/file.json"),
        (
            lambda: sample_batch(make_task("regex:ab|ba"), 0, "train", 0, 4, (3, 40)),
            "lengths is (3, 40), but every word of these lengths is labelled False",
        ),
        (
            lambda: sample_batch(make_task("regex:(ab)*"), 0, "test", 0, 4, (10**8, 10**8)),
            "balanced words of 100000000 symbols need",
        ),
    ],
)
def test_errors_say_what_was_expected(call: Callable[[], object], message: str) -> None:
    with pytest.raises(PDSSMError) as caught:
        call()
    assert message in str(caught.value)


def test_one_label_is_enough_for_uniform_words_and_for_a_single_length() -> None:
    task = make_task("regex:ab|ba", balanced=False)
    assert not sample_batch(task, 0, "train", 0, 4, (3, 40)).labels.any()
    assert not sample_batch(make_task("regex:ab|ba"), 0, "test", 0, 4, (40, 40)).labels.any()
