"""Small training runs, and what is left of them that must be the same to the bit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pdssm.training import Outcome, RunFolder, TrainConfig, resume, train
from pdssm.training.checkpoint import load_newest

TIMES = ("seconds", "steps_per_second")


def tiny(task: str = "parity", **changes: Any) -> TrainConfig:
    """A run of 8 steps, evaluated and saved every other one; it takes a tenth of a second."""
    values: dict[str, Any] = {
        "mixer_options": {"state_dim": 4, "dictionary_size": 2},
        "dim": 4, "steps": 8, "batch": 4, "lengths": (1, 6), "lr": 1e-2,
        "eval_every": 2, "eval_samples": 8, "eval_lengths": (3, 9), "stop_above": None,
        "log_every": 1, "checkpoint_every": 2, "threads": 1,
    }  # fmt: skip
    return TrainConfig(task, **{**values, **changes})


def run(config: TrainConfig, folder: Path, logger: str = "none") -> Outcome:
    """Quietly; begun, or gone on with."""
    if RunFolder(folder).exists:
        return resume(folder, logger=logger, quiet=True)
    return train(config, folder, logger=logger, quiet=True)


def bits(folder: Path) -> dict[str, Any]:
    """Everything a run has computed: the newest checkpoint, the best model and the metrics, but no times."""
    newest = load_newest(folder / "checkpoints")
    assert newest is not None
    tensors, counters = newest
    found: dict[str, Any] = {name: digest(tensor.numpy().tobytes()) for name, tensor in tensors.items()}
    found["counters"] = {name: value for name, value in counters.items() if name not in TIMES}
    found["best"] = {path.name: digest(path.read_bytes()) for path in sorted((folder / "best").iterdir())}
    found["metrics"] = [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in RunFolder(folder).records()
        if line["kind"] != "event"
    ]
    return found


def digest(content: bytes) -> str:
    """Short enough to be read in a failing test."""
    return hashlib.sha256(content).hexdigest()[:12]
