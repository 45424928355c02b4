"""The recurrence's kernels as functions of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.kernels.buffers import empty
from pdssm.kernels.cpu import recurrence
from pdssm.kernels.cpu.families import FAMILIES
from pdssm.kernels.cpu.pool import run


def array(tensor: Tensor) -> Any:
    """The tensor's memory as a NumPy array."""
    return tensor.detach().numpy()


def bind(kind: str, index: Tensor | None, params: list[Tensor]) -> Any:
    """The family's named tuple of arrays."""
    tensors = params if index is None else [index, *params]
    return FAMILIES[kind].arrays(*(array(tensor) for tensor in tensors))


def _depth(kind: str, params: list[Tensor]) -> int:
    """Rows of scratch: PD scatters its products from one, Householder keeps the argument of each of its factors."""
    return int(params[0].shape[2]) + 1 if kind == "householder" else 1


def scan_forward(
    kind: str,
    index: Tensor | None,
    params: list[Tensor],
    inputs: Tensor,
    initial: Tensor,
    rows: Tensor,
    cu: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """The states of every step, and the final ones of every sequence."""
    sequences, heads, channels, size = initial.shape
    states = empty((rows.shape[0], heads, channels, size), inputs)
    final = empty((sequences, heads, channels, size), inputs)
    arrays = [array(tensor) for tensor in (inputs, initial, rows, cu)]
    run(
        recurrence.forward, sequences * heads, 4 * states.numel(),
        bind(kind, index, params), *arrays, reverse, _depth(kind, params), array(states), array(final),
    )  # fmt: skip
    return states, final


def scan_backward(
    kind: str, index: Tensor | None, params: list[Tensor], initial: Tensor, rows: Tensor, place: Tensor, cu: Tensor,
    reverse: bool, states: Tensor, g_states: Tensor | None, g_final: Tensor | None, right: Tensor | None = None,
) -> tuple[list[Tensor], Tensor, Tensor]:  # fmt: skip
    """Per step, at its place, the gradients of the parameters and inputs; per sequence, the initial state's.

    ``right`` (PD only) receives the right factor of dP, see ``families.one_hot.pd_retreat``.
    """
    sequences, heads, channels, size = initial.shape
    steps = rows.shape[0]
    grads = [empty((steps, *param.shape[1:]), param) for param in params]
    g_inputs = empty((steps, heads, channels, size), initial)
    g_initial = empty((sequences, heads, channels, size), initial)
    outputs = [array(grad) for grad in grads]
    if index is not None:
        real = initial.real.dtype
        outputs.append(array(torch.empty((0, 0, 0, 0, 0), dtype=real) if right is None else right))
    cotangents = [array(initial.new_empty((0, 0, 0, 0)) if g is None else g) for g in (g_states, g_final)]
    arrays = [array(tensor) for tensor in (initial, rows, place, cu)]
    run(
        recurrence.backward, sequences * heads, 8 * states.numel(),
        bind(kind, index, params), *arrays, reverse, _depth(kind, params), array(states), *cotangents,
        tuple(outputs), array(g_inputs), array(g_initial),
    )  # fmt: skip
    return grads, g_inputs, g_initial


def sort_steps(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Each step's place among the steps sorted by row, and the rows' offsets there."""
    place, offsets = torch.empty_like(rows), torch.empty(count + 1, dtype=torch.int64)
    recurrence.sort_steps(array(rows), array(place), array(offsets))
    return place, offsets


def sum_rows(values: Tensor, offsets: Tensor) -> Tensor:
    """(T, ...) sorted by row to (rows, ...): the sum of each row's steps."""
    real = torch.view_as_real(values) if values.is_complex() else values
    flat = real.reshape(values.shape[0], -1)
    out = torch.empty((offsets.shape[0] - 1, flat.shape[1]), dtype=flat.dtype)
    tasks = out.shape[0] * -(-flat.shape[1] // recurrence.SUM_COLUMNS)
    run(recurrence.sum_rows, tasks, flat.numel(), array(flat), array(offsets), array(out))
    out = out.reshape(-1, *real.shape[1:])
    return torch.view_as_complex(out) if values.is_complex() else out
