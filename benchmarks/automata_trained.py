"""Small models trained on automata, and what extraction finds in them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pdssm.automata import AutomatonError, verify
from pdssm.training import TrainConfig, train
from pdssm.training.subject import Subject

TASKS = ("parity", "cycle_navigation", "S3:2")
LENGTH = 40
"""The longest words of training, and of what is learnt of the model."""


@dataclass(frozen=True)
class Trained:
    """One model."""

    task: str
    seed: int
    steps: int
    seconds: float
    """Of training."""
    states: int | None
    """Of the extracted automaton; None where none was found, for the reason in ``verdict``."""
    target_states: int
    equal: bool
    verdict: str
    evidence: str
    extraction_seconds: float
    agreement: float
    """Of the model itself, on random words of up to 10,000 symbols."""
    shortest_difference: int | None
    """Symbols of the shortest word found on which the model itself is wrong."""


def config(task: str, seed: int) -> TrainConfig:
    """A model with 32 components; seconds to train."""
    return TrainConfig(
        task, seed=seed, dim=32, lengths=(1, LENGTH), steps=3000, batch=64, threads=1,
        mixer_options={
            "state_dim": 32, "dictionary_size": 8, "init": "long", "magnitude": "near_one", "phase": "zero"
        },
        optimiser="adam", lr=3e-3, schedule="cosine", warmup=0.0, final_lr=1e-4,
        eval_every=500, eval_samples=512, eval_lengths=(LENGTH, 64), stop_above=None, checkpoint_every=10**6,
    )  # fmt: skip


def trained(seeds: int, tasks: tuple[str, ...] = TASKS, steps: int | None = None) -> Iterator[Trained]:
    """Each task, with that many seeds."""
    for task in tasks:
        for seed in range(seeds):
            yield extracted_from(task, seed, steps)


def extracted_from(task: str, seed: int, steps: int | None = None) -> Trained:
    """Train, extract, compare."""
    chosen = config(task, seed)
    with tempfile.TemporaryDirectory() as folder:
        if steps is not None:
            chosen = TrainConfig.from_dict({**chosen.to_dict(), "steps": steps})
        outcome = train(chosen, Path(folder) / "run", logger="none", quiet=True)
        subject = Subject.load(Path(folder) / "run")
    assert subject.target is not None
    start = time.perf_counter()
    states, equal, evidence = None, False, ""
    try:
        found = subject.extract(length=LENGTH, tolerance=0.01, max_states=200)
        states, evidence = len(found.dfa), str(found.evidence)
        answer = verify(found.dfa, subject.target, empty=False)
        equal, verdict = answer.equal, str(answer)
    except AutomatonError as error:
        verdict = str(error)
    seconds = time.perf_counter() - start
    agreed = subject.agreement(subject.target, words=200)
    return Trained(
        task, seed, outcome.step, outcome.seconds, states, len(subject.target.minimised()), equal, verdict, evidence,
        seconds, agreed.rate, None if agreed.counterexample is None else len(agreed.counterexample),
    )  # fmt: skip
