"""What D's start and parametrisation are worth: ``python -m benchmarks.starts [--seeds 0 1] [--json FILE]``.

The word problem (A5, 2) with the ``group`` preset, for each way to make magnitudes and phases: the step at which it
reads 99.95 % on lengths 40..256, accuracy there and far beyond, and where |D| and the phases came to rest.  Each
run is a folder under ``--runs``: the same command goes on with what was cut, and runs nothing twice.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import Stored, command
from pdssm.models import SequenceModel
from pdssm.recipes.base import Cell, Recipe
from pdssm.recipes.job import result_path, run_cell, run_path
from pdssm.training.presets import group

TASK = "A5:2"
LENGTHS = (256, 1000, 10000)
STEPS = 4000
VARIANTS: dict[str, dict[str, str]] = {
    "as published": {"init": "paper", "magnitude": "sigmoid", "phase": "sigmoid"},
    "sigmoid, sigmoid": {"magnitude": "sigmoid", "phase": "sigmoid"},
    "near_one, sigmoid": {"magnitude": "near_one", "phase": "sigmoid"},
    "sigmoid, shrink": {"magnitude": "sigmoid", "phase": "shrink"},
    "near_one, shrink": {"magnitude": "near_one", "phase": "shrink"},
    "near_one, zero": {"magnitude": "near_one", "phase": "zero"},
}
"""All but the first begin near 1 with phases near 0 (``init="long"``); the last is the preset's own."""


def recipe(steps: int = STEPS, seeds: tuple[int, ...] = (0, 1), **changes: Any) -> Recipe:
    """A cell a variant; all but D is the preset's."""
    changes = {"steps": steps, "eval_every": 250, **changes}
    options = {**group(TASK).mixer_options, **changes.pop("mixer_options", {})}
    cells = tuple(
        Cell(name, TASK, group(TASK, mixer_options={**options, **chosen}, **changes), seeds, None)
        for name, chosen in VARIANTS.items()
    )
    return Recipe("starts", "Starts and parametrisations of D", "", cells, seeds, LENGTHS)


def entries(folder: Path) -> dict[str, float]:
    """Where D came to rest, over all tokens and components of the run's best model."""
    model = SequenceModel.from_pretrained(folder / "best")
    made = model.blocks[0].mixer.generator.entries
    with torch.no_grad():
        tokens = model.encoder.weight
        angle = made(tokens).angle().abs()
        s = torch.sigmoid(-made.magnitude(tokens).double())  # from |D| itself float32 may have rounded it away
    distance = s if made.magnitude_kind == "sigmoid" else s * s
    return {
        "median_distance_from_1": float(distance.median()),
        "largest_phase": float(angle.max()),
        "phases_at_0": float((angle == 0).double().mean()),
    }


def study(plan: Recipe, runs: Path) -> list[dict[str, Any]]:
    """Every run, gone on with or already there: all variants with the first seed, then with the next."""
    found = []
    for seed in plan.full_seeds:
        for cell in plan.cells:
            path = result_path(runs, plan, cell, seed, False)
            if not path.is_file():
                outcome = run_cell(plan, cell, seed, runs, runs)
                if not path.is_file():
                    raise SystemExit(outcome.exit_code)  # told to stop, or the disk is full: it can be gone on with
            result = json.loads(path.read_text())
            if "by_length" in result:
                result |= entries(run_path(runs, plan, cell, seed, False))
            found.append(result)
            at = ", ".join(f"{n}: {100 * each['accuracy']:.1f} %" for n, each in result.get("by_length", {}).items())
            print(f"{cell.row:20s} seed {seed}  {result['reason']} at step {result['steps']:,}   {at}", flush=True)
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=STEPS, help="at most, of each run")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs lie")


def measure(given: argparse.Namespace) -> Stored:
    """Every run."""
    torch.set_num_threads(1)
    runs = study(recipe(given.steps, tuple(given.seeds)), given.runs)
    return {"task": TASK, "budget": given.steps, "runs": runs}


def main() -> None:
    """Train, measure, print, store."""
    command(__doc__, measure, extend=options)


if __name__ == "__main__":
    main()
