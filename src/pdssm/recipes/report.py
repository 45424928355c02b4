"""From the results of a recipe's runs to its table and its figure."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pdssm.errors import FileError
from pdssm.models.files import write_atomically
from pdssm.recipes.base import Cell, Recipe

FAILED_BELOW = 0.99
Results = list[dict[str, Any]]


def read_results(recipe: Recipe, folder: Path) -> dict[str, Results]:
    """By cell, in the order of the seeds; what belongs to no cell of the recipe is left alone."""
    found: dict[str, Results] = {cell.name: [] for cell in recipe.cells}
    for path in sorted(folder.glob("*-seed*.json")):
        try:
            result = json.loads(path.read_text())
            found.get(result["cell"], []).append(result)
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{path} is not the result of a run; expected what pdssm reproduce wrote") from None
    return {cell: sorted(results, key=lambda each: int(each["seed"])) for cell, results in found.items() if results}


def write_report(recipe: Recipe, results: Path, full: bool = False) -> None:
    """``results/NAME.md`` and ``results/NAME.svg``, of what has been run so far."""
    name = recipe.name
    if full and (results / f"{name}-full").is_dir():
        name = f"{name}-full"
    found = read_results(recipe, results / name)
    if found:
        write_atomically(results / f"{name}.md", markdown(recipe, found, name).encode())
        write_atomically(results / f"{name}.svg", figure(recipe, found))


# ------------------------------------------------------------------------------------------------------- table


def markdown(recipe: Recipe, found: dict[str, Results], name: str) -> str:
    """One line a cell."""
    head = "| model | task | paper | ours | every seed | failed | steps | minutes |"
    lines = [head, "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |"]
    lines += [_line(cell, found[cell.name]) for cell in recipe.cells if cell.name in found]
    missing = [cell.name for cell in recipe.cells if cell.name not in found]
    parts = [
        f"# {recipe.title}", recipe.note,
        f"Percent; mean ± standard deviation over seeds. Failed: seeds below {FAILED_BELOW:.0%}. Steps and minutes "
        "(wall clock, one thread): means.",
        "\n".join(lines),
    ]  # fmt: skip
    if missing:
        parts.append(f"Not run: {', '.join(missing)}.")
    parts += [_lengths(recipe, found), f"![accuracy against length]({name}.svg)", _where(found)]
    return "\n\n".join(parts) + "\n"


def _line(cell: Cell, results: Results) -> str:
    best = [_percent(result) for result in results]
    scored = [value for value in best if value is not None]
    each = ", ".join("no value" if value is None else f"{value:.2f}" for value in best)
    failed = sum(value is None or value < 100 * FAILED_BELOW for value in best)
    steps = statistics.mean(result["steps"] for result in results)
    minutes = statistics.mean(result["seconds"] for result in results) / 60
    ours = spread(scored) if scored else "no value"
    entries = (
        cell.row, cell.column, cell.paper or "no number", ours, each, f"{failed} of {len(results)}",
        f"{steps:,.0f}", f"{minutes:.1f}",
    )  # fmt: skip
    return f"| {' | '.join(entries)} |"


def spread(values: list[float]) -> str:
    """``99.9 ± 0.1``; of a single value there is no deviation."""
    mean = f"{statistics.mean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


def _percent(result: dict[str, Any]) -> float | None:
    return None if result["best_accuracy"] is None else 100 * float(result["best_accuracy"])


def _lengths(recipe: Recipe, found: dict[str, Results]) -> str:
    """The best models at single lengths: means over seeds."""
    lines = [
        f"| model | task | {' | '.join(map(str, recipe.lengths))} |",
        f"| --- | --- | {' | '.join('---:' for _ in recipe.lengths)} |",
    ]
    for cell in recipe.cells:
        results = _measured(found.get(cell.name, []), recipe.lengths)
        if results:
            means = (f"{100 * value:.1f}" for value in _mean_by_length(results, recipe.lengths))
            lines.append(f"| {cell.row} | {cell.column} | {' | '.join(means)} |")
    return "Accuracy of the best models at single lengths, means over seeds:\n\n" + "\n".join(lines)


def _measured(results: Results, lengths: Iterable[int]) -> Results:
    """A run that ended before its first evaluation has no model to measure."""
    return [result for result in results if {str(n) for n in lengths} <= result.get("by_length", {}).keys()]


def _mean_by_length(results: Results, lengths: Iterable[int]) -> list[float]:
    return [statistics.mean(result["by_length"][str(n)]["accuracy"] for result in results) for n in lengths]


def _where(found: dict[str, Results]) -> str:
    every = [result for results in found.values() for result in results]
    machines = sorted({_machine(result["machine"]) for result in every})
    commits = sorted({commit for r in every for commit in r["commits"]})
    return (
        f"{len(every)} runs on {'; '.join(machines)}; commits {', '.join(commits)}. Each number's config, seed, steps, "
        "wall clock and threads are in the JSON files."
    )


def _machine(found: dict[str, Any]) -> str:
    accelerator = "" if found["device"] == "cpu" else f"{found['accelerator']} beside "
    return f"{accelerator}{found['processor']}, {found['cores']} cores"


# ------------------------------------------------------------------------------------------------------ figure


def figure(recipe: Recipe, found: dict[str, Results]) -> bytes:
    """Accuracy against length as SVG, a panel a task: each seed thin, the mean thick, the training limit marked."""
    import io

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys(cell.column for cell in recipe.cells if cell.name in found))
    rows = list(dict.fromkeys(cell.row for cell in recipe.cells))
    wide = min(4, len(columns))
    high = -(-len(columns) // wide)
    with rc_context({"svg.hashsalt": recipe.name, "font.size": 9}):  # the same results give the same file
        drawing = Figure(figsize=(3.2 * wide, 2.7 * high), layout="constrained")
        panels = drawing.subplots(high, wide, sharey=True, squeeze=False).flatten().tolist()
        for panel in panels[len(columns) :]:
            panel.set_visible(False)
        for column, panel in zip(columns, panels, strict=False):
            cells = [cell for cell in recipe.cells if cell.column == column and cell.name in found]
            _draw(panel, column, recipe.lengths, {c: found[c.name] for c in cells}, rows)
        panels[0].legend(fontsize=7, loc="lower left")
        drawing.supxlabel("length", fontsize=9)
        drawing.supylabel("accuracy", fontsize=9)
        content = io.BytesIO()
        drawing.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def _draw(panel: Any, column: str, lengths: tuple[int, ...], found: dict[Cell, Results], rows: list[str]) -> None:
    panel.set(title=column, xscale="log", ylim=(-0.03, 1.03))
    panel.set_xticks([n for n in lengths if str(n)[0] in "14"], labels=[str(n) for n in lengths if str(n)[0] in "14"])
    panel.minorticks_off()
    for cell, results in found.items():
        colour = f"C{rows.index(cell.row)}"
        measured = _measured(results, lengths)
        for result in measured:
            panel.plot(lengths, _mean_by_length([result], lengths), color=colour, linewidth=0.6, alpha=0.6)
        if measured:
            panel.plot(lengths, _mean_by_length(measured, lengths), color=colour, marker=".", label=cell.row)
    limit = max(cell.config.lengths[1] for cell in found)
    panel.axvline(limit, color="grey", linestyle="--", linewidth=0.8, label="longest in training")
