"""Scan and readout of a matrix state in one loop: y_t = X_t q_t with X_t = X_{t-1} A_t^T + v_t k_t^T.

Axes, as ``kernels.matrix_ops`` prepares them:

    parameters  (T, H, ...)   as of ``recurrence.py``
    values      (T, H, V),    keys (T, H, N)
    queries     (T / period, H, N), outputs (T / period, H, V): every period-th step is read
    initial     (S, H, V, N), final the same; sequence s owns the steps cu[s]..cu[s + 1]
    kept        (P, H, V, N): the states before each ``piece`` steps; sequence s owns first[s]..first[s + 1] of them

Adjoint, with gx_t the cotangent of X_t:

    gx_t = gy_t q_t^T + gx_{t+1} A_{t+1},  g_q = X_t^T gy_t,  g_v = gx_t k_t,  g_k = gx_t^T v_t,  g_A = gx_t^T X_{t-1}.

LANES rows of X go through time together (``matrix_families``); a piece's states are computed again on the way back.
A task is one head of one sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numba.core.extending import overload

from pdssm.kernels.cpu import matrix_families
from pdssm.kernels.cpu.compiling import compiled_with
from pdssm.kernels.cpu.families import SOURCES
from pdssm.kernels.cpu.matrix_families import BY_ARRAYS, add_dots, add_outer, copy_state, inner
from pdssm.kernels.cpu.vector import LANES, load, store

compiled: Any = compiled_with((*SOURCES, Path(matrix_families.__file__)))


def advance(p: Any, t: Any, h: Any, x: Any, scratch: Any) -> None:
    """x = A_t x, by the family of ``p``; compiled code only."""
    raise NotImplementedError


def retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, scratch: Any) -> None:
    """g = A_t^T g, and step t's share of the parameters' gradients."""
    raise NotImplementedError


@overload(advance)
def _advance(p: Any, t: Any, h: Any, x: Any, scratch: Any) -> Any:
    return BY_ARRAYS[p.instance_class].advance


@overload(retreat)
def _retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, scratch: Any) -> Any:
    return BY_ARRAYS[p.instance_class].retreat


@compiled
def _take(row: Any, first: Any, lanes: Any) -> Any:
    """LANES entries of a row from ``first`` on, zeros beyond its end."""
    count = min(LANES, row.shape[0] - first)
    for lane in range(count):
        lanes[lane] = row[first + lane]
    for lane in range(count, LANES):
        lanes[lane] = 0
    return load(lanes, (0,))


@compiled
def _put(vector: Any, row: Any, first: Any, lanes: Any) -> None:
    store(lanes, (0,), vector)
    for lane in range(min(LANES, row.shape[0] - first)):
        row[first + lane] = lanes[lane]


@compiled
def _take_state(state: Any, first: Any, x: Any) -> None:
    """Rows first..first + LANES of (V, N) as (N, LANES)."""
    count = min(LANES, state.shape[0] - first)
    for j in range(x.shape[0]):
        for lane in range(LANES):
            x[j, lane] = state[first + lane, j] if lane < count else 0


@compiled
def _put_state(x: Any, state: Any, first: Any) -> None:
    for lane in range(min(LANES, state.shape[0] - first)):
        for j in range(x.shape[0]):
            state[first + lane, j] = x[j, lane]


@compiled
def forward(
    lo: Any, hi: Any, p: Any, values: Any, keys: Any, queries: Any, initial: Any, cu: Any, period: Any, piece: Any,
    first: Any, room: Any, outputs: Any, final: Any, kept: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi."""
    heads, channels, size = initial.shape[1:]
    x, lanes = np.empty((size, LANES), initial.dtype), np.empty(LANES, initial.dtype)
    scratch = np.empty((room[0], room[1], LANES), initial.dtype)
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        for channel in range(0, channels, LANES):
            _take_state(initial[s, h], channel, x)
            for i in range(cu[s + 1] - cu[s]):
                t = cu[s] + i
                if i % piece == 0:
                    _put_state(x, kept[first[s] + i // piece, h], channel)
                advance(p, t, h, x, scratch)
                add_outer(keys[t, h], _take(values[t, h], channel, lanes), x)
                if (t + 1) % period == 0:
                    _put(inner(queries[t // period, h], x), outputs[t // period, h], channel, lanes)
            _put_state(x, final[s, h], channel)


@compiled
def backward(
    lo: Any, hi: Any, p: Any, values: Any, keys: Any, queries: Any, initial: Any, cu: Any, period: Any, piece: Any,
    first: Any, room: Any, kept: Any, g_outputs: Any, g_final: Any, grads: Any, g_values: Any, g_keys: Any,
    g_queries: Any, g_initial: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi of the adjoint; the gradients of what the channels share come as zeros."""
    heads, channels, size = initial.shape[1:]
    g, lanes = np.empty((size, LANES), initial.dtype), np.empty(LANES, initial.dtype)
    states = np.empty((piece + 1, size, LANES), initial.dtype)
    scratch = np.empty((room[0], room[1], LANES), initial.dtype)
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        for channel in range(0, channels, LANES):
            _take_state(g_final[s, h], channel, g)
            for number in range(first[s + 1] - first[s] - 1, -1, -1):
                start = cu[s] + number * piece
                count = min(piece, cu[s + 1] - start)
                _take_state(kept[first[s] + number, h], channel, states[0])
                for i in range(count):
                    copy_state(states[i], states[i + 1])
                    advance(p, start + i, h, states[i + 1], scratch)
                    add_outer(keys[start + i, h], _take(values[start + i, h], channel, lanes), states[i + 1])
                for i in range(count - 1, -1, -1):
                    t = start + i
                    if (t + 1) % period == 0:
                        r = t // period
                        g_output = _take(g_outputs[r, h], channel, lanes)
                        add_dots(states[i + 1], g_output, g_queries[r, h])
                        add_outer(queries[r, h], g_output, g)
                    _put(inner(keys[t, h], g), g_values[t, h], channel, lanes)
                    add_dots(g, _take(values[t, h], channel, lanes), g_keys[t, h])
                    retreat(p, grads, t, h, states[i], g, scratch)
            _put_state(g, g_initial[s, h], channel)
