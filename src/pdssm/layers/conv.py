"""A short causal convolution before the generator, over packed sequences, token tables and streams.

Each channel has its own ``width`` weights: u_t = silu(sum_i w_i x_{t-i} + c).  What lies before a sequence is its
*window*, the last ``width - 1`` inputs of what came earlier, zeros at the very start.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdssm.errors import check_size
from pdssm.kernels.buffers import by_tiles
from pdssm.kernels.convolution import convolve


class ShortConvolution(nn.Module):
    """Depthwise and causal, with a SiLU."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        check_size("conv", width, 2)
        self.dim, self.width = dim, width
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(width, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(dim))

    def initial_window(self, sequences: int) -> Tensor:
        """Zeros, ``(sequences, width - 1, dim)``, the oldest input first."""
        return self.weight.new_zeros(sequences, self.width - 1, self.dim)

    def forward(self, x: Tensor, window: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
        """Packed inputs ``(T, dim)`` to ``(T, dim)``, and the window after each sequence."""
        lags = self._lags(cu_seqlens, x.shape[0])
        inputs = torch.cat((x, window.flatten(0, 1).to(x.dtype)))
        return self._mix(inputs, lags), inputs[self._last(cu_seqlens, x.shape[0])]

    def rows(self, table: Tensor, rows: Tensor, window: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for inputs ``table[rows]``: one convolved input for each distinct window that occurs.

        Returns the new table, the new rows and the windows after each sequence.
        """
        inputs = torch.cat((table, window.flatten(0, 1).to(table.dtype)))
        before = torch.arange(table.shape[0], inputs.shape[0], device=rows.device)
        if not window.requires_grad:
            # All windows of zeros are one row, or a fresh batch would have a row for each sequence.
            zeros = (inputs[table.shape[0] :] == 0).all(-1)
            before = torch.where(zeros, inputs.shape[0], before)
            inputs = torch.cat((inputs, torch.zeros_like(inputs[:1])))
        ids = torch.cat((rows, before))
        windows, again = torch.unique(ids[self._lags(cu_seqlens, rows.shape[0])], dim=0, return_inverse=True)
        return self._mix(inputs, windows), again, inputs[ids[self._last(cu_seqlens, rows.shape[0])]]

    def step(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """One input of each sequence, ``(sequences, dim)``."""
        inputs = torch.cat((window.to(x.dtype), x[:, None]), 1)
        lags = torch.arange(self.width - 1, -1, -1, device=x.device)
        steps = torch.arange(x.shape[0], device=x.device)[:, None] * self.width
        return self._mix(inputs.flatten(0, 1), steps + lags), inputs[:, 1:]

    def _mix(self, inputs: Tensor, lags: Tensor) -> Tensor:
        """An input has the same bits in a batch and alone: the selection may be a near tie."""
        mixed: Tensor = _SiLU.apply(convolve(inputs, lags, self.weight, self.bias))  # type: ignore[no-untyped-call]
        return mixed

    def _lags(self, cu_seqlens: Tensor, steps: int) -> Tensor:
        """Where x_t, x_{t-1}, ... lie in (inputs, windows), for each step: (T, width)."""
        device = cu_seqlens.device
        time = torch.arange(steps, device=device)
        sequence = torch.searchsorted(cu_seqlens[1:], time, right=True)
        lags = time[:, None] - torch.arange(self.width, device=device)
        before = lags - cu_seqlens[sequence, None]
        return torch.where(before >= 0, lags, steps + (sequence[:, None] + 1) * (self.width - 1) + before)

    def _last(self, cu_seqlens: Tensor, steps: int) -> Tensor:
        """Where the last ``width - 1`` inputs of each sequence lie, the oldest first: (sequences, width - 1)."""
        device = cu_seqlens.device
        sequence = torch.arange(cu_seqlens.shape[0] - 1, device=device)[:, None]
        at = cu_seqlens[1:, None] - torch.arange(self.width - 1, 0, -1, device=device)
        before = at - cu_seqlens[:-1, None]
        return torch.where(before >= 0, at, steps + (sequence + 1) * (self.width - 1) + before)


class _SiLU(torch.autograd.Function):
    """x / (1 + exp(-x)), an element's bits the same wherever it lies.

    torch's own rounds the last few elements of a tensor, which do not fill a vector, in another way than the rest.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return by_tiles(lambda rows: (rows / torch.exp(-rows).add_(1),), x)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return by_tiles(lambda g, rows: (torch.ops.aten.silu_backward(g, rows),), grads[0], x)[0]
