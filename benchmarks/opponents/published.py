"""PD-SSM's recurrence as published: P is a dense matrix per token, and autograd differentiates through it.

Both opponents materialise, for every token, the mixture of the dictionary, its softmax, the one-hot matrix, the
straight-through ``P = (hard - soft).detach() + soft`` and the complex A, (B, L, N, N) each. They differ in the loop:

- *published* does what the published PyTorch layer does: step t indexes ``A[:, t]`` and ``b[:, t]``, multiplies by
  einsum and writes the state into a tensor that was allocated before. The gradient of such an index is zeros of A's
  whole size with one step filled in, at every step: that is what a user of the published layer pays;
- *published-tuned* takes A apart once (``unbind``) and stacks the states, which autograd undoes in one piece. Nobody
  published it; it is here to tell the price of the loop from the price of the dense matrices.

What surrounds the recurrence is shared by all torch opponents (``pd_layer``), and is cheaper than as published: there,
b = B u is a batched product of a complex B with every token.

The published layer's P is row one-hot. Ours is column one-hot, so the matrices are kept transposed, (column, row): each
operation then runs over the same axis of memory as in the published layer.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from . import Shape, Step
from .pd_layer import Recurrence, build_step


def _transposed_transitions(inputs: Recurrence) -> torch.Tensor:
    """A_t = P_t D_t of every token, (B, L, column, row), complex."""
    logits_BLNN = torch.einsum("kji,blk->blji", inputs.dictionary, inputs.selector)
    soft_BLNN = torch.softmax(logits_BLNN, dim=-1)
    hard_BLNN = functional.one_hot(soft_BLNN.argmax(dim=-1), soft_BLNN.shape[-1])
    straight_through = (hard_BLNN - soft_BLNN).detach() + soft_BLNN
    return inputs.diag[..., None] * straight_through


def _start(b_BLN: torch.Tensor) -> torch.Tensor:
    """x_0 = e_1, (B, N)."""
    state_BN = torch.zeros_like(b_BLN[:, 0])
    state_BN[:, 0] = 1
    return state_BN


def dense_states(inputs: Recurrence) -> torch.Tensor:
    """The states x_1 ... x_L, (B, L, N), with an index into the materialised A at every step."""
    a_BLNN, b_BLN = _transposed_transitions(inputs), inputs.b
    states_BLN, state_BN = torch.zeros_like(b_BLN), _start(b_BLN)
    for t in range(b_BLN.shape[1]):
        state_BN = torch.einsum("bji,bj->bi", a_BLNN[:, t], state_BN) + b_BLN[:, t]
        states_BLN[:, t] = state_BN
    return states_BLN


def unbound_states(inputs: Recurrence) -> torch.Tensor:
    """The same states, with A taken apart once."""
    a_BLNN, b_BLN = _transposed_transitions(inputs), inputs.b
    state_BN, states = _start(b_BLN), []
    for a_BNN, b_BN in zip(a_BLNN.unbind(1), b_BLN.unbind(1), strict=True):
        state_BN = torch.bmm(state_BN[:, None], a_BNN).squeeze(1) + b_BN
        states.append(state_BN)
    return torch.stack(states, dim=1)


def build(shape: Shape) -> Step:
    """The step of one layer whose recurrence is computed as published."""
    return build_step(shape, dense_states)


def build_tuned(shape: Shape) -> Step:
    """The step with a loop that spares autograd the zeros."""
    return build_step(shape, unbound_states)
