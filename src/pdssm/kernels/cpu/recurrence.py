"""x_t = A_t x_{t-1} + b_t and its adjoint: one time loop for every family.

A family is a named tuple of parameter arrays and two small functions, found by the tuple's type when the loop
is compiled: ``advance`` adds A x to y, ``retreat`` computes A^H g and the parameters' gradients of one step.

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

Rows are taken out of the arrays before a loop runs over their entries: an index with four axes, or one that Numba
takes for a negative one, would keep LLVM from making vectors of it.

A task is one head of one sequence and its loop is sequential, so its rounding is the same on any number of
threads.  The adjoint writes step t's gradients at place[t], which sorts them by row; ``sum_rows`` adds those of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.extending import overload

compiled: Any = njit(nogil=True, cache=True, error_model="numpy")

SUM_COLUMNS = 256  # of one task of sum_rows


class PDArrays(NamedTuple):
    """Column form, A e_j = diag[j] e_index[j].  Gradients: diag's, and ``right``, see ``pd_retreat``."""

    index: Any
    diag: Any


class RowPDArrays(NamedTuple):
    """Row form, (A x)[i] = diag[i] x[index[i]]."""

    index: Any
    diag: Any


class DiagonalArrays(NamedTuple):
    diag: Any


class BlockArrays(NamedTuple):
    """Blocks (R, H, N / b, b, b); a dense matrix is one block."""

    blocks: Any


class HouseholderArrays(NamedTuple):
    """A = (I - beta_n k_n k_n^H) ... (I - beta_1 k_1 k_1^H) diag(decay); beta real, decay real, of N or 1."""

    keys: Any
    beta: Any
    decay: Any


# ------------------------------------------------------------------------------------------ PD, column form


def pd_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """y[index[j]] += diag[j] x[j], a scatter: the products first, in vectors."""
    index, diag, products = p.index[r, h], p.diag[r, h], scratch[0]
    for j in range(x.shape[0]):
        products[j] = diag[j] * x[j]
    for j in range(x.shape[0]):
        y[np.uint32(index[j])] += products[j]


def pd_retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    """g_diag[j] = g[index[j]] conj(x[j]), A^H g [j] = conj(diag[j]) g[index[j]]; right = diag x (with left = g)."""
    g_diag, right = grads
    index, diag, g_diag_row = p.index[r, h], p.diag[r, h], g_diag[t, h]
    # The gather alone first: what follows then runs over neighbours, and in vectors.
    for j in range(x.shape[0]):
        carry[j] = g[np.uint32(index[j])]
    if v == 0:
        for j in range(x.shape[0]):
            g_diag_row[j] = carry[j] * np.conj(x[j])
    else:
        for j in range(x.shape[0]):
            g_diag_row[j] += carry[j] * np.conj(x[j])
    if right.size:
        re = right[t, h, v, 0]
        for j in range(x.shape[0]):
            re[j] = (diag[j] * x[j]).real
    if right.size and right.shape[3] == 2:
        im = right[t, h, v, 1]
        for j in range(x.shape[0]):
            im[j] = (diag[j] * x[j]).imag
    for j in range(x.shape[0]):
        carry[j] *= np.conj(diag[j])


# --------------------------------------------------------------------------------------------- PD, row form


def row_pd_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """y[i] += diag[i] x[index[i]], a gather."""
    index, diag = p.index[r, h], p.diag[r, h]
    for i in range(x.shape[0]):
        y[i] += diag[i] * x[np.uint32(index[i])]


def row_pd_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """g_diag[i] = g[i] conj(x[index[i]]), A^H g [index[i]] += conj(diag[i]) g[i]; right = conj(diag) g, left = x."""
    g_diag, right = grads
    index, diag, g_diag_row, back = p.index[r, h], p.diag[r, h], g_diag[t, h], scratch[0]
    for i in range(x.shape[0]):
        product = g[i] * np.conj(x[np.uint32(index[i])])
        g_diag_row[i] = product if v == 0 else g_diag_row[i] + product
    for i in range(x.shape[0]):
        back[i] = np.conj(diag[i]) * g[i]
        carry[i] = 0
    for i in range(x.shape[0]):
        carry[np.uint32(index[i])] += back[i]
    if right.size:
        re = right[t, h, v, 0]
        for i in range(x.shape[0]):
            re[i] = back[i].real
    if right.size and right.shape[3] == 2:
        im = right[t, h, v, 1]
        for i in range(x.shape[0]):
            im[i] = back[i].imag


# ------------------------------------------------------------------------------------------------- diagonal


def diagonal_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    diag = p.diag[r, h]
    for j in range(x.shape[0]):
        y[j] += diag[j] * x[j]


def diagonal_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """g_diag = g conj(x), A^H g = conj(diag) g."""
    (g_diag,) = grads
    diag, g_diag_row = p.diag[r, h], g_diag[t, h]
    if v == 0:
        for j in range(x.shape[0]):
            g_diag_row[j] = g[j] * np.conj(x[j])
    else:
        for j in range(x.shape[0]):
            g_diag_row[j] += g[j] * np.conj(x[j])
    for j in range(x.shape[0]):
        carry[j] = np.conj(diag[j]) * g[j]


