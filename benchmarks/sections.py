"""What each result file says, as markdown: one function a file, listed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """How one result file becomes a section of the documents."""

    source: str
    """The result file, relative to results/."""
    title: str
    write: Callable[[Result], str]
    """The whole of it, for docs/results.md."""
    summary: Callable[[Result], str] | None = None
    """What README shows of it, if anything."""


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


def provenance(result: Result) -> str:
    """Where the figures come from, in a sentence."""
    machine = result["machine"]
    quick = " This was a quick run: its figures scatter more." if result.get("quick") else ""
    return (
        f"Measured on {machine['date']} at commit `{machine['commit']}`: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['threads']} threads, Python {machine['python']}, torch {machine['torch']}.{quick}"
    )


def _verdict(figure: Result) -> str:
    return {True: "yes", False: "**no**", None: ""}[figure["met"]]


def goals(figures: list[Result]) -> str:
    """What had to be reached, and whether it was."""
    rows = [[each["what"], each["at"], each["measured"], each["must"], _verdict(each), each["aim"]] for each in figures]
    return table(["what", "at", "measured", "must reach", "met", "aim"], rows)


def figures_summary(result: Result) -> str:
    """README's table: what, where, how much; of the figures that had something to reach."""
    rows = [[each["what"], each["at"], each["measured"]] for each in result["figures"] if each["met"] is not None]
    return f"{table(['what', 'at', 'measured'], rows)}\n\n{provenance(result)}"


def kernels(result: Result) -> str:
    """Everything ``benchmarks/kernels.py`` stored."""
    figures = result["figures"]
    times = [
        [each["what"], each["at"], ", ".join(f"{name} {duration(spent)}" for name, spent in each["seconds"].items())]
        for each in figures
    ]
    opponents = [[f"`{name}`", what] for name, what in result["opponents"].items()]
    return "\n\n".join(
        (
            "A layer step is forward and backward of two generator MLPs (one hidden layer of 2N), selector, B, "
            "selection, scan and linear readout, in float32, with D = N and every input distinct unless the row says "
            "otherwise. Two parties of a row are measured in turns, in one process.",
            provenance(result),
            goals(figures),
            "The medians behind the ratios:",
            table(["what", "at", "seconds"], times),
            "The opponents, all in `benchmarks/opponents/`; those that compute a PD layer have been checked to give "
            "the same gradients in float64:",
            table(["name", "what it is"], opponents),
        )
    )


def layer(result: Result) -> str:
    """Everything ``benchmarks/layer.py`` stored."""
    return "\n\n".join(
        (
            "Width and state size 128, K = 6, float32: the train step is forward and backward on dense input, the "
            "streaming step one token of one sequence, without gradients. Variants of a kind are measured in turns, in "
            "one process.",
            provenance(result),
            goals(result["figures"]),
        )
    )


def frozen(result: Result) -> str:
    """Everything ``benchmarks/frozen.py`` stored."""
    freezing = [
        [
            each["name"],
            f"{each['size']:,}",
            duration(each["seconds"]),
            f"{each['mean_candidates']:.1f}",
            f"{each['most_candidates']:,}",
        ]
        for each in result["freezing"]
    ]
    selecting = [
        [each["name"], f"{each['size']:,}", f"{each['count']:,}", duration(each["seconds"]["full"]),
         duration(each["seconds"]["frozen"]), f"{each['ratio']:.1f}x", f"{each['must']:g}x",
         _verdict(each)]
        for each in result["selecting"]
    ]  # fmt: skip
    return "\n\n".join(
        (
            "`freeze()` lists, once, the rows of each column that can be the argmax for any scores; the selection then "
            "searches only those, to the same bits. K = 6.",
            provenance(result),
            table(["dictionary", "N", "time to freeze", "candidates a column, mean", "most"], freezing),
            table(["dictionary", "N", "tokens", "full search", "frozen", "faster", "must reach", "met"], selecting),
        )
    )


def runtime(result: Result) -> str:
    """Everything ``benchmarks/runtime.py`` stored."""
    rows = [
        [each["setting"], f"{each['D']:,}", f"{each['L']:,}", each["ratio"], _ratio(each.get("associative")),
         _ratio(each.get("best")), _ratio(each.get("paper"))]
        for each in result["ratios"]
    ]  # fmt: skip
    exponents = [[str(value) for value in each.values()] for each in result["exponents"]]
    skipped = [[str(value) for value in each.values()] for each in result["skipped"]]
    parts = [
        "Forward pass of one layer, batch 1: by its associative scan, as the paper measures, and by its best algorithm "
        "on this device. The paper's ratios are from its A100. Plots: "
        "[ratios and times](../results/runtime).",
        f"{provenance(result)} Device: {result['machine'].get('device', 'cpu')}.",
        goals(result["figures"]),
        table(["setting", "D", "L", "ratio of", "associative", "best", "paper"], rows),
        "Cost of the scan alone as fitted exponents, time ~ L^a N^b:",
        table([str(key) for key in result["exponents"][0]], exponents),
    ]
    if skipped:
        parts += ["Cells left out, and why:", table([str(key) for key in result["skipped"][0]], skipped)]
    return "\n\n".join(parts)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}x"


SECTIONS = (
    Section("kernels.json", "Kernels: the speed and memory of one layer step", kernels, figures_summary),
    Section("layer.json", "Layers: training and streaming", layer, figures_summary),
    Section("frozen.json", "Frozen selection", frozen),
    Section("runtime.json", "Runtime study: PD, diagonal and dense, CPU", runtime, figures_summary),
    Section("layer_gpu.json", "Layers on a GPU", layer),
    Section("runtime_gpu.json", "Runtime study: PD, diagonal and dense, GPU", runtime),
)
