"""The short convolution's loops: out[t] = bias + sum_i weight[i] * inputs[lags[t, i]], each channel by itself.

Adjoint: g_inputs[lags[t, i]] += weight[i] * g[t], g_weight[i] = sum_t g[t] * inputs[lags[t, i]], g_bias = sum_t g[t].

Products and sums round one after the other, lag by lag, as plain torch's: a step has the same bits in any company.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu.compiling import compiled
from pdssm.kernels.cpu.loops import array
from pdssm.kernels.cpu.pool import run

COLUMNS = 256  # of one task of the adjoint
STEPS = 64  # of one partial sum: adding thousands of numbers to one would lose digits


@compiled
def _forward(lo: Any, hi: Any, inputs: Any, lags: Any, weight: Any, bias: Any, out: Any) -> None:
    """Steps lo..hi."""
    for t in range(lo, hi):
        row = out[t]
        row[:] = bias
        for lag in range(weight.shape[0]):
            x, w = inputs[lags[t, lag]], weight[lag]
            for c in range(row.shape[0]):
                row[c] += w[c] * x[c]


@compiled
def _backward(
    lo: Any, hi: Any, inputs: Any, lags: Any, weight: Any, g: Any, g_inputs: Any, g_weight: Any, g_bias: Any
) -> None:
    """Blocks of columns lo..hi; ``g_weight`` and ``g_bias`` come as zeros."""
    width, channels = weight.shape
    part = np.empty((width + 1, COLUMNS), weight.dtype)
    for block in range(lo, hi):
        first = block * COLUMNS
        last = min(first + COLUMNS, channels)
        g_inputs[:, first:last] = 0
        for start in range(0, lags.shape[0], STEPS):
            part[:] = 0
            for t in range(start, min(start + STEPS, lags.shape[0])):
                own = g[t, first:last]
                for lag in range(width):
                    _pull_back(
                        inputs[lags[t, lag], first:last], weight[lag, first:last], own,
                        g_inputs[lags[t, lag], first:last], part[lag],
                    )  # fmt: skip
                for c in range(last - first):
                    part[width, c] += own[c]
            for c in range(last - first):
                for lag in range(width):
                    g_weight[lag, first + c] += part[lag, c]
                g_bias[first + c] += part[width, c]


@compiled
def _pull_back(x: Any, w: Any, g: Any, g_x: Any, g_w: Any) -> None:
    for c in range(g.shape[0]):
        g_x[c] += w[c] * g[c]
        g_w[c] += x[c] * g[c]


def convolve(inputs: Tensor, lags: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``(T, C)`` from inputs ``(R, C)``, lags ``(T, width)``, weight ``(width, C)`` and bias ``(C,)``."""
    out = empty((lags.shape[0], inputs.shape[1]), inputs)
    arrays = [array(tensor) for tensor in (inputs, lags, weight, bias, out)]
    run(_forward, lags.shape[0], 2 * lags.shape[1] * out.numel(), *arrays)
    return out


def convolve_backward(inputs: Tensor, lags: Tensor, weight: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of inputs, weight and bias."""
    g_inputs = empty(tuple(inputs.shape), inputs)
    g_weight, g_bias = torch.zeros_like(weight), torch.zeros_like(weight[0])
    arrays = [array(tensor) for tensor in (inputs, lags, weight, g, g_inputs, g_weight, g_bias)]
    run(_backward, -(-weight.shape[1] // COLUMNS), 4 * lags.shape[1] * g.numel(), *arrays)
    return g_inputs, g_weight, g_bias
