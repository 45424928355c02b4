"""The appendix's study: Mamba with more and more layers on (A5, 2)."""

from __future__ import annotations

from pdssm.recipes.base import Cell, Recipe
from pdssm.training.presets import group

STEPS = 4000
DEPTHS = (1, 2, 4, 8)

RECIPE = Recipe(
    name="mamba_depth",
    title="Mamba with more and more layers",
    note=(
        f"(A5, 2) as in table2b, {STEPS:,} of 100,000 steps, one seed: Mamba blocks with a norm before them and a "
        "residual, Adam, learning rate 1e-3. The paper shows a figure, no numbers: within the training lengths deep "
        "stacks learn it, beyond them none holds."
    ),
    cells=tuple(
        Cell(
            f"Mamba, {depth} layer{'s' if depth > 1 else ''}",
            "A5:2",
            group("A5:2", mixer="mamba", mixer_options={}, layers=depth, norm="pre", residual=True, steps=STEPS),
            (0,),
            None,
        )
        for depth in DEPTHS
    ),
    full_seeds=(0, 1, 2),
    lengths=(5, 10, 20, 30, 40, 50, 64, 96, 128, 256),
)
