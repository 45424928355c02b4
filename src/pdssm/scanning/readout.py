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
    backend: str | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Outputs y_t = X_t q_t of the matrix state X_t = X_{t-1} A_t^T + v_t k_t^T, and the final states.

    ``values`` are ``(batch, time, *heads, V)``, ``keys`` and ``queries`` ``(batch, time, *heads, N)``; the outputs
    are like the values, the states ``(sequences, *heads, V, N)``.  The states of ``chunk`` steps exist at a time,
    in the backward pass too (they are computed again), so memory is time / chunk states and not time.
    """
    for name, tensor in (("keys", keys), ("queries", queries)):
        if tensor.shape != (*transition.batch_shape, transition.dim):
            expected = (*transition.batch_shape, transition.dim)
            raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected {tuple(expected)}")
    if values.shape[:-1] != transition.batch_shape:
        raise ShapeError(f"values has shape {tuple(values.shape)}; expected {(*transition.batch_shape, 'V')}")
    if chunk < 1:
        raise RangeError(f"chunk is {chunk}; expected at least 1")
    time = values.shape[1]
    sequences = values.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    shape = (sequences, *values.shape[2:], transition.dim)
    state = values.new_zeros(shape) if initial_state is None else initial_state

    def piece(start: int, carried: Tensor) -> tuple[Tensor, Tensor]:
        part = slice(start, min(start + chunk, time))
        inputs = values[:, part, ..., :, None] * keys[:, part, ..., None, :]
        offsets = None if cu_seqlens is None else (cu_seqlens - start).clamp(0, part.stop - start)
        states, final = scan(transition[:, part], inputs, carried, cu_seqlens=offsets, backend=backend)
        return (states * queries[:, part, ..., None, :]).sum(-1), final

    outputs = []
    for start in range(0, time, chunk):
        output, state = checkpoint(piece, start, state, use_reentrant=False)
        outputs.append(output)
    return torch.cat(outputs, 1), state
