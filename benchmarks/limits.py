"""What the pages in docs/ show between ``measured`` markers: one function a block, listed at the end.

A block reads the results that exist and leaves out those that do not; of nothing it makes an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.markdown import Result, device, table, times
from benchmarks.sections import starts_table

PD = "PD-SSM"
DEVICES = {"layer.json": "cpu", "layer_gpu.json": "cuda"}
RUNTIMES = ("runtime.json", "runtime_gpu.json")
FAILED_BELOW = 0.99


def stored(results: Path, name: str) -> Result | None:
    """A result file's content, if it is there."""
    path = results / name
    found: Result | None = json.loads(path.read_text()) if path.is_file() else None
    return found


def sources(found: dict[str, Result]) -> str:
    """Where a block's figures come from, in a sentence."""
    each = (
        f"`results/{name}` ({device(result)}, {_threads(result)}, commit "
        f"`{result['machine']['commit']}`{', a quick run' if result.get('quick') else ''})"
        for name, result in found.items()
    )
    return f"From {'; '.join(each)}."


def _threads(result: Result) -> str:
    count = result["machine"]["threads"]
    return f"{count} thread" + "s" * (count != 1)


# ----------------------------------------------------------------------------------------------- what a step costs


def measured_layers(results: Path, kind: str) -> dict[str, dict[str, Result]]:
    """Result file -> layer -> its figure of that kind, of the files that exist and measured PD-SSM on their device."""
    found = {}
    for name, where in DEVICES.items():
        figures = (stored(results, name) or {"figures": []})["figures"]
        layers = {
            figure["what"].removeprefix(kind): figure
            for figure in figures
            if figure["what"].startswith(kind) and figure["at"].startswith(where)
        }
        if PD in layers:
            found[name] = layers
    return found


def beside_pd(results: Path, kind: str, others: Iterable[str]) -> str:
    """How much longer PD-SSM takes than each of the others, a column a device."""
    found = measured_layers(results, kind)
    if not found:
        return ""
    files = {name: stored(results, name) or {} for name in found}
    rows = [
        [other, *(times(_slower(layers, other)) for layers in found.values())]
        for other in others
        if any(other in layers for layers in found.values())
    ]
    header = ["time of PD-SSM over that of", *(f"on {layers[PD]['at']}" for layers in found.values())]
    return f"{table(header, rows)}\n\n{sources(files)}"


def _slower(layers: dict[str, Result], other: str) -> float | None:
    """Per token: the dense layer's sequences are shorter."""
    return layers[PD]["value"] / layers[other]["value"] if other in layers else None


def train_cost(results: Path) -> str:
    """The train step, a token; the dense layer's sequences are shorter, as it keeps matrices for its backward pass."""
    others = ("complex diagonal", "real diagonal", "LSTM", "Transformer", "SD-SSM (dense)")
    return beside_pd(results, "train step, ", others)


def streaming_cost(results: Path) -> str:
    """The streaming step, and what is carried from token to token."""
    attention = (f"Transformer after {length} tokens" for length in ("1,000", "10,000"))
    others = ("complex diagonal", "LSTM", "SD-SSM (dense)", *attention)
    found = measured_layers(results, "streaming step, ")
    if not found:
        return ""
    layers = next(iter(found.values()))
    sizes = [[name, f"{layers[name]['seconds']['bytes']:,}"] for name in (PD, *others) if name in layers]
    return f"{beside_pd(results, 'streaming step, ', others)}\n\n{table(['state', 'bytes'], sizes)}"


# -------------------------------------------------------------------------------------------------- wide states


def width_cost(results: Path) -> str:
    """Forward passes at N = D: what P costs above a diagonal, and a dense matrix above P, as the layer grows wider."""
    found = {name: result for name in RUNTIMES if (result := stored(results, name))}
    kept = {name: _at_equal_size(result["ratios"]) for name, result in found.items()}
    dims = sorted({dim for lines in kept.values() for line in lines.values() for dim in line})
    if not dims:
        return ""
    rows = [
        ["GPU" if "gpu" in name else "CPU", pair, f"{length:,}", *(times(line.get(dim)) for dim in dims)]
        for name, lines in kept.items()
        for (pair, length), line in lines.items()
    ]
    header = ["on a", "time of", "length", *(f"N = {dim:,}" for dim in dims)]
    return f"{table(header, rows)}\n\n{sources(found)}"


