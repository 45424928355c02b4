"""Mamba's selective scan and its readout, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from pdssm.kernels.selective import selective_scan
from pdssm.scanning.readout import scan_readout
from pdssm.transitions import Diagonal


def selective_readout(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial_state: Tensor, cu_seqlens: Tensor
) -> tuple[Tensor, Tensor]:
    """y_t[d] = C_t . X_t[d] of X_t[d] = exp(dt_t[d] A[d]) X_{t-1}[d] + dt_t[d] x_t[d] B_t, and the final states.

    Packed steps, axes as in ``kernels/selective.py``: ``dt`` and ``x`` ``(steps, D)``, ``rates`` A ``(D, N)``, ``keys``
    B and ``queries`` C ``(steps, N)``, states ``(sequences, D, N)``.
    """
    if x.device.type == "cpu":
        outputs, final, _ = selective_scan(dt, x, rates, keys, queries, initial_state, cu_seqlens)
        return outputs, final
    return selective_readout_plain(dt, x, rates, keys, queries, initial_state, cu_seqlens)


def selective_readout_plain(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial_state: Tensor, cu_seqlens: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in plain torch, every channel a head with one row of state; A's exponentials are all in memory."""
    heads = x.shape[1]
    keys, queries = (tensor[None, :, None].expand(-1, -1, heads, -1) for tensor in (keys, queries))
    outputs, final = scan_readout(
        Diagonal(torch.exp(dt[None, ..., None] * rates)),
        (dt * x)[None, ..., None],
        keys,
        queries,
        initial_state[:, :, None],
        cu_seqlens=cu_seqlens,
    )
    return outputs[0, ..., 0], final[:, :, 0]
