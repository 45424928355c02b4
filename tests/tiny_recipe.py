"""A recipe whose runs take a tenth of a second; ``python -m tests.tiny_recipe tiny ...`` is one run of it."""

from __future__ import annotations

import dataclasses
import sys

from pdssm.recipes import RECIPES, Cell, Recipe, job
from tests.runs import tiny

LONG = 3000
"""Steps of the cell that is long enough to be interrupted."""

CELLS = tuple(
    Cell(row, task, tiny(task, mixer=mixer, mixer_options={"state_dim": 4}), seeds, paper, full)
    for row, mixer, task, seeds, paper, full in (
        ("PD-SSM", "pdssm", "parity", (0, 1), "99.9 ± 0.1", None),
        ("PD-SSM", "pdssm", "even_pairs", (0,), "99.7 ± 0.3", {"steps": 10}),
        ("C diagonal", "complex_diagonal", "parity", (0,), None, None),
    )
)
RECIPE = Recipe("tiny", "A tiny table", "Nothing is learnt here.", CELLS, (0, 1, 2), (2, 5, 10))
SLOW = dataclasses.replace(
    RECIPE,
    name="slow",
    cells=tuple(
        dataclasses.replace(cell, config=dataclasses.replace(cell.config, steps=LONG, eval_every=LONG))
        for cell in CELLS[:1]
    ),
)


def register() -> None:
    """So that ``find_recipe`` knows them."""
    RECIPES.update({recipe.name: recipe for recipe in (RECIPE, SLOW)})


if __name__ == "__main__":
    register()
    sys.exit(job.main())
