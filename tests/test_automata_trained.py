"""From models trained for seconds, the automaton of their task comes out."""

from __future__ import annotations

import pytest

from benchmarks.automata_trained import extracted_from


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", ["parity", "cycle_navigation", "S3:2"])
def test_trained_models_are_their_tasks_automata(task: str, seed: int) -> None:
    found = extracted_from(task, seed)
    assert found.equal, found.verdict
    assert found.states == found.target_states


@pytest.mark.slow
def test_an_untrained_model_is_not_its_tasks_automaton() -> None:
    found = extracted_from("cycle_navigation", 0, steps=1)
    assert not found.equal
    assert found.agreement < 1
    assert found.shortest_difference is not None
