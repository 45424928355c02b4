"""Extraction: the automaton comes out of compiled models and functions, by hidden states and by asking."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pdssm.automata import DFA, AutomatonError, compile_dfa, extract_dfa, group, isomorphic, snap, verify
from pdssm.automata.exploring import explore
from pdssm.automata.learning import Table, TooManyStatesError
from pdssm.automata.oracle import FunctionOracle, ModelOracle
from pdssm.automata.statistics import clopper_pearson, upper_bound, words_needed
from pdssm.automata.testing import differences, w_method
from pdssm.errors import ChoiceError, RangeError
from pdssm.layers import MIXERS
from pdssm.models import ModelConfig, SequenceModel


@st.composite
def automata(draw: st.DrawFn) -> DFA:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = draw(st.sampled_from([(False, True), ("x", "y", "z")]))
    return DFA.random(draw(st.integers(1, 25)), draw(st.integers(1, 5)), rng, labels)


def labels_of(dfa: DFA) -> tuple[object, ...]:
    return (False, True) if dfa.is_acceptor else ("x", "y", "z")


def compiled(dfa: DFA) -> SequenceModel:
    return compile_dfa(dfa, classes=labels_of(dfa))


def lock(depth: int) -> DFA:
    """Accepts only after ``depth`` a's in a row; any b begins again."""
    table = [[min(state + 1, depth), 0] for state in range(depth + 1)]
    return DFA(("a", "b"), np.array(table), 0, tuple(state == depth for state in range(depth + 1)))


# ------------------------------------------------------------------------------------------------- what comes out


@settings(max_examples=25, deadline=None)
@given(automata(), st.booleans())
def test_compiled_models_come_back(dfa: DFA, hidden: bool) -> None:
    found = extract_dfa(
        compiled(dfa), dfa.alphabet, labels=labels_of(dfa), empty=dfa.label(""), hidden=hidden, length=30, error=0.01
    )
    assert isomorphic(found.dfa, dfa)
    assert len(found.dfa) == len(dfa.minimised())
    assert found.evidence.kind == ("states" if hidden else "random")


@settings(max_examples=15, deadline=None)
@given(automata())
def test_functions_come_back(dfa: DFA) -> None:
    found = extract_dfa(dfa.label, dfa.alphabet, length=20, error=0.02)
    assert isomorphic(found.dfa, dfa)


@settings(max_examples=25, deadline=None)
@given(automata())
def test_without_the_empty_word_no_state_is_wasted(dfa: DFA) -> None:
    found = extract_dfa(compiled(dfa), dfa.alphabet, labels=labels_of(dfa)).dfa
    assert verify(found, dfa, empty=False)
    assert len(found) <= len(dfa.minimised())


def test_as_aalpy_learns_it() -> None:
    from aalpy.base import SUL
    from aalpy.learning_algs import run_Lstar
    from aalpy.oracles import RandomWMethodEqOracle

    dfa = DFA.random(20, 3, np.random.default_rng(3), ("x", "y", "z"))

    class Machine(SUL):
        def pre(self) -> None:
            self.state = dfa.initial

        def post(self) -> None:
            pass

        def step(self, letter):
            self.state = self.state if letter is None else dfa.run([letter], self.state)
            return dfa.outputs[self.state]

    machine = Machine()
    tests = RandomWMethodEqOracle(list(dfa.alphabet), machine, walks_per_state=20, walk_len=20)
    theirs = run_Lstar(list(dfa.alphabet), machine, tests, "moore", print_level=0)
    rows = {s.state_id: {a: t.state_id for a, t in s.transitions.items()} for s in theirs.states}
    outputs = {s.state_id: s.output for s in theirs.states}
    learnt = DFA.from_table(rows, theirs.initial_state.state_id, outputs)
    ours = extract_dfa(compiled(dfa), dfa.alphabet, labels=labels_of(dfa), empty=dfa.label(""), hidden=False)
    assert isomorphic(ours.dfa, learnt)


def test_any_depth_and_mixer_is_followed_from_where_it_was() -> None:
    options = {"state_dim": 5, "dictionary_size": 3, "conv": 3, "initial_state": "learned"}
    torch.manual_seed(0)
    for config in (
        ModelConfig(4, 6, dim=8, layers=2, norm="pre", residual=True, ffn=1, mixer_options=options),
        *(ModelConfig(4, 6, dim=8, mixer=mixer, head="last") for mixer in MIXERS),
    ):
        model = SequenceModel(config).train()
        oracle = ModelOracle(model, ("b", "d"), ("a", "b", "c", "d"))
        words = np.random.default_rng(0).integers(2, size=(7, 12))
        whole = oracle.trace(words)
        first, places = oracle.follow(oracle.take(oracle.start(), np.zeros(7, dtype=int)), words[:, :5])
        rest, _ = oracle.follow(oracle.take(places, np.arange(7)[::-1].copy()), words[::-1, 5:])
        assert np.array_equal(whole, np.concatenate([first, rest[::-1]], 1))
        assert model.training
        assert model.config is config
        with torch.no_grad():
            state = model.eval().initial_state(7)
            for step in range(12):
                logits, state = model.step(torch.from_numpy(1 + 2 * words[:, step]), state)
                assert np.array_equal(whole[:, step], logits.argmax(-1).numpy())


