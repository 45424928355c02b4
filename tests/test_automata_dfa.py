"""Automata: validation, words, files, minimal forms and counterexamples, against automata-lib and brute force."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from automata.fa import dfa as library_dfa
from automata.fa import nfa as library_nfa
from hypothesis import given, settings
from hypothesis import strategies as st

from pdssm.automata import DFA, AutomatonError, counterexample, group, isomorphic
from pdssm.errors import PDSSMError

PARITY = DFA.from_table({"even": {"0": "even", "1": "odd"}, "odd": {"0": "odd", "1": "even"}}, "even", ["odd"])
LABELS = (False, True, 0, 1, "x", "é")


@st.composite
def machines(draw: st.DrawFn, symbols: int | None = None, labels: tuple[object, ...] = (False, True)) -> DFA:
    """Unreachable states included."""
    states, width = draw(st.integers(1, 6)), symbols or draw(st.integers(1, 3))
    targets = st.integers(0, states - 1)
    table = draw(st.lists(st.lists(targets, min_size=width, max_size=width), min_size=states, max_size=states))
    outputs = draw(st.lists(st.sampled_from(labels), min_size=states, max_size=states))
    return DFA(tuple("abc"[:width]), np.array(table), draw(targets), tuple(outputs))


def words_of(rng: np.random.Generator, dfa: DFA, count: int = 50, length: int = 30) -> list[tuple[str, ...]]:
    return [dfa.decode(rng.integers(len(dfa.alphabet), size=rng.integers(length))) for _ in range(count)]


# --------------------------------------------------------------------------------------------------- words


def test_words_in_every_form() -> None:
    for word in ("0110", ["0", "1", "1", "0"], ("0", "1", "1", "0"), [0, 1, 1, 0], np.array([0, 1, 1, 0])):
        assert PARITY.run(word) == 0
        assert PARITY.label(word) is False
    assert PARITY.accepts("1")
    assert not PARITY.accepts("")
    assert PARITY.run("1", start=1) == 0
    assert PARITY.name(1) == "odd"
    assert list(PARITY.words(2)) == [(), ("0",), ("1",), ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]


@given(machines(), st.integers(0, 9), st.integers(0, 5), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_many_words_at_once(dfa: DFA, time: int, batch: int, seed: int) -> None:
    words = np.random.default_rng(seed).integers(len(dfa.alphabet), size=(batch, time))
    states = dfa.run_many(words)
    assert states.shape == (batch, time)
    for word, path in zip(words, states, strict=True):
        assert [dfa.run(word[: t + 1]) for t in range(time)] == path.tolist()
    if time > 1:
        assert np.array_equal(dfa.run_many(words[:, 1:], start=states[:, 0]), states[:, 1:])


def test_a_group_reads_running_products() -> None:
    a5, rng = group("A5"), np.random.default_rng(0)
    generators = a5.generating_set(4, seed=0)
    dfa, words = DFA.from_group(a5, generators), rng.integers(4, size=(3, 20))
    product = np.zeros(3, dtype=np.int64)
    for t, states in enumerate(dfa.run_many(words).T):
        product = a5.multiply(product, generators[words[:, t]])
        assert [dfa.outputs[state] for state in states] == product.tolist()
    assert len(dfa.minimised()) == 60


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_random_automata_are_reachable(states: int, symbols: int, seed: int) -> None:
    dfa = DFA.random(states, symbols, np.random.default_rng(seed))
    assert sorted(dfa.reachable().tolist()) == list(range(states))
    assert dfa == DFA.random(states, symbols, np.random.default_rng(seed))
    assert len(dfa.alphabet) == symbols


# --------------------------------------------------------------------------------------------- automata-lib


@pytest.mark.parametrize("seed", range(20))
def test_random_automata_against_automata_lib(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dfa = DFA.random(int(rng.integers(1, 30)), int(rng.integers(1, 5)), rng)
    theirs = dfa.to_automata_lib()
    for word in words_of(rng, dfa):
        assert dfa.accepts(word) == theirs.accepts_input("".join(word))
    assert isomorphic(DFA.from_automata_lib(theirs), dfa)
    assert len(dfa.minimised()) == len(theirs.minify(retain_names=False).to_complete().states)
    other = DFA.random(7, dfa.alphabet, rng)
    both = DFA.from_automata_lib(theirs & other.to_automata_lib())
    assert isomorphic(dfa.product(other), both)


@pytest.mark.parametrize("pattern", ["(ab)*", "a*b+", "(a|b)*abb", "a{2,3}b?", "(a|b)*&(ab|ba)*", "()|a"])
def test_regular_expressions(pattern: str) -> None:
    dfa, rng = DFA.from_regex(pattern, "ab"), np.random.default_rng(0)
    theirs = library_nfa.NFA.from_regex(pattern, input_symbols={"a", "b"})
    assert dfa.alphabet == ("a", "b")
    for word in [*dfa.words(6), *words_of(rng, dfa)]:
        assert dfa.accepts(word) == theirs.accepts_input("".join(word))
    assert len(dfa) == len(dfa.minimised())


def test_counts_of_repeats_are_no_symbols() -> None:
    """automata-lib takes the 2 of {2} for a symbol where it is not told the alphabet."""
    assert DFA.from_regex("(a|b){2}").alphabet == ("a", "b")
    assert DFA.from_regex("(a2){2,13}").alphabet == ("2", "a")
    assert isomorphic(DFA.from_regex("(a.){1,2}b*"), DFA.from_regex("(a.){1,2}b*", "ab"))


def test_a_partial_automaton_gets_a_sink() -> None:
    theirs = library_dfa.DFA(
        states={"p", "q"},
        input_symbols={"a", "b"},
        transitions={"p": {"a": "q"}, "q": {}},
        initial_state="p",
        final_states={"q"},
        allow_partial=True,
    )
    dfa = DFA.from_automata_lib(theirs)
    assert len(dfa) == 3
    assert [word for word in dfa.words(3) if dfa.accepts(word)] == [("a",)]


def test_without_automata_lib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "automata.fa.dfa", None)
    for call in (lambda: DFA.from_regex("ab"), lambda: PARITY.to_automata_lib()):
        with pytest.raises(ImportError, match=r"pdssm\[automata\]"):
            call()


# ---------------------------------------------------------------------------------------------------- files


@given(machines(labels=LABELS), st.booleans())
@settings(max_examples=50, deadline=None)
def test_json_round_trip(dfa: DFA, named: bool) -> None:
    if named:
        names = tuple(f"state {k} ü" for k in range(len(dfa)))
        dfa = DFA(dfa.alphabet, dfa.transitions, dfa.initial, dfa.outputs, names)
    again = DFA.from_json(dfa.to_json())
    assert again == dfa
    assert hash(again) == hash(dfa)
    assert [type(label) for label in again.outputs] == [type(label) for label in dfa.outputs]


def test_json_files(tmp_path: Path) -> None:
    path = tmp_path / "parity.json"
    text = PARITY.to_json(path)
    assert path.read_text() == text
    assert DFA.from_json(path) == DFA.from_json(str(path)) == PARITY
    path.write_text(text[:-2])
    with pytest.raises(AutomatonError, match=r"parity\.json is not an automaton: Expecting"):
        DFA.from_json(path)
    with pytest.raises(AutomatonError, match=r"missing\.json is not an automaton"):
        DFA.from_json(tmp_path / "missing.json")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(AutomatonError, match=r"parity\.json is not an automaton"):
        DFA.from_json(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("transitions", {"even": {"0": "even"}, "odd": {"0": "odd", "1": "even"}}, "'even' has no .* symbol '1'"),
        ("transitions", {"even": {"0": "even", "1": "o"}, "odd": {"0": "odd", "1": "even"}}, "'even' .* '1' to 'o'"),
        ("transitions", {"even": {"0": "even", "1": "odd", "2": "odd"}, "odd": {}}, "'even' has .* symbol '2'"),
        ("transitions", {"even": ["even"]}, "transitions of state 'even' are"),
        ("transitions", {"even": {"0": 0}}, "transitions of state 'even' are"),
        ("transitions", [], "transitions is"),
        ("outputs", {"even": False}, "state 'odd' has no output"),
        ("outputs", {"even": False, "odd": True, "third": True}, "outputs names state 'third'"),
        ("outputs", {"even": False, "odd": None}, "output of state odd is None"),
        ("outputs", True, "outputs is True"),
        ("initial", "start", "initial names state 'start'"),
        ("initial", 0, "initial is 0"),
        ("alphabet", ["0", "1", "1"], "alphabet is"),
        ("alphabet", "01", "alphabet is '01'"),
        ("alphabet", ["0"], "'even' has a transition for symbol '1'"),
        ("more", 1, "it has"),
    ],
)
def test_bad_json(key: str, value: object, message: str) -> None:
    content = json.loads(PARITY.to_json()) | {key: value}
    with pytest.raises(AutomatonError, match=f"the JSON text is not an automaton: .*{message}"):
        DFA.from_json(json.dumps(content))


def test_other_bad_input() -> None:
    table = {("p", "a"): "p", ("p", "b"): "q", ("q", "a"): "q"}
    one = np.zeros((1, 1), dtype=np.int64)
    for call, message in (
        (lambda: DFA.from_table(table, "p", ["q"]), "state 'q' has no transition for symbol 'b'"),
        (lambda: DFA.from_table(table | {("q", "b"): "p"}, "p", ["r"]), "outputs names state 'r'"),
        (lambda: DFA.from_table({}, "p", []), "table is empty"),
        (lambda: DFA.from_table({"p": "q"}, "p", []), "expected"),  # type: ignore[dict-item]
        (lambda: PARITY.run("012"), "symbol '2' of the word is not in the alphabet"),
        (lambda: PARITY.run([0, 2]), r"symbol 2 of the word; expected an index 0\.\.1"),
        (lambda: PARITY.run_many(np.array([[0.5]])), "float64"),
        (lambda: PARITY.run_many(np.array([0, 1])), r"expected \(batch, time\)"),
        (lambda: DFA.from_regex("a(b"), r"pattern 'a\(b' is not a regular expression"),
        (lambda: DFA.from_regex("*a"), "is not a regular expression"),
        (lambda: DFA.from_regex("ab", "a"), "over the alphabet"),
        (lambda: DFA.from_regex(""), "names no symbol"),
        (lambda: DFA.from_automata_lib(3), "is int; expected automata-lib's"),  # type: ignore[arg-type]
        (lambda: DFA(("a",), one + 1, 0, (True,)), "state 0 has no transition for symbol 'a': it leads to 1"),
        (lambda: DFA(("a",), one - 1, 0, (True,)), "leads to -1"),
        (lambda: DFA(("a",), one + 0.5, 0, (True,)), "transitions are float64"),
        (lambda: DFA(("a",), one, 1, (True,)), "initial is 1"),
        (lambda: DFA(("a", "b"), one, 0, (True,)), r"shape \(1, 1\); expected \(1, 2\)"),
        (lambda: DFA(("a",), one, 0, (1.5,)), "output of state 0 is 1.5"),  # type: ignore[arg-type]
        (lambda: DFA(("a",), one, 0, (True,), ("p", "q")), "state_names has 2"),
        (lambda: DFA((), one[:, :0], 0, (True,)), "0 symbols"),
        (lambda: DFA.random(0, 2, np.random.default_rng(0)), "states is 0"),
        (lambda: DFA.from_group(group("Z2")).to_automata_lib(), "output of state 0 is 0"),
        (lambda: DFA(("ab",), one, 0, (True,)).to_automata_lib(), "symbol 'ab' is not one character"),
        (lambda: counterexample(PARITY, DFA.from_regex("a")), r"alphabets differ: \('0', '1'\) and \('a',\)"),
    ):
        with pytest.raises(PDSSMError, match=message):
            call()


def test_automata_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        PARITY.transitions[0, 0] = 1
    with pytest.raises(AttributeError):
        PARITY.initial = 1  # type: ignore[misc]
    table = np.zeros((1, 1), dtype=np.int64)
    dfa = DFA(("a",), table, 0, (True,))
    table[0, 0] = 5
    assert dfa.run("a") == 0


# ---------------------------------------------------------------------------------- minimal forms, equality


def classes(dfa: DFA) -> int:
    """How many reachable states differ on some word of up to n letters, n being more than enough."""
    reachable = dfa.reachable().tolist()
    words = list(dfa.words(min(len(reachable), 5)))
    return len({tuple((type(x), x) for x in (dfa.outputs[dfa.run(w, start=q)] for w in words)) for q in reachable})


@given(machines(labels=LABELS[:4]))
@settings(max_examples=80, deadline=None)
def test_minimal_forms(dfa: DFA) -> None:
    small = dfa.minimised()
    assert len(small) == classes(dfa)
    assert small.minimised() == small
    for word in dfa.words(5):
        assert (type(small.label(word)), small.label(word)) == (type(dfa.label(word)), dfa.label(word))


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_the_counterexample_is_the_shortest_and_first(data: st.DataObject) -> None:
    a, b = data.draw(machines(symbols=2)), data.draw(machines(symbols=2))
    b = data.draw(st.sampled_from([b, a, a.minimised()]))
    found = counterexample(a, b)
    wrong = next((word for word in a.words(7) if a.label(word) != b.label(word)), None)
    assert found == wrong if wrong is not None else found is None or len(found) > 7
    assert isomorphic(a, b) == (found is None)
    assert (counterexample(b, a) is None) == (found is None)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_products(data: st.DataObject) -> None:
    a, b = data.draw(machines(symbols=2)), data.draw(machines(symbols=2))
    both, differ = a.product(b), a.product(b, lambda x, y: x != y)
    for word in a.words(4):
        assert both.label(word) == (a.label(word) and b.label(word))
        assert differ.label(word) == (a.label(word) != b.label(word))


def test_one_changed_transition_is_found() -> None:
    right = DFA.from_group(group("A5"))
    table = right.transitions.copy()
    table[17, 1] = table[17, 0]
    broken = DFA(right.alphabet, table, 0, right.outputs)
    word = counterexample(right, broken)
    assert word is not None
    assert right.run(word[:-1]) == 17
    assert right.label(word) != broken.label(word)
    assert not isomorphic(right, broken)


def test_the_order_of_states_and_symbols_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    dfa = DFA.random(50, 3, rng)
    states, symbols = rng.permutation(50), [2, 0, 1]
    moved = dfa.restricted(states)
    turned = DFA(("c", "a", "b"), moved.transitions[:, symbols], moved.initial, moved.outputs)
    assert isomorphic(dfa, turned)
    assert counterexample(turned, dfa) is None


def test_true_is_not_the_label_one() -> None:
    table = np.zeros((1, 1), dtype=np.int64)
    assert counterexample(DFA(("a",), table, 0, (True,)), DFA(("a",), table, 0, (1,))) == ()
