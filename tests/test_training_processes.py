"""Several processes train one model together, through accelerate: gloo on the CPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pdssm.training import RunFolder, TrainConfig
from pdssm.training.checkpoint import load_newest
from tests.runs import bits, tiny

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def launch(*arguments: str, count: int = 2) -> list[subprocess.Popen[str]]:
    """``pdssm`` in so many processes, as ``torchrun`` and ``accelerate launch`` start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "pdssm", *arguments],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(count)
    ]  # fmt: skip


def ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit code and output of each."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=240)
        found.append((process.returncode, out, err))
    return found


def config(folder: Path, **changes: Any) -> tuple[TrainConfig, list[str]]:
    made = tiny(task="S3:2", ema=0.5, device="cpu", **changes)
    (folder / "config.json").write_text(made.to_json())
    return made, ["train", "--config", str(folder / "config.json"), "--logger", "none", "--quiet"]


def test_two_processes_are_one_run(tmp_path: Path) -> None:
    """One folder, one line of output; and resumed by two, the same bits."""
    _, arguments = config(tmp_path, steps=400, eval_every=100, checkpoint_every=100)
    whole = ended(launch(*arguments, "--out", str(tmp_path / "whole")))
    assert [code for code, _, _ in whole] == [0, 0], whole
    assert "finished at step 400" in whole[0][1]
    assert whole[1][1] == ""
    cut, folder = tmp_path / "cut", RunFolder(tmp_path / "cut")
    processes = launch(*arguments, "--out", str(cut))
    while not folder.records("train"):
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGINT)  # one of them is told, and both stop after the same step
    assert [code for code, _, _ in ended(processes)] == [130, 130]
    assert 0 < (folder.newest_step() or 0) < 400
    again = ended(launch("train", "--resume", str(cut), "--logger", "none", "--quiet"))
    assert [code for code, _, _ in again] == [0, 0], again
    assert bits(cut) == bits(tmp_path / "whole")


def test_two_processes_train_like_one_with_both_batches(tmp_path: Path) -> None:
    """Their first step is the step of one process on all the words of both, up to rounding."""
    import torch
    from torch.nn.functional import cross_entropy

    from pdssm import SequenceModel
    from pdssm.tasks import sample_batch
    from pdssm.training.optimiser import learning_rate, make_optimiser, set_learning_rate

    made, arguments = config(tmp_path, steps=1, eval_every=1, checkpoint_every=1)
    found = ended(launch(*arguments, "--out", str(tmp_path / "run")))
    assert [code for code, _, _ in found] == [0, 0], found
    newest = load_newest(tmp_path / "run" / "checkpoints")
    assert newest is not None
    task = made.make_task()
    torch.manual_seed(made.seed)
    model = SequenceModel(made.model_config(task))
    optimiser = make_optimiser(made, model)
    losses, labels = [], 0
    for number in (0, 1):
        batch = sample_batch(task, made.seed, "train", number, made.batch, made.lengths)
        logits = model(batch.tokens[None], cu_seqlens=batch.cu_seqlens, positions=batch.positions)
        losses.append(cross_entropy(logits, batch.labels, reduction="sum"))
        labels += len(batch.labels)
    loss = sum(losses) / labels
    loss.backward()
    set_learning_rate(optimiser, learning_rate(made, 0))
    optimiser.step()
    assert RunFolder(tmp_path / "run").records("train")[0]["loss"] == pytest.approx(loss.item(), rel=1e-5)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(newest[0][f"model/{name}"], weight.detach(), rtol=1e-3, atol=1e-4)


def test_one_full_disk_stops_both(tmp_path: Path) -> None:
    _, arguments = config(tmp_path, steps=10**6)
    folder = RunFolder(tmp_path / "run")
    processes = launch(*arguments, "--out", str(folder.path))
    while not folder.records("evaluation"):
        time.sleep(0.05)
    now = folder.records("train")[-1]["step"]
    for step in range(now - now % 2, now + 10**4, 2):  # the disk is full from now on
        part = folder.checkpoints / f"step-{step:09d}.safetensors.part"
        if not part.exists():
            part.symlink_to("/dev/full")
        if processes[0].poll() is not None:
            break
    found = ended(processes)
    assert [code for code, _, _ in found] == [1, 1], found
    assert "No space left on device" in found[0][2]
