"""One run of a recipe: ``python -m pdssm.recipes.job table2 pd-ssm-parity 0 --runs runs --results results``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import torch

from pdssm.errors import FileError, PDSSMError
from pdssm.models import SequenceModel
from pdssm.models.files import write_atomically
from pdssm.recipes import Cell, Recipe, find_recipe
from pdssm.training import Outcome, RunFolder, TrainConfig, accuracy_by_length, resume, train
from pdssm.training.processes import Processes

SAMPLES = 1024


def run_path(runs: Path, recipe: Recipe, cell: Cell, seed: int, full: bool) -> Path:
    """A run of another budget is another run."""
    return runs / (recipe.name + ("-full" if full and cell.full else "")) / f"{cell.name}-seed{seed}"


def result_path(results: Path, recipe: Recipe, cell: Cell, seed: int, full: bool) -> Path:
    """Where its numbers go."""
    return results / (recipe.name + ("-full" if full and cell.full else "")) / f"{cell.name}-seed{seed}.json"


def run_cell(recipe: Recipe, cell: Cell, seed: int, runs: Path, results: Path, full: bool = False) -> Outcome:
    """Begin, or go on; once the run is over, measure its best model and write down everything."""
    folder = run_path(runs, recipe, cell, seed, full)
    config = cell.with_seed(seed, full)
    run = RunFolder(folder)
    if run.exists:
        check_same(run, config)
    outcome = resume(folder) if run.exists else train(config, folder)
    if outcome.reason not in ("interrupted", "disk full"):
        path = result_path(results, recipe, cell, seed, full)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(describe(recipe, cell, outcome), indent=1).encode())
    return outcome


def check_same(run: RunFolder, config: TrainConfig) -> None:
    """What was begun with another version of a recipe is not gone on with under this one's name."""
    begun, wanted = run.config().to_dict(), config.self_contained().to_dict()
    different = [name for name in wanted if begun[name] != wanted[name]]
    if different:
        was = ", ".join(f"{name} {begun[name]!r}" for name in different)
        now = ", ".join(f"{name} {wanted[name]!r}" for name in different)
        raise FileError(f"{run.path} was begun with {was}; the recipe has {now}: move that run away to run it anew")


def describe(recipe: Recipe, cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """All that is said about a number, read from the run itself."""
    run = RunFolder(outcome.folder)
    config, starts = run.config(), run.environment()
    found: dict[str, Any] = {
        "recipe": recipe.name, "cell": cell.name, "row": cell.row, "column": cell.column, "paper": cell.paper,
        "seed": config.seed, "config": config.to_dict(),
        "reason": outcome.reason, "message": outcome.message,
        "steps": outcome.step, "seconds": round(outcome.seconds, 3),
        "best_accuracy": outcome.best, "best_step": outcome.best_step, "last_accuracy": outcome.accuracy,
        "commits": sorted({str(start["commit"]) for start in starts}), "threads": starts[-1]["threads"],
        "machine": starts[-1]["machine"], "versions": starts[-1]["versions"],
        "started": starts[0]["started"], "sessions": len(starts),
    }  # fmt: skip
    if outcome.best is None:
        return found
    torch.set_num_threads(config.threads or torch.get_num_threads())
    torch.default_generator.manual_seed(config.seed)
    model = SequenceModel.from_pretrained(outcome.folder / "best").to(Processes(config.device).device)
    steps = 2**21 if config.eval_chunk > 2**12 else 2**15
    by_length = accuracy_by_length(
        model, config.make_task(), recipe.lengths, SAMPLES, seed=config.seed, steps=steps, chunk=config.eval_chunk
    )
    found["parameters"] = sum(weight.numel() for weight in model.parameters())
    found["by_length"] = {str(length): dataclasses.asdict(value) for length, value in by_length.items()}
    return found


def main() -> int:
    """The exit code is the run's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("cell")
    parser.add_argument("seed", type=int)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    recipe = find_recipe(given.recipe)
    try:
        cell = recipe.find(given.cell)
        return run_cell(recipe, cell, given.seed, given.runs, given.results, given.full).exit_code
    except PDSSMError as error:
        print(f"pdssm: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
