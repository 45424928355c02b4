"""Compiled automata: right at every step, for every length, and ordinary models."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pdssm.automata import DFA, AutomatonError, compile_dfa, exact_length, group, output_classes
from pdssm.automata.compile import label_numbers, layer_of
from pdssm.automata.phase import as_counter
from pdssm.errors import ChoiceError, RangeError
from pdssm.models import SequenceModel


def wrong(model: SequenceModel, dfa: DFA, words: np.ndarray, chunk: int = 1000) -> int:
    """How many labels of all prefixes are not the automaton's; words in chunks, with the state carried."""
    numbers = label_numbers(dfa, output_classes(dfa))
    state, at, count = None, np.full(len(words), dfa.initial), 0
    for start in range(0, words.shape[1], chunk):
        part = words[:, start : start + chunk]
        with torch.no_grad():
            logits, state = model.eval()(torch.from_numpy(part), state, return_state=True)
        visited = dfa.run_many(part, at)
        at = visited[:, -1]
        count += int((logits.argmax(-1).numpy() != numbers[visited]).sum())
    return count


@st.composite
def automata(draw: st.DrawFn) -> DFA:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = draw(st.sampled_from([(False, True), (0, 1, 2), ("x", "y")]))
    dfa = DFA.random(draw(st.integers(1, 40)), draw(st.integers(1, 12)), rng, labels)
    return DFA(dfa.alphabet, dfa.transitions, int(rng.integers(len(dfa))), dfa.outputs)


def counter(size: int, steps: list[int], outputs: list[object]) -> DFA:
    return DFA(tuple("abcdef"[: len(steps)]), (np.arange(size)[:, None] + steps) % size, 0, tuple(outputs))


@settings(max_examples=40, deadline=None)
@given(automata(), st.integers(0, 2**32))
def test_every_label_is_right(dfa: DFA, seed: int) -> None:
    words = np.random.default_rng(seed).integers(len(dfa.alphabet), size=(4, 200))
    assert wrong(compile_dfa(dfa), dfa, words, chunk=70) == 0


def test_a_wrong_transition_is_noticed() -> None:
    dfa = DFA.random(20, 3, np.random.default_rng(0))
    model = compile_dfa(dfa)
    dictionary = layer_of(model).generator.dictionary
    with torch.no_grad():
        dictionary[0, :, 5] = dictionary[0, :, 5].roll(1)
    assert wrong(model, dfa, np.random.default_rng(1).integers(3, size=(4, 200))) > 0


def test_the_gates_are_exact() -> None:
    dfa = DFA.random(9, 4, np.random.default_rng(0))
    for model in (compile_dfa(dfa), compile_dfa(dfa).double()):
        layer = layer_of(model)
        selected = layer.generator.select(model.encoder.weight)
        assert torch.equal(selected.diag, torch.ones_like(selected.diag))
        assert torch.equal(selected.scores, torch.eye(4, dtype=selected.scores.dtype)[selected.scores.argmax(-1)])
        assert torch.equal(selected.index.long(), torch.from_numpy(dfa.transitions.T.copy()))
        assert layer.readout.map.weight.shape == (9, 9)


def test_symbols_that_act_alike_share_a_matrix() -> None:
    dfa = DFA(("a", "b", "c"), np.array([[1, 1, 0], [0, 0, 1]]), 0, (False, True))
    assert layer_of(compile_dfa(dfa)).generator.dictionary.shape == (2, 2, 2)


def test_saved_loaded_streamed(tmp_path) -> None:
    dfa = DFA.from_group(group("S3"))
    compile_dfa(dfa).save_pretrained(tmp_path)
    model = SequenceModel.from_pretrained(tmp_path).eval()
    word = np.random.default_rng(0).integers(2, size=50)
    state = model.initial_state(1)
    for symbol, expected in zip(word, dfa.run_many(word[None])[0], strict=True):
        with torch.no_grad():
            logits, state = model.step(torch.tensor([int(symbol)]), state)
        assert int(logits.argmax()) == dfa.outputs[expected]


def test_fine_tuning_learns_another_label() -> None:
    dfa = DFA.from_regex("(a|b)*abb")
    other = DFA(dfa.alphabet, dfa.transitions, dfa.initial, tuple(not label for label in dfa.outputs))
    model = compile_dfa(dfa).train()
    words = np.random.default_rng(0).integers(2, size=(16, 20))
    labels = torch.from_numpy(label_numbers(other, (False, True))[other.run_many(words)])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(250):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.from_numpy(words)).flatten(0, 1), labels.flatten()).backward()
        optimiser.step()
    assert wrong(model, other, words) == 0


def test_vocabulary_and_classes_are_named() -> None:
    parity = DFA.from_table({"e": {"a": "e", "b": "o"}, "o": {"a": "o", "b": "e"}}, "e", {"e": "even", "o": "odd"})
    for method in ("states", "phase"):
        model = compile_dfa(parity, method, vocabulary=("<pad>", "b", "a"), classes=("?", "odd", "even")).eval()
        assert model.config.input_size == model.config.output_size == 3
        with torch.no_grad():
            assert model(torch.tensor([[0, 1, 0, 2, 1]])).argmax(-1).tolist() == [[2, 1, 1, 1, 2]]


