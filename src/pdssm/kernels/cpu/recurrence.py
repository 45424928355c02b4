"""x_t = A_t x_{t-1} + b_t and its adjoint: one time loop for every family.

What a family is, and how one step of it goes, is in ``families``.

Axes, as ``kernels.ops`` prepares them:

    parameters  (R, H, ...)      R generated transitions, H heads
    inputs      (R, H, V, N)     V channels share one transition
    initial     (S, H, V, N)     S sequences, packed: sequence s owns the steps cu[s]..cu[s + 1]
    rows        (T,)             step t uses transition and input rows[t]
    states      (T, H, V, N),    final (S, H, V, N)

Adjoint, with gy the cotangent of the states (that of the final state joins the last one), Re sum conj(g) dx
being the differential:

    gx_t = gy_t + A_{t+1}^H gx_{t+1},   g_inputs[t] = gx_t,   g_initial = A_first^H gx_first,
    g_parameters[t] = the parameters' share of  gx_t x_{t-1}^H.

A task is one head of one sequence and its loop is sequential, so its rounding is the same on any number of
threads.  The adjoint writes step t's gradients at place[t], which sorts them by row; ``sum_rows`` adds those of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core.extending import overload

from pdssm.kernels.cpu.compiling import compiled, compiled_with
from pdssm.kernels.cpu.families import BY_ARRAYS, SOURCES

SUM_COLUMNS = 256  # of one task of sum_rows


def advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """y += A_r x, by the family of ``p``; compiled code only."""
    raise NotImplementedError


def retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    """carry = A_r^H g, and step t's gradients of the parameters (channel v adds to those before it)."""
    raise NotImplementedError


@overload(advance)
def _advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> Any:
    return BY_ARRAYS[p.instance_class].advance


@overload(retreat)
def _retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> Any:
    return BY_ARRAYS[p.instance_class].retreat


@compiled
def copy(source: Any, target: Any) -> None:
    for j in range(source.shape[0]):
        target[j] = source[j]


@compiled_with(SOURCES)
def forward(
    lo: Any,
    hi: Any,
    p: Any,
    inputs: Any,
    initial: Any,
    rows: Any,
    cu: Any,
    reverse: Any,
    depth: Any,
    states: Any,
    final: Any,
) -> None:
    """Tasks lo..hi of the recurrence; ``depth`` rows of scratch."""
    heads, channels, size = initial.shape[1:]
    scratch = np.empty((depth, size), inputs.dtype)
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        start, stop = cu[s], cu[s + 1]
        for v in range(channels):
            x = initial[s, h, v]
            for i in range(stop - start):
                t = stop - 1 - i if reverse else start + i
                y = states[t, h, v]
                copy(inputs[rows[t], h, v], y)
                advance(p, rows[t], h, x, y, scratch)
                x = y
            copy(x, final[s, h, v])


@compiled_with(SOURCES)
def backward(
    lo: Any, hi: Any, p: Any, initial: Any, rows: Any, place: Any, cu: Any, reverse: Any, depth: Any, states: Any,
    g_states: Any, g_final: Any, grads: Any, g_inputs: Any, g_initial: Any,
) -> None:  # fmt: skip
    """Tasks lo..hi of the adjoint; ``g_states`` or ``g_final`` of size 0 is a zero cotangent."""
    heads, channels, size = initial.shape[1:]
    carry, scratch = np.empty(size, initial.dtype), np.empty((depth, size), initial.dtype)
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        start, stop = cu[s], cu[s + 1]
        for v in range(channels):
            carry[:] = 0
            if g_final.size:
                copy(g_final[s, h, v], carry)
            for i in range(stop - start - 1, -1, -1):
                t = stop - 1 - i if reverse else start + i
                before = t + 1 if reverse else t - 1
                x = initial[s, h, v] if i == 0 else states[before, h, v]
                g = g_inputs[place[t], h, v]
                copy(carry, g)
                if g_states.size:
                    g_state = g_states[t, h, v]
                    for j in range(size):
                        g[j] += g_state[j]
                retreat(p, grads, rows[t], place[t], h, v, x, g, carry, scratch)
            copy(carry, g_initial[s, h, v])


@compiled
def compose_pd(lo: Any, hi: Any, p: Any, rows: Any, cu: Any, reverse: Any, row_form: Any, out: Any) -> None:
    """The product of the maps of each piece cu[s]..cu[s + 1], into ``out`` (index, diag); a task is (piece, head)."""
    index, diag = out
    heads, size = p.diag.shape[1], p.diag.shape[2]
    kept_index, kept_diag = np.empty(size, index.dtype), np.empty(size, diag.dtype)
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        for j in range(size):
            index[s, h, j] = j
            diag[s, h, j] = 1
        for i in range(cu[s + 1] - cu[s]):
            r = rows[cu[s + 1] - 1 - i if reverse else cu[s] + i]
            if row_form:
                kept_index[:] = index[s, h]
                kept_diag[:] = diag[s, h]
            for j in range(size):
                at = np.uint32(p.index[r, h, j] if row_form else index[s, h, j])
                if row_form:
                    index[s, h, j] = kept_index[at]
                    diag[s, h, j] = p.diag[r, h, j] * kept_diag[at]
                else:
                    index[s, h, j] = p.index[r, h, at]
                    diag[s, h, j] = p.diag[r, h, at] * diag[s, h, j]


@compiled
def compose_diagonal(lo: Any, hi: Any, p: Any, rows: Any, cu: Any, reverse: Any, row_form: Any, out: Any) -> None:
    """The same for diagonal maps, whose order does not matter."""
    (diag,) = out
    heads, size = p.diag.shape[1], p.diag.shape[2]
    for task in range(lo, hi):
        s, h = task // heads, task % heads
        for j in range(size):
            diag[s, h, j] = 1
        for t in range(cu[s], cu[s + 1]):
            for j in range(size):
                diag[s, h, j] *= p.diag[rows[t], h, j]


@compiled
def sort_steps(rows: Any, place: Any, offsets: Any) -> None:
    """A stable counting sort: step t of row r gets place[t] in offsets[r]..offsets[r + 1]."""
    offsets[:] = 0
    for t in range(rows.shape[0]):
        offsets[rows[t] + 1] += 1
    for r in range(offsets.shape[0] - 1):
        offsets[r + 1] += offsets[r]
    following = offsets.copy()
    for t in range(rows.shape[0]):
        place[t] = following[rows[t]]
        following[rows[t]] += 1


@compiled
def sum_rows(lo: Any, hi: Any, values: Any, offsets: Any, out: Any) -> None:
    """out[r] = the sum of the values at the places of row r, in their order; a task is SUM_COLUMNS columns of a row."""
    total = np.empty(SUM_COLUMNS, values.dtype)
    blocks = (values.shape[1] + SUM_COLUMNS - 1) // SUM_COLUMNS
    for task in range(lo, hi):
        r, first = task // blocks, task % blocks * SUM_COLUMNS
        width = min(SUM_COLUMNS, values.shape[1] - first)
        total[:] = 0
        for place in range(offsets[r], offsets[r + 1]):
            row = values[place, first : first + width]
            for c in range(width):
                total[c] += row[c]
        copy(total[:width], out[r, first : first + width])
