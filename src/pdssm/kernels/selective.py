"""Mamba's selective scan, one op from its ingredients to its outputs: no state but every 64th is ever stored.

For channel d, with a state of N numbers,

    X_t[d] = exp(dt_t[d] A[d]) X_{t-1}[d] + dt_t[d] x_t[d] B_t,    y_t[d] = C_t . X_t[d].

Axes: ``dt`` and ``x`` (T, D) of packed sequences, ``rates`` A (D, N), negative, ``keys`` B and ``queries`` C (T, N),
states (S, D, N).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.kernels.checks import check_offsets
from pdssm.kernels.ops import _refuse


@torch.library.custom_op("pdssm::selective_scan", mutates_args=())
def selective_scan(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(outputs, final, states that the backward pass begins from), on a CPU."""
    from pdssm.kernels.cpu import selective as cpu

    check_offsets(cu, x.shape[0])
    return cpu.run_forward(dt, x, rates, keys, queries, initial, cu)


@selective_scan.register_fake
def _(dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor) -> Any:
    marks = x.new_empty((x.shape[0] // 64 + initial.shape[0], -(-x.shape[1] // 16), rates.shape[1], 16))
    return torch.empty_like(x, memory_format=torch.contiguous_format), initial.new_empty(initial.shape), marks


@torch.library.custom_op("pdssm::selective_scan_backward", mutates_args=())
def selective_scan_backward(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor, marks: Tensor,
    g_outputs: Tensor | None, g_final: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of all but the offsets."""
    from pdssm.kernels.cpu import selective as cpu

    return cpu.run_backward(dt, x, rates, keys, queries, initial, cu, marks, g_outputs, g_final)


@selective_scan_backward.register_fake
def _(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor, marks: Tensor,
    g_outputs: Any, g_final: Any,
) -> Any:  # fmt: skip
    return [tensor.new_empty(tensor.shape) for tensor in (dt, x, rates, keys, queries, initial)]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, g_outputs: Tensor | None, g_final: Tensor | None, g_marks: None) -> Any:
    return *selective_scan_backward(*ctx.saved_tensors, g_outputs, g_final), None


selective_scan.register_autograd(_gradients, setup_context=_save)
selective_scan_backward.register_autograd(_refuse("selective_scan"))
