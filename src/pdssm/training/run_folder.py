"""A run's folder.

config.json         the TrainConfig
environment.json    machine, versions and commit, once for every start
metrics.jsonl       one JSON object a line: kind ("train", "evaluation", "event"), step, and what was measured
checkpoints/        the last two checkpoints, and the best model
best                a link to the best model: SequenceModel.from_pretrained("RUN/best")
tensorboard/        or metrics.csv
lock                held by the process that trains here
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from pdssm.errors import FileError
from pdssm.models import ModelConfig
from pdssm.models.files import save_model, write_atomically
from pdssm.training.checkpoint import checkpoint_steps, load_newest, save_checkpoint
from pdssm.training.config import TrainConfig, read_config


class RunFolder:
    """Reads and writes it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"

    @property
    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / "config.json").exists()

    def begin(self, config: TrainConfig) -> None:
        """A new run; a folder with a run in it is refused."""
        if self.exists:
            raise FileError(f"{self.path} holds a run already; expected a new folder, or resume that run")
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise FileError(f"{self.path} cannot be a folder: a file is in its place; expected a new name") from None
        write_atomically(self.path / "config.json", config.to_json().encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Two processes that train in one folder would undo each other's work: the second is refused."""
        with open(self.path / "lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileError(f"{self.path} is in use by another process that trains there") from None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):  # a file system without locks
                    raise
            yield

    def config(self) -> TrainConfig:
        """Of the run."""
        if not self.exists:
            raise FileError(f"{self.path} holds no run; expected a folder that pdssm train made")
        return read_config(self.path / "config.json")

    # ---------------------------------------------------------------------------------------------- metrics

    def record(self, kind: str, step: int, **values: Any) -> None:
        """One more line, whole or not at all."""
        line = json.dumps({"kind": kind, "step": step, **values}).encode() + b"\n"
        with open(self.metrics, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            if file.write(line) < len(line):
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.metrics))

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All lines, or those of a kind, in the order of the steps; a line that was cut short is left out."""
        found = [line for line in self._lines() if kind in (None, line["kind"])]
        return sorted(found, key=lambda line: line["step"])

    def rewind(self, step: int) -> None:
        """Forget what was measured after a step, which will now be measured again."""
        if self.metrics.exists():
            kept = [line for line in self._lines() if line["step"] <= step]
            write_atomically(self.metrics, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.metrics.exists():
            return
        for text in self.metrics.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and {"kind", "step"} <= line.keys():
                yield line

    def record_environment(self, found: Mapping[str, Any]) -> None:
        """One more start."""
        path = self.path / "environment.json"
        try:
            starts = json.loads(path.read_text())["starts"]
        except (OSError, ValueError, KeyError):
            starts = []
        write_atomically(path, json.dumps({"starts": [*starts, found]}, indent=1).encode())

    def environment(self) -> list[dict[str, Any]]:
        """Of every start."""
        starts: list[dict[str, Any]] = json.loads((self.path / "environment.json").read_text())["starts"]
        return starts

    # --------------------------------------------------------------------------------- checkpoints and models

    def save_checkpoint(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """The metrics first: what a checkpoint's steps measured is on the disk before it."""
        if self.metrics.exists():
            with open(self.metrics, "rb") as file:
                os.fsync(file.fileno())
        save_checkpoint(self.checkpoints, tensors, counters)

    def load_newest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest sound checkpoint."""
        return load_newest(self.checkpoints)

    def newest_step(self) -> int | None:
        """Of the newest checkpoint."""
        return max(checkpoint_steps(self.checkpoints), default=None)

    def save_best(self, step: int, config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
        """A model of its own; ``best`` leads from the one before to this one in a single step."""
        name = f"best-{step:09d}"
        save_model(self.checkpoints / name, config, tensors)
        link = self.path / "best.part"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("checkpoints") / name)
        os.replace(link, self.path / "best")
        for old in self.checkpoints.glob("best-*"):
            if old.name != name:
                shutil.rmtree(old)

    def remove_parts(self) -> None:
        """What a write that failed has left."""
        for path in (*self.path.glob("*.part"), *self.checkpoints.rglob("*.part")):
            path.unlink(missing_ok=True)