def _at_equal_size(ratios: list[Result]) -> dict[tuple[str, int], dict[int, float]]:
    """(pair, length) -> N -> ratio by the best algorithms, of the shortest and the longest length."""
    names = {
        ("equal state size", "pd / diagonal"): "PD / diagonal",
        ("precomputed P", "pd / given"): "PD / PD with P given",
        ("equal state size", "dense / pd"): "dense / PD",
    }
    wanted = [each for each in ratios if (each["setting"], each["ratio"]) in names and "best" in each]
    lengths = {each["L"] for each in wanted}
    lines: dict[tuple[str, int], dict[int, float]] = {}
    for key, name in names.items():
        for length in sorted({min(lengths), max(lengths)} if lengths else ()):
            line = {e["D"]: e["best"] for e in wanted if (e["setting"], e["ratio"]) == key and e["L"] == length}
            if line:
                lines[name, length] = line
    return lines


# ------------------------------------------------------------------------------------------------- what is learnt


def learnt(results: Path) -> str:
    """Every cell of the reproduced tables: how sure its training is, and how far beyond its lengths it holds."""
    runs = [
        json.loads(path.read_text())
        for folder in ("table2", "table2b")
        for path in sorted((results / folder).glob("*-seed*.json"))
    ]
    cells: dict[tuple[str, str], list[Result]] = {}
    for run in runs:
        cells.setdefault((run["row"], run["column"]), []).append(run)
    if not cells:
        return ""
    header = ["model", "task", "seeds", "below 99 %", "steps", "lengths 40..256", "length 1,000", "length 10,000"]
    rows = [[*cell, *_learnt(found)] for cell, found in sorted(cells.items())]
    commits = ", ".join(f"`{commit[:7]}`" for commit in sorted({each for run in runs for each in run["commits"]}))
    return (
        f"{table(header, rows)}\n\nPercent of right labels, worst to best seed, trained on lengths 3..40 until 99.95 "
        f"on lengths 40..256 or the end of the budget. From `results/table2*` ({len(runs)} runs, commits {commits}; "
        "the files have config, seed and machine of each)."
    )


def _learnt(runs: list[Result]) -> list[str]:
    best = [run["best_accuracy"] or 0.0 for run in runs]
    failed = sum(accuracy < FAILED_BELOW for accuracy in best)
    at = (_range([100 * found["accuracy"] for found in _by_length(runs, length)]) for length in ("1000", "10000"))
    steps = [run["steps"] for run in runs]
    spread = f"{min(steps):,}" if len(set(steps)) == 1 else f"{min(steps):,} to {max(steps):,}"
    return [str(len(runs)), str(failed), spread, _range([100 * accuracy for accuracy in best], 2), *at]


def _by_length(runs: list[Result], length: str) -> list[Result]:
    return [run["by_length"][length] for run in runs if length in run.get("by_length", {})]


def _range(values: list[float], digits: int = 1) -> str:
    if not values:
        return ""
    low, high = (f"{bound(values):.{digits}f}" for bound in (min, max))
    return low if low == high else f"{low} to {high}"


# -------------------------------------------------------------------------------------------- few distinct inputs


def on_tokens(results: Path) -> str:
    """What ``rows`` and the training loop reach beside an LSTM."""
    wanted = {
        "kernels.json": lambda figure: "rows" in figure["what"],
        "training.json": lambda figure: "lstm" in f"{figure['what']} {figure['measured']}".lower(),
    }
    found = {name: result for name in wanted if (result := stored(results, name))}
    figures = [figure for name, result in found.items() for figure in result["figures"] if wanted[name](figure)]
    if not figures:
        return ""
    rows = [[figure["what"], figure["at"], figure["measured"]] for figure in figures]
    return f"{table(['what', 'at', 'measured'], rows)}\n\n{sources(found)}"


# ----------------------------------------------------------------------------------------------------------- recall


def recall(results: Path) -> str:
    """The value of a key among so many pairs, by one layer each."""
    found = stored(results, "recall.json")
    if not found:
        return ""
    first = found["layers"][0]
    rows = [
        [each["layer"], *(f"{100 * accuracy:.1f}" for accuracy in each["accuracy"].values())]
        for each in found["layers"]
    ]
    header = ["one layer of", *(f"{pairs} pairs" for pairs in first["accuracy"])]
    note = (
        f"Percent of right answers after {first['steps']:,} steps of {first['batch']} sequences, one seed; chance is "
        f"{100 * found['chance']:.1f}."
    )
    return f"{table(header, rows)}\n\n{note} {sources({'recall.json': found})}"


# --------------------------------------------------------------------------------------------- magnitudes and phases


def starts(results: Path) -> str:
    """What the parametrisations of D are worth, from ``benchmarks/starts.py``."""
    found = stored(results, "starts.json")
    return f"{starts_table(found)}\n\n{sources({'starts.json': found})}" if found else ""


BLOCKS: dict[str, Callable[[Path], str]] = {
    "train_cost": train_cost,
    "streaming_cost": streaming_cost,
    "recall": recall,
    "width_cost": width_cost,
    "learnt": learnt,
    "on_tokens": on_tokens,
    "starts": starts,
}