def test_labels_with_one_name_are_one_label() -> None:
    dfa = DFA.from_group(group("S3"))
    found = extract_dfa(compile_dfa(dfa), dfa.alphabet, labels=("even", "odd", "odd", "even", "even", "odd"))
    assert set(found.dfa.outputs) == {"even", "odd"}


# ---------------------------------------------------------------------------------------------------- evidence


def test_finitely_many_hidden_states_are_a_proof() -> None:
    found = extract_dfa(compile_dfa(lock(12)), ("a", "b"), labels=(False, True))
    assert found.evidence.kind == "states"
    assert found.confidence == 1.0
    assert len(found.dfa) == 13
    assert "every length" in str(found.evidence)


def test_a_model_that_forgets_has_too_many_hidden_states() -> None:
    model = SequenceModel(ModelConfig(2, 2, dim=8, mixer_options={"state_dim": 8, "dictionary_size": 2}))
    assert explore(ModelOracle(model), 500) is None


def test_random_words_state_their_confidence() -> None:
    found = extract_dfa(compile_dfa(lock(3)), ("a", "b"), hidden=False, error=0.01, confidence=0.9)
    evidence = found.evidence
    assert evidence.disagreements == 0
    assert evidence.words >= words_needed(0.01, 0.9)
    assert evidence.error <= 0.01
    assert evidence.confidence >= 0.9
    assert f"{evidence.words:,} random words" in str(evidence)


def test_the_w_method_goes_beyond_the_table() -> None:
    oracle = FunctionOracle(lock(8).label, ("a", "b"))
    table = Table(oracle, 100)
    assert len(table) < 8
    assert w_method(oracle, table, 0)[1] is None
    evidence, word = w_method(oracle, table, 3)
    assert word is not None
    assert lock(8).label(word.tolist()) != table.machine().label(word)
    found = extract_dfa(lock(8).label, ("a", "b"), test="w-method", extra_states=3)
    assert isomorphic(found.dfa, lock(8))
    assert found.rounds > 0
    assert found.evidence.words > evidence.words
    assert "at most 3 states more" in str(found.evidence)


def test_the_w_method_is_only_as_good_as_its_assumption() -> None:
    deep = lock(9)
    assert len(extract_dfa(deep.label, ("a", "b"), test="w-method", extra_states=0).dfa) < 10
    assert isomorphic(extract_dfa(deep.label, ("a", "b"), test="w-method", extra_states=3).dfa, deep)


def test_an_error_now_and_then_is_tolerated() -> None:
    parity = DFA.from_table({"e": {"a": "e", "b": "o"}, "o": {"a": "o", "b": "e"}}, "e", ["o"])

    def sometimes_wrong(word: tuple[str, ...]) -> bool:
        return parity.label(word) != (len(word) == 20 and word[:7] == ("a",) * 7)

    found = extract_dfa(sometimes_wrong, ("a", "b"), length=20, tolerance=0.05)
    assert isomorphic(found.dfa, parity)
    assert found.evidence.error <= 0.05
    with pytest.raises(TooManyStatesError, match="expected fewer: raise max_states, shorten length, or allow"):
        extract_dfa(sometimes_wrong, ("a", "b"), length=20, max_states=10, error=0.01)


def test_differences_are_where_they_are() -> None:
    dfa = lock(2)
    oracle = FunctionOracle(lambda word: dfa.label(word) or len(word) == 3, ("a", "b"))
    machine = DFA(dfa.alphabet, dfa.transitions, 0, tuple(map(oracle.number, dfa.outputs)))
    words = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]])
    assert differences(oracle, machine, words).tolist() == [3, 0, 3]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(0, 400), st.floats(0.5, 0.999))
def test_the_interval_is_clopper_and_pearsons(trials: int, found: int, confidence: float) -> None:
    found = min(found, trials)
    low, high = clopper_pearson(found, trials, confidence)
    tail = (1 - confidence) / 2

    def at_most(k: int, p: float) -> float:
        return math.fsum(math.comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(k + 1))

    assert low <= found / trials <= high
    assert high == 1 if found == trials else math.isclose(at_most(found, high), tail, rel_tol=1e-6)
    assert low == 0 if found == 0 else math.isclose(1 - at_most(found - 1, low), tail, rel_tol=1e-5)


