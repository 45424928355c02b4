"""What every benchmark shares: its command line, the figures it prints, the file it writes."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import machine

Stored = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One line of a table: what was measured, what it must reach and what came out."""

    what: str
    at: str
    must: str
    aim: str
    measured: str
    value: float
    met: bool | None
    seconds: dict[str, float]
    """Of one step of each party (medians)."""


def shown(figures: Iterable[Figure]) -> list[Stored]:
    """Each printed as it comes; all of them for the file."""
    stored = []
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
        columns = f"{figure.what:46s} {figure.at:52s} {figure.measured:>28s}   must: {figure.must:14s} {verdict}"
        print(columns, flush=True)
        stored.append(asdict(figure))
    return stored


def command(
    doc: str | None,
    measure: Callable[[argparse.Namespace], Stored],
    *,
    quick: str | None = None,
    extend: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    words: Sequence[str] | None = None,
) -> Stored:
    """Describe the machine, measure, store: what ``measure`` returns goes into the file beside the machine.

    ``quick`` says what ``--quick`` does, where there is such an option; ``extend`` adds others; ``words`` stand
    for the process's own arguments.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if quick is not None:
        parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, help="where to store the result")
    extend(parser)
    arguments = parser.parse_args(words)
    start = time.perf_counter()
    # First of all: the commit that runs, whatever is committed meanwhile.
    stored: Stored = {"machine": machine()}
    if quick is not None:
        stored["quick"] = arguments.quick
    print(*(f"{name:16s} {value}" for name, value in stored["machine"].items()), "", sep="\n", flush=True)
    stored |= measure(arguments)
    stored["seconds"] = round(time.perf_counter() - start, 1)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(stored, indent=1) + "\n")
    return stored
