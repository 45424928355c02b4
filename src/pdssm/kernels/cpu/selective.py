"""The selective scan's time loop and its adjoint, compiled; ``kernels/selective.py`` has the equations and the axes.

Channels lie in lanes, LANES of them to a block, and a task is one block of one sequence: its N x LANES states stay
in the cache.  Only the states before every MARK-th step are kept; the adjoint makes those between them again.
With gX the cotangent of a state, a = exp(dt A) and w = dt x the write,

    gX_t = gy_t C_t + a_{t+1} gX_{t+1},    g_a = gX_t X_{t-1},    g_A = sum g_a a dt,
    g_C = sum_d gy X_t,  g_B = sum_d gX w,  g_w = sum_n gX B,  g_dt = sum_n g_a a A + g_w x,  g_x = g_w dt.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from pdssm.kernels import buffers
from pdssm.kernels.cpu import vector
from pdssm.kernels.cpu.compiling import compiled_with
from pdssm.kernels.cpu.loops import array
from pdssm.kernels.cpu.pool import run
from pdssm.kernels.cpu.vector import LANES, broadcast, exp2_negative, fma, load, mul, splat, store, sum_lanes

MARK = 64
LOG2_E = math.log2(math.e)

compiled: Any = compiled_with([Path(vector.__file__)])


@compiled
def forward(
    lo: Any, hi: Any, dt: Any, x: Any, rates: Any, keys: Any, queries: Any, cu: Any, outputs: Any, marks: Any,
    final: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi; ``final`` (S, blocks, N, LANES) holds the initial states; rates (blocks, N, LANES) are in log2."""
    blocks, size = final.shape[1:3]
    zero = splat(x.dtype.type(0))
    for task in range(lo, hi):
        s, b = task // blocks, task % blocks
        state, rate = final[s, b], rates[b]
        start, column = cu[s], b * LANES
        for t in range(start, cu[s + 1]):
            if (t - start) % MARK == 0:
                marks[start // MARK + s + (t - start) // MARK, b] = state
            step = load(dt, (t, column))
            write, y = mul(step, load(x, (t, column))), zero
            for n in range(size):
                decay = exp2_negative(mul(step, load(rate, (n, 0))))
                h = fma(decay, load(state, (n, 0)), mul(write, broadcast(keys, (t, n))))
                store(state, (n, 0), h)
                y = fma(h, broadcast(queries, (t, n)), y)
            store(outputs, (t, column), y)


@compiled
def backward(
    lo: Any, hi: Any, dt: Any, x: Any, rates: Any, keys: Any, queries: Any, cu: Any, marks: Any, g_outputs: Any,
    g_dt: Any, g_x: Any, g_rates: Any, g_keys: Any, g_queries: Any, carry_all: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi; ``carry_all`` (S, blocks, N, LANES) holds the final states' cotangents, then the initial ones'.

    g_rates are (S, blocks, N, LANES), g_keys and g_queries (blocks, T, N): a task writes what nobody else writes.
    """
    blocks, size = carry_all.shape[1:3]
    zero = splat(x.dtype.type(0))
    states = np.empty((MARK + 1, size, LANES), x.dtype)
    for task in range(lo, hi):
        s, b = task // blocks, task % blocks
        carry, rate, g_rate = carry_all[s, b], rates[b], g_rates[s, b]
        start, stop, column = cu[s], cu[s + 1], b * LANES
        g_rate[:] = 0
        for piece in range((stop - start + MARK - 1) // MARK - 1, -1, -1):
            first = start + piece * MARK
            last = min(first + MARK, stop)
            states[0] = marks[start // MARK + s + piece, b]
            for t in range(first, last):
                step, i = load(dt, (t, column)), t - first
                write = mul(step, load(x, (t, column)))
                for n in range(size):
                    decay = exp2_negative(mul(step, load(rate, (n, 0))))
                    h = fma(decay, load(states, (i, n, 0)), mul(write, broadcast(keys, (t, n))))
                    store(states, (i + 1, n, 0), h)
            for t in range(last - 1, first - 1, -1):
                step, i = load(dt, (t, column)), t - first
                value, g_y = load(x, (t, column)), load(g_outputs, (t, column))
                write, g_write, g_step = mul(step, value), zero, zero
                for n in range(size):
                    g = fma(g_y, broadcast(queries, (t, n)), load(carry, (n, 0)))
                    g_queries[b, t, n] = sum_lanes(mul(g_y, load(states, (i + 1, n, 0))))
                    g_keys[b, t, n] = sum_lanes(mul(g, write))
                    g_write = fma(g, broadcast(keys, (t, n)), g_write)
                    back = mul(g, exp2_negative(mul(step, load(rate, (n, 0)))))
                    store(carry, (n, 0), back)
                    exponent = mul(back, load(states, (i, n, 0)))
                    g_step = fma(exponent, load(rate, (n, 0)), g_step)
                    store(g_rate, (n, 0), fma(exponent, step, load(g_rate, (n, 0))))
                # The rates are in log2: their share of dt's gradient comes out LOG2_E times too large.
                g_step = mul(g_step, splat(x.dtype.type(1 / LOG2_E)))
                store(g_dt, (t, column), fma(g_write, value, g_step))
                store(g_x, (t, column), mul(g_write, step))


def _blocked(states: Tensor) -> Tensor:
    """(..., D, N) to (..., blocks, N, LANES), in memory of its own."""
    padded = pad(states, (0, 0, 0, -states.shape[-2] % LANES))
    blocked = padded.reshape(*padded.shape[:-2], -1, LANES, padded.shape[-1]).transpose(-1, -2)
    return blocked.clone(memory_format=torch.contiguous_format)


def _unblocked(blocked: Tensor, channels: int) -> Tensor:
    states = blocked.transpose(-1, -2).flatten(-3, -2)
    return states[..., :channels, :].contiguous()


def _columns(values: Tensor) -> Tensor:
    """(T, D) to whole blocks of channels."""
    return pad(values, (0, -values.shape[1] % LANES)).contiguous()


def run_forward(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(outputs, final, marks)."""
    (steps, channels), size = x.shape, rates.shape[1]
    final = _blocked(initial)
    blocks = final.shape[1]
    # Sequences of a few steps leave some unused.
    marks = x.new_zeros((steps // MARK + len(initial), blocks, size, LANES))
    outputs = buffers.empty((steps, blocks * LANES), x)
    tensors = (
        _columns(dt), _columns(x), _blocked(rates * LOG2_E), keys.contiguous(), queries.contiguous(), cu.contiguous(),
        outputs, marks, final,
    )  # fmt: skip
    run(forward, len(initial) * blocks, 8 * outputs.numel() * size, *(array(tensor) for tensor in tensors))
    return outputs[:, :channels].contiguous(), _unblocked(final, channels), marks


def run_backward(
    dt: Tensor, x: Tensor, rates: Tensor, keys: Tensor, queries: Tensor, initial: Tensor, cu: Tensor, marks: Tensor,
    g_outputs: Tensor | None, g_final: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """The gradients of dt, x, rates, keys, queries and initial."""
    (steps, channels), size = x.shape, rates.shape[1]
    carry = _blocked(torch.zeros_like(initial) if g_final is None else g_final)
    blocks = carry.shape[1]
    g_rates = buffers.empty(tuple(carry.shape), x)
    g_dt, g_x = (buffers.empty((steps, blocks * LANES), x) for _ in range(2))
    g_keys, g_queries = (buffers.empty((blocks, steps, size), x) for _ in range(2))
    tensors = (
        _columns(dt), _columns(x), _blocked(rates * LOG2_E), keys.contiguous(), queries.contiguous(), cu.contiguous(),
        marks, _columns(torch.zeros_like(x) if g_outputs is None else g_outputs),
        g_dt, g_x, g_rates, g_keys, g_queries, carry,
    )  # fmt: skip
    run(backward, len(initial) * blocks, 20 * g_x.numel() * size, *(array(tensor) for tensor in tensors))
    return [
        g_dt[:, :channels].contiguous(), g_x[:, :channels].contiguous(), _unblocked(g_rates.sum(0), channels),
        g_keys.sum(0), g_queries.sum(0), _unblocked(carry, channels),
    ]  # fmt: skip
