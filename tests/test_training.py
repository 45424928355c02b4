"""What a run does and leaves: its folder, its measurements, its bits, its logs and its progress."""

from __future__ import annotations

import dataclasses
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdssm import SequenceModel
from pdssm.tasks import Task, make_task, sample_batch
from pdssm.training import RunFolder, TrainConfig, accuracy_by_length, environment, evaluate
from pdssm.training.averaging import Average
from pdssm.training.curriculum import WINDOW, Curriculum
from pdssm.training.optimiser import learning_rate, make_optimiser
from pdssm.training.state import TrainState, step_seed
from tests.runs import bits, run, tiny


def small_model(config: TrainConfig) -> SequenceModel:
    torch.manual_seed(0)
    return SequenceModel(config.model_config(config.make_task()))


# ------------------------------------------------------------------------------------------------- the folder


def test_a_copy_on_another_machine_is_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDSSM_COMMIT", "abc")
    assert environment.commit.__wrapped__() == "abc"
    monkeypatch.delenv("PDSSM_COMMIT")
    monkeypatch.setattr(environment, "_git", lambda *_: None)
    assert environment.commit.__wrapped__() is None


def test_what_a_run_leaves(tmp_path: Path) -> None:
    config = tiny(task="S3:2")
    outcome = run(config, tmp_path / "new" / "run")
    folder = RunFolder(outcome.folder)
    names = {path.name for path in folder.path.iterdir()}
    assert names == {"config.json", "environment.json", "metrics.jsonl", "checkpoints", "best", "lock"}
    assert folder.config() == config.self_contained()
    start = folder.environment()[-1]
    assert {"started", "machine", "versions", "commit", "threads", "command"} <= start.keys()
    assert start["threads"] == 1
    assert start["versions"]["torch"] == torch.__version__
    assert start["machine"]["cores"] >= 1
    assert [line["step"] for line in folder.records("train")] == list(range(1, 9))
    evaluations = folder.records("evaluation")
    assert [line["step"] for line in evaluations] == [2, 4, 6, 8]
    assert {"accuracy", "loss", "best", "last", "whole", "seconds"} <= evaluations[0].keys()
    assert (outcome.reason, outcome.exit_code, outcome.step) == ("finished", 0, 8)
    assert outcome.best == max(line["accuracy"] for line in evaluations)
    assert outcome.best_step == next(line["step"] for line in evaluations if line["accuracy"] == outcome.best)
    assert outcome.accuracy == evaluations[-1]["accuracy"]
    assert outcome.seconds > 0


def test_the_best_model_is_the_one_that_was_measured(tmp_path: Path) -> None:
    config = tiny(ema=0.5, eval_samples=64)
    outcome = run(config, tmp_path)
    model = SequenceModel.from_pretrained(tmp_path / "best")
    found = evaluate(model, config.make_task(), config.eval_lengths, config.eval_samples, chunk=config.eval_chunk)
    assert found.accuracy == outcome.best
    assert len(list((tmp_path / "checkpoints").glob("best-*"))) == 1


def test_it_stops_at_its_goal(tmp_path: Path) -> None:
    outcome = run(tiny(stop_above=0.0, steps=100), tmp_path)
    assert (outcome.reason, outcome.exit_code, outcome.step) == ("reached", 0, 2)
    assert "is above" in outcome.message
    assert run(tiny(stop_above=0.0, steps=100), tmp_path).reason == "reached"


# ------------------------------------------------------------------------------------------------------- bits


def test_the_seed_decides(tmp_path: Path) -> None:
    """Whatever the state of the global generators, which are left as they were."""
    config = tiny(dropout=0.2, mixer_options={"state_dim": 4, "stochastic": True})
    torch.manual_seed(1)
    run(config, tmp_path / "a")
    torch.manual_seed(2)
    random.seed(2)
    np.random.seed(2)  # noqa: NPY002 - the global generator is what this is about
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    run(config, tmp_path / "b")
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    run(dataclasses.replace(config, seed=1), tmp_path / "c")
    assert bits(tmp_path / "a") == bits(tmp_path / "b")
    assert bits(tmp_path / "a") != bits(tmp_path / "c")


def test_the_callers_threads_come_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    run(tiny(threads=before + 1), tmp_path)
    assert torch.get_num_threads() == before


@given(seed=st.integers(0, 2**63), step=st.integers(0, 10**9), process=st.integers(0, 99))
def test_every_step_has_a_seed_of_its_own(seed: int, step: int, process: int) -> None:
    own = step_seed(seed, step, process, "train")
    assert 0 <= own < 2**63
    assert own == step_seed(seed, step, process, "train")
    others = {step_seed(seed, step + 1, process, "train"), step_seed(seed, step, process + 1, "train")}
    assert own not in others | {
        step_seed(seed, step, process, "evaluation"),
        step_seed(seed + 1, step, process, "train"),
    }


