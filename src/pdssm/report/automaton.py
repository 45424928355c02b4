"""A drawn automaton: states as circles, transitions as arrows in the colour of their symbol."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pdssm.automata import DFA
from pdssm.report.arrows import Arrow, arrows, clear_bend, loop, loop_head, shaft
from pdssm.report.axes import TEXT_WIDTH, legend
from pdssm.report.drawing import Circle, Curve, Drawing, Group, Point, Shape, Text, line
from pdssm.report.layout import FloatArray
from pdssm.report.style import series

FEW_STATES = 14
"""Up to so many, circles are large and every arrow is lettered."""
MOST_STATES, MOST_TRANSITIONS = 200, 2000
"""Beyond, a drawing says nothing."""
ROOM = 64.0
"""The side of the square that a state has to itself, on average."""
DENSE = 3
"""With more transitions than these from a state, arrows are faint."""


def drawable(dfa: DFA) -> bool:
    """Whether a drawing of it could be read."""
    return len(dfa) <= MOST_STATES and dfa.transitions.size <= MOST_TRANSITIONS


def automaton_drawing(
    name: str, title: str, dfa: DFA, places: FloatArray, wrong: Sequence[str] | None = None
) -> Drawing:
    """``places`` are those of ``layout``; ``wrong`` is a counterexample, whose way is marked."""
    radius, unit, margin = (20.0, 96.0, 44.0) if len(dfa) <= FEW_STATES else (13.0, 54.0, 32.0)
    sides = np.maximum(places.max(0) - places.min(0), 1)
    unit = max(unit, ROOM * float(np.sqrt(len(dfa) / sides.prod())))
    spread = (places - places.min(0)) * unit + radius + margin
    width, height = (float(side) + radius + margin for side in spread.max(0))
    width = max(width, 300.0)
    entries = [(f"{series(k)}-line", symbol) for k, symbol in enumerate(dfa.alphabet)]
    named, tall = legend((12, 12), entries, width - 24)
    shift = (width - float(spread[:, 0].max() + spread[:, 0].min())) / 2
    points = [(float(x) + shift, float(y) + tall) for x, y in spread]
    sketch = _Sketch(dfa, points, radius)
    return Drawing(name, title, width, height + tall, (*named, *sketch.shapes(wrong)))


@dataclass(frozen=True)
class _Sketch:
    """An automaton with a point for every state."""

    dfa: DFA
    points: Sequence[Point]
    radius: float

    @property
    def few(self) -> bool:
        return len(self.dfa) <= FEW_STATES

    @property
    def dense(self) -> bool:
        return not self.few and len(self.dfa.alphabet) > DENSE

    def shapes(self, wrong: Sequence[str] | None) -> Iterator[Shape]:
        drawn = [(arrow, *self._arrow(arrow)) for arrow in arrows(self.dfa)]
        if wrong is not None:
            way = set(_way(self.dfa, wrong))
            yield from (replace(curve, style="wrong") for arrow, curve, _ in drawn if way & set(arrow.edges))
        yield from (group for _, _, group in drawn)
        (x, y), reach = self.points[self.dfa.initial], self.radius + 5
        yield line([(x - reach - 18, y), (x - reach, y)], "start")
        yield Curve(
            (
                ("M", ((x - reach + 4, y),)),
                ("L", ((x - reach - 4, y - 4),)),
                ("L", ((x - reach - 4, y + 4),)),
                ("Z", ()),
            ),
            "start-head",
        )
        yield from (self._state(state) for state in range(len(self.dfa)))
        if wrong is not None:
            yield Circle(self.points[self.dfa.run(wrong)], self.radius + 3.5, "wrong-ring")

    def _arrow(self, arrow: Arrow) -> tuple[Curve, Group]:
        """Its line, and all of it."""
        colour = series(arrow.symbols[0]) if len(arrow.symbols) == 1 else "many"
        told = ", ".join(self.dfa.alphabet[symbol] for symbol in arrow.symbols)
        draw = self._loop if arrow.source == arrow.target else self._shaft
        curve, heads, label = draw(arrow, f"{colour}-faint-head" if self.dense else f"{colour}-head")
        curve = replace(curve, style=f"{colour}-faint" if self.dense else f"{colour}-edge")
        written = [Text(label, _short(told, 12), f"{colour}-label")]
        ways = " ".join(f"{state}:{symbol}" for state, symbol in arrow.edges)
        names = [self.dfa.name(state) for state in (arrow.source, arrow.target)]
        title = f"{names[0]} {'↔' if arrow.both else '→'} {names[1]} by {told}"
        return curve, Group((curve, *heads, *(written if self.few else ())), {"edges": ways}, title)

    def _shaft(self, arrow: Arrow, style: str) -> tuple[Curve, list[Shape], Point]:
        p, q = self.points[arrow.source], self.points[arrow.target]
        if arrow.alone and not self.dense:
            others = [point for point in self.points if point not in (p, q)]
            bend = clear_bend(p, q, self.radius, others)
        else:
            bend = 0.14
        way = shaft(p, q, self.radius, bend)
        (x, y), long = way.at(0.44), math.dist(p, q) or 1.0
        side = 10.0 if bend >= 0 else -10.0
        label = (x + side * (q[1] - p[1]) / long, y - side * (q[0] - p[0]) / long)
        return way.line(""), way.heads(style, arrow.both), label

    def _loop(self, arrow: Arrow, style: str) -> tuple[Curve, list[Shape], Point]:
        p, size = self.points[arrow.source], 1.15 * self.radius
        angle = self._free_side(arrow.source)
        curve, points = loop(p, self.radius, angle, size)
        far = self.radius + size + 7
        return curve, [loop_head(points, style)], (p[0] + far * math.cos(angle), p[1] + far * math.sin(angle))

    def _free_side(self, state: int) -> float:
        """The middle of the widest gap between the ways to its neighbours."""
        x, y = self.points[state]
        leaving = set(self.dfa.transitions[state].tolist())
        arriving = set(np.flatnonzero((self.dfa.transitions == state).any(1)).tolist())
        near = [self.points[other] for other in (leaving | arriving) - {state}]
        angles = sorted(math.atan2(py - y, px - x) for px, py in near)
        if state == self.dfa.initial:
            angles = sorted([*angles, math.pi])  # where the arrow of the start comes in
        if not angles:
            return -math.pi / 2
        gaps = [(b - a, a) for a, b in zip(angles, [*angles[1:], angles[0] + 2 * math.pi], strict=True)]
        wide, begin = max(gaps)
        return begin + wide / 2

    def _state(self, state: int) -> Group:
        point, dfa = self.points[state], self.dfa
        accepts = set(map(str, dfa.outputs)) <= {"True", "False"}
        label, few = str(dfa.outputs[state]), self.few
        shapes: list[Shape] = [Circle(point, self.radius, "node")]
        if accepts and label == "True":
            shapes.append(Circle(point, self.radius - 3.5, "ring"))
        room = int(2 * self.radius / ((11 if few else 9) * TEXT_WIDTH))
        both = few and not accepts and label != dfa.name(state)
        shown = dfa.name(state) if few or accepts else label
        x, y = point
        shapes.append(Text((x, y - 5 if both else y), _short(shown, room), "text" if few else "small"))
        if both:
            shapes.append(Text((x, y + 8), _short(label, room), "note"))
        return Group(tuple(shapes), {"state": str(state)}, f"state {dfa.name(state)}, output {label}")


def _way(dfa: DFA, word: Sequence[str]) -> Iterator[tuple[int, int]]:
    state = dfa.initial
    for symbol in dfa.encode(word).tolist():
        yield state, symbol
        state = int(dfa.transitions[state, symbol])


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(1, most - 1)] + "…"
