"""Scan and readout for one Householder factor a step and a decay a head, by matrix products: DeltaNet and its family.

With g the running sum of the log decays of a chunk, and the state X_0 before it, a step writes u_t k_t^T beside its own
v_t w_t^T, where

    u_t = -beta_t (exp(g_t) X_0 k_t + sum_{s < t} exp(g_t - g_s) ((k_t . k_s) u_s + (k_t . w_s) v_s)).

So the u of a chunk are the solution of one triangular system, made for all chunks side by side; only X_0, and what
depends on it, goes from chunk to chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pdssm.scanning.chunks import Chunks
from pdssm.transitions import Householder, Transition

CHUNK = 64


class Pieces(NamedTuple):
    """All (sequences, chunks, heads, C, ...), with zeros where there is no step."""

    log_decay: Tensor
    """(..., C, 1), running sums."""
    beta: Tensor
    """(..., C, 1)."""
    keys: Tensor
    """k, (..., C, N)."""
    values: Tensor
    """v, (..., C, V)."""
    writes: Tensor
    """w, (..., C, N)."""
    queries: Tensor
    """(..., C / period, N)."""


def is_delta(transition: Transition) -> bool:
    """Whether ``delta_readout`` takes it."""
    if not isinstance(transition, Householder) or transition.dtype.is_complex:
        return False
    assert transition.decay is not None
    return transition.keys.shape[-2] == 1 and transition.decay.shape[-1] == 1


def delta_readout(
    transition: Householder, values: Tensor, writes: Tensor, queries: Tensor, initial: Tensor,
    cu_seqlens: Tensor | None, period: int = 1, chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What ``scan_readout`` returns, its arguments with one axis of heads; ``writes`` are its keys."""
    assert transition.decay is not None
    batch, time, _ = transition.batch_shape
    reads = Chunks(batch, time // period, None if cu_seqlens is None else cu_seqlens // period, -(-chunk // period))
    steps = Chunks(batch, time, cu_seqlens, reads.size * period)
    tiny = torch.finfo(transition.dtype).tiny
    # A step that is not there neither decays, reflects nor writes: the last state of all is the final one.
    pieces = Pieces(
        steps.split(transition.decay.clamp(min=tiny).log()).cumsum(-2), steps.split(transition.beta),
        steps.split(transition.keys[..., 0, :]), steps.split(values), steps.split(writes), reads.split(queries),
    )  # fmt: skip
    y, final = _through(pieces, initial, period)
    return reads.join(y), final


def _through(pieces: Pieces, state: Tensor, period: int) -> tuple[Tensor, Tensor]:
    """Outputs, in chunks, and the last state."""
    g, beta, keys, values, writes, queries = pieces
    size = g.shape[-2]
    causal = torch.ones(size, size, dtype=torch.bool, device=g.device).tril()
    between = torch.exp(torch.where(causal, g - g.mT, -torch.inf))
    earlier = beta * between.tril(-1)
    known = -(earlier * (keys @ writes.mT)) @ values
    turned = beta * torch.exp(g) * keys
    solved = torch.linalg.solve_triangular(
        earlier * (keys @ keys.mT), torch.cat((known, turned), -1), upper=False, unitriangular=True
    )
    alone, through = solved.split((values.shape[-1], keys.shape[-1]), -1)
    read = between[..., period - 1 :: period, :]
    from_keys, from_writes = read * (queries @ keys.mT), read * (queries @ writes.mT)
    carried = torch.exp(g[..., period - 1 :: period, :]) * queries
    left = torch.exp(g[..., -1:, :] - g)
    outputs = []
    for n in range(g.shape[1]):
        u = alone[:, n] - through[:, n] @ state.mT
        outputs.append(from_keys[:, n] @ u + from_writes[:, n] @ values[:, n] + carried[:, n] @ state.mT)
        kept = torch.exp(g[:, n, :, -1:]) * state
        state = kept + u.mT @ (left[:, n] * keys[:, n]) + values[:, n].mT @ (left[:, n] * writes[:, n])
    return torch.stack(outputs, 1), state
