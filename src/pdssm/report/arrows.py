"""The arrows of a drawn automaton: which ones there are, how they are bent, and their shapes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pdssm.automata import DFA
from pdssm.report.drawing import Curve, Point, Shape

HEAD = 7.5
BENDS = (0.0, 0.18, -0.18, 0.36, -0.36, 0.54)


@dataclass(frozen=True)
class Arrow:
    """From one state to another, for all symbols that lead there; ``both``: they lead back again too."""

    source: int
    target: int
    symbols: tuple[int, ...]
    both: bool = False
    alone: bool = True
    """Whether no other arrow joins the two."""

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """(state, symbol) of every transition it stands for, the forward ones first."""
        ahead = tuple((self.source, symbol) for symbol in self.symbols)
        return (*ahead, *((self.target, symbol) for symbol in self.symbols)) if self.both else ahead


def arrows(dfa: DFA) -> list[Arrow]:
    """All of an automaton's, in the order of their states and symbols."""
    symbols: dict[tuple[int, int], list[int]] = defaultdict(list)
    for source, row in enumerate(dfa.transitions.tolist()):
        for symbol, target in enumerate(row):
            symbols[source, target].append(symbol)
    found = []
    for (source, target), ways in symbols.items():
        back = symbols.get((target, source), []) if source != target else []
        if back != ways:
            found.append(Arrow(source, target, tuple(ways), alone=not back))
        elif source < target:  # an involution: one line with two heads, as in a Cayley graph
            found.append(Arrow(source, target, tuple(ways), both=True))
    return found


@dataclass(frozen=True)
class Shaft:
    """The way of an arrow: a quadratic curve, cut at the circles of its states."""

    start: Point
    middle: Point
    end: Point

    @property
    def curve(self) -> tuple[Point, Point, Point]:
        """Its three points."""
        return self.start, self.middle, self.end

    def at(self, t: float) -> Point:
        """The point a part of the way along."""
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
        return tuple(a * p + b * q + c * r for p, q, r in zip(*self.curve, strict=True))  # type: ignore[return-value]

    def line(self, style: str) -> Curve:
        """As a shape."""
        return Curve((("M", (self.start,)), ("Q", (self.middle, self.end))), style)

    def heads(self, style: str, both: bool) -> list[Shape]:
        """The point at its end, and at its start too."""
        ends = [(self.middle, self.end)] + ([(self.middle, self.start)] if both else [])
        return [_head(*end, style) for end in ends]


def shaft(p: Point, q: Point, radius: float, bend: float) -> Shaft:
    """From the circle about p to that about q; ``bend`` in lengths, to the left of the way."""
    (px, py), (qx, qy) = p, q
    middle = ((px + qx) / 2 + bend * (qy - py), (py + qy) / 2 - bend * (qx - px))
    return Shaft(_towards(p, middle, radius), middle, _towards(q, middle, radius + 1))


def clear_bend(p: Point, q: Point, radius: float, others: Sequence[Point]) -> float:
    """The smallest bend that passes over no other state."""
    for bend in BENDS:
        way = shaft(p, q, radius, bend)
        along = [way.at(t / 12) for t in range(1, 12)]
        if all(math.dist(point, other) > 1.15 * radius for point in along for other in others):
            return bend
    return 0.0


def loop(p: Point, radius: float, angle: float, size: float) -> tuple[Curve, list[Point]]:
    """From p back to p, on the side of the angle; its curve's style is empty, its points follow it."""
    spread = 0.55
    out = [(p[0] + radius * math.cos(angle + s), p[1] + radius * math.sin(angle + s)) for s in (-spread, spread)]
    far = radius + size
    tips = [(p[0] + far * math.cos(angle + s), p[1] + far * math.sin(angle + s)) for s in (-0.62, 0.62)]
    top = (p[0] + far * math.cos(angle), p[1] + far * math.sin(angle))
    return Curve((("M", (out[0],)), ("Q", (tips[0], top)), ("Q", (tips[1], out[1]))), ""), [tips[1], out[1], top]


def loop_head(points: Sequence[Point], style: str) -> Curve:
    """Of a loop's points."""
    return _head(points[0], points[1], style)


def _towards(p: Point, q: Point, by: float) -> Point:
    long = math.dist(p, q) or 1.0
    return p[0] + by * (q[0] - p[0]) / long, p[1] + by * (q[1] - p[1]) / long


def _head(before: Point, tip: Point, style: str) -> Curve:
    back = _towards(tip, before, HEAD)
    across = ((back[1] - tip[1]) * 0.42, (tip[0] - back[0]) * 0.42)
    wings = ((back[0] + across[0], back[1] + across[1]), (back[0] - across[0], back[1] - across[1]))
    return Curve((("M", (tip,)), ("L", (wings[0],)), ("L", (wings[1],)), ("Z", ())), style)
