"""The sLSTM's time loop and its adjoint, compiled; ``kernels/slstm.py`` has the equations and the axes.

A task is one head of one sequence.  With W the recurrent weights and r the raw gates, the adjoint runs

    gh_t = gy_t + W gr_{t+1},    gr_t = the derivative of the gates by gh_t and by the cotangents of c_t, n_t and m_t,

which it carries back themselves; W's own gradient, the sum of h_{t-1} gr_t^T, is one product after the loop.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from pdssm.kernels import buffers
from pdssm.kernels.cpu.compiling import compiled
from pdssm.kernels.cpu.loops import array
from pdssm.kernels.cpu.pool import run

SAVED = 7
INPUT, FORGET, CELL_INPUT, OUTPUT, SLOPE, CELL, NORM = range(SAVED)
"""Of each step: the gates i, f, tanh(z), sigmoid(o); the slope of log sigmoid; the states c and n."""


@compiled
def add_product(vector: Any, matrix: Any, out: Any) -> None:
    """out += matrix^T vector, row after row."""
    for k in range(matrix.shape[0]):
        row, factor = matrix[k], vector[k]
        for j in range(out.shape[0]):
            out[j] += factor * row[j]


@compiled
def forward(
    lo: Any, hi: Any, inputs: Any, weights: Any, initial: Any, cu: Any, outputs: Any, saved: Any, final: Any
) -> None:
    """Tasks lo..hi; weights (H, N, 4 N), inputs (T, H, 4 N)."""
    heads, size = outputs.shape[1:]
    raw = np.empty(4 * size, inputs.dtype)
    zero, one = inputs.dtype.type(0), inputs.dtype.type(1)
    for task in range(lo, hi):
        s, head = task // heads, task % heads
        state = final[s, head]
        state[:] = initial[s, head]
        hidden, cell, norm, peak = state[0], state[1], state[2], state[3]
        for t in range(cu[s], cu[s + 1]):
            raw[:] = inputs[t, head]
            add_product(hidden, weights[head], raw)
            kept, out = saved[t, head], outputs[t, head]
            for j in range(size):
                f = raw[size + j]
                e = math.exp(-abs(f))
                remembered = peak[j] + min(f, zero) - math.log1p(e)
                # Where nothing has been written yet there is nothing to remember, and m takes the input gate's place.
                fresh = norm[j] == zero
                peak[j] = raw[j] if fresh else max(raw[j], remembered)
                i = math.exp(raw[j] - peak[j])
                f_gate = zero if fresh else math.exp(remembered - peak[j])
                z, o = math.tanh(raw[2 * size + j]), one / (one + math.exp(-raw[3 * size + j]))
                cell[j] = f_gate * cell[j] + i * z
                norm[j] = f_gate * norm[j] + i
                hidden[j] = o * cell[j] / norm[j]
                out[j] = hidden[j]
                kept[INPUT, j], kept[FORGET, j], kept[CELL_INPUT, j], kept[OUTPUT, j] = i, f_gate, z, o
                kept[SLOPE, j] = (e if f >= zero else one) / (one + e)
                kept[CELL, j], kept[NORM, j] = cell[j], norm[j]


@compiled
def backward(
    lo: Any, hi: Any, weights: Any, initial: Any, cu: Any, saved: Any, g_outputs: Any, g_final: Any, g_inputs: Any,
    g_initial: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi; weights transposed, (H, 4 N, N).  Cotangents of size 0 are zero."""
    heads, size = initial.shape[1], initial.shape[3]
    one = initial.dtype.type(1)
    for task in range(lo, hi):
        s, head = task // heads, task % heads
        carry = g_initial[s, head]
        carry[:] = 0
        if g_final.size:
            carry[:] = g_final[s, head]
        g_hidden, g_cell, g_norm, g_peak = carry[0], carry[1], carry[2], carry[3]
        for t in range(cu[s + 1] - 1, cu[s] - 1, -1):
            if g_outputs.size:
                given = g_outputs[t, head]
                for j in range(size):
                    g_hidden[j] += given[j]
            kept, raw = saved[t, head], g_inputs[t, head]
            first = t == cu[s]
            cells = initial[s, head, 1] if first else saved[t - 1, head, CELL]
            norms = initial[s, head, 2] if first else saved[t - 1, head, NORM]
            for j in range(size):
                i, f, z, o = kept[INPUT, j], kept[FORGET, j], kept[CELL_INPUT, j], kept[OUTPUT, j]
                ratio, scaled = kept[CELL, j] / kept[NORM, j], g_hidden[j] / kept[NORM, j]
                c = g_cell[j] + scaled * o
                n = g_norm[j] - scaled * o * ratio
                g_input = (c * z + n) * i
                g_forget = (c * cells[j] + n * norms[j]) * f
                # m is the larger of the two exponents, and what they are measured from.
                m = g_peak[j] - g_input - g_forget
                if i >= f:
                    g_input += m
                else:
                    g_forget += m
                raw[j] = g_input
                raw[size + j] = g_forget * kept[SLOPE, j]
                raw[2 * size + j] = c * i * (one - z * z)
                raw[3 * size + j] = g_hidden[j] * ratio * o * (one - o)
                g_cell[j], g_norm[j], g_peak[j] = c * f, n * f, g_forget
            g_hidden[:] = 0
            add_product(raw, weights[head], g_hidden)


def run_forward(inputs: Tensor, weights: Tensor, initial: Tensor, cu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(outputs, final, saved)."""
    steps, heads, _, size = inputs.shape
    outputs = buffers.empty((steps, heads, size), inputs)
    saved = buffers.empty((steps, heads, SAVED, size), inputs)
    final = buffers.empty(tuple(initial.shape), initial)
    tensors = inputs.flatten(2), weights.flatten(2), initial, cu, outputs, saved, final
    run(forward, initial.shape[0] * heads, inputs.numel() * size, *(array(tensor.contiguous()) for tensor in tensors))
    return outputs, final, saved


def run_backward(
    weights: Tensor, initial: Tensor, cu: Tensor, outputs: Tensor, saved: Tensor, g_outputs: Tensor | None,
    g_final: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of inputs, weights and initial state."""
    steps, heads, size = outputs.shape
    g_inputs = buffers.empty((steps, heads, 4, size), outputs)
    g_initial = buffers.empty(tuple(initial.shape), initial)
    given = outputs.new_empty((0, 0, 0)) if g_outputs is None else g_outputs
    last = initial.new_empty((0, 0, 0, 0)) if g_final is None else g_final
    turned = weights.flatten(2).transpose(1, 2)
    tensors = turned, initial, cu, saved, given, last, g_inputs.flatten(2), g_initial
    work = 2 * g_inputs.numel() * size
    run(backward, initial.shape[0] * heads, work, *(array(tensor.contiguous()) for tensor in tensors))
    before = _before(outputs, initial[:, :, 0], cu)
    g_weights = before.permute(1, 2, 0) @ g_inputs.flatten(2).transpose(0, 1)
    return g_inputs, g_weights.view(weights.shape), g_initial


def _before(outputs: Tensor, initial: Tensor, cu: Tensor) -> Tensor:
    """h_{t-1} of every step."""
    before = outputs.roll(1, 0)
    full = cu[1:] > cu[:-1]
    before[cu[:-1][full]] = initial[full]
    return before
