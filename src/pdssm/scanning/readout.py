"""Scan and readout in one, for matrix states: only what a readout needs leaves the loop."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdssm.errors import RangeError, ShapeError
from pdssm.scanning.scan import scan
from pdssm.transitions import Transition

CHUNK = 64


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
    read: queries and outputs then have ``time / period`` steps.  The states of ``chunk`` reads exist at a time,
    in the backward pass too (they are computed again), so memory is time / chunk states and not time.
    """
    _check(transition, values, keys, queries, period, chunk)
    reads = queries.shape[1]
    sequences = values.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    shape = (sequences, *values.shape[2:], transition.dim)
    state = values.new_zeros(shape) if initial_state is None else initial_state

    def piece(start: int, carried: Tensor) -> tuple[Tensor, Tensor]:
        read = slice(start, min(start + chunk, reads))
        part = slice(read.start * period, read.stop * period)
        inputs = values[:, part, ..., :, None] * keys[:, part, ..., None, :]
        offsets = None if cu_seqlens is None else (cu_seqlens - part.start).clamp(0, part.stop - part.start)
        states, final = scan(transition[:, part], inputs, carried, cu_seqlens=offsets, backend=backend)
        return (states[:, period - 1 :: period] * queries[:, read, ..., None, :]).sum(-1), final

    outputs = []
    for start in range(0, reads, chunk):
        output, state = checkpoint(piece, start, state, use_reentrant=False)
        outputs.append(output)
    return torch.cat(outputs, 1), state


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
    if values.shape[:-1] != transition.batch_shape:
        raise ShapeError(f"values has shape {tuple(values.shape)}; expected {(*transition.batch_shape, 'V')}")
