"""What a run shows while it goes on: a live line on a terminal, elsewhere a line every half minute."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from typing import Any

from pdssm.training.state import TrainState

PAUSE = 30.0


class Progress(ABC):
    """Told of every step; shows what is worth a look."""

    def __init__(self, name: str, step: int, steps: int) -> None:
        self.name, self.step, self.steps = name, step, steps

    @abstractmethod
    def update(self, state: TrainState) -> None:
        """After a step."""

    @abstractmethod
    def say(self, message: str) -> None:
        """Something worth a line of its own."""

    @abstractmethod
    def close(self) -> None:
        """At the end."""


class Quiet(Progress):
    """Shows nothing."""

    def update(self, state: TrainState) -> None:
        pass

    def say(self, message: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines(Progress):
    """A plain line now and then."""

    def __init__(self, name: str, step: int, steps: int) -> None:
        super().__init__(name, step, steps)
        self._shown = time.monotonic()

    def update(self, state: TrainState) -> None:
        now = time.monotonic()
        if now - self._shown < PAUSE:
            return
        speed = (state.step - self.step) / (now - self._shown)
        self._shown, self.step = now, state.step
        left = remaining(self.steps - state.step, speed)
        self.say(f"step {state.step}/{self.steps}  {summary(state)}  {speed:.1f} steps/s  {left}")

    def say(self, message: str) -> None:
        print(f"{self.name}: {message}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Bar(Progress):
    """rich's, on a terminal."""

    def __init__(self, name: str, step: int, steps: int) -> None:
        super().__init__(name, step, steps)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        speed = TextColumn("{task.fields[speed]}")
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
        )
        self._bar = RichProgress(*columns, speed, TimeRemainingColumn(), console=Console(stderr=True))
        self._row: Any = self._bar.add_task(name, total=steps, completed=step, values="", speed="")
        self._bar.start()
        self._shown = 0.0

    def update(self, state: TrainState) -> None:
        now = time.monotonic()
        if now - self._shown > 0.1 or state.step == self.steps:
            self._shown = now
            speed = self._bar.tasks[self._row].speed
            told = "" if speed is None else f"{speed:.1f} steps/s"
            self._bar.update(self._row, completed=state.step, values=summary(state), speed=told)

    def say(self, message: str) -> None:
        self._bar.console.print(f"{self.name}: {message}", highlight=False)

    def close(self) -> None:
        self._bar.stop()


def summary(state: TrainState) -> str:
    """Loss, accuracy, and the longest word where it is still growing."""
    parts = [f"loss {state.loss:.4f}"]
    if state.accuracy is not None:
        parts.append(f"accuracy {state.accuracy:.2%} (best {state.best:.2%})")
    if state.curriculum.longest < state.curriculum.lengths[1]:
        parts.append(f"lengths to {state.curriculum.longest}")
    return "  ".join(parts)


def remaining(steps: int, speed: float) -> str:
    """In hours, minutes and seconds."""
    if speed <= 0:
        return ""
    minutes, seconds = divmod(round(steps / speed), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"


def make_progress(name: str, step: int, steps: int, quiet: bool) -> Progress:
    """For the place this runs in; ``step`` are done already."""
    if quiet:
        return Quiet(name, step, steps)
    return Bar(name, step, steps) if sys.stderr.isatty() else Lines(name, step, steps)
