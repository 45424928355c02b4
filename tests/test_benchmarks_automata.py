"""The benchmark of automata, at sizes where it takes no time, and its section of the results."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import automata, automata_speed, sections
from benchmarks.automata_trained import Trained
from pdssm.automata import DFA, compile_dfa


def test_nothing_is_wrong() -> None:
    rng = np.random.default_rng(0)
    for figure in (
        automata.compiled_automata(2, 50, rng),
        automata.compiled_patterns(3, 40, rng),
        automata.a_million_steps(20, 3, 500, rng),
        automata.broken(1, rng),
        *automata.extracted(1, rng),
    ):
        assert figure.met, figure


def test_a_wrong_answer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: every compiled model answers the opposite."""
    right = automata.accepted
    monkeypatch.setattr(automata, "accepted", lambda model, words: ~right(model, words))
    for figure in (
        automata.compiled_automata(1, 20, np.random.default_rng(0)),
        automata.compiled_patterns(1, 20, np.random.default_rng(0)),
    ):
        assert figure.met is False
        assert figure.value >= 20


def test_patterns_mean_the_same_everywhere() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        pattern = automata.random_pattern(3, rng)
        dfa = DFA.from_regex(pattern, "ab")
        for word in dfa.words(4):
            assert dfa.accepts(word) == (re.fullmatch(pattern, "".join(word)) is not None)


def test_speed_is_of_equal_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automata_speed, "BATCH", 4)
    monkeypatch.setattr(automata_speed, "LENGTH", 300)
    figures = list(automata_speed.throughput(0.0, np.random.default_rng(0)))
    assert [("re" in figure.seconds, figure.met is None) for figure in figures] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    monkeypatch.setattr(automata_speed, "fast_forward", lambda model, tokens: (model(tokens)[:, 0], None))
    with pytest.raises(RuntimeError, match="other outputs"):
        list(automata_speed.throughput(0.0, np.random.default_rng(0)))


def test_the_shortest_difference_is_found_by_brute_force() -> None:
    dfa = DFA.from_regex("(a|b)*abb")
    assert automata._shortest_difference(compile_dfa(DFA.from_regex("(a|b)*bb")), dfa) == 2


def test_the_section_says_what_was_found() -> None:
    figure = automata.all_of("extracted and equal", "here", 9, 10, 1.0)
    good = Trained("parity", 0, 3000, 5.0, 2, 2, True, "equal", "0 of 9 words differ", 1.0, 0.5, 89)
    bad = Trained("S3:2", 1, 3000, 5.0, None, 6, False, "more than 200 states", "", 1.0, 0.0, None)
    machine = {"date": "d", "commit": "c", "cpu": "x", "cores": 2, "threads": 1, "python": "3", "torch": "2"}
    text = sections.automata(
        {
            "machine": machine,
            "figures": [vars(figure)],
            "trained": [vars(good), vars(bad)],
            "phases": automata.phase_lengths((5,)),
        }
    )
    assert "| extracted and equal | here | 9 of 10 | 10 of 10 | **no** | 10 of 10 |" in text
    assert "| parity | 0 | 3,000 | 5 s | 2 of 2 | yes | 0 of 9 words differ | 50 % | 89 symbols |" in text
    assert "| none | **no**: more than 200 states |" in text
    assert "| 5 | 1,1" in text
