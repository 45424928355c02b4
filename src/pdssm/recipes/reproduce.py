"""Runs what is missing of a recipe, several at a time, each in a process and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pdssm.recipes.base import Cell, Recipe
from pdssm.recipes.job import result_path
from pdssm.recipes.report import write_report
from pdssm.training.interruption import Interruption

ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
INTERRUPTED = 130
Running = list[tuple[str, subprocess.Popen[bytes]]]


@dataclass(frozen=True)
class Plan:
    """What was asked for."""

    recipe: Recipe
    cells: Sequence[str] = ()
    """All of them unless given."""
    seeds: Sequence[int] = ()
    """Each cell's own unless given."""
    jobs: int = 1
    full: bool = False
    """The paper's budget and seeds."""
    runs: Path = Path("runs")
    results: Path = Path("results")

    @property
    def wanted(self) -> list[tuple[Cell, int]]:
        """Every run, the first seeds of all cells before the second ones."""
        cells = [self.recipe.find(name) for name in self.cells] or list(self.recipe.cells)
        pairs = [(cell, seed) for cell in cells for seed in self._seeds(cell)]
        return sorted(pairs, key=lambda pair: pair[1])

    @property
    def missing(self) -> list[tuple[Cell, int]]:
        """Those without a result."""
        return [(c, s) for c, s in self.wanted if not result_path(self.results, self.recipe, c, s, self.full).exists()]

    def _seeds(self, cell: Cell) -> Sequence[int]:
        return self.seeds or (self.recipe.full_seeds if self.full else cell.seeds)

    def command(self, cell: Cell, seed: int) -> list[str]:
        """Of one run."""
        paths = ["--runs", str(self.runs), "--results", str(self.results)]
        return [
            sys.executable, "-m", "pdssm.recipes.job", self.recipe.name, cell.name, str(seed), *paths,
            *(["--full"] if self.full else []),
        ]  # fmt: skip


def reproduce(plan: Plan) -> int:
    """The exit code: that of the first run that went wrong, or 130 after a Ctrl-C, which saves all of them."""
    waiting, running, code = plan.missing, Running(), 0
    print(f"{plan.recipe.name}: {len(plan.wanted) - len(waiting)} of {len(plan.wanted)} runs are done", flush=True)
    with Interruption() as interruption, _none_left(running):
        told = False
        while running or (waiting and not interruption.requested):
            while waiting and len(running) < plan.jobs and not interruption.requested:
                cell, seed = waiting.pop(0)
                # A group of its own: Ctrl-C comes to this process only, which passes it on.
                process = subprocess.Popen(
                    plan.command(cell, seed), env={**os.environ, **ONE_THREAD}, start_new_session=True
                )
                running.append((f"{cell.name}, seed {seed}", process))
            if interruption.requested and not told:
                told = True
                for _, process in running:
                    process.terminate()
            for name, ended in _ended(running):
                print(f"{plan.recipe.name}: {name}: ended with exit code {ended}", flush=True)
                code = code or (0 if told else abs(ended))  # negative: killed by that signal
                write_report(plan.recipe, plan.results, plan.full)
            time.sleep(0.2)
    write_report(plan.recipe, plan.results, plan.full)
    return INTERRUPTED if told else code


@contextmanager
def _none_left(running: Running) -> Iterator[None]:
    """After a second Ctrl-C, or an error, nothing goes on unseen."""
    try:
        yield
    finally:
        for _, process in running:
            process.kill()


def _ended(running: Running) -> Iterator[tuple[str, int]]:
    """Takes those that are over off the list."""
    for entry in list(running):
        code = entry[1].poll()
        if code is not None:
            running.remove(entry)
            yield entry[0], code
