"""Where metrics go beside metrics.jsonl."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdssm.errors import PDSSMError, check_choice


class Logger(ABC):
    """Takes numbers by name. ``after`` is the step that a resumed run begins from: later entries are forgotten."""

    @abstractmethod
    def __init__(self, folder: Path, after: int) -> None: ...

    @abstractmethod
    def log(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Numbers of one step."""

    @abstractmethod
    def close(self) -> None:
        """At the end."""


class NoLogger(Logger):
    """Nowhere."""

    def __init__(self, folder: Path, after: int) -> None:
        pass

    def log(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


class TensorBoardLogger(Logger):
    """``tensorboard --logdir RUN`` shows them."""

    def __init__(self, folder: Path, after: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise PDSSMError(
                "logger is 'tensorboard', which is not installed; expected pip install 'pdssm[train]', or logger 'none'"
            ) from None
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=after + 1 if after else None)

    def log(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


class CSVLogger(Logger):
    """``metrics.csv``, a number a line."""

    def __init__(self, folder: Path, after: int) -> None:
        self._path = folder / "metrics.csv"
        rows = [["step", "kind", "name", "value"]]
        if after and self._path.exists():
            with open(self._path, newline="") as file:
                rows += [
                    row for row in csv.reader(file) if len(row) == 4 and row[0].isdecimal() and int(row[0]) <= after
                ]
        self._write("w", rows)

    def log(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        self._write("a", [[step, kind, name, value] for name, value in values.items()])

    def close(self) -> None:
        pass

    def _write(self, mode: str, rows: list[Any]) -> None:
        with open(self._path, mode, newline="") as file:
            csv.writer(file).writerows(rows)


LOGGERS: dict[str, type[Logger]] = {"tensorboard": TensorBoardLogger, "csv": CSVLogger, "none": NoLogger}


def make_logger(name: str, folder: Path, after: int = 0) -> Logger:
    """By name."""
    check_choice("logger", name, LOGGERS)
    return LOGGERS[name](folder, after)
