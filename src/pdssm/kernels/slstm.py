"""The sLSTM's recurrence: exponential gates with a stabiliser, and weights from each step to the next.

With r_t = inputs_t + W^T h_{t-1} for each head, its four parts being the raw gates,

    m_t = max(r_i, l),  l = m_{t-1} + log sigmoid(r_f)       the stabiliser: both exponents below are at most 0
    i = exp(r_i - m_t),  f = exp(l - m_t)
    c_t = f c_{t-1} + i tanh(r_z),   n_t = f n_{t-1} + i,   h_t = sigmoid(r_o) c_t / n_t.

Before the first step n = 0: there f = 0 and m = r_i.  From then on n is at least 1.

Axes: ``inputs`` (T, H, 4, N) of packed sequences, the gates as i, f, z, o; ``weights`` (H, N, 4, N); a state
(S, H, 4, N): h, c, n, m.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pdssm.kernels.checks import check_offsets
from pdssm.kernels.ops import _refuse
from pdssm.kernels.packing import Padded


def scan(inputs: Tensor, weights: Tensor, initial: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    """h of every step, (T, H, N), and the states after each sequence."""
    if inputs.device.type == "cpu":
        outputs, final, _ = slstm(inputs, weights, initial, cu)
        return outputs, final
    return loop(inputs, weights, initial, cu)


def advance(inputs: Tensor, weights: Tensor, state: Tensor) -> Tensor:
    """One step of each sequence: (S, H, 4, N) and a state to the next state."""
    hidden, cell, norm, peak = state.unbind(2)
    i, f, z, o = (inputs + torch.einsum("shk,hkgj->shgj", hidden, weights)).unbind(2)
    fresh = norm == 0
    remembered = peak + logsigmoid(f)
    peak = torch.where(fresh, i, torch.maximum(i, remembered))
    keep = torch.exp(torch.where(fresh, -torch.inf, remembered - peak))
    write = torch.exp(i - peak)
    cell = keep * cell + write * torch.tanh(z)
    norm = keep * norm + write
    return torch.stack((torch.sigmoid(o) * cell / norm, cell, norm, peak), 2)


def loop(inputs: Tensor, weights: Tensor, initial: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    """``scan`` in plain torch, step by step: the oracle, and what other devices run."""
    sequences = Padded(cu, False)
    states, state = [], initial
    for step in sequences.pad(inputs).unbind(1):
        state = advance(step, weights, state)
        states.append(state)
    padded = torch.stack(states, 1)
    return sequences.unpad(padded[:, :, :, 0]), sequences.final(padded, initial)


# ------------------------------------------------------------------------------------------------------- the op


@torch.library.custom_op("pdssm::slstm", mutates_args=())
def slstm(inputs: Tensor, weights: Tensor, initial: Tensor, cu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(outputs, final, what the backward pass wants), on a CPU."""
    from pdssm.kernels.cpu import slstm as cpu

    check_offsets(cu, inputs.shape[0])
    return cpu.run_forward(inputs, weights, initial, cu)


@slstm.register_fake
def _(inputs: Tensor, weights: Tensor, initial: Tensor, cu: Tensor) -> Any:
    steps, heads, _, size = inputs.shape
    return (
        inputs.new_empty((steps, heads, size)),
        initial.new_empty(initial.shape),
        inputs.new_empty((steps, heads, 7, size)),
    )


@torch.library.custom_op("pdssm::slstm_backward", mutates_args=())
def slstm_backward(
    weights: Tensor, initial: Tensor, cu: Tensor, outputs: Tensor, saved: Tensor, g_outputs: Tensor | None,
    g_final: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of inputs, weights and initial state."""
    from pdssm.kernels.cpu import slstm as cpu

    return cpu.run_backward(weights, initial, cu, outputs, saved, g_outputs, g_final)


@slstm_backward.register_fake
def _(
    weights: Tensor, initial: Tensor, cu: Tensor, outputs: Tensor, saved: Tensor, g_outputs: Any, g_final: Any
) -> Any:
    steps, heads, size = outputs.shape
    return outputs.new_empty((steps, heads, 4, size)), torch.empty_like(weights), initial.new_empty(initial.shape)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    _, weights, initial, cu = inputs
    outputs, _, saved = output
    ctx.save_for_backward(weights, initial, cu, outputs, saved)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, g_outputs: Tensor | None, g_final: Tensor | None, g_saved: None) -> Any:
    return *slstm_backward(*ctx.saved_tensors, g_outputs, g_final), None


slstm.register_autograd(_gradients, setup_context=_save)
slstm_backward.register_autograd(_refuse("slstm"))
