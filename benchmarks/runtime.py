"""The paper's runtime study: ``python -m benchmarks.runtime [--budget MINUTES] [--memory GIB] [--json FILE] ...``.

Forward passes, batch 1, float32, of PD, diagonal and dense (SD-SSM) layers over widths and lengths, in the paper's
four settings, each by its associative scan as the paper does and by its best algorithm, on the GPU where there is
one.  The parties of a cell (a width and a length) run in turns.  What would exceed the budgets is skipped, and named.

On a CPU denormal numbers are flushed to zero: the products of dense's contracting matrices underflow, and they would
cost it ten times the time in arithmetic that no GPU pays for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.command import Stored, command, shown
from benchmarks.measure import machine
from benchmarks.runtime_cells import (
    GIB,
    SLOW,
    Cell,
    Party,
    build,
    in_turns,
    parties,
    predicted_seconds,
    step_of,
    weight_bytes,
    with_frozen_selection,
    working_bytes,
)
from benchmarks.runtime_fit import all_exponents
from benchmarks.runtime_paper import DIMS, LENGTHS
from benchmarks.runtime_report import as_stored, figures, ratios, report, report_exponents, report_ratios
from pdssm.layers import LinearRecurrence

MOST = 0.1  # of the time budget, for one party of one cell
FITTING = 0.12  # of the time budget, kept for the exponents
FREEZING = 30.0  # seconds that freezing may take


class Study:
    """The budgets, and what has been measured within them."""

    def __init__(self, device: torch.device, minutes: float, memory: float, seconds: float) -> None:
        self.device, self.memory, self.seconds = device, memory * GIB, seconds
        self.start, self.limit = time.perf_counter(), 60 * minutes
        self.cells: list[Cell] = []
        self.freezing: dict[int, float] = {}
        """Seconds that freeze() took for a state of size N."""

    def left(self) -> float:
        return (1 - FITTING) * self.limit - (time.perf_counter() - self.start)

    def warm_up(self) -> None:
        """Compile every kernel at a small size."""
        x = torch.randn(1, 8, 32, device=self.device)
        for party in parties(32):
            step_of(party, build(party.family, 32, party.size, self.device), x)()

    def measure(self, dims: Sequence[int], lengths: Sequence[int]) -> None:
        """Length by length, so that the paper's headline comes first and the longest are what a budget cuts."""
        for length in lengths:
            for dim in dims:
                self.cells.append(self.cell(dim, length))
                print(report(self.cells[-1]), flush=True)

    def cell(self, dim: int, length: int) -> Cell:
        """All parties of one width and length that the budgets admit."""
        cell = Cell(dim, length)
        x = torch.randn(1, length, dim, device=self.device)
        frozen = self.device.type == "cpu" and length == min(LENGTHS)
        admitted = self.admit(cell, parties(dim, frozen=frozen))
        layers: dict[tuple[str, int], LinearRecurrence] = {}
        for party in admitted:
            key = party.family, party.size
            if party.family == "frozen":
                start = time.perf_counter()
                layers[key] = with_frozen_selection(layers["pd", party.size])
                self.freezing[party.size] = time.perf_counter() - start
            elif key not in layers:
                layers[key] = build(party.family, dim, party.size, self.device)
        steps = {party: step_of(party, layers[party.family, party.size], x) for party in admitted}
        cell.seconds, cell.calls = in_turns(steps, self.seconds)
        if self.device.type == "cuda":
            del steps, layers
            torch.cuda.empty_cache()
        return cell

    def admit(self, cell: Cell, wanted: list[Party]) -> list[Party]:
        """Those that fit beside those before them; why not, of the others, goes into the cell."""
        admitted: list[Party] = []
        weights: dict[tuple[str, int], int] = {}
        working, spent = 0, 0.0
        for party in wanted:
            more = {**weights, (party.family, party.size): weight_bytes(party.family, cell.dim, party.size)}
            peak = max(working, working_bytes(party, cell.length, self.device.type))
            predicted = predicted_seconds(party, cell.dim, cell.length, self.cells)
            calls = 1 if predicted > SLOW else 4
            left = self.left() - spent
            why = self._refusal(sum(more.values()) + peak, predicted, calls, left)
            if not why and party.family == "frozen":
                why = self._refuse_freezing(party, admitted)
            if why:
                cell.skipped[party] = why
                continue
            admitted.append(party)
            weights, working, spent = more, peak, spent + calls * predicted
        return admitted

    def _refusal(self, needed: float, predicted: float, calls: int, left: float) -> str:
        if needed > self.memory:
            return f"memory: {needed / GIB:.1f} GiB with what runs beside it, of {self.memory / GIB:.1f}"
        if predicted > MOST * self.limit:
            return f"time: about {predicted:.0f} s a call, of {MOST * self.limit:.0f}"
        if calls * predicted > left or left <= 0:
            return f"time: about {calls * predicted:.0f} s, of {max(left, 0):.0f} left"
        return ""

    def _refuse_freezing(self, party: Party, admitted: list[Party]) -> str:
        if Party("pd", party.size, "best") not in admitted:
            return "its unfrozen layer is skipped"
        size, spent = max(self.freezing.items(), default=(party.size, 0.0))
        predicted = spent * (party.size / size) ** 2
        return f"time: about {predicted:.0f} s to freeze, of {FREEZING:.0f}" if predicted > FREEZING else ""


