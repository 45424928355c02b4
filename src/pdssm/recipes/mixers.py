"""Every mixer on the four regular languages, at a budget that a laptop has."""

from __future__ import annotations

from typing import Any

from pdssm.recipes.base import Cell, Recipe
from pdssm.recipes.table2 import PAPER as TABLE2
from pdssm.training import TrainConfig
from pdssm.training.presets import PAPER_STEPS

TASKS = ("cycle_navigation", "even_pairs", "modular_arithmetic", "parity")
STEPS, BATCH = 2_000, 64
ROWS: dict[str, tuple[str, dict[str, Any], tuple[str, ...] | None]] = {
    "PD-SSM": ("pdssm", {"state_dim": 128, "dictionary_size": 8}, None),
    "C diagonal": ("complex_diagonal", {}, None),
    "R diagonal": ("real_diagonal", {}, None),
    "SD-SSM": ("sdssm", {"state_dim": 32, "dictionary_size": 8}, None),
    "LSTM": ("lstm", {}, None),
    "sLSTM": ("slstm", {}, ("32.5 ± 0.4", "100.0 ± 0.0", "27.7 ± 0.6", "100.0 ± 0.0")),
    "xLSTM[1:1]": ("xlstm", {}, ("53.5 ± 5.6", "99.0 ± 1.9", "29.3 ± 1.6", "100.0 ± 0.0")),
    "Transformer": ("transformer", {"heads": 16}, ("24.4 ± 0.5", "90.4 ± 10.4", "23.6 ± 0.7", "52.2 ± 0.4")),
    "Mamba": ("mamba", {}, ("48.4 ± 2.2", "100.0 ± 0.0", "33.1 ± 6.6", "54.2 ± 2.1")),
    "Mamba-3": ("mamba3", {}, None),
    "S4D": ("s4d", {}, None),
    "S5": ("s5", {}, None),
    "LRU": ("lru", {}, None),
    "S7": ("s7", {}, None),
    "LinOSS-IM": ("linoss_im", {}, None),
    "LinOSS-IMEX": ("linoss_imex", {}, None),
    "D-SLiCE": ("d_slice", {}, ("69.5 ± 6.3", "100.0 ± 0.0", "20.9 ± 0.1", "100.0 ± 0.0")),
    "BD-SLiCE": ("bd_slice", {}, ("99.8 ± 0.2", "85.9 ± 11.3", "54.0 ± 12.5", "95.3 ± 3.9")),
    "DPLR-SLiCE": ("dplr_slice", {"state_dim": 57}, ("81.1 ± 16.6", "100.0 ± 0.0", "68.3 ± 19.3", "91.0 ± 18.0")),
    "WH-SLiCE": ("wh_slice", {}, ("69.7 ± 8.8", "93.1 ± 13.9", "23.8 ± 1.1", "71.4 ± 12.9")),
    "D-DE-SLiCE": ("d_de_slice", {"state_dim": 272}, ("73.3 ± 29.4", "84.8 ± 8.5", "98.4 ± 0.7", "83.8 ± 11.3")),
    "DeltaNet": ("deltanet", {}, ("49.8 ± 4.7", "100.0 ± 0.0", "42.2 ± 4.8", "57.8 ± 0.8")),
    "DeltaNet[-1,1]": ("deltanet_neg", {}, ("46.7 ± 6.1", "100.0 ± 0.0", "66.4 ± 8.8", "97.7 ± 2.0")),
    "Gated DeltaNet": ("gated_deltanet", {}, ("53.8 ± 8.8", "100.0 ± 0.0", "42.8 ± 8.2", "56.5 ± 1.9")),
    "Gated DeltaProduct[-1,1]": (
        "gated_deltaproduct", {"factors": 4}, ("46.3 ± 6.6", "100.0 ± 0.0", "78.4 ± 10.9", "98.0 ± 1.4"),
    ),
    "RWKV-7": ("rwkv7", {}, ("37.8 ± 5.0", "88.1 ± 14.2", "39.5 ± 6.1", "51.1 ± 0.3")),
}  # fmt: skip
"""The mixer, its options, and the paper's Table 2 in the order of ``TASKS``; the first rows' are in table2.py."""
USUAL: dict[str, dict[str, Any]] = {"transformer": {"norm": "pre", "residual": True, "ffn": 4, "layers": 2}}
"""What is more than one mixer with a norm."""


def config(mixer: str, options: dict[str, Any], task: str) -> TrainConfig:
    """One layer with a norm behind it, where nothing else is usual."""
    values: dict[str, Any] = {
        "mixer": mixer, "mixer_options": options, "dim": 128, "layers": 1, "norm": "post", "residual": False,
        "dropout": 0.01, "steps": STEPS, "batch": BATCH, "lengths": (3, 40),
        "optimiser": "adamw", "lr": 2e-3, "weight_decay": 0.01, "schedule": "cosine", "warmup": 0.1,
        "eval_every": STEPS, "eval_samples": 1024, "eval_lengths": (40, 256), "eval_chunk": 2**14,
    }  # fmt: skip
    return TrainConfig(task, **{**values, **USUAL.get(mixer, {})})


def paper(row: str, task: str) -> str | None:
    """The paper's number, with its own budget."""
    known = ROWS[row][2]
    return TABLE2.get(row, {}).get(task) if known is None else known[TASKS.index(task)]


RECIPE = Recipe(
    name="mixers",
    title=f"Every mixer on the regular languages: {STEPS:,} steps, batch {BATCH}, one seed",
    note=(
        f"Table 2 at a small budget: {STEPS:,} steps instead of {PAPER_STEPS:,}, batch {BATCH} instead of 256, one "
        "seed, learning rate 2e-3, 1,024 validation words of lengths 40..256, our start. Width 128, one layer with a "
        "LayerNorm behind it and no residual (the Transformer: two blocks with feed-forward parts). The paper's "
        "numbers, with the whole budget and each model's own settings, are beside it: the two columns are not the same "
        "experiment."
    ),
    cells=tuple(
        Cell(row, task, config(mixer, options, task), (0,), paper(row, task))
        for row, (mixer, options, _) in ROWS.items()
        for task in TASKS
    ),
    full_seeds=(0, 1, 2, 3, 4),
    lengths=(10, 20, 40, 64, 128, 256),
)
