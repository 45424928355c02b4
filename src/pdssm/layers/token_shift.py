"""The token shift: the input before, over packed sequences, with what lies before a sequence in its window."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TokenShift(nn.Module):
    """x_{t-1} for x_t.  The window is the last input, as that of a ``ShortConvolution`` of width 2."""

    width = 2

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor, window: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
        """Packed inputs ``(T, dim)`` to ``(T, dim)``, and the window after each sequence."""
        starts, stops, sequences = cu_seqlens[:-1], cu_seqlens[1:], window.shape[0]
        inputs = torch.cat((window[:, 0].to(x.dtype), x))
        time = torch.arange(x.shape[0], device=x.device)
        sequence = torch.searchsorted(stops, time, right=True)
        before = torch.where(time == starts[sequence], sequence, sequences + time - 1)
        last = torch.where(stops > starts, sequences + stops - 1, torch.arange(sequences, device=x.device))
        return inputs[before], inputs[last][:, None]
