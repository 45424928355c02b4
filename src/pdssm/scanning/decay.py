"""Scan and readout for matrix states that forget as a whole: one decay a head, so that matrix products do the work.

Within a chunk of C steps, with g the running sum of the log decays, the outputs are those of a masked attention,

    y_t = sum_{s <= t} exp(g_t - g_s) (q_t . k_s) v_s  +  exp(g_t) X_0 q_t,

and X_0, the state before the chunk, comes from a scan over the chunks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pdssm.errors import ShapeError
from pdssm.scanning.chunks import Chunks
from pdssm.scanning.scan import scan
from pdssm.transitions import Diagonal

CHUNK = 64


def decay_readout(
    log_decay: Tensor,
    values: Tensor,
    keys: Tensor,
    queries: Tensor,
    initial_state: Tensor,
    *,
    cu_seqlens: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Outputs y_t = X_t q_t of X_t = exp(log_decay_t) X_{t-1} + v_t k_t^T, and the final states.

    ``log_decay`` is ``(batch, time, heads)``, at most about 0, ``values`` ``(batch, time, heads, V)``, ``keys`` and
    ``queries`` ``(batch, time, heads, N)``, the states ``(sequences, heads, V, N)``; all else as for ``scan``.
    """
    batch, time, _ = log_decay.shape
    for name, tensor in (("values", values), ("keys", keys), ("queries", queries)):
        if tensor.shape[:-1] != log_decay.shape:
            raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected {tuple(log_decay.shape)} and one more")
    if cu_seqlens is None and time == 1:
        decay = torch.exp(log_decay[:, 0, :, None, None])
        state = decay * initial_state + values[:, 0, ..., None] * keys[:, 0, :, None]
        return (state @ queries[:, 0, ..., None])[:, None, ..., 0], state
    chunks = Chunks(batch, time, cu_seqlens, chunk)
    # Padding neither decays nor writes, so the last state of all is the final one.
    decay, v, k, q = (chunks.split(tensor) for tensor in (log_decay[..., None], values, keys, queries))
    y, final = _chunks(decay, v, k, q, initial_state)
    return chunks.join(y), final


def _chunks(log_decay: Tensor, v: Tensor, k: Tensor, q: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
    """All (S, chunks, H, C, E), log_decay with E = 1."""
    g = log_decay.cumsum(-2)
    end = g[..., -1:, :]
    size = g.shape[-2]
    causal = torch.ones(size, size, dtype=torch.bool, device=g.device).tril()
    between = torch.exp(torch.where(causal, g - g.transpose(-1, -2), -torch.inf))
    within = (q @ k.transpose(-1, -2) * between) @ v
    written = (v * torch.exp(end - g)).transpose(-1, -2) @ k
    decay = torch.exp(end[..., 0, :]).expand(*end.shape[:-2], k.shape[-1])
    states, final = scan(Diagonal(decay), written, initial)
    before = torch.cat((initial[:, None], states[:, :-1]), 1)
    return within + (q * torch.exp(g)) @ before.transpose(-1, -2), final
