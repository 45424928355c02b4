"""The paper's ablation on modular arithmetic: P with Gumbel noise or without, softmax or hardmax at inference.

Both readouts times the four corners, for the first 10,000 steps of the published protocol, its warm-up, at a quarter
of its batch: with noise every step has a P of its own, and costs twenty times as much. ``--full`` takes all 100,001.
"""

from __future__ import annotations

from pdssm.recipes.base import Cell, Recipe
from pdssm.training import TrainConfig
from pdssm.training.presets import PAPER_STEPS, paper_formal

STEPS, BATCH = 10_000, 64
PAPER = paper_formal("modular_arithmetic")
FULL = {"steps": PAPER.steps, "warmup": PAPER.warmup, "batch": PAPER.batch}
READOUTS = ("linear", "mlp")
CORNERS = {
    "deterministic, hardmax": (False, False),
    "deterministic, softmax": (False, True),
    "stochastic, hardmax": (True, False),
    "stochastic, softmax": (True, True),
}


def config(readout: str, stochastic: bool, dense: bool) -> TrainConfig:
    """One corner."""
    corner = {"readout": readout, "stochastic": stochastic, "dense_inference": dense}
    return paper_formal(
        "modular_arithmetic",
        mixer_options={**PAPER.mixer_options, **corner},
        steps=STEPS,
        warmup=1.0,
        batch=BATCH,
        eval_every=2500,
        eval_samples=1024,
        # With noise every step has a P of its own, and a dense one takes 128 KiB.
        eval_chunk=1024 if stochastic and dense else PAPER.eval_chunk,
    )


RECIPE = Recipe(
    name="ablations",
    title="Ablation: stochastic P, dense P at inference, readouts",
    note=(
        f"Modular arithmetic, the first {STEPS:,} of the published protocol's {PAPER_STEPS:,} steps, its warm-up, "
        f"at batch {BATCH} instead of {PAPER.batch}; 1,024 validation words of lengths 40..256, evaluated every 2,500 "
        "steps. The paper shows a figure, no numbers."
    ),
    cells=tuple(
        Cell(f"{readout} readout", name, config(readout, *corner), (0,), None, FULL)
        for readout in READOUTS
        for name, corner in CORNERS.items()
    ),
    full_seeds=(0,),
    lengths=(10, 20, 40, 64, 128, 256),
)
