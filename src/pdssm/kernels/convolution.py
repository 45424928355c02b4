"""The short convolution as one op: float32 and float64 on a CPU by compiled loops, all else in plain torch.

Axes: inputs (R, C), lags (T, width) into them, weight (width, C), bias (C,), result (T, C).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.kernels.checks import check_below
from pdssm.kernels.ops import _plain, _refuse


def convolve(inputs: Tensor, lags: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """bias + sum_i weight[i] * inputs[lags[t, i]]: to the same bits whatever other steps there are."""
    compiled = inputs.device.type == "cpu" and inputs.dtype in (torch.float32, torch.float64)
    if compiled and inputs.dtype == weight.dtype == bias.dtype:
        total: Tensor = convolution(inputs, lags, weight, bias)
        return total
    return plain(inputs, lags, weight, bias)


def plain(inputs: Tensor, lags: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The oracle, and the way for all other tensors; lag by lag, in the loops' order."""
    total = bias.expand(lags.shape[0], -1)
    for lag in range(lags.shape[1]):
        total = total + weight[lag] * inputs[lags[:, lag]]
    return total


@torch.library.custom_op("pdssm::convolution", mutates_args=())
def convolution(inputs: Tensor, lags: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``plain`` by compiled loops."""
    from pdssm.kernels.cpu import convolution as loops

    check_below("lags", lags, inputs.shape[0], "inputs")
    return loops.convolve(_plain(inputs), lags.contiguous(), _plain(weight), _plain(bias))


@convolution.register_fake
def _(inputs: Tensor, lags: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return inputs.new_empty((lags.shape[0], inputs.shape[1]))


@torch.library.custom_op("pdssm::convolution_backward", mutates_args=())
def convolution_backward(inputs: Tensor, lags: Tensor, weight: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of inputs, weight and bias."""
    from pdssm.kernels.cpu import convolution as loops

    return loops.convolve_backward(_plain(inputs), lags.contiguous(), _plain(weight), _plain(g))


@convolution_backward.register_fake
def _(inputs: Tensor, lags: Tensor, weight: Tensor, g: Tensor) -> Any:
    return inputs.new_empty(inputs.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape[1:])


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])


def _gradients(ctx: Any, g: Tensor) -> Any:
    inputs, lags, weight = ctx.saved_tensors
    g_inputs, g_weight, g_bias = convolution_backward(inputs, lags, weight, g)
    return g_inputs, None, g_weight, g_bias


convolution.register_autograd(_gradients, setup_context=_save)
convolution_backward.register_autograd(_refuse("convolution"))
