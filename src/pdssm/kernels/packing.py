"""Packed sequences laid out side by side, for the backends that go through all of them at once."""

from __future__ import annotations

import torch
from torch import Tensor


class Padded:
    """The steps of packed sequences as (sequences, longest): in the recurrence's own direction, padded at the end."""

    def __init__(self, cu_seqlens: Tensor, reverse: bool) -> None:
        starts, stops = cu_seqlens[:-1], cu_seqlens[1:]
        self.lengths = stops - starts
        longest = int(self.lengths.max())
        offset = torch.arange(longest, device=cu_seqlens.device)
        self.valid = offset < self.lengths[:, None]
        steps = stops[:, None] - 1 - offset if reverse else starts[:, None] + offset
        self.steps = torch.where(self.valid, steps, 0)

    def pad(self, packed: Tensor) -> Tensor:
        """(T, ...) to (S, L, ...); the padding holds some step's values."""
        return packed[self.steps]

    def unpad(self, padded: Tensor) -> Tensor:
        """(S, L, ...) to (T, ...)."""
        return padded[self.valid][torch.argsort(self.steps[self.valid])]

    def final(self, padded: Tensor, initial: Tensor) -> Tensor:
        """The last valid state of each sequence, the initial one where there is none."""
        last = padded[torch.arange(len(padded), device=padded.device), (self.lengths - 1).clamp(min=0)]
        empty = (self.lengths == 0).view(-1, *[1] * (initial.ndim - 1))
        return torch.where(empty, initial, last)


class Uniform:
    """The same for sequences of one length, whose layout needs no look at the data."""

    def __init__(self, sequences: int, reverse: bool) -> None:
        self.sequences, self.reverse = sequences, reverse

    def pad(self, packed: Tensor) -> Tensor:
        padded = packed.reshape(self.sequences, -1, *packed.shape[1:])
        return padded.flip(1) if self.reverse else padded

    def unpad(self, padded: Tensor) -> Tensor:
        return (padded.flip(1) if self.reverse else padded).flatten(0, 1)

    def final(self, padded: Tensor, initial: Tensor) -> Tensor:
        return padded[:, -1]
