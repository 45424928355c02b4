"""Table 2b: the word problems of two groups that are not solvable, with our start."""

from __future__ import annotations

from pdssm.recipes.base import Cell, Recipe
from pdssm.training.presets import group

PAPER = {"A5:2": "100.0", "A5:6": "100.0", "A5:8": "100.0", "A5:12": "100.0", "S5:4": "100.0", "S5:8": "100.0"}

RECIPE = Recipe(
    name="table2b",
    title="Table 2b: groups that are not solvable",
    note=(
        "(G, n): n distinct permutations that generate G; the label at every step is the running product. One layer, "
        "N = 128, K = 32, |D| near 1 at the start (`near_one`), phases held at 0, Adam, learning rate 1e-3; trained on "
        "lengths 3..40 for 100,000 steps or until 99.95 %; best validation accuracy on lengths 40..256, all steps "
        "counted. The paper's numbers are the best of three seeds and five learning rates."
    ),
    cells=tuple(Cell("PD-SSM", task, group(task), (0, 1, 2), paper) for task, paper in PAPER.items()),
    full_seeds=(0, 1, 2),
    lengths=(10, 20, 40, 64, 96, 128, 192, 256, 512, 1000, 10000),
)
