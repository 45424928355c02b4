"""Scan and readout of matrix states as functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu import matrix
from pdssm.kernels.cpu.loops import array, bind
from pdssm.kernels.cpu.pool import run
from pdssm.kernels.matrix_ops import PIECE, kept_shape


def read_forward(
    kind: str, params: list[Tensor], values: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor,
    period: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Outputs, final states, and the states before each piece."""
    sequences, heads, channels, size = initial.shape
    outputs, final = empty((queries.shape[0], heads, channels), values), empty(tuple(initial.shape), values)
    kept = empty(kept_shape(initial, values), values)
    arrays = [array(tensor) for tensor in (values, keys, queries, initial, cu)]
    run(
        matrix.forward, sequences * heads, 6 * values.numel() * size,
        bind(kind, None, params), *arrays, period, PIECE, array(_pieces(cu)), _scratch(kind, params, size),
        array(outputs), array(final), array(kept),
    )  # fmt: skip
    return outputs, final, kept


def read_backward(
    kind: str, params: list[Tensor], values: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor,
    period: int, kept: Tensor, g_outputs: Tensor, g_final: Tensor,
) -> list[Tensor]:  # fmt: skip
    """The gradients of the parameters, of values, keys and queries, and of the initial state."""
    sequences, heads, _, size = initial.shape
    *shared, g_keys, g_queries = (empty(tuple(tensor.shape), tensor) for tensor in (*params, keys, queries))
    g_values, g_initial = empty(tuple(values.shape), values), empty(tuple(initial.shape), values)
    arrays = [array(tensor) for tensor in (values, keys, queries, initial, cu)]
    run(
        matrix.backward, sequences * heads, 20 * values.numel() * size,
        bind(kind, None, params), *arrays, period, PIECE, array(_pieces(cu)), _scratch(kind, params, size), array(kept),
        array(g_outputs), array(g_final), tuple(array(grad) for grad in shared),
        array(g_values), array(g_keys), array(g_queries), array(g_initial),
    )  # fmt: skip
    return [*shared, g_values, g_keys, g_queries, g_initial]


def _pieces(cu: Tensor) -> Tensor:
    """Where each sequence's pieces of at most PIECE steps begin."""
    counts = (cu.diff() + PIECE - 1) // PIECE
    return torch.cat((cu.new_zeros(1), counts.cumsum(0)))


def _scratch(kind: str, params: list[Tensor], size: int) -> tuple[int, int]:
    """States of scratch, and their rows: Householder keeps each factor's argument, low rank a sum of each rank."""
    factors = params[0].shape[2] if kind == "householder" else 1
    return factors, max(size, params[1].shape[2]) if kind == "low_rank" else size
