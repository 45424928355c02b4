"""Sequences cut into chunks of one length, side by side, for the scans that are matrix products within a chunk."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from pdssm.kernels.packing import Padded, Uniform


class Chunks:
    """Of ``(batch, time)`` steps, or of a pack's; short sequences and last chunks are filled up with zeros."""

    def __init__(self, batch: int, time: int, cu_seqlens: Tensor | None, size: int) -> None:
        self.batch, self.time = batch, time
        self._layout = Uniform(batch, False) if cu_seqlens is None else Padded(cu_seqlens, False)
        self._longest = self._layout.valid.shape[1] if isinstance(self._layout, Padded) else time
        self.size = min(size, self._longest)

    def split(self, steps: Tensor) -> Tensor:
        """(batch, time, heads, E) to (sequences, chunks, heads, size, E)."""
        padded = self._layout.pad(steps.flatten(0, 1))
        if isinstance(self._layout, Padded):
            padded = torch.where(self._layout.valid[..., None, None], padded, 0)
        padded = pad(padded, (0, 0, 0, 0, 0, -padded.shape[1] % self.size))
        return padded.reshape(padded.shape[0], -1, self.size, *padded.shape[2:]).transpose(2, 3)

    def join(self, chunks: Tensor) -> Tensor:
        """And back."""
        steps = chunks.transpose(2, 3).flatten(1, 2)[:, : self._longest]
        return self._layout.unpad(steps).reshape(self.batch, self.time, *chunks.shape[2:3], -1)
