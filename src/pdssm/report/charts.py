"""Accuracy against length, the learning curve, and the matrix of a symbol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdssm.report.axes import Axis, Scale, compact, frame, legend, percent, share
from pdssm.report.drawing import Dots, Drawing, Group, Point, Shape, Text, line
from pdssm.report.style import series
from pdssm.report.symbols import SymbolMatrices
from pdssm.training import Evaluation

WIDTH, LEFT, RIGHT = 440.0, 52.0, 12.0
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class LengthCurve:
    """One model's accuracy at single lengths."""

    name: str
    by_length: Mapping[int, Evaluation]
    limit: int
    """The longest word in training."""
    dashed: bool = False


def accuracy_chart(curves: Sequence[LengthCurve], chance: float | None, name: str = "accuracy") -> Drawing:
    """Against the logarithm of the length, with the training limit marked."""
    lengths = sorted({length for curve in curves for length in curve.by_length})
    entries = [(_length_style(k, curve), curve.name) for k, curve in enumerate(curves)]
    shapes, tall = legend((LEFT, 10), entries, WIDTH - LEFT - RIGHT)
    top = 12 + tall + 12
    x = Scale(lengths[0], lengths[-1], LEFT, WIDTH - RIGHT, log=True)
    y = Scale(0, 1, top + 190, top)
    shapes += frame(Axis(x, "length of the word"), Axis(y, "right answers", percent, SHARES))
    limits = sorted({curve.limit for curve in curves})
    for limit in limits:
        shapes.append(line([(x(limit), y.start), (x(limit), top)], "limit"))
        told = f"trained up to {limit}" if len(limits) == 1 else str(limit)
        shapes.append(Text((x(limit), top - 8), told, "note", _anchor(x, limit)))
    if chance is not None:
        shapes.append(line([(LEFT, y(chance)), (WIDTH - RIGHT, y(chance))], "chance"))
        shapes.append(Text((LEFT + 4, y(chance) - 8), f"chance {percent(round(chance, 4))}", "note", "start"))
    for number, curve in enumerate(curves):
        shapes += _length_curve(number, curve, x, y)
    said = "; ".join(_length_words(curve) for curve in curves)
    return Drawing(name, f"Accuracy against length. {said}.", WIDTH, top + 190 + 38, tuple(shapes))


def _length_curve(number: int, curve: LengthCurve, x: Scale, y: Scale) -> list[Shape]:
    found = sorted(curve.by_length.items())
    points = [(x(length), y(value.accuracy)) for length, value in found]
    shapes: list[Shape] = [line(points, _length_style(number, curve))]
    for point, (length, value) in zip(points, found, strict=True):
        right, whole = share(value.accuracy), share(value.whole)
        told = f"{curve.name}, length {length:,}: {right} of the answers, {whole} of whole words"
        shapes.append(Group((Dots((point,), 3, f"{series(number)}-dot"),), {"point": str(length)}, told))
    return shapes


def _length_style(number: int, curve: LengthCurve) -> str:
    return f"{series(number)}-{'dashed' if curve.dashed else 'line'}"


def _length_words(curve: LengthCurve) -> str:
    parts = (f"{share(value.accuracy)} at {length}" for length, value in sorted(curve.by_length.items()))
    return f"{curve.name}, trained up to {curve.limit}: {', '.join(parts)}"


def _anchor(x: Scale, value: float) -> Any:
    place = (x(value) - x.start) / (x.stop - x.start)
    return "start" if place < 0.15 else "end" if place > 0.85 else "middle"


# ------------------------------------------------------------------------------------------- learning curve


