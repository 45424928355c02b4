"""The page: one HTML file with everything inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from pdssm.automata import DFA
from pdssm.models.files import write_atomically
from pdssm.report.figures import comparison
from pdssm.report.live import live_model
from pdssm.report.sections import figure, section
from pdssm.report.story import Story
from pdssm.report.style import rules, variables

SCRIPTS = ("model.js", "walker.js", "states.js", "page.js")


def write_page(stories: Sequence[Story], path: str | Path, title: str | None = None) -> None:
    """The whole file or none of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(stories, title).encode())


def page(stories: Sequence[Story], title: str | None = None) -> str:
    """As text."""
    title = title or ("What the model became" if len(stories) == 1 else f"What {len(stories)} models became")
    script, style = "\n".join(map(_packaged, SCRIPTS)), variables() + _packaged("page.css") + rules(themed=True)
    return Template(_packaged("page.html")).substitute(
        policy=_policy(script, style),
        generator=f"pdssm {version('pdssm')}",
        title=escape(title),
        style=style,
        navigation=_navigation(stories),
        main="\n".join([_together(stories), *(section(number, story) for number, story in enumerate(stories))]),
        data=embedded({"runs": [run_data(story) for story in stories]}),
        script=script,
    )


def embedded(data: Any) -> str:
    """JSON that no text inside can end early: it has no ``<``, ``>`` or ``&``."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def run_data(story: Story) -> dict[str, Any]:
    """What the walker needs."""
    return {
        "name": story.name,
        "symbols": [{"token": token, "name": name} for token, name in story.symbols],
        "labels": list(story.labels),
        "limit": story.limit,
        "automata": {name: _automaton(dfa) for name, dfa in story.automata.items()},
        "error": _indices(story, story.error),
        "counterexample": _indices(story, story.counterexample),
        "model": live_model(story.model),
    }


def _indices(story: Story, word: Sequence[str] | None) -> list[int] | None:
    names = [name for _, name in story.symbols]
    return None if word is None else [names.index(symbol) for symbol in word]


def _automaton(dfa: DFA) -> dict[str, Any]:
    return {
        "initial": dfa.initial,
        "transitions": dfa.transitions.tolist(),
        "outputs": [str(label) for label in dfa.outputs],
        "names": [dfa.name(state) for state in range(len(dfa))],
    }


def _packaged(name: str) -> str:
    return (files("pdssm.report") / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    """No network, and no script or style but the page's own."""
    allowed = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (script, style)
    ]
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; script-src {allowed[0]}; style-src {allowed[1]}"


def _navigation(stories: Sequence[Story]) -> str:
    if len(stories) < 2:
        return ""
    links = "".join(f'<li><a href="#run-{k}">{escape(story.name)}</a></li>' for k, story in enumerate(stories))
    return f'<nav aria-label="Runs"><ul>{links}</ul></nav>'


def _together(stories: Sequence[Story]) -> str:
    drawing = comparison(stories)
    if drawing is None:
        return ""
    caption = "Right answers against the length of the word, a curve a run."
    shown = f'<div class="charts">{figure(drawing, caption)}</div>'
    return f'<section aria-labelledby="together"><h2 id="together">All runs</h2>{shown}</section>'