def test_half_precision_is_used(tmp_path: Path) -> None:
    single, half = run(tiny(dim=16), tmp_path / "a"), run(tiny(dim=16, precision="bf16"), tmp_path / "b")
    losses = [RunFolder(outcome.folder).records("train")[0]["loss"] for outcome in (single, half)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


# ------------------------------------------------------------------------------- what the optimiser is given


@given(steps=st.integers(1, 200), warmup=st.floats(0, 1), final=st.floats(1e-6, 1e-3))
def test_the_learning_rate(steps: int, warmup: float, final: float) -> None:
    """It rises to its peak, never passes it, and ends where it should."""
    config = TrainConfig("parity", steps=steps, warmup=warmup, lr=1e-3, final_lr=final)
    rates = [learning_rate(config, step) for step in range(steps)]
    top = math.ceil(warmup * steps)
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert max(rates) <= 1e-3 * (1 + 1e-12)
    if steps - top > 1:
        assert rates[-1] == pytest.approx(final)
    constant = dataclasses.replace(config, schedule="constant")
    assert all(learning_rate(constant, step) == 1e-3 for step in range(top, steps))


def test_embeddings_do_not_decay() -> None:
    config = tiny(weight_decay=0.1)
    model = small_model(config)
    groups = {entry["weight_decay"]: entry["params"] for entry in make_optimiser(config, model).param_groups}
    assert [weight.shape for weight in groups[0.0]] == [model.encoder.weight.shape]
    assert len(groups[0.1]) == len(list(model.parameters())) - 1


@given(decay=st.floats(0.01, 0.99), steps=st.integers(0, 5))
def test_the_average(decay: float, steps: int) -> None:
    layer = torch.nn.Linear(2, 2).double()
    average, expected = Average(layer, decay), layer.weight.detach().clone()
    for step in range(steps):
        with torch.no_grad():
            layer.weight += step
        average.update()
        expected = decay * expected + (1 - decay) * layer.weight.detach()
    own = layer.weight.detach().clone()
    with average.in_place():
        torch.testing.assert_close(layer.weight.detach(), expected)
    assert torch.equal(layer.weight, own)


@given(low=st.integers(1, 20), span=st.integers(0, 100), losses=st.lists(st.booleans(), max_size=20))
def test_the_curriculum(low: int, span: int, losses: list[bool]) -> None:
    """It grows after windows whose loss is small, never beyond the longest, and never shrinks."""
    curriculum = Curriculum.begin(0.5, (low, low + span))
    for small in losses:
        before = curriculum.longest
        for _ in range(WINDOW):
            curriculum.observe(0.1 if small else 0.9)
        grown = min(max(before + 2, int(before * 1.25)), low + span)
        assert curriculum.now == (low, grown if small else before)
    assert Curriculum.begin(None, (low, low + span)).now == (low, low + span)


def test_the_smoothed_loss_begins_as_a_mean() -> None:
    config = tiny()
    state = TrainState(config, small_model(config))
    for loss in (1.0, 2.0, 6.0):
        state.observe(loss)
    assert state.loss == pytest.approx(3.0)
    for _ in range(2000):
        state.observe(5.0)
    assert state.loss == pytest.approx(5.0)


# ------------------------------------------------------------------------------------------------- evaluation


class Constant(torch.nn.Module):
    """Always gives the first answer, with certainty."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.eye(classes)[0] * 50)

    def forward(self, x: Any, *, cu_seqlens: Any, positions: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(len(positions), -1)


@pytest.mark.parametrize("name", ["S3:2", "Z2:1"])
@given(samples=st.integers(1, 20), chunk=st.integers(1, 200), seed=st.integers(0, 5))
def test_what_is_counted(name: str, samples: int, chunk: int, seed: int) -> None:
    """Labels, last labels and faultless words, against counting them one word at a time."""
    task, lengths = make_task(name), (1, 5)
    found = evaluate(Constant(task.output_size), task, lengths, samples, seed=seed, chunk=chunk)  # type: ignore[arg-type]
    size, words = max(1, chunk // 5), []
    for number, start in enumerate(range(0, samples, size)):
        batch = sample_batch(task, seed, "validation", number, min(size, samples - start), lengths)
        words += [(batch.sequence(i)[1] == 0).tolist() for i in range(len(batch))]
    flat = [right for word in words for right in word]
    assert (found.sequences, found.labels) == (samples, len(flat))
    assert found.accuracy == pytest.approx(sum(flat) / len(flat))
    assert found.last == pytest.approx(sum(word[-1] for word in words) / samples)
    assert found.whole == pytest.approx(sum(all(word) for word in words) / samples)


def test_processes_share_an_evaluation() -> None:
    task: Task = make_task("S3:2")
    model: Any = Constant(task.output_size)
    whole = evaluate(model, task, (1, 5), 20, chunk=15)
    parts: list[torch.Tensor] = []

    def keep(counts: torch.Tensor) -> torch.Tensor:
        parts.append(counts)
        return sum(parts, torch.zeros_like(counts))

    evaluate(model, task, (1, 5), 20, chunk=15, share=(0, 2), total=keep)
    assert evaluate(model, task, (1, 5), 20, chunk=15, share=(1, 2), total=keep) == whole


def test_long_words_are_fewer() -> None:
    task = make_task("parity")
    found = accuracy_by_length(small_model(tiny()), task, (2, 50, 1000), 100, steps=2000)
    assert {length: value.sequences for length, value in found.items()} == {2: 100, 50: 40, 1000: 8}
    model = small_model(tiny(dropout=0.5)).train()
    assert accuracy_by_length(model, task, (9,), 50) == accuracy_by_length(model, task, (9,), 50)
    assert model.training
