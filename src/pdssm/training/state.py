"""All that changes while a run goes on: what a checkpoint holds.

There is no state of a random generator among it. The data of a step, its dropout and its noise are functions of (seed,
step, process), so the number of steps done is all that is needed to go on with the same bits.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn, optim

from pdssm.training.averaging import Average
from pdssm.training.config import TrainConfig
from pdssm.training.curriculum import Curriculum
from pdssm.training.optimiser import make_optimiser, moments, restore_moments

SMOOTHING = 0.98


class TrainState:
    """Weights, optimiser, average, curriculum and counters."""

    def __init__(self, config: TrainConfig, model: nn.Module) -> None:
        self.model = model
        self.optimiser: optim.Optimizer = make_optimiser(config, model)
        self.average = Average(model, config.ema)
        self.curriculum = Curriculum.begin(config.curriculum, config.lengths)
        self.step = 0
        self.seconds = 0.0
        self.loss = 0.0
        """Smoothed."""
        self.accuracy: float | None = None
        self.best: float | None = None
        self.best_step: int | None = None
        self._names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}

    def observe(self, loss: float) -> None:
        """One more step is done, and this was its loss."""
        weight = max(1 - SMOOTHING, 1 / (self.step + 1))  # the plain mean, until there are enough of them
        self.loss += weight * (loss - self.loss)
        self.step += 1
        self.curriculum.observe(loss)
        self.average.update()

    def finite(self) -> bool:
        """No NaN and no infinity among the weights."""
        return all(bool(torch.isfinite(weight).all()) for weight in self.model.parameters())

    # ------------------------------------------------------------------------------------------ checkpoints

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        held = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        held |= {f"moments/{name}": value for name, value in moments(self.optimiser, self._names).items()}
        return held | {f"average/{name}": value for name, value in self.average.values.items()}

    def counters(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in ("step", "seconds", "loss", "accuracy", "best", "best_step")},
            **{name: getattr(self.curriculum, name) for name in ("longest", "total", "count")},
        }

    def restore(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """What ``tensors`` and ``counters`` gave."""
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "moments": {}, "average": {}}
        for key, value in tensors.items():
            kind, name = key.split("/", 1)
            parts[kind][name] = value
        self.model.load_state_dict(parts["model"])
        restore_moments(self.optimiser, self._names, parts["moments"])
        for name, value in parts["average"].items():
            self.average.values[name].copy_(value)
        for name in ("step", "seconds", "loss", "accuracy", "best", "best_step"):
            setattr(self, name, counters[name])
        for name in ("longest", "total", "count"):
            setattr(self.curriculum, name, counters[name])


def step_seed(seed: int, step: int, process: int, purpose: str) -> int:
    """For torch's own generators, at every step anew."""
    digest = hashlib.blake2b(f"{seed} {step} {process} {purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
