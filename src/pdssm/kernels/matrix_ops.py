"""The custom op ``pdssm::matrix_readout``: scan and readout of matrix states in one, on a CPU.

Axes as in ``kernels/cpu/matrix.py``.  Shapes are the caller's business (``pdssm.scan_readout`` checks them).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.kernels.checks import check_offsets
from pdssm.kernels.ops import _plain, _refuse

KINDS = ("diagonal", "householder", "low_rank")
"""The families that have a kernel here."""

PIECE = 32
"""Steps whose states exist at a time on the way back."""


def kept_shape(initial: Tensor, values: Tensor) -> tuple[int, ...]:
    """Room for the state before each piece: a sequence has one for every PIECE steps, and one for the rest."""
    return (values.shape[0] // PIECE + initial.shape[0], *initial.shape[1:])


@torch.library.custom_op("pdssm::matrix_readout", mutates_args=())
def matrix_readout(
    kind: str, params: list[Tensor], values: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor,
    period: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(outputs, final, kept): ``kept`` is what the backward pass starts from."""
    from pdssm.kernels.cpu import reading

    check_offsets(cu, values.shape[0])
    return reading.read_forward(
        kind, [_plain(param) for param in params], _plain(values), _plain(keys), _plain(queries), _plain(initial),
        cu.contiguous(), period,
    )  # fmt: skip


@matrix_readout.register_fake
def _(kind: str, params: Any, values: Tensor, keys: Any, queries: Tensor, initial: Tensor, cu: Any, period: int) -> Any:
    outputs = values.new_empty((queries.shape[0], *values.shape[1:]))
    return outputs, initial.new_empty(initial.shape), initial.new_empty(kept_shape(initial, values))


@torch.library.custom_op("pdssm::matrix_readout_backward", mutates_args=())
def matrix_readout_backward(
    kind: str, params: list[Tensor], values: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor,
    period: int, kept: Tensor, g_outputs: Tensor, g_final: Tensor,
) -> list[Tensor]:  # fmt: skip
    """The gradients of [*params, values, keys, queries, initial]."""
    from pdssm.kernels.cpu import reading

    return reading.read_backward(
        kind, [_plain(param) for param in params], _plain(values), _plain(keys), _plain(queries), _plain(initial),
        cu.contiguous(), period, kept, _plain(g_outputs), _plain(g_final),
    )  # fmt: skip


@matrix_readout_backward.register_fake
def _(
    kind: str, params: list[Tensor], values: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Any,
    period: int, kept: Any, g_outputs: Any, g_final: Any,
) -> Any:  # fmt: skip
    return [tensor.new_empty(tensor.shape) for tensor in (*params, values, keys, queries, initial)]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.kind, params, *tensors, ctx.period = inputs
    ctx.count = len(params)
    ctx.save_for_backward(*params, *tensors, output[2])


def _gradients(ctx: Any, g_outputs: Tensor, g_final: Tensor, g_kept: Tensor) -> Any:
    *tensors, kept = ctx.saved_tensors
    params, rest = list(tensors[: ctx.count]), tensors[ctx.count :]
    grads = matrix_readout_backward(ctx.kind, params, *rest, ctx.period, kept, g_outputs, g_final)
    return None, grads[: ctx.count], *grads[ctx.count :], None, None


matrix_readout.register_autograd(_gradients, setup_context=_save)
matrix_readout_backward.register_autograd(_refuse("matrix_readout"))
