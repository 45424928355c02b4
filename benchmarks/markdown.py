"""What the generated documents are written with: tables, durations, where a figure comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Result = dict[str, Any]


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A markdown table."""
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def duration(seconds: float) -> str:
    """Three digits, in the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def times(value: float | None) -> str:
    """Three digits; empty where it was not measured."""
    return "" if value is None else f"{value:.3g}x"


def provenance(result: Result) -> str:
    """Where the figures come from, in a sentence."""
    machine = result["machine"]
    quick = " This was a quick run: its figures scatter more." if result.get("quick") else ""
    return (
        f"Measured on {machine['date']} at commit `{machine['commit']}`: {device(result)}, {machine['cores']} cores, "
        f"{machine['threads']} threads, Python {machine['python']}, torch {machine['torch']}.{quick}"
    )


def device(result: Result) -> str:
    """The processor, and the GPU where one took part."""
    machine = result["machine"]
    gpu = machine.get("device", machine.get("gpu", "none"))
    return str(machine["cpu"]) if gpu in ("none", "cpu") else f"{gpu} beside {machine['cpu']}"


def verdict(figure: Result) -> str:
    """Whether it reached what it had to."""
    return {True: "yes", False: "**no**", None: ""}[figure["met"]]


def goals(figures: list[Result]) -> str:
    """What had to be reached, and whether it was."""
    rows = [[each["what"], each["at"], each["measured"], each["must"], verdict(each), each["aim"]] for each in figures]
    return table(["what", "at", "measured", "must reach", "met", "aim"], rows)


def figures_summary(result: Result) -> str:
    """README's table: what, where, how much; of the figures that had something to reach."""
    rows = [[each["what"], each["at"], each["measured"]] for each in result["figures"] if each["met"] is not None]
    return f"{table(['what', 'at', 'measured'], rows)}\n\n{provenance(result)}"
