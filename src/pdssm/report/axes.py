"""Scales and the frame of a chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pdssm.report.drawing import Point, Shape, Text, box, line

TEXT_WIDTH = 0.56
"""Of a letter, in heights: enough to lay out legends."""


@dataclass(frozen=True)
class Scale:
    """From values on [low, high] to places on [start, stop]."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (self.stop - self.start) * (value - low) / (high - low or 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values."""
        return _decades(self.low, self.high, most) if self.log else _round_steps(self.low, self.high, most)


def _round_steps(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most or 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**ten for ten in tens for f in factors if low * 0.999 <= f * 10.0**ten <= high * 1.001]
        if len(found) <= most:
            return found
    return found[:: -(-len(found) // most)]


def compact(value: float) -> str:
    """10k, 2.5M, 1e-4."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")


def percent(value: float) -> str:
    """50%."""
    return f"{100 * value:g}%"


def share(value: float) -> str:
    """99.87%, with more digits where two would make less than everything look like everything, or something nothing."""
    for digits in range(2, 8):
        text = f"{100 * value:.{digits}f}"
        if value in (0, 1) or 0 < float(text) < 100:
            return f"{text}%"
    return f"{100 * value}%"


@dataclass(frozen=True)
class Axis:
    """A scale, what stands along it, and how its values are written."""

    scale: Scale
    label: str
    written: Callable[[float], str] = compact
    ticks: Sequence[float] | None = None

    @property
    def marks(self) -> Sequence[float]:
        """Where a number stands."""
        return self.scale.ticks() if self.ticks is None else self.ticks


def frame(x: Axis, y: Axis) -> list[Shape]:
    """Grid, box, ticks and labels; an axis with an empty label has no numbers either."""
    left, right, top, bottom = x.scale.start, x.scale.stop, y.scale.stop, y.scale.start
    shapes: list[Shape] = []
    for value in y.marks:
        place = y.scale(value)
        shapes += [
            line([(left, place), (right, place)], "grid"),
            Text((left - 6, place), y.written(value), "note", "end"),
        ]
    for value in x.marks:
        place = x.scale(value)
        shapes.append(line([(place, bottom), (place, top)], "grid"))
        if x.label:
            shapes.append(Text((place, bottom + 12), x.written(value), "note"))
    shapes.append(box(left, top, right, bottom, "frame"))
    if x.label:
        shapes.append(Text(((left + right) / 2, bottom + 28), x.label, "note"))
    if y.label:
        shapes.append(Text((left - 40, (top + bottom) / 2), y.label, "note", turned=True))
    return shapes


def legend(at: Point, entries: Iterable[tuple[str, str]], width: float) -> tuple[list[Shape], float]:
    """(style of the line, name) in rows from the left, and the height they take."""
    (x, y), left = at, at[0]
    made: list[Shape] = []
    for style, name in entries:
        wide = 30 + 11 * TEXT_WIDTH * len(name)
        if x > left and x + wide > left + width:
            x, y = left, y + 16
        made += [line([(x, y), (x + 18, y)], style), Text((x + 23, y), name, "text", "start")]
        x += wide + 8
    return made, y - at[1] + 16
