"""One step of a matrix state for ``LANES`` of its rows at once: how the families act where they share a transition.

Here a state X lies transposed, x (N, LANES): x[j] is component j of LANES rows of X, a vector.  What the rows share,
A's entries, k and q, are numbers that multiply vectors; sums over the lanes are taken for their gradients only.

``advance`` replaces x by A x.  ``retreat`` replaces g by A^T g and adds to the parameters' gradients of step t, x being
the state before it.  Everything is real.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pdssm.kernels.cpu.compiling import compiled_with
from pdssm.kernels.cpu.families import SOURCES
from pdssm.kernels.cpu.families.blocks import DiagonalArrays
from pdssm.kernels.cpu.families.householder import HouseholderArrays
from pdssm.kernels.cpu.families.low_rank import LowRankArrays
from pdssm.kernels.cpu.vector import add, broadcast, fma, load, mul, splat, store, sum_lanes

compiled: Any = compiled_with(SOURCES)


@compiled
def inner(row: Any, x: Any) -> Any:
    """sum_j row[j] x[j], a vector; in four parts, which need not wait for each other."""
    a = b = c = d = splat(x.dtype.type(0))
    size = x.shape[0]
    for j in range(0, size - 3, 4):
        a = fma(broadcast(row, (j,)), load(x, (j, 0)), a)
        b = fma(broadcast(row, (j + 1,)), load(x, (j + 1, 0)), b)
        c = fma(broadcast(row, (j + 2,)), load(x, (j + 2, 0)), c)
        d = fma(broadcast(row, (j + 3,)), load(x, (j + 3, 0)), d)
    for j in range(size - size % 4, size):
        a = fma(broadcast(row, (j,)), load(x, (j, 0)), a)
    return add(add(a, b), add(c, d))


@compiled
def add_outer(row: Any, vector: Any, x: Any) -> None:
    """x[j] += row[j] vector."""
    for j in range(x.shape[0]):
        store(x, (j, 0), fma(broadcast(row, (j,)), vector, load(x, (j, 0))))


@compiled
def add_dots(x: Any, vector: Any, out: Any) -> None:
    """out[j] += the sum of x[j] vector over the lanes."""
    for j in range(x.shape[0]):
        out[j] += sum_lanes(mul(load(x, (j, 0)), vector))


@compiled
def _add_products(x: Any, g: Any, out: Any) -> None:
    """out[j] += the sum of x[j] g[j] over the lanes; all j together where out has one entry."""
    if out.shape[0] == x.shape[0]:
        for j in range(x.shape[0]):
            out[j] += sum_lanes(mul(load(x, (j, 0)), load(g, (j, 0))))
        return
    total = splat(x.dtype.type(0))
    for j in range(x.shape[0]):
        total = fma(load(x, (j, 0)), load(g, (j, 0)), total)
    out[0] += sum_lanes(total)


@compiled
def _scale(diag: Any, x: Any) -> None:
    """x[j] *= diag[j], or the one number there is."""
    each = 1 if diag.shape[0] == x.shape[0] else 0
    for j in range(x.shape[0]):
        store(x, (j, 0), mul(broadcast(diag, (each * j,)), load(x, (j, 0))))


@compiled
def copy_state(x: Any, y: Any) -> None:
    for j in range(x.shape[0]):
        store(y, (j, 0), load(x, (j, 0)))


# ------------------------------------------------------------------------------------------------- diagonal


def diagonal_advance(p: Any, t: Any, h: Any, x: Any, scratch: Any) -> None:
    _scale(p.diag[t, h], x)


def diagonal_retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, scratch: Any) -> None:
    _add_products(x, g, grads[0][t, h])
    _scale(p.diag[t, h], g)


# ---------------------------------------------------------------------------------------------- Householder


@compiled
def _reflect(key: Any, beta: Any, x: Any) -> None:
    add_outer(key, mul(splat(-beta), inner(key, x)), x)


def householder_advance(p: Any, t: Any, h: Any, x: Any, scratch: Any) -> None:
    keys, beta = p.keys[t, h], p.beta[t, h]
    _scale(p.decay[t, h], x)
    for m in range(keys.shape[0]):
        _reflect(keys[m], beta[m], x)


def householder_retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, scratch: Any) -> None:
    """Forward again, keeping each factor's argument y; then back through them, with r = k^T y and s = k^T g:

    g_beta = -<r, s>,  g_k[j] = -beta <r, g[j]> - beta <s, y[j]>,  g <- g - beta k s;  <,> sums over the lanes.
    """
    keys, beta = p.keys[t, h], p.beta[t, h]
    g_keys, g_beta, size = grads[0][t, h], grads[1][t, h], x.shape[0]
    copy_state(x, scratch[0])
    _scale(p.decay[t, h], scratch[0])
    for m in range(keys.shape[0] - 1):
        copy_state(scratch[m], scratch[m + 1])
        _reflect(keys[m], beta[m], scratch[m + 1])
    for m in range(keys.shape[0] - 1, -1, -1):
        key, y, g_key = keys[m], scratch[m], g_keys[m]
        before, back, minus = inner(key, y), inner(key, g), splat(-beta[m])
        g_beta[m] -= sum_lanes(mul(before, back))
        before, back = mul(minus, before), mul(minus, back)
        for j in range(size):
            gj = load(g, (j, 0))
            g_key[j] += sum_lanes(fma(before, gj, mul(back, load(y, (j, 0)))))
            store(g, (j, 0), fma(broadcast(key, (j,)), back, gj))
    _add_products(x, g, grads[2][t, h])
    _scale(p.decay[t, h], g)


# --------------------------------------------------------------------------------- diagonal plus low rank


def low_rank_advance(p: Any, t: Any, h: Any, x: Any, scratch: Any) -> None:
    left, right, sums = p.left[t, h], p.right[t, h], scratch[0]
    for m in range(left.shape[0]):
        store(sums, (m, 0), inner(right[m], x))
    _scale(p.diag[t, h], x)
    for m in range(left.shape[0]):
        add_outer(left[m], load(sums, (m, 0)), x)


def low_rank_retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, scratch: Any) -> None:
    """With r = right_m^T x and s = left_m^T g:  g_left_m[j] = <r, g[j]>,  g_right_m[j] = <s, x[j]>."""
    left, right, sums = p.left[t, h], p.right[t, h], scratch[0]
    g_left, g_right = grads[1][t, h], grads[2][t, h]
    _add_products(x, g, grads[0][t, h])
    for m in range(left.shape[0]):
        add_dots(g, inner(right[m], x), g_left[m])
        back = inner(left[m], g)
        add_dots(x, back, g_right[m])
        store(sums, (m, 0), back)
    _scale(p.diag[t, h], g)
    for m in range(left.shape[0]):
        add_outer(right[m], load(sums, (m, 0)), g)


class MatrixFamily(NamedTuple):
    advance: Any
    """(p, t, h, x, scratch)."""
    retreat: Any
    """(p, grads, t, h, x, g, scratch)."""


BY_ARRAYS: dict[type, MatrixFamily] = {
    DiagonalArrays: MatrixFamily(diagonal_advance, diagonal_retreat),
    HouseholderArrays: MatrixFamily(householder_advance, householder_retreat),
    LowRankArrays: MatrixFamily(low_rank_advance, low_rank_retreat),
}
"""Those that ``kernels.matrix_ops.KINDS`` names."""