def test_bounds_from_no_disagreement() -> None:
    count = words_needed(0.001, 0.99)
    assert upper_bound(0, count, 0.99) <= 0.001 < upper_bound(0, count - 1, 0.99)
    assert clopper_pearson(0, 1_000_000)[1] < 4e-6
    assert clopper_pearson(999_000, 1_000_000)[0] > 0.9989


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("alphabet", "options", "message"),
    [
        (("a",), {}, "alphabet, without a vocabulary, has 1 tokens; expected 2"),
        (("a", "b"), {"vocabulary": ("a", "b", "c")}, "vocabulary has 3 tokens; expected 2, the model's input_size"),
        (("a", "c"), {"vocabulary": ("a", "b")}, "symbol 'c' of the alphabet is not in the vocabulary ('a', 'b')"),
        (("a", "b"), {"labels": (True,)}, "labels has 1 entries; expected 2"),
        (("a", "b"), {"empty": True}, "label True; expected one of the model's (0, 1)"),
        (("a", "b"), {"max_states": 3}, "the automaton has 4 states; expected at most max_states = 3"),
        (("a", "b"), {"max_states": 2, "hidden": False}, "more than 2 states behave differently"),
        (("a", "b"), {"max_states": 3, "hidden": False}, "the automaton has 4 states; expected at most max_states"),
        (("a", "b"), {"error": 0.0}, "error is 0.0; expected a probability"),
        (("a", "b"), {"test": "W"}, "test is 'W'; expected one of 'random', 'w-method'"),
        (("a", "b"), {"test": "w-method", "extra_states": 30, "hidden": False}, "extra states would ask"),
        (("a", "b"), {"tolerance": 2.0}, "tolerance is 2.0; expected a number in [0, 1)"),
    ],
)
def test_bad_input_is_named(alphabet, options, message) -> None:
    with pytest.raises((AutomatonError, RangeError, ChoiceError)) as caught:
        extract_dfa(compile_dfa(lock(3)), alphabet, **options)
    assert message in str(caught.value)


def test_models_that_cannot_be_asked() -> None:
    for config, message in (
        (ModelConfig(2, 2, inputs="samples"), "reads samples"),
        (ModelConfig(2, 2, head="mean"), "head 'mean'"),
        (ModelConfig(2, 2, mixer_options={"stochastic": True}), "at random"),
    ):
        with pytest.raises(AutomatonError, match=message):
            extract_dfa(SequenceModel(config))


def test_functions_that_are_no_machines() -> None:
    flips = itertools.count()
    with pytest.raises(AutomatonError, match="the function's label is None"):
        extract_dfa(lambda word: None, ("a",))
    with pytest.raises(AutomatonError, match="alphabet is empty"):
        extract_dfa(lambda word: 0, ())
    with pytest.raises(AutomatonError, match="a function needs an alphabet"):
        extract_dfa(lambda word: 0)
    with pytest.raises(AutomatonError):  # a new label for every word: too many states
        extract_dfa(lambda word: next(flips), ("a", "b"), max_states=20)


# -------------------------------------------------------------------------------------------------------- snap


def test_snap_reads_and_answers_as_before() -> None:
    dfa = DFA.from_group(group("S3"))
    exact = compile_dfa(dfa, vocabulary=("<pad>", "a", "b"), classes=range(8))
    with torch.no_grad():  # forget: |D| = sigmoid(8), so that after some 10,000 symbols the bias decides
        exact.blocks[0].mixer.generator.entries.magnitude[-1].bias.fill_(8.0)
        exact.head.bias[0] = 0.1
    snapped, extraction = snap(exact, ("a", "b"), vocabulary=("<pad>", "a", "b"))
    assert verify(extraction.dfa, dfa)
    assert snapped.config.input_size == 3
    assert snapped.config.output_size == 8
    words = np.random.default_rng(0).integers(2, size=(2, 20_000))
    with torch.no_grad():
        labels = snapped.eval()(torch.from_numpy(words + 1)).argmax(-1).numpy()
        forgotten = exact.eval()(torch.from_numpy(words + 1)).argmax(-1).numpy()
    assert np.array_equal(labels, dfa.run_many(words))
    assert not np.array_equal(forgotten, labels)


def test_snap_keeps_the_head() -> None:
    model = compile_dfa(lock(2))
    model.config = ModelConfig.from_dict({**model.config.to_dict(), "head": "last"})
    snapped, extraction = snap(model)
    assert extraction.dfa.alphabet == ("0", "1")
    with torch.no_grad():
        assert snapped(torch.tensor([[0, 0], [0, 1]])).argmax(-1).tolist() == [1, 0]
