"""What a task hands over: packed sequences and the labels of some of their steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdssm.errors import RangeError

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sequences one after the other, never padded; every tensor is int64.

    ``tokens`` (T,): the symbols of all sequences; ``cu_seqlens`` (sequences + 1,): where each begins, and the end;
    ``positions`` (P,): the indices into ``tokens`` whose output is asked for; ``labels`` (P,): the right answers there.
    """

    tokens: Tensor
    cu_seqlens: Tensor
    positions: Tensor
    labels: Tensor

    def __len__(self) -> int:
        """The number of sequences."""
        return self.cu_seqlens.shape[0] - 1

    @property
    def lengths(self) -> Tensor:
        """The length of every sequence."""
        return self.cu_seqlens.diff()

    def sequence(self, index: int) -> tuple[Tensor, Tensor]:
        """The tokens of one sequence, and its labels."""
        if not 0 <= index < len(self):
            raise RangeError(f"index is {index}; expected 0..{len(self) - 1}, one of the batch's sequences")
        start, stop = self.cu_seqlens[index], self.cu_seqlens[index + 1]
        return self.tokens[start:stop], self.labels[(self.positions >= start) & (self.positions < stop)]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(*(t.to(device) for t in (self.tokens, self.cu_seqlens, self.positions, self.labels)))


def offsets(lengths: IntArray) -> IntArray:
    """Where each sequence begins in the packed order, and the end of the last."""
    cu_seqlens = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=cu_seqlens[1:])
    return cu_seqlens
