"""pdssm reproduce: rebuild a table of the paper.

    pdssm reproduce table2 --jobs 2
    pdssm reproduce table2b --cells pd-ssm-a5-2 --seeds 0
    pdssm reproduce table2 --report

Runs what has no result yet, goes on with what was cut, and writes results/NAME/*.json, results/NAME.md and
results/NAME.svg as each run ends. Ctrl-C saves every run; the same command goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pdssm.errors import check_size
from pdssm.recipes import find_recipe
from pdssm.recipes.report import write_report
from pdssm.recipes.reproduce import Plan, reproduce


@dataclass(frozen=True)
class Reproduce:
    """What is parsed."""

    name: Annotated[str, tyro.conf.Positional]
    """table2, table2b or ablations."""
    cells: tuple[str, ...] = ()
    """Only these; --list shows their names."""
    seeds: tuple[int, ...] = ()
    """These, instead of each cell's own."""
    jobs: int = 1
    """Runs at a time, each on one thread."""
    full: bool = False
    """The paper's budget and number of seeds, where ours are smaller."""
    list: bool = False
    """Show the runs, and which of them have a result."""
    report: bool = False
    """Only write the table and the figure, of the results that are there."""
    runs: Path = Path("runs")
    """Where the runs lie."""
    results: Path = Path("results")
    """Where the numbers go."""


def main(arguments: list[str]) -> int:
    """The exit code."""
    given = tyro.cli(Reproduce, prog="pdssm reproduce", description=__doc__, args=arguments)
    recipe = find_recipe(given.name)
    check_size("jobs", given.jobs)
    plan = Plan(recipe, given.cells, given.seeds, given.jobs, given.full, given.runs, given.results)
    if given.list:
        missing = set(plan.missing)
        for cell, seed in plan.wanted:
            print(f"{cell.name}  seed {seed}  {'missing' if (cell, seed) in missing else 'done'}")
        return 0
    if given.report:
        write_report(recipe, given.results, given.full)
        return 0
    return reproduce(plan)
