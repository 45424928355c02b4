"""The recall benchmark: its task, and that a study of it runs."""

from __future__ import annotations

import pytest
import torch

from benchmarks import recall
from benchmarks.layer_variants import variants
from benchmarks.recall import KEYS, LAYERS, VALUES, Recaller, draw


@pytest.mark.parametrize("pairs", [1, 2, KEYS])
def test_the_answer_is_the_value_of_the_key(pairs: int) -> None:
    x, answers = draw(50, pairs, torch.Generator().manual_seed(0))
    assert x.shape == (50, pairs + 1, KEYS + VALUES)
    for sequence, answer in zip(x, answers, strict=True):
        shown = {int(step[:KEYS].argmax()): int(step[KEYS:].argmax()) for step in sequence[:-1]}
        assert len(shown) == pairs  # no key twice
        assert shown[int(sequence[-1, :KEYS].argmax())] == answer
        assert sequence[:-1].sum() == 2 * pairs
        assert sequence[-1].sum() == 1  # the question shows no value


def test_accuracy_counts_right_answers() -> None:
    class Knows(Recaller):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            same = (x[:, :-1, :KEYS] * x[:, -1:, :KEYS]).sum(-1, keepdim=True)
            return (same * x[:, :-1, KEYS:]).sum(1)

    assert recall.accuracy(Knows(torch.nn.Identity()), 5, 100) == 1.0
    torch.manual_seed(0)
    assert recall.accuracy(Recaller(variants(recall.DIM, 2)["LSTM"]()), 5, 400) < 0.2


def test_a_study(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(recall, "LAYERS", ("LSTM", "Transformer"))
    found = recall.study(steps=2, batch=2, questions=8)
    assert [each["layer"] for each in found] == ["LSTM", "Transformer"]
    assert set(LAYERS) <= set(variants(8, 2))
    assert all(set(each["accuracy"]) == {str(pairs) for pairs in recall.PAIRS} for each in found)
    again = recall.study(steps=2, batch=2, questions=8)
    assert [each["accuracy"] for each in again] == [each["accuracy"] for each in found]
    assert "Transformer" in capsys.readouterr().out
