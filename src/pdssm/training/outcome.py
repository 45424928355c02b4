"""How a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Reason = Literal["finished", "reached", "nan", "disk full", "interrupted"]
EXIT_CODES: dict[str, int] = {"finished": 0, "reached": 0, "nan": 1, "disk full": 1, "interrupted": 130}


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    reason: Reason
    message: str
    step: int
    seconds: float
    """Spent in all its sessions together."""
    accuracy: float | None
    best: float | None
    best_step: int | None

    @property
    def exit_code(self) -> int:
        """0 where it came to its end, 1 where it had to stop, 130 where it was told to."""
        return EXIT_CODES[self.reason]


class Stop(Exception):  # noqa: N818 - the end of a run is no error of the program
    """The run ends here."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
