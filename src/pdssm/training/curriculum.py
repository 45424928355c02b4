"""Short words first."""

from __future__ import annotations

from dataclasses import dataclass

from pdssm.training.config import Lengths

WINDOW, GROWTH = 25, 1.25


@dataclass
class Curriculum:
    """The longest word grows by a quarter whenever the mean loss of ``WINDOW`` steps is under the threshold.

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
        return cls(threshold, lengths, lengths[1] if threshold is None else min(longer(lengths[0]), lengths[1]))

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
                self.longest = min(longer(self.longest), self.lengths[1])
            self.total, self.count = 0.0, 0


def longer(length: int) -> int:
    """By a quarter, and by 2 at least."""
    return max(length + 2, int(GROWTH * length))