# --------------------------------------------------------------------------------- block-diagonal and dense


def block_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    b = p.blocks.shape[-1]
    for k in range(p.blocks.shape[2]):
        for i in range(b):
            total = y[k * b + i]
            for j in range(b):
                total += p.blocks[r, h, k, i, j] * x[k * b + j]
            y[k * b + i] = total


def block_retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    """g_block[i, j] = g[i] conj(x[j]), A^H g [j] = sum_i conj(block[i, j]) g[i]."""
    (g_blocks,) = grads
    b = p.blocks.shape[-1]
    carry[:] = 0
    for k in range(p.blocks.shape[2]):
        for i in range(b):
            gi = g[k * b + i]
            for j in range(b):
                product = gi * np.conj(x[k * b + j])
                g_blocks[t, h, k, i, j] = product if v == 0 else g_blocks[t, h, k, i, j] + product
                carry[k * b + j] += np.conj(p.blocks[r, h, k, i, j]) * gi


# ---------------------------------------------------------------------------------------------- Householder


@compiled
def _inner(keys: Any, r: Any, h: Any, m: Any, y: Any) -> Any:
    """k_m^H y."""
    total = y.dtype.type(0)
    for j in range(y.shape[0]):
        total += np.conj(keys[r, h, m, j]) * y[j]
    return total


def householder_advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """Factor by factor, on one row of scratch."""
    z = scratch[0]
    for j in range(x.shape[0]):
        z[j] = p.decay[r, h, j % p.decay.shape[2]] * x[j]
    for m in range(p.keys.shape[2]):
        factor = p.beta[r, h, m] * _inner(p.keys, r, h, m, z)
        for j in range(x.shape[0]):
            z[j] -= factor * p.keys[r, h, m, j]
    for j in range(x.shape[0]):
        y[j] += z[j]


def householder_retreat(
    p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any
) -> None:
    """Forward again, keeping each factor's argument y; then back through them, with p = k^H y and q = k^H g:

    g_beta = -Re(conj(q) p),  g_k = -beta (conj(p) g + conj(q) y),  g <- g - beta q k;  g_decay = Re(conj(g) x).
    """
    g_keys, g_beta, g_decay = grads
    factors, size, spread = p.keys.shape[2], x.shape[0], p.decay.shape[2]
    if v == 0:
        g_keys[t, h] = 0
        g_beta[t, h] = 0
        g_decay[t, h] = 0
    for j in range(size):
        scratch[0, j] = p.decay[r, h, j % spread] * x[j]
    for m in range(factors):
        factor = p.beta[r, h, m] * _inner(p.keys, r, h, m, scratch[m])
        for j in range(size):
            scratch[m + 1, j] = scratch[m, j] - factor * p.keys[r, h, m, j]
    carry[:] = g
    for m in range(factors - 1, -1, -1):
        before, q, b = _inner(p.keys, r, h, m, scratch[m]), _inner(p.keys, r, h, m, carry), p.beta[r, h, m]
        g_beta[t, h, m] -= (np.conj(q) * before).real
        for j in range(size):
            g_keys[t, h, m, j] -= b * (np.conj(before) * carry[j] + np.conj(q) * scratch[m, j])
            carry[j] -= b * q * p.keys[r, h, m, j]
    for j in range(size):
        g_decay[t, h, j % spread] += (np.conj(carry[j]) * x[j]).real
        carry[j] = p.decay[r, h, j % spread] * carry[j]


# ----------------------------------------------------------------------------------------------- the loops

_FAMILIES: dict[type, tuple[Any, Any]] = {
    PDArrays: (pd_advance, pd_retreat),
    RowPDArrays: (row_pd_advance, row_pd_retreat),
    DiagonalArrays: (diagonal_advance, diagonal_retreat),
    BlockArrays: (block_advance, block_retreat),
    HouseholderArrays: (householder_advance, householder_retreat),
}


def advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> None:
    """y += A_r x, by the family of ``p``; compiled code only."""
    raise NotImplementedError


def retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> None:
    """carry = A_r^H g, and step t's gradients of the parameters (channel v adds to those before it)."""
    raise NotImplementedError


@overload(advance)
def _advance(p: Any, r: Any, h: Any, x: Any, y: Any, scratch: Any) -> Any:
    return _FAMILIES[p.instance_class][0]


@overload(retreat)
def _retreat(p: Any, grads: Any, r: Any, t: Any, h: Any, v: Any, x: Any, g: Any, carry: Any, scratch: Any) -> Any:
    return _FAMILIES[p.instance_class][1]


@compiled
def copy(source: Any, target: Any) -> None:
    for j in range(source.shape[0]):
        target[j] = source[j]


@compiled
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


@compiled
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
