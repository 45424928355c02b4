"""NaN, a full disk, a signal, a second process: a run ends cleanly, keeps the last good state and says why."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pdssm import SequenceModel
from pdssm.errors import FileError
from pdssm.tasks import Batch, sample_batch
from pdssm.training import RunFolder, TrainConfig, loop, processes, resume, run_folder, state, step, train
from pdssm.training.interruption import Interruption
from tests.runs import bits, run, tiny


def poisoned(at: int) -> Callable[..., Any]:
    """An optimiser whose step ``at`` fills the weights with NaN."""
    make = state.make_optimiser

    def make_optimiser(config: TrainConfig, model: nn.Module) -> torch.optim.Optimizer:
        optimiser, steps = make(config, model), iter(range(1, 1000))

        def poison(*_: Any) -> None:
            if next(steps) == at:
                for weight in model.parameters():
                    weight.data.fill_(torch.nan)

        optimiser.register_step_post_hook(poison)
        return optimiser

    return make_optimiser


@pytest.mark.parametrize("mixer", ["pdssm", "lstm", "sdssm"])
@pytest.mark.parametrize(("at", "message"), [(5, "the loss of step 6 is nan"), (6, "the weights after step 6 are not")])
def test_nan(mixer: str, at: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the model passes the NaN on or refuses it; and before an evaluation or a checkpoint sees it."""
    config = tiny(mixer=mixer, mixer_options={})
    run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(state, "make_optimiser", poisoned(at))
        outcome = run(config, tmp_path / "run")
    assert (outcome.reason, outcome.exit_code, outcome.step) == ("nan", 1, at)
    assert outcome.message.startswith(message)
    assert outcome.message.endswith("the checkpoint of step 4 is kept")
    last = RunFolder(tmp_path / "run").records("event")[-1]
    assert (last["event"], last["message"]) == ("nan", outcome.message)
    SequenceModel.from_pretrained(tmp_path / "run" / "best")
    assert run(config, tmp_path / "run").reason == "finished"  # without the poison, from step 4
    assert bits(tmp_path / "run") == bits(tmp_path / "whole")


def test_a_learning_rate_that_is_too_high(tmp_path: Path) -> None:
    """The weights are finite still, but no longer what a kernel makes of them."""
    outcome = run(tiny(lr=1e30, warmup=0.0, eval_every=100, checkpoint_every=100), tmp_path / "run")
    assert outcome.reason == "nan"
    assert outcome.message == "the loss of step 2 is nan; no checkpoint was due before"
    outcome = run(tiny(lr=1e30, warmup=0.0, eval_every=1), tmp_path / "evaluated")
    assert outcome.reason == "nan"
    assert outcome.message.startswith("after step 1 scores")


# --------------------------------------------------------------------------------------------------- full disk


def full_after(writes: int, write: Callable[..., Any], number: int = errno.ENOSPC) -> Callable[..., Any]:
    """A function that writes, and from some time on finds the disk full."""
    done = iter(range(1000))

    def limited(*arguments: Any, **options: Any) -> Any:
        if next(done) >= writes:
            raise OSError(number, os.strerror(number))
        return write(*arguments, **options)

    return limited


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(("where", "writes"), [("save_checkpoint", 1), ("save_model", 0), ("record", 5)])
def test_a_full_disk(where: str, writes: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny()
    run(config, tmp_path / "whole")
    owner: Any = RunFolder if where == "record" else run_folder
    with monkeypatch.context() as patch:
        patch.setattr(owner, where, full_after(writes, getattr(owner, where), number))
        outcome = run(config, tmp_path / "run")
    assert (outcome.reason, outcome.exit_code) == ("disk full", 1)
    assert "could not be written" in outcome.message
    assert ("the checkpoint of step" if writes else "no checkpoint was due") in outcome.message
    assert run(config, tmp_path / "run").reason == "finished"
    assert bits(tmp_path / "run") == bits(tmp_path / "whole")


def test_other_errors_are_not_called_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "save_checkpoint", full_after(1, run_folder.save_checkpoint, errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        run(tiny(), tmp_path / "run")


def test_a_disk_that_is_really_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written of the second checkpoint goes to /dev/full, which takes nothing."""
    config, folder = tiny(), tmp_path / "run"
    run(config, tmp_path / "whole")

    def draw(*arguments: Any) -> Batch:
        if arguments[3] == 2:
            (folder / "checkpoints" / "step-000000004.safetensors.part").symlink_to("/dev/full")
        return sample_batch(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(step, "sample_batch", draw)
        outcome = run(config, folder)
    assert (outcome.reason, outcome.step) == ("disk full", 4)
    assert outcome.message == (
        f"{folder}/checkpoints/step-000000004.safetensors.part could not be written: No space left on device; "
        "the checkpoint of step 2 is kept"
    )
    assert not list(folder.rglob("*.part"))
    run(config, folder)
    assert bits(folder) == bits(tmp_path / "whole")


def test_no_room_left_in_a_file(tmp_path: Path) -> None:
    """The system's limit on the size of a file cuts a write in the middle; the part written is taken away."""
    folder = RunFolder(tmp_path)
    folder.record("train", 1, loss=1.0)
    whole = folder.metrics.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
        with pytest.raises(OSError, match=r"metrics\.jsonl") as caught:
            folder.record("train", 2, loss=2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert folder.metrics.read_bytes() == whole


# ------------------------------------------------------------------------------------------ signals and locks


def test_a_second_signal_acts_at_once() -> None:
    def interrupt_twice() -> None:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert interruption.requested
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert signal.getsignal(signal.SIGINT) is before


def test_one_process_at_a_time(tmp_path: Path) -> None:
    config = tiny()
    run(config, tmp_path / "run")
    with RunFolder(tmp_path / "run").locked(), pytest.raises(FileError, match="in use by another process"):
        run(config, tmp_path / "run")
    assert run(config, tmp_path / "run").reason == "finished"


def test_a_folder_is_begun_once(tmp_path: Path) -> None:
    run(tiny(), tmp_path / "run")
    with pytest.raises(FileError, match="holds a run already; expected a new folder, or resume that run"):
        train(tiny(), tmp_path / "run", logger="none", quiet=True)
    with pytest.raises(FileError, match="holds no run; expected a folder that pdssm train made"):
        resume(tmp_path / "other", logger="none", quiet=True)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot be a folder: a file is in its place"):
        train(tiny(), tmp_path / "file", logger="none", quiet=True)


def test_what_is_wrong_is_said_before_a_folder_exists(tmp_path: Path) -> None:
    for config, logger in (
        (tiny("no_such_task"), "none"),
        (tiny(mixer_options={"no": 1}), "none"),
        (tiny(), "no_such_logger"),
    ):
        with pytest.raises(ValueError, match=r"no_such|'no'"):
            train(config, tmp_path / "run", logger=logger, quiet=True)
        assert not (tmp_path / "run").exists()


def test_all_processes_stop_where_one_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that does not write sees it: the main one has counted its failure into the sum."""
    other = processes.Processes("cpu")
    other.index, other.count = 1, 2
    monkeypatch.setattr(other, "sum", lambda values: values + 1)
    with pytest.raises(loop.Stop, match="the main process could not write a file"):
        other.write(lambda: pytest.fail("only the main process writes"))
    monkeypatch.setattr(other, "sum", lambda values: values)
    other.write(lambda: pytest.fail("only the main process writes"))
