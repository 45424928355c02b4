"""What every task is: a vocabulary, a set of answers, and a source of packed batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch

from pdssm.errors import RangeError
from pdssm.tasks.batch import Batch, IntArray, offsets

LabelAt = Literal["end", "every"]


class Task(ABC):
    """A labelled language. Subclasses say what they are in ``name``, ``tokens`` and ``labels``, and draw words.

    ``tokens`` names the symbols a model reads and ``labels`` the answers it chooses from, both in the order of their
    numbers. ``answers`` are the labels that really occur (the published protocols have one vocabulary for both, most
    of which is never an answer). A task holds no random state: the generator comes with every call.
    """

    summary: ClassVar[str]
    label_at: LabelAt = "end"
    shortest: ClassVar[int] = 1

    name: str
    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    answers: tuple[int, ...]

    @property
    def input_size(self) -> int:
        """The number of symbols."""
        return len(self.tokens)

    @property
    def output_size(self) -> int:
        """The number of classes."""
        return len(self.labels)

    @property
    def chance(self) -> float:
        """The accuracy of a guess among the answers, each as often as the others."""
        return 1 / len(self.answers)

    @abstractmethod
    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Words of these lengths, packed, and their labels: one a word, or one a symbol (``label_at``)."""

    def rounded(self, lengths: IntArray) -> IntArray:
        """The lengths that words really have, for languages in which not every length occurs."""
        return lengths

    def sample(self, count: int, lengths: tuple[int, int], rng: np.random.Generator) -> Batch:
        """``count`` words, their lengths uniform on the closed interval ``lengths``."""
        if count < 1:
            raise RangeError(f"count is {count}; expected at least 1 sequence")
        low, high = self._interval(lengths)
        drawn = self.rounded(rng.integers(low, high, size=count, dtype=np.int64, endpoint=True))
        tokens, labels = self.draw(drawn, rng)
        cu_seqlens = offsets(drawn)
        positions = cu_seqlens[1:] - 1 if self.label_at == "end" else np.arange(cu_seqlens[-1])
        return Batch(*(torch.from_numpy(a) for a in (tokens, cu_seqlens, positions, labels)))

    def spell(self, tokens: Sequence[int]) -> str:
        """A word, written with the names of its symbols."""
        return " ".join(self.tokens[int(t)] for t in tokens)

    def _interval(self, lengths: tuple[int, int]) -> tuple[int, int]:
        if len(lengths) != 2 or not self.shortest <= lengths[0] <= lengths[1]:
            raise RangeError(
                f"lengths is {lengths}; expected (low, high) with {self.shortest} <= low <= high, both included"
            )
        return lengths

    def __repr__(self) -> str:
        return f"<task {self.name}: {self.input_size} symbols, {self.output_size} classes, label at {self.label_at}>"


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """One of the choices."""
    if value not in choices:
        raise RangeError(f"{name} is {value!r}; expected one of {', '.join(repr(c) for c in choices)}")
