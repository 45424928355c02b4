"""A drawing: a few shapes with named styles, from which both SVG and matplotlib's formats are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Point = tuple[float, float]
Move = tuple[str, tuple[Point, ...]]
"""M (move), L (line), Q (quadratic curve) or Z (close), with the points it takes, as in an SVG path."""


@dataclass(frozen=True)
class Curve:
    """Lines and quadratic curves."""

    moves: tuple[Move, ...]
    style: str


@dataclass(frozen=True)
class Circle:
    """Round."""

    centre: Point
    radius: float
    style: str


@dataclass(frozen=True)
class Dots:
    """Many equal round dots, as one shape."""

    centres: tuple[Point, ...]
    radius: float
    style: str


@dataclass(frozen=True)
class Text:
    """One line; ``at`` is on its middle height, at its left end, middle or right end."""

    at: Point
    text: str
    style: str
    anchor: Literal["start", "middle", "end"] = "middle"
    turned: bool = False
    """A quarter anticlockwise."""


@dataclass(frozen=True)
class Group:
    """Shapes that belong together; ``data`` is what a script finds them by, ``title`` what a pointer shows."""

    shapes: tuple[Shape, ...]
    data: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


Shape = Curve | Circle | Dots | Text | Group


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet of ``width`` by ``height``, y downwards; ``title`` says in words what is to be seen."""

    name: str
    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]


def line(points: Sequence[Point], style: str) -> Curve:
    """A polygonal line."""
    return Curve((("M", (points[0],)), *(("L", (point,)) for point in points[1:])), style)


def box(left: float, top: float, right: float, bottom: float, style: str) -> Curve:
    """A rectangle."""
    corners = ((right, top), (right, bottom), (left, bottom))
    return Curve((("M", ((left, top),)), *(("L", (corner,)) for corner in corners), ("Z", ())), style)