# -------------------------------------------------------------------------------------------------------- main


def default_memory(device: torch.device) -> float:
    """GiB: most of what is free on a GPU, 12 on a CPU or less where less is available."""
    if device.type == "cuda":
        return 0.85 * torch.cuda.mem_get_info(device)[0] / GIB
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return min(12.0, 0.8 * available / GIB)


def study(arguments: argparse.Namespace) -> Stored:
    """Everything, printed as it comes."""
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    device = torch.device(arguments.device)
    memory = default_memory(device) if arguments.memory is None else arguments.memory
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    stored: Stored = {"machine": machine() | {"device": name}}
    stored["budget"] = {"minutes": arguments.budget, "memory_gib": round(memory, 1)}
    print(stored["budget"])
    run = Study(device, arguments.budget, memory, 1.0 if arguments.quick else 3.0)
    run.warm_up()
    run.measure(
        arguments.dims or ([128, 512, 2048] if arguments.quick else list(DIMS)),
        arguments.lengths or ([64] if arguments.quick else list(LENGTHS)),
    )
    stored["cells"], stored["skipped"] = as_stored(run.cells)
    stored["ratios"] = ratios(run.cells)
    stored["freeze_seconds"] = {str(size): round(spent, 2) for size, spent in run.freezing.items()}
    print("", report_ratios(stored["ratios"], arguments.quick), "", sep="\n")
    stored["figures"] = shown(figures(run.cells, device.type == "cpu"))
    fits = all_exponents(device, 0.1 if arguments.quick else 1.0, arguments.quick)
    stored["exponents"] = [asdict(each) for each in fits]
    print("", report_exponents(fits), sep="\n")
    if arguments.plots:
        from benchmarks.runtime_plots import plot_all

        where = name if device.type == "cuda" else f"{stored['machine']['cpu']}, {torch.get_num_threads()} threads"
        print(*plot_all(run.cells, arguments.plots, where), sep="\n")
    return stored


def options(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("--budget", type=float, default=12.0, metavar="MINUTES", help="for the whole study")
    parser.add_argument("--memory", type=float, metavar="GIB", help="for the whole study")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where to draw (needs matplotlib)")
    parser.add_argument("--dims", type=int, nargs="+", metavar="D")
    parser.add_argument("--lengths", type=int, nargs="+", metavar="L")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")


def main(words: Sequence[str] | None = None) -> Stored:
    """Measure, print, store."""
    return command(__doc__, study, quick="three widths, one length", extend=options, words=words)


if __name__ == "__main__":
    main()