def test_classes_are_those_of_the_tasks() -> None:
    table = np.array([[1], [0]])
    assert output_classes(DFA(("a",), table, 0, (True, True))) == (False, True)
    assert output_classes(DFA(("a",), table, 0, ("y", "x"))) == ("y", "x")
    assert output_classes(DFA(("a",), table, 0, (1, True))) == (1, True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "stats"}, ChoiceError, "did you mean 'states'"),
        ({"vocabulary": ("a", "c")}, AutomatonError, "symbol 'b' of the automaton is not in the vocabulary ('a', 'c')"),
        ({"vocabulary": ("a", "b", "a")}, AutomatonError, "expected different tokens"),
        ({"classes": (True,)}, AutomatonError, "the output of state '0' is False, not in classes (True,)"),
        ({"classes": (True, False, True)}, AutomatonError, "expected different labels"),
        ({"method": "phase"}, AutomatonError, "symbol 'a' merges states"),
    ],
)
def test_bad_input_is_named(options, error, message) -> None:
    with pytest.raises(error) as caught:
        compile_dfa(DFA.from_regex("(a|b)*abb"), **options)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------------- phases


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.lists(st.integers(0, 59), min_size=1, max_size=4), st.integers(0, 2**32))
def test_counters_by_phases(size: int, steps: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    dfa = counter(size, [step % size for step in steps], [int(k) for k in rng.integers(3, size=size)])
    model = compile_dfa(dfa, "phase", length=1000)
    assert layer_of(model).state_dim == 1
    assert wrong(model, dfa, rng.integers(len(steps), size=(4, 1000)), chunk=300) == 0


def test_states_may_have_any_numbers() -> None:
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(7)  # the count of each state; state 7 is one that no word leads to
    table = np.argsort(shuffled)[(shuffled[:, None] + [3, 5]) % 7]
    dfa = DFA(("a", "b"), np.vstack([table, [[7, 7]]]), int(rng.integers(7)), tuple(range(8)))
    assert wrong(compile_dfa(dfa, "phase", length=1000), dfa, rng.integers(2, size=(4, 1000))) == 0
    assert as_counter(dfa).size == 7


def test_a_cyclic_group_needs_no_letter_of_full_order() -> None:
    assert as_counter(DFA.from_group(group("Z2xZ3"))).size == 6


@pytest.mark.parametrize("name", ["Z2xZ2", "S3", "D4"])
def test_other_groups_are_no_counters(name: str) -> None:
    with pytest.raises(AutomatonError, match="expected a modular counter"):
        compile_dfa(DFA.from_group(group(name)), "phase")


def test_permutations_that_are_no_turns_are_refused() -> None:
    swap = DFA(("a", "b"), np.array([[1, 1], [2, 0], [0, 2]]), 0, (0, 1, 2))
    with pytest.raises(AutomatonError, match="symbol 'b' does not add the same everywhere"):
        as_counter(swap)


def test_the_length_is_bounded_and_enforced() -> None:
    dfa = counter(100, [0, 1], list(range(100)))
    most = exact_length(dfa)
    assert 20_000 < most < 200_000
    compile_dfa(dfa, "phase", length=int(most))
    with pytest.raises(RangeError, match="exact for words of up to"):
        compile_dfa(dfa, "phase", length=int(most) + 1)
    assert exact_length(counter(1, [0], [0])) == math.inf
    assert exact_length(counter(6500, [1], [0] * 6500)) == 0


def test_the_error_is_within_its_bound() -> None:
    """x after t steps is within (1 + c)^t - 1 of the exact root, c from the same margin and length."""
    dfa = counter(5, [1, 2], list(range(5)))
    model, most = compile_dfa(dfa, "phase").eval(), exact_length(dfa)
    growth = math.log1p(math.sin(math.pi / 5)) / most
    for token in (0, 1):
        with torch.no_grad():
            _, state = model(torch.full((1, 50_000), token), return_state=True)
        exact = np.exp(2j * np.pi * ((token + 1) * 50_000 % 5) / 5)
        assert abs(complex(state[0][0, 0]) - exact) <= math.expm1(growth * 50_000)


@pytest.mark.slow
def test_a_thousand_states_a_million_steps() -> None:
    rng = np.random.default_rng(0)
    dfa = DFA.random(1000, 50, rng, range(1000))
    model = compile_dfa(dfa).freeze()
    assert wrong(model, dfa, rng.integers(50, size=(1, 1_000_000)), chunk=10_000) == 0


@pytest.mark.slow
def test_phases_up_to_their_bound() -> None:
    rng = np.random.default_rng(0)
    for size in (2, 5, 30):
        dfa = counter(size, [0, 1, size - 1], list(range(size)))
        length = int(exact_length(dfa))
        words = np.concatenate([rng.integers(3, size=(1, length)), np.ones((1, length), dtype=np.int64)])
        assert wrong(compile_dfa(dfa, "phase", length=length), dfa, words, chunk=20_000) == 0
