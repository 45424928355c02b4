"""An exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """average <- decay * average + (1 - decay) * weights after every step; with decay 0 there is none."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = dict(model.named_parameters()) if decay else {}
        self.values: dict[str, Tensor] = {name: weight.detach().clone() for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        """After a step."""
        if self.decay:
            torch._foreach_lerp_(list(self.values.values()), list(self.weights.values()), 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Meanwhile the model has the average for its weights."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, weight in self.weights.items():
            kept = weight.clone()
            weight.copy_(self.values[name])
            self.values[name].copy_(kept)
