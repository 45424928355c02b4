"""Table 2: the four regular languages, in the published protocol as it stands."""

from __future__ import annotations

from pdssm.recipes.base import Cell, Recipe
from pdssm.training import TrainConfig
from pdssm.training.presets import paper_formal

PAPER = {
    "PD-SSM": {
        "parity": "99.9 ± 0.1", "even_pairs": "99.7 ± 0.3",
        "cycle_navigation": "99.5 ± 0.7", "modular_arithmetic": "96.2 ± 3.4",
    },
    "C diagonal": {
        "parity": "61.8 ± 6.8", "even_pairs": "82.4 ± 4.8",
        "cycle_navigation": "90.4 ± 4.3", "modular_arithmetic": "59.9 ± 27.0",
    },
    "LSTM": {
        "parity": "100.0 ± 0.0", "even_pairs": "100.0 ± 0.0",
        "cycle_navigation": "100.0 ± 0.0", "modular_arithmetic": "99.9 ± 0.1",
    },
}  # fmt: skip


def config(row: str, task: str) -> TrainConfig:
    """P(u) from a dictionary of 8, or P = I with nothing else changed; torch's LSTM has two layers and no norm."""
    if row == "PD-SSM":
        return paper_formal(task)
    if row == "LSTM":
        return paper_formal(task, mixer="lstm", mixer_options={}, layers=2, norm="none")
    options = {"state_dim": 128, "hidden_dim": 256, "init": "paper"}
    return paper_formal(task, mixer="complex_diagonal", mixer_options=options)


def seeds(row: str, task: str) -> tuple[int, ...]:
    """Three where PD-SSM is near 100, one elsewhere: a run that is never stopped early takes an hour or so."""
    return (0, 1, 2) if row == "PD-SSM" and task != "modular_arithmetic" else (0,)


RECIPE = Recipe(
    name="table2",
    title="Table 2: regular languages",
    note=(
        "PD-SSM: one layer, column form, the published start. Lengths 3..40 for 100,001 steps or until 99.95 %; "
        "best validation accuracy on lengths 40..256, 8,192 words. The paper's numbers are of five seeds."
    ),
    cells=tuple(
        Cell(row, task, config(row, task), seeds(row, task), paper)
        for row, tasks in PAPER.items()
        for task, paper in tasks.items()
    ),
    full_seeds=(0, 1, 2, 3, 4),
    lengths=(10, 20, 40, 64, 96, 128, 192, 256, 512, 1000),
)
