"""A story as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from pdssm.report.automaton import MOST_STATES, MOST_TRANSITIONS
from pdssm.report.axes import share
from pdssm.report.drawing import Drawing
from pdssm.report.figures import Figures, figures
from pdssm.report.story import Story
from pdssm.report.svg import svg
from pdssm.training import Evaluation

SHOWN_MATRICES = 8
"""The others are folded away."""
MARKS = {"learnt": "Learnt", "proved": "Proved", "tested": "Tested", "refuted": "Refuted", "unknown": "Open"}


def section(number: int, story: Story) -> str:
    """Everything about one run."""
    drawn = figures(story)
    parts = [
        f'<h2 id="run-{number}-title">{escape(story.name)}</h2>',
        f'<p class="lead"><b>{escape(story.task)}</b>: {escape(story.summary)}</p>',
        _facts(story.facts),
        _findings(story),
        _charts(story, drawn),
        _walk(number, story, drawn),
        _inside(number, story, drawn),
    ]
    return f'<section class="run" id="run-{number}" aria-labelledby="run-{number}-title">{"".join(parts)}</section>'


def figure(drawing: Drawing, caption: str, extra: str = "", kind: str = "") -> str:
    """A drawing with what it shows in words; as large as it was drawn, smaller where there is less room."""
    return f'<figure class="{kind}">{svg(drawing)}<figcaption>{escape(caption)}</figcaption>{extra}</figure>'


def _facts(facts: Mapping[str, str]) -> str:
    entries = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f'<dl class="facts">{entries}</dl>' if facts else ""


def _findings(story: Story) -> str:
    lines = (
        f'<li class="{one.kind}"><b>{MARKS[one.kind]}</b><span>{escape(one.text)}</span></li>' for one in story.findings
    )
    return f'<ul class="findings" aria-label="What was found">{"".join(lines)}</ul>' if story.findings else ""


def _charts(story: Story, drawn: Figures) -> str:
    made = []
    if drawn.accuracy is not None:
        caption = "Right answers on words of one length each; the dashed upright is the longest word in training."
        made.append(figure(drawn.accuracy, caption, _numbers(story)))
    if drawn.learning is not None:
        made.append(figure(drawn.learning, "The loss in training, and right answers on validation words."))
    return f'<div class="charts">{"".join(made)}</div>' if made else ""


def _numbers(story: Story) -> str:
    """The chart's values as a table."""
    head = ("model", "length", "answers", "last answer", "whole words", "words")
    rows = [*_rows("learnt", story.by_length), *_rows("snapped", story.snapped)]
    return f"<details><summary>The numbers</summary>{table(head, rows)}</details>"


def _rows(name: str, found: Mapping[int, Evaluation]) -> Iterable[tuple[str, ...]]:
    for length, value in sorted(found.items()):
        shares = map(share, (value.accuracy, value.last, value.whole))
        yield name, f"{length:,}", *shares, f"{value.sequences:,}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Plain, in a box that scrolls where it is too wide."""
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr>{titles}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


# -------------------------------------------------------------------------------------------------- automata


def _walk(number: int, story: Story, drawn: Figures) -> str:
    if not story.automata and story.model is None:
        return ""
    shown = "".join(_automaton(name, story, drawn.automata.get(name)) for name in story.automata)
    title = f'<h3 id="walk-{number}">The automaton, and a word on its way</h3>'
    controls = '<div class="typing script"></div><div class="walker script"></div>'
    views = f'<div class="automata">{shown}</div><div class="states script"></div>'
    return (
        f'<section class="walk" data-run="{number}" aria-labelledby="walk-{number}">{title}{controls}{views}</section>'
    )


def _automaton(name: str, story: Story, drawing: Drawing | None) -> str:
    dfa = story.automata[name]
    what = "The automaton extracted from the model" if name == "extracted" else "The target"
    caption = f"{what}: {len(dfa)} states, {len(dfa.alphabet)} symbols."
    if story.counterexample is not None:
        word = " ".join(story.counterexample) or "the empty word"
        caption += f" Marked in red: {word}, which ends in {dfa.outputs[dfa.run(story.counterexample)]} here."
    if drawing is None:
        caption += f" Drawn are automata of up to {MOST_STATES} states and {MOST_TRANSITIONS} transitions."
        return f"<figure><figcaption>{escape(caption)}</figcaption></figure>"
    box = f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(what)}">{svg(drawing)}</div>'
    size = "large" if drawing.width > 380 else "small"
    return f'<figure class="{size}" data-automaton="{name}">{box}<figcaption>{escape(caption)}</figcaption></figure>'


# ---------------------------------------------------------------------------------------------------- inside


def _inside(number: int, story: Story, drawn: Figures) -> str:
    if not drawn.matrices:
        return ""
    form = story.matrices[0].orientation
    how = (
        "a dot in column j and row i sends component j of the state to component i"
        if form == "column"
        else "a dot in row i and column j fetches component j of the state into component i"
    )
    told = f"What the first layer does at each symbol: x becomes P D x + b. P is drawn as dots: {how}. Below, in the same columns, the size and the phase of D's entries."  # noqa: E501
    shown = [f'<figure class="matrix">{svg(drawing)}</figure>' for drawing in drawn.matrices]
    first, rest = "".join(shown[:SHOWN_MATRICES]), "".join(shown[SHOWN_MATRICES:])
    more = f'<details><summary>The other {len(shown) - SHOWN_MATRICES} symbols</summary><div class="matrices">{rest}</div></details>'  # noqa: E501
    return (
        f'<section aria-labelledby="inside-{number}"><h3 id="inside-{number}">Inside the layer</h3><p>{told}</p>'
        f'<div class="matrices">{first}</div>{more if rest else ""}</section>'
    )
