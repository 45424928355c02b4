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

from pdssm.kernels.cpu import matrix_families, pointers, vector
from pdssm.kernels.cpu.compiling import compiled_with
from pdssm.kernels.cpu.families import SOURCES
from pdssm.kernels.cpu.matrix_families import BY_ARRAYS, Adding, add_dots, add_outer, copy_state, inner
from pdssm.kernels.cpu.pointers import at, get, put, zeros
from pdssm.kernels.cpu.vector import LANES

_MODULES = (matrix_families, pointers, vector)
compiled: Any = compiled_with((*SOURCES, *(Path(str(module.__file__)) for module in _MODULES)))


def advance(p: Any, t: Any, h: Any, x: Any, size: Any, scratch: Any) -> None:
    """x = A_t x, by the family of ``p``; compiled code only."""
    raise NotImplementedError


def retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, size: Any, scratch: Any, adding: Any) -> None:
    """g = A_t^T g, and step t's share of the parameters' gradients."""
    raise NotImplementedError


@overload(advance)
def _advance(p: Any, t: Any, h: Any, x: Any, size: Any, scratch: Any) -> Any:
    return BY_ARRAYS[p.instance_class].advance


@overload(retreat)
def _retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, size: Any, scratch: Any, adding: Any) -> Any:
    return BY_ARRAYS[p.instance_class].retreat


@compiled
def _take(row: Any, count: Any, lanes: Any) -> Any:
    """The first LANES entries of a row; zeros where it has only ``count``."""
    if count >= LANES:
        return get(row, 0)
    put(lanes, 0, zeros(lanes))
    for lane in range(count):
        lanes[lane] = row[lane]
    return get(lanes, 0)


@compiled
def _put(values: Any, row: Any, count: Any, lanes: Any) -> None:
    if count >= LANES:
        put(row, 0, values)
        return
    put(lanes, 0, values)
    for lane in range(count):
        row[lane] = lanes[lane]


@compiled
def _take_state(state: Any, count: Any, x: Any, size: Any) -> None:
    """At most LANES rows of N numbers as N vectors."""
    for j in range(size):
        put(x, j, zeros(x))
        for lane in range(min(LANES, count)):
            x[j * LANES + lane] = state[lane * size + j]


@compiled
def _put_state(x: Any, state: Any, count: Any, size: Any) -> None:
    for lane in range(min(LANES, count)):
        for j in range(size):
            state[lane * size + j] = x[j * LANES + lane]


@compiled
def forward(
    lo: Any, hi: Any, p: Any, values: Any, keys: Any, queries: Any, initial: Any, cu: Any, period: Any, piece: Any,
    first: Any, room: Any, outputs: Any, final: Any, kept: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi; scratch has ``room`` for (states, vectors of each)."""
    heads, channels, size = initial.shape[1:]
    state, spare = np.empty((size, LANES), initial.dtype), np.empty(LANES, initial.dtype)
    scratch = np.empty((room[0], room[1], LANES), initial.dtype)
    x, lanes = at(state, (0, 0)), at(spare, (0,))
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        for c in range(0, channels, LANES):
            count = channels - c
            _take_state(at(initial, (s, h, c, 0)), count, x, size)
            for i in range(cu[s + 1] - cu[s]):
                t = cu[s] + i
                if i % piece == 0:
                    _put_state(x, at(kept, (first[s] + i // piece, h, c, 0)), count, size)
                advance(p, t, h, x, size, scratch)
                add_outer(at(keys, (t, h, 0)), _take(at(values, (t, h, c)), count, lanes), x, size)
                if (t + 1) % period == 0:
                    y = inner(at(queries, (t // period, h, 0)), x, size)
                    _put(y, at(outputs, (t // period, h, c)), count, lanes)
            _put_state(x, at(final, (s, h, c, 0)), count, size)


@compiled
def _states_again(
    p: Any, values: Any, keys: Any, start: Any, count: Any, h: Any, c: Any, lanes: Any, states: Any, scratch: Any
) -> None:
    """states[i + 1] after step start + i."""
    size = keys.shape[2]
    for i in range(count):
        t, x = start + i, at(states, (i + 1, 0, 0))
        copy_state(at(states, (i, 0, 0)), x, size)
        advance(p, t, h, x, size, scratch)
        add_outer(at(keys, (t, h, 0)), _take(at(values, (t, h, c)), values.shape[2] - c, lanes), x, size)


@compiled
def backward(
    lo: Any, hi: Any, p: Any, values: Any, keys: Any, queries: Any, initial: Any, cu: Any, period: Any, piece: Any,
    first: Any, room: Any, kept: Any, g_outputs: Any, g_final: Any, grads: Any, g_values: Any, g_keys: Any,
    g_queries: Any, g_initial: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi of the adjoint; the first channels write the gradients of what all share, the others add theirs."""
    heads, channels, size = initial.shape[1:]
    carry, spare = np.empty((channels // LANES + 1, size, LANES), initial.dtype), np.empty(LANES, initial.dtype)
    states, sixteen = np.empty((piece + 1, size, LANES), initial.dtype), np.empty((LANES, LANES), initial.dtype)
    scratch = np.empty((room[0], room[1], LANES), initial.dtype)
    lanes, products = at(spare, (0,)), at(sixteen, (0, 0))
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        for c in range(0, channels, LANES):
            _take_state(at(g_final, (s, h, c, 0)), channels - c, at(carry, (c // LANES, 0, 0)), size)
        for number in range(first[s + 1] - first[s] - 1, -1, -1):
            start = cu[s] + number * piece
            steps = min(piece, cu[s + 1] - start)
            for c in range(0, channels, LANES):
                count, g, adding = channels - c, at(carry, (c // LANES, 0, 0)), Adding(products, c == 0)
                _take_state(at(kept, (first[s] + number, h, c, 0)), count, at(states, (0, 0, 0)), size)
                _states_again(p, values, keys, start, steps, h, c, lanes, states, scratch)
                for i in range(steps - 1, -1, -1):
                    t, read = start + i, (start + i) // period
                    if (t + 1) % period == 0:
                        g_output = _take(at(g_outputs, (read, h, c)), count, lanes)
                        add_dots(at(states, (i + 1, 0, 0)), g_output, at(g_queries, (read, h, 0)), size, adding)
                        add_outer(at(queries, (read, h, 0)), g_output, g, size)
                    _put(inner(at(keys, (t, h, 0)), g, size), at(g_values, (t, h, c)), count, lanes)
                    add_dots(g, _take(at(values, (t, h, c)), count, lanes), at(g_keys, (t, h, 0)), size, adding)
                    retreat(p, grads, t, h, at(states, (i, 0, 0)), g, size, scratch, adding)
        for c in range(0, channels, LANES):
            _put_state(at(carry, (c // LANES, 0, 0)), at(g_initial, (s, h, c, 0)), channels - c, size)
