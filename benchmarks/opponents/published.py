"""PD-SSM's recurrence as published: P is a dense matrix per token, and autograd differentiates through it.

``P = (hard - soft).detach() + soft`` and ``A = P D`` are materialised with shape (B, L, N, N), the latter complex; the
recurrence is a python loop with one matrix-vector product per step. It needs Theta(B L N^2) memory.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from . import Shape, Step
from .pd_layer import Recurrence, build_step


def dense_states(inputs: Recurrence) -> torch.Tensor:
    """The states x_1 ... x_L, (B, L, N), by dense products with the materialised A_t."""
    selector, diag, b, dictionary = inputs
    batch, _, n = diag.shape
    # the dictionary is stored (k, j, i); P wants its row i before its column j
    logits = torch.einsum("blk,kji->blij", selector, dictionary)
    soft = torch.softmax(logits, dim=-2)
    hard = functional.one_hot(logits.argmax(dim=-2), n).transpose(-1, -2).to(soft.dtype)
    straight_through = (hard - soft).detach() + soft
    a_BLNN = straight_through * diag[..., None, :]

    state = torch.zeros(batch, n, 1, dtype=diag.dtype)
    state[:, 0] = 1
    states = []
    # unbind, not a_BLNN[:, t]: the backward pass of an index writes zeros of the whole size at every step, which
    # made the layer step ten times as slow
    for a_BNN, b_BN in zip(a_BLNN.unbind(1), b.unbind(1), strict=True):
        state = torch.bmm(a_BNN, state) + b_BN[..., None]
        states.append(state)
    return torch.stack(states, dim=1).squeeze(-1)


def build(shape: Shape) -> Step:
    """The step of one layer whose recurrence is computed as published."""
    return build_step(shape, dense_states)