def learning_chart(records: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """The loss, and below it the accuracy on validation words, against the training step; None if nothing was noted."""
    losses = _measured(records, "train", "loss")
    scores = _measured(records, "evaluation", "accuracy")
    if not losses and not scores:
        return None
    last = max(step for step, _ in (*losses, *scores))
    x = Scale(0, last, LEFT, WIDTH - RIGHT)
    shapes: list[Shape] = []
    if losses:
        values = [max(loss, 1e-9) for _, loss in losses]
        low, high = min(values), max(values)
        y = Scale(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high * 1.0001)), 126, 16, log=True)
        shapes += frame(Axis(x, ""), Axis(y, "loss", compact, y.ticks(5)))
        shapes.append(line([(x(step), y(max(loss, 1e-9))) for step, loss in losses], "c0-line"))
    y = Scale(0, 1, 248, 144)
    shapes += frame(Axis(x, "training step"), Axis(y, "right answers", percent, SHARES))
    if scores:
        points = [(x(step), y(score)) for step, score in scores]
        shapes.append(line(points, "c2-line"))
        for point, (step, score) in zip(points, scores, strict=True):
            shapes.append(Group((Dots((point,), 2.5, "c2-dot"),), title=f"step {step:,}: {share(score)} right"))
    told = f", accuracy {share(scores[-1][1])} at the end" if scores else ""
    told = f"Learning curve over {last:,.0f} steps: loss {losses[-1][1]:.2g}{told}" if losses else f"Learning{told}"
    return Drawing("learning", told, WIDTH, 286, tuple(shapes))


def _measured(records: Sequence[Mapping[str, Any]], kind: str, name: str) -> list[tuple[float, float]]:
    lines = (record for record in records if record["kind"] == kind)
    return [(line["step"], line[name]) for line in lines if line.get(name) is not None and math.isfinite(line[name])]


# ----------------------------------------------------------------------------------------- inside the model

SIDE, GAP, STRIP = 192.0, 16.0, 44.0
PLACE = 34.0


def matrices_chart(matrices: SymbolMatrices, number: int) -> Drawing:
    """P as dots in a square, and below each column the size and the phase of its entry of D."""
    size = len(matrices.index)
    style = f"{series(number)}-dot"
    x = Scale(-0.5, size - 0.5, PLACE, PLACE + SIDE)
    square = Scale(-0.5, size - 0.5, 24, 24 + SIDE)
    radius = min(3.5, max(1.1, 0.36 * SIDE / size))
    columns = np.arange(size) if matrices.orientation == "column" else matrices.index
    rows = matrices.index if matrices.orientation == "column" else np.arange(size)
    where = tuple((x(float(j)), square(float(i))) for i, j in zip(rows, columns, strict=True))
    ends = sorted({0, size - 1})
    heading = Text((PLACE, 10), f"after {matrices.symbol}", f"{series(number)}-text", "start")
    flipped = Scale(square.low, square.high, square.start, square.stop)
    frame_p = frame(Axis(x, "", ticks=()), Axis(Scale(0, 1, 24 + SIDE, 24), "", ticks=()))
    labels = [Text((PLACE - 6, flipped(end)), str(end), "note", "end") for end in ends]
    shapes: list[Shape] = [heading, *frame_p, *labels, Dots(where, radius, style)]
    tops = (24 + SIDE + GAP, 24 + SIDE + 2 * GAP + STRIP)
    turns = matrices.phase / math.pi
    for top, name, low, high, values in zip(
        tops, ("|D|", "phase/π"), (0.0, -1.0), (1.0, 1.0), (matrices.magnitude, turns), strict=True
    ):
        y = Scale(low, high, top + STRIP, top)
        shapes += frame(Axis(x, "", ticks=()), Axis(y, "", lambda v: f"{v:g}", (low, (low + high) / 2, high)))
        shapes.append(Text((PLACE + SIDE + 6, top + STRIP / 2), name, "note", "start"))
        points: tuple[Point, ...] = tuple((x(float(j)), y(float(v))) for j, v in enumerate(values))
        shapes.append(Dots(points, min(radius, 1.8), style))
    told = (
        f"P of symbol {matrices.symbol}, {size} by {size}, reaches {len(set(matrices.index.tolist()))} components; "
        f"|D| from {matrices.magnitude.min():.3g} to {matrices.magnitude.max():.3g}"
    )
    return Drawing(f"matrix-{number}", told, PLACE + SIDE + 50, tops[1] + STRIP + 8, tuple(shapes))
