"""Scan and readout in one, for matrix states: only what a readout needs leaves the loop."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pdssm.errors import RangeError, ShapeError
from pdssm.kernels.matrix_ops import KINDS, matrix_readout
from pdssm.scanning.delta import delta_readout, is_delta
from pdssm.scanning.problem import initial_states, packed_offsets
from pdssm.scanning.scan import scan
from pdssm.transitions import Householder, Transition
from pdssm.transitions.base import check_same

CHUNK = 64
Part = slice | Tensor


def scan_readout(
    transition: Transition,
    values: Tensor,
    keys: Tensor,
    queries: Tensor,
    initial_state: Tensor | None = None,
    *,
    cu_seqlens: Tensor | None = None,
    period: int = 1,
    backend: str | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Outputs y_t = X_t q_t of the matrix state X_t = X_{t-1} A_t^T + v_t k_t^T, and the final states.

    ``values`` are ``(batch, time, *heads, V)``, ``keys`` and ``queries`` ``(batch, time, *heads, N)``; the outputs
    are like the values, the states ``(sequences, *heads, V, N)``.  With a ``period``, only every period-th step is
    read: queries and outputs then have ``time / period`` steps.

    Memory is a fraction of ``time`` states, in the backward pass too, which computes them again.  With ``backend``
    None, the real diagonal, Householder and low-rank families have a compiled loop for both passes on a CPU, and
    elsewhere one Householder factor with a decay a head is solved chunk by chunk (``scanning/delta.py``).  All else
    goes through ``scan``, the states of ``chunk`` reads of each sequence at a time.
    """
    _check(transition, values, keys, queries, period, chunk)
    batch, time, *heads = transition.batch_shape
    offsets, _ = packed_offsets(cu_seqlens, batch, time, transition.device)
    shape = (offsets.shape[0] - 1, *heads, values.shape[-1], transition.dim)
    start = initial_states(initial_state, shape, transition)
    if backend is None and _has_kernel(transition):
        return _fused(transition, values, keys, queries, start, offsets, period)
    packed = None if cu_seqlens is None else offsets
    if backend is None and len(heads) == 1 and is_delta(transition):
        assert isinstance(transition, Householder)
        return delta_readout(transition, values, keys, queries, start, packed, period)
    return _chunked(transition, values, keys, queries, start, packed, period, backend, chunk)


def _has_kernel(transition: Transition) -> bool:
    form = transition.kernel_form()
    known = form is not None and form.kind in KINDS
    return known and transition.device.type == "cpu" and not transition.dtype.is_complex


def _fused(
    transition: Transition, values: Tensor, keys: Tensor, queries: Tensor, start: Tensor, offsets: Tensor, period: int
) -> tuple[Tensor, Tensor]:
    """One loop over time, compiled; the axes are those of ``kernels/cpu/matrix.py``."""
    lanes = math.prod(transition.batch_shape[2:])
    form = transition.reshape(-1, lanes).kernel_form()
    assert form is not None
    flat = [tensor.reshape(-1, lanes, tensor.shape[-1]) for tensor in (values, keys, queries)]
    first = start.reshape(-1, lanes, *start.shape[-2:])
    outputs, final, _ = matrix_readout(form.kind, form.params, *flat, first, offsets, period)
    return outputs.reshape(*queries.shape[:-1], values.shape[-1]), final.reshape(start.shape)


def _chunked(
    transition: Transition, values: Tensor, keys: Tensor, queries: Tensor, state: Tensor, cu_seqlens: Tensor | None,
    period: int, backend: str | None, chunk: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """By ``scan``, the states of ``chunk`` reads of each sequence at a time."""

    def piece(read: Part, part: Part, offsets: Tensor | None, carried: Tensor) -> tuple[Tensor, Tensor]:
        inputs = values[:, part, ..., :, None] * keys[:, part, ..., None, :]
        states, final = scan(transition[:, part], inputs, carried, cu_seqlens=offsets, backend=backend)
        return (states[:, period - 1 :: period] * queries[:, read, ..., None, :]).sum(-1), final

    outputs = []
    reads = queries.shape[1]
    parts = list(_even_parts(reads, period, chunk) if cu_seqlens is None else _packed_parts(cu_seqlens, period, chunk))
    for read, part, offsets in parts:
        output, state = checkpoint(piece, read, part, offsets, state, use_reentrant=False)
        outputs.append(output)
    together = torch.cat(outputs, 1)
    if cu_seqlens is None:
        return together, state
    order = torch.cat([read for read, _, _ in parts if isinstance(read, Tensor)])
    return together[:, torch.argsort(order)], state


def _even_parts(reads: int, period: int, chunk: int) -> Iterator[tuple[Part, Part, None]]:
    """The reads of each piece and their steps, where all sequences have the same."""
    for start in range(0, reads, chunk):
        stop = min(start + chunk, reads)
        yield slice(start, stop), slice(start * period, stop * period), None


def _packed_parts(cu_seqlens: Tensor, period: int, chunk: int) -> Iterator[tuple[Part, Part, Tensor]]:
    """The same for a pack, and the offsets in each piece: the first reads of all sequences, then their next ones.

    Pieces of the pack as it lies would run the sequences one after the other.
    """
    lengths = cu_seqlens.diff() // period
    sequence = torch.repeat_interleave(lengths)
    reads = torch.arange(len(sequence), device=lengths.device)
    number = (reads - cu_seqlens[sequence] // period) // chunk
    for n in range(int(number.max()) + 1):
        read = reads[number == n]
        steps = read[:, None] * period + torch.arange(period, device=read.device)
        sizes = (lengths - n * chunk).clamp(0, chunk) * period
        yield read, steps.flatten(), functional.pad(sizes.cumsum(0), (1, 0))


def _check(transition: Transition, values: Tensor, keys: Tensor, queries: Tensor, period: int, chunk: int) -> None:
    if len(transition.batch_shape) < 2:
        raise ShapeError(f"transition has batch axes {tuple(transition.batch_shape)}; expected (batch, time, *heads)")
    batch, time, *heads = transition.batch_shape
    for name, number in (("chunk", chunk), ("period", period)):
        if number < 1:
            raise RangeError(f"{name} is {number}; expected at least 1")
    if time % period:
        raise RangeError(f"period is {period}; expected a divisor of {time}, the number of steps")
    for name, tensor, steps in (("keys", keys, time), ("queries", queries, time // period)):
        expected = (batch, steps, *heads, transition.dim)
        if tensor.shape != expected:
            raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")
        check_same(name, tensor, transition.dtype, transition.device, "the transition's")
    check_same("values", values, transition.dtype, transition.device, "the transition's")
    if values.shape[:-1] != transition.batch_shape:
        raise ShapeError(f"values has shape {tuple(values.shape)}; expected {(*transition.batch_shape, 'V')}")
