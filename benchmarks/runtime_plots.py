"""The study's plots: time over width for each setting and length, and the price of P over the diagonal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.runtime_cells import Cell, Party
from benchmarks.runtime_paper import SETTINGS, Setting

COLOURS = {"dense": "#b2182b", "pd": "#2166ac", "given": "#5aae61", "diagonal": "#4d4d4d"}
LABELS = {"dense": "dense (SD-SSM)", "pd": "PD", "given": "PD, P given", "diagonal": "diagonal"}
STYLES = {"best": "-", "associative": "--"}


def plot_all(cells: list[Cell], folder: Path, where: str) -> list[Path]:
    """One SVG for each setting that has two widths or more."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pdssm"  # the same figures give the same file
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for setting in SETTINGS:
        path = folder / f"runtime-{setting.name.replace(' ', '-').replace(',', '').replace(chr(39), '')}.svg"
        _plot_setting(setting, cells, path, where)
        paths.append(path)
    return paths


def _plot_setting(setting: Setting, cells: list[Cell], path: Path, where: str) -> None:
    """A panel of times for each length; for precomputed P also one of slowdowns, as in the paper."""
    from matplotlib import pyplot

    lengths = sorted({cell.length for cell in cells})
    slowdowns = "given" in setting.sizes
    count = len(lengths) + slowdowns
    figure, axes = pyplot.subplots(1, count, figsize=(4.2 * count, 3.6), squeeze=False)
    for axis, length in zip(axes[0], lengths, strict=False):
        for family in setting.sizes:
            for algorithm in STYLES:
                _line(axis, series(cells, setting, length, family, algorithm), family, algorithm)
        axis.set_yscale("log")
        _decorate(axis, cells, f"L = {length}", "seconds, forward, batch 1")
    if slowdowns:
        for family in ("pd", "given"):
            for algorithm in STYLES:
                _line(axes[0][-1], slowdown(cells, setting, lengths[0], family, algorithm), family, algorithm)
        axes[0][-1].set_ylim(bottom=0)
        _decorate(axes[0][-1], cells, f"L = {lengths[0]}", "slowdown with respect to diagonal")
    axes[0][0].legend(fontsize=7)
    figure.suptitle(f"{setting.name}: {where}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def series(cells: list[Cell], setting: Setting, length: int, family: str, algorithm: str) -> list[tuple[int, float]]:
    """(D, seconds) of one line, as far as it was measured."""
    points = []
    for cell in sorted(cells, key=lambda cell: cell.dim):
        spent = cell.seconds.get(Party(family, setting.sizes[family](cell.dim), algorithm))
        if cell.length == length and spent is not None:
            points.append((cell.dim, spent))
    return points


def slowdown(cells: list[Cell], setting: Setting, length: int, family: str, algorithm: str) -> list[tuple[int, float]]:
    """(D, how many times diagonal's)."""
    diagonal = dict(series(cells, setting, length, "diagonal", algorithm))
    return [(d, spent / diagonal[d]) for d, spent in series(cells, setting, length, family, algorithm) if d in diagonal]


def _line(axis: Any, points: list[tuple[int, float]], family: str, algorithm: str) -> None:
    if points:
        label = f"{LABELS[family]}, {algorithm}"
        axis.plot(*zip(*points, strict=True), STYLES[algorithm], marker=".", color=COLOURS[family], label=label)


def _decorate(axis: Any, cells: list[Cell], title: str, ylabel: str) -> None:
    axis.set(xscale="log", xlabel="embedding size D", ylabel=ylabel, title=title)
    widths = sorted({cell.dim for cell in cells})
    axis.set_xticks(widths, labels=map(str, widths), fontsize=7, rotation=45)
    axis.minorticks_off()
    axis.grid(alpha=0.3)
