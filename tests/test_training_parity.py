"""The library trained on its first task: parity, on words of at most 600 symbols, then 2,000 without a fault."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pdssm import SequenceModel
from pdssm.training import TrainConfig, accuracy_by_length, train

# Short words first; |D| and the phases so near to 1 and 0 that nothing fades or turns in 2,000 steps; and a pull
# towards small inputs b, whose sum would drown the state in the end.  Seeds 0 to 3 get there in 700 to 900 steps.
CONFIG = TrainConfig(
    "parity",
    mixer_options={"state_dim": 16, "dictionary_size": 4, "magnitude": "near_one", "phase": "zero"},
    dim=16, steps=2000, batch=16, lengths=(1, 600), curriculum=0.3,
    lr=5e-3, weight_decay=0.1, schedule="cosine", warmup=0.0,
    eval_every=100, eval_samples=256, eval_lengths=(2500, 3000), stop_above=0.9999, threads=1,
)  # fmt: skip
LENGTHS = (1, 2, 3, 10, 40, 100, 300, 1000, 2000)


def test_parity_is_learnt_to_2000_symbols(tmp_path: Path) -> None:
    """With one of three seeds: of 0, 1, 2, 3 and 6 all but the last got there, and on another CPU others may not."""
    for seed in range(3):
        outcome = train(dataclasses.replace(CONFIG, seed=seed), tmp_path / str(seed), logger="none", quiet=True)
        if outcome.reason == "reached":
            break
    assert outcome.reason == "reached"
    model = SequenceModel.from_pretrained(outcome.folder / "best")
    found = accuracy_by_length(model, CONFIG.make_task(), LENGTHS, samples=256)
    assert {length: value.accuracy for length, value in found.items()} == dict.fromkeys(LENGTHS, 1.0)
