"""A run may be cut anywhere: what goes on from it ends in the same bits as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pdssm.tasks import Batch, sample_batch
from pdssm.training import RunFolder, TrainConfig, step
from pdssm.training.checkpoint import CheckpointWarning, checkpoint_steps, load_newest, save_checkpoint
from pdssm.training.optimiser import restore_moments
from tests.runs import bits, run, tiny

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "average": {"ema": 0.9},
    "curriculum": {"curriculum": 5.0, "lengths": (1, 20), "steps": 60, "eval_every": 30, "checkpoint_every": 20},
    "noise": {"mixer_options": {"state_dim": 4, "stochastic": True}, "dropout": 0.3},
    "half": {"precision": "bf16", "clip": 0.1, "optimiser": "adam", "schedule": "constant"},
    "deep": {"layers": 2, "norm": "pre", "residual": True, "ffn": 2, "task": "S3:2"},
    "lstm": {"mixer": "lstm", "mixer_options": {}},
}


@contextmanager
def signalled(at: int, number: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """The process gets a signal while it draws the batch of a step."""

    def draw(task: Any, seed: int, split: Any, index: int, *rest: Any) -> Batch:
        if index == at:
            signal.raise_signal(number)
        return sample_batch(task, seed, split, index, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "sample_batch", draw)
        yield


@pytest.mark.parametrize("name", VARIANTS)
def test_cut_and_gone_on_with(name: str, tmp_path: Path) -> None:
    config = tiny(**{"task": "parity", **VARIANTS[name]})
    run(config, tmp_path / "whole")
    for at in (0, 3, config.steps // 2):
        with signalled(at):
            outcome = run(config, tmp_path / "cut")
        assert (outcome.reason, outcome.step, outcome.exit_code) == ("interrupted", at + 1, 130)
    assert run(config, tmp_path / "cut").reason == "finished"
    assert bits(tmp_path / "cut") == bits(tmp_path / "whole")
    events = [line["event"] for line in RunFolder(tmp_path / "cut").records("event")]
    assert events == ["interrupted", "resumed"] * 3 + ["finished"]


@settings(max_examples=5)
@given(cuts=st.lists(st.integers(0, 7), max_size=3), number=st.sampled_from([signal.SIGINT, signal.SIGTERM]))
def test_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, cuts: list[int], number: signal.Signals) -> None:
    folder = tmp_path_factory.mktemp("run")
    config = tiny(ema=0.5)
    run(config, folder / "whole")
    for at in cuts:
        with signalled(at, number):
            run(config, folder / "cut")
    run(config, folder / "cut")
    assert bits(folder / "cut") == bits(folder / "whole")


def test_forgotten_moments_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: the comparison sees an optimiser that begins anew."""
    config = tiny()
    run(config, tmp_path / "whole")
    with signalled(4):
        run(config, tmp_path / "cut")

    def forget(optimiser: Any, names: dict[Tensor, str], tensors: dict[str, Tensor]) -> None:
        restore_moments(optimiser, names, {name: 0 * tensor for name, tensor in tensors.items()})

    monkeypatch.setattr("pdssm.training.state.restore_moments", forget)
    run(config, tmp_path / "cut")
    assert bits(tmp_path / "cut") != bits(tmp_path / "whole")


def test_a_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    config = tiny()
    run(config, tmp_path / "run")
    before = bits(tmp_path / "run")
    again = run(config, tmp_path / "run")
    assert (again.reason, again.step) == ("finished", config.steps)
    assert bits(tmp_path / "run") == before


# ----------------------------------------------------------------------------------------------- damaged files


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has come to its end."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(tiny(), folder)
    return folder


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change(**values: Any) -> Callable[[Path], None]:
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_bytes()), **values}))


DAMAGE: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a bit": ("safetensors", flip, "cut short or altered"),
    "half of it": ("safetensors", truncate, "cut short or altered"),
    "all of it": ("safetensors", lambda path: path.write_bytes(b""), "cut short or altered"),
    "no weights": ("safetensors", Path.unlink, "cannot be read: No such file"),
    "half a header": ("json", truncate, "is not JSON"),
    "not an object": ("json", lambda path: path.write_text("[]"), "is no checkpoint"),
    "a later version": ("json", change(version=2), "is no checkpoint; expected format 'pdssm.checkpoint', version 1"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(name: str, finished: Path, tmp_path: Path) -> None:
    suffix, damage, message = DAMAGE[name]
    folder = tmp_path / "run"
    shutil.copytree(finished, folder, symlinks=True)
    newest = folder / "checkpoints" / f"step-000000008.{suffix}"
    damage(newest)
    with pytest.warns(CheckpointWarning, match=message) as caught:
        assert run(tiny(), folder).reason == "finished"
    assert "going back to the checkpoint of step 6" in str(caught[0].message)
    assert bits(folder) == bits(finished)
    kept = {path.name for path in newest.parent.glob("*.damaged")}
    assert kept <= {"step-000000008.json.damaged", "step-000000008.safetensors.damaged"}
    assert kept


def test_without_a_sound_checkpoint_a_run_begins_again(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder, symlinks=True)
    for path in (folder / "checkpoints").glob("step-*.safetensors"):
        flip(path)
    with pytest.warns(CheckpointWarning) as caught:
        run(tiny(), folder)
    assert "going back to the checkpoint of step 6" in str(caught[0].message)
    assert "there is none before it" in str(caught[1].message)
    assert bits(folder) == bits(finished)


def test_what_a_kill_leaves_lying_about_is_no_checkpoint(finished: Path, tmp_path: Path) -> None:
    """Weights without their JSON file, half-written parts, a metrics line cut short and garbage after it."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder, symlinks=True)
    checkpoints = folder / "checkpoints"
    (checkpoints / "step-000000008.json").unlink()
    (checkpoints / "step-000000007.safetensors.part").write_bytes(b"half")
    (checkpoints / "step-000000003.safetensors").write_bytes(b"without its JSON file")
    (folder / "config.json.part").write_bytes(b"{")
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(b'{"kind": "train", "step": 8, "lo\n\xff\x00[]\n7\n{"kind": "tr')
    assert run(tiny(), folder).reason == "finished"
    assert bits(folder) == bits(finished)
    assert not list(folder.rglob("*.part"))
    assert sorted(path.name for path in checkpoints.glob("step-*")) == [
        f"step-00000000{number}.{suffix}" for number in (6, 8) for suffix in ("json", "safetensors")
    ]


@given(steps=st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=6))
def test_the_last_two_checkpoints_stay(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    folder = tmp_path_factory.mktemp("checkpoints") / "new"
    for number in sorted(steps):
        save_checkpoint(folder, {"weight": torch.full((2, 3), float(number))}, {"step": number, "best": None})
    assert checkpoint_steps(folder) == sorted(steps)[-2:]
    newest = load_newest(folder)
    assert newest is not None
    assert newest[1] == {"step": max(steps), "best": None}
    assert torch.equal(newest[0]["weight"], torch.full((2, 3), float(max(steps))))


def test_no_folder_no_checkpoint(tmp_path: Path) -> None:
    assert load_newest(tmp_path / "nothing") is None


def test_threads_are_kept(tmp_path: Path) -> None:
    """Another number of them gives other bits, so a run goes on with those it began with."""
    run(tiny(threads=None), tmp_path / "run")
    assert RunFolder(tmp_path / "run").config().threads == torch.get_num_threads()
    assert isinstance(RunFolder(tmp_path / "run").config(), TrainConfig)
