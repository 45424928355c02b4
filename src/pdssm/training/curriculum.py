"""Short words first."""

from __future__ import annotations

from dataclasses import dataclass

from pdssm.training.config import Lengths

WINDOW, GROWTH = 50, 2


@dataclass
class Curriculum:
    """The longest word grows by ``GROWTH`` whenever the mean loss of ``WINDOW`` steps is under the threshold.

    Without a threshold all lengths come from the beginning.
    """

    threshold: float | None
    lengths: Lengths
    longest: int
    total: float = 0.0
    count: int = 0

    @classmethod
    def begin(cls, threshold: float | None, lengths: Lengths) -> Curriculum:
        """Before the first step."""
        return cls(threshold, lengths, lengths[1] if threshold is None else min(lengths[0] + GROWTH, lengths[1]))

    @property
    def now(self) -> Lengths:
        """Lengths of the next batch."""
        return self.lengths[0], self.longest

    def observe(self, loss: float) -> None:
        """Of one step."""
        if self.threshold is None or self.longest == self.lengths[1]:
            return
        self.total, self.count = self.total + loss, self.count + 1
        if self.count == WINDOW:
            if self.total / WINDOW < self.threshold:
                self.longest = min(self.longest + GROWTH, self.lengths[1])
            self.total, self.count = 0.0, 0
