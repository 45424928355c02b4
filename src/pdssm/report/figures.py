"""The drawings of a story: on the page, and one by one as files for a paper."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pdssm.automata import DFA
from pdssm.errors import check_choice
from pdssm.models.files import write_atomically
from pdssm.report.automaton import automaton_drawing, drawable
from pdssm.report.charts import LengthCurve, accuracy_chart, learning_chart, matrices_chart
from pdssm.report.drawing import Drawing
from pdssm.report.layout import FloatArray, layout
from pdssm.report.raster import rendered
from pdssm.report.story import Story
from pdssm.report.svg import standalone

ALIKE = 0.8
"""The part of an automaton's states that have a place in another, for it to be drawn like that one."""


@dataclass(frozen=True)
class Figures:
    """Of one story."""

    accuracy: Drawing | None
    learning: Drawing | None
    automata: Mapping[str, Drawing]
    matrices: tuple[Drawing, ...]

    @property
    def drawings(self) -> list[Drawing]:
        """All there are."""
        single = [figure for figure in (self.accuracy, self.learning) if figure is not None]
        return [*single, *self.automata.values(), *self.matrices]


def figures(story: Story) -> Figures:
    """Draw them."""
    curves = [LengthCurve("learnt", story.by_length, story.limit)] if story.by_length else []
    if story.snapped:
        curves.append(LengthCurve("snapped", story.snapped, story.limit, dashed=True))
    return Figures(
        accuracy=accuracy_chart(curves, story.chance) if curves else None,
        learning=learning_chart(story.records),
        automata=_automata(story),
        matrices=tuple(matrices_chart(matrices, number) for number, matrices in enumerate(story.matrices)),
    )


def comparison(stories: Sequence[Story]) -> Drawing | None:
    """The accuracy of several runs in one chart."""
    told = [story for story in stories if story.by_length]
    if len(told) < 2:
        return None
    curves = [LengthCurve(story.name, story.by_length, story.limit) for story in told]
    chances = {story.chance for story in told}
    return accuracy_chart(curves, chances.pop() if len(chances) == 1 else None, "comparison")


def write_figures(stories: Sequence[Story], folder: str | Path, kind: str) -> list[Path]:
    """Each as a file ``RUN-FIGURE.kind``, with kind ``svg``, ``png`` or ``pdf``; the paths of the files."""
    check_choice("kind", kind, ("svg", "png", "pdf"))
    drawings = [
        replace(drawing, name=f"{file_name(story.name)}-{drawing.name}")
        for story in stories
        for drawing in figures(story).drawings
    ]
    if (together := comparison(stories)) is not None:
        drawings.append(together)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{drawing.name}.{kind}" for drawing in drawings]
    for path, drawing in zip(paths, drawings, strict=True):
        write_atomically(path, standalone(drawing).encode() if kind == "svg" else rendered(drawing, kind))
    return paths


def file_name(text: str) -> str:
    """What is left of a name when a file is called by it."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "run"


def _automata(story: Story) -> dict[str, Drawing]:
    """The extracted automaton stands where the target's states are, where the two are one or nearly so."""
    drawings, target_places = {}, None
    for name in ("target", "extracted"):
        dfa = story.automata.get(name)
        if dfa is None or not drawable(dfa):
            continue
        places = _matched(dfa, story.target, target_places) if name == "extracted" else None
        places = layout(dfa) if places is None else places
        target_places = places if name == "target" else target_places
        title = f"The {name} automaton: {len(dfa)} states, {len(dfa.alphabet)} symbols"
        drawings[name] = automaton_drawing(name, title, dfa, places, story.counterexample)
    return dict(sorted(drawings.items()))


def _matched(dfa: DFA, target: DFA | None, places: FloatArray | None) -> FloatArray | None:
    """Each state in the place of the target's state that the same word reaches; None unless that suits almost all."""
    if target is None or places is None or len(dfa) != len(target):
        return None
    partner = _partners(dfa, target)
    if len(partner) < ALIKE * len(dfa):
        return None
    free = iter(sorted(set(range(len(target))) - set(partner.values())))
    return np.asarray(places[[partner[state] if state in partner else next(free) for state in range(len(dfa))]])


def _partners(dfa: DFA, target: DFA) -> dict[int, int]:
    """State to target state by the shortest word that reaches both for the first time; no two to the same."""
    columns = [target.alphabet.index(symbol) for symbol in dfa.alphabet]
    partner = {dfa.initial: target.initial}
    taken, order = {target.initial}, [dfa.initial]
    for state in order:  # grows while we walk it
        others = target.transitions[partner[state], columns].tolist()
        for after, other in zip(dfa.transitions[state].tolist(), others, strict=True):
            if after not in partner and other not in taken:
                partner[after] = other
                taken.add(other)
                order.append(after)
    return partner
