"""One step of a matrix state for ``LANES`` of its rows at once: how the families act where they share a transition.

Here a state X lies transposed, as N vectors: vector j is component j of LANES rows of X.  What the rows share, A's
entries, k and q, are numbers that multiply vectors; sums over the lanes are taken for their gradients only.

``advance`` replaces x by A x.  ``retreat`` replaces g by A^T g and adds to the parameters' gradients of step t, x being
the state before it.  Everything is real.  States and rows are addresses (``pointers``), so sizes go with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pdssm.kernels.cpu import pointers, vector
from pdssm.kernels.cpu.compiling import compiled_with
from pdssm.kernels.cpu.families import SOURCES
from pdssm.kernels.cpu.families.blocks import DiagonalArrays
from pdssm.kernels.cpu.families.householder import HouseholderArrays
from pdssm.kernels.cpu.families.low_rank import LowRankArrays
from pdssm.kernels.cpu.pointers import at, get, put, sums, zeros
from pdssm.kernels.cpu.vector import LANES, add, fma, mul, splat, sum_lanes

compiled: Any = compiled_with((*SOURCES, *(Path(str(module.__file__)) for module in (pointers, vector))))


@compiled
def inner(row: Any, x: Any, size: Any) -> Any:
    """sum_j row[j] x[j], a vector; in four parts, which need not wait for each other."""
    a = b = c = d = zeros(row)
    for j in range(0, size - 3, 4):
        a = fma(splat(row[j]), get(x, j), a)
        b = fma(splat(row[j + 1]), get(x, j + 1), b)
        c = fma(splat(row[j + 2]), get(x, j + 2), c)
        d = fma(splat(row[j + 3]), get(x, j + 3), d)
    for j in range(size - size % 4, size):
        a = fma(splat(row[j]), get(x, j), a)
    return add(add(a, b), add(c, d))


@compiled
def add_outer(row: Any, factor: Any, x: Any, size: Any) -> None:
    """x[j] += row[j] factor."""
    for j in range(size):
        put(x, j, fma(splat(row[j]), factor, get(x, j)))


class Adding(NamedTuple):
    """How gradients are added up."""

    products: Any
    """Room for LANES vectors."""
    fresh: Any
    """Whether they are the first: these are written, so that nobody waits for what lay there."""


@compiled
def add_number(number: Any, out: Any, adding: Any) -> None:
    out[0] = number if adding.fresh else out[0] + number


@compiled
def add_sums(out: Any, block: Any, size: Any, adding: Any) -> None:
    """out[j] += the sum of product j - LANES block over the lanes, for the LANES entries of a block or what is left."""
    products, left = adding.products, size - block * LANES
    total = sums(products)
    if left >= LANES:
        put(out, block, total if adding.fresh else add(get(out, block), total))
        return
    put(products, 0, total)
    for i in range(left):
        j = block * LANES + i
        out[j] = products[i] if adding.fresh else out[j] + products[i]


@compiled
def add_dots(x: Any, factor: Any, out: Any, size: Any, adding: Any) -> None:
    """out[j] += the sum of x[j] factor over the lanes."""
    for block in range((size + LANES - 1) // LANES):
        for j in range(block * LANES, min(size, block * LANES + LANES)):
            put(adding.products, j - block * LANES, mul(get(x, j), factor))
        add_sums(out, block, size, adding)


@compiled
def copy_state(x: Any, y: Any, size: Any) -> None:
    for j in range(size):
        put(y, j, get(x, j))


@compiled
def _add_products(x: Any, g: Any, out: Any, entries: Any, size: Any, adding: Any) -> None:
    """out[j] += the sum of x[j] g[j] over the lanes; all j together where out has one entry."""
    if entries == size:
        for block in range((size + LANES - 1) // LANES):
            for j in range(block * LANES, min(size, block * LANES + LANES)):
                put(adding.products, j - block * LANES, mul(get(x, j), get(g, j)))
            add_sums(out, block, size, adding)
        return
    total = zeros(out)
    for j in range(size):
        total = fma(get(x, j), get(g, j), total)
    add_number(sum_lanes(total), out, adding)


@compiled
def _scale(diag: Any, entries: Any, x: Any, y: Any, size: Any) -> None:
    """y[j] = diag[j] x[j]; diag has one entry or all."""
    if entries == size:
        for j in range(size):
            put(y, j, mul(splat(diag[j]), get(x, j)))
        return
    factor = splat(diag[0])
    for j in range(size):
        put(y, j, mul(factor, get(x, j)))


# ------------------------------------------------------------------------------------------------- diagonal


def diagonal_advance(p: Any, t: Any, h: Any, x: Any, size: Any, scratch: Any) -> None:
    _scale(at(p.diag, (t, h, 0)), size, x, x, size)


def diagonal_retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, size: Any, scratch: Any, adding: Any) -> None:
    _add_products(x, g, at(grads[0], (t, h, 0)), size, size, adding)
    _scale(at(p.diag, (t, h, 0)), size, g, g, size)


# ---------------------------------------------------------------------------------------------- Householder


def householder_advance(p: Any, t: Any, h: Any, x: Any, size: Any, scratch: Any) -> None:
    keys, beta, decay = p
    _scale(at(decay, (t, h, 0)), decay.shape[2], x, x, size)
    for m in range(keys.shape[2]):
        key = at(keys, (t, h, m, 0))
        add_outer(key, mul(splat(-at(beta, (t, h, m))[0]), inner(key, x, size)), x, size)


@compiled
def _reflect_back(key: Any, beta: Any, y: Any, g: Any, g_key: Any, g_beta: Any, size: Any, adding: Any) -> None:
    """With r = k^T y and s = k^T g:  g_beta = -<r, s>,  g_k[j] = -beta (<r, g[j]> + <s, y[j]>),  g <- g - beta k s."""
    before, back, minus = inner(key, y, size), inner(key, g, size), splat(-beta)
    add_number(-sum_lanes(mul(before, back)), g_beta, adding)
    before, back = mul(minus, before), mul(minus, back)
    for block in range((size + LANES - 1) // LANES):
        for j in range(block * LANES, min(size, block * LANES + LANES)):
            own = get(g, j)
            put(adding.products, j - block * LANES, fma(before, own, mul(back, get(y, j))))
            put(g, j, fma(splat(key[j]), back, own))
        add_sums(g_key, block, size, adding)


def householder_retreat(
    p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, size: Any, scratch: Any, adding: Any
) -> None:
    """Forward again, keeping each factor's argument; then back through them."""
    keys, beta, decay = p
    g_keys, g_beta, g_decay = grads
    entries, factors = decay.shape[2], keys.shape[2]
    _scale(at(decay, (t, h, 0)), entries, x, at(scratch, (0, 0, 0)), size)
    for m in range(factors - 1):
        key, y, after = at(keys, (t, h, m, 0)), at(scratch, (m, 0, 0)), at(scratch, (m + 1, 0, 0))
        copy_state(y, after, size)
        add_outer(key, mul(splat(-at(beta, (t, h, m))[0]), inner(key, y, size)), after, size)
    for m in range(factors - 1, -1, -1):
        key, y, g_key = at(keys, (t, h, m, 0)), at(scratch, (m, 0, 0)), at(g_keys, (t, h, m, 0))
        _reflect_back(key, at(beta, (t, h, m))[0], y, g, g_key, at(g_beta, (t, h, m)), size, adding)
    _add_products(x, g, at(g_decay, (t, h, 0)), entries, size, adding)
    _scale(at(decay, (t, h, 0)), entries, g, g, size)


# --------------------------------------------------------------------------------- diagonal plus low rank


def low_rank_advance(p: Any, t: Any, h: Any, x: Any, size: Any, scratch: Any) -> None:
    diag, left, right = p
    kept = at(scratch, (0, 0, 0))
    for m in range(left.shape[2]):
        put(kept, m, inner(at(right, (t, h, m, 0)), x, size))
    _scale(at(diag, (t, h, 0)), size, x, x, size)
    for m in range(left.shape[2]):
        add_outer(at(left, (t, h, m, 0)), get(kept, m), x, size)


def low_rank_retreat(p: Any, grads: Any, t: Any, h: Any, x: Any, g: Any, size: Any, scratch: Any, adding: Any) -> None:
    """With r = right_m^T x and s = left_m^T g:  g_left_m[j] = <r, g[j]>,  g_right_m[j] = <s, x[j]>."""
    diag, left, right = p
    g_diag, g_left, g_right = grads
    kept = at(scratch, (0, 0, 0))
    _add_products(x, g, at(g_diag, (t, h, 0)), size, size, adding)
    for m in range(left.shape[2]):
        add_dots(g, inner(at(right, (t, h, m, 0)), x, size), at(g_left, (t, h, m, 0)), size, adding)
        back = inner(at(left, (t, h, m, 0)), g, size)
        add_dots(x, back, at(g_right, (t, h, m, 0)), size, adding)
        put(kept, m, back)
    _scale(at(diag, (t, h, 0)), size, g, g, size)
    for m in range(left.shape[2]):
        add_outer(at(right, (t, h, m, 0)), get(kept, m), g, size)


class MatrixFamily(NamedTuple):
    advance: Any
    """(p, t, h, x, size, scratch)."""
    retreat: Any
    """(p, grads, t, h, x, g, size, scratch, adding)."""


BY_ARRAYS: dict[type, MatrixFamily] = {
    DiagonalArrays: MatrixFamily(diagonal_advance, diagonal_retreat),
    HouseholderArrays: MatrixFamily(householder_advance, householder_retreat),
    LowRankArrays: MatrixFamily(low_rank_advance, low_rank_retreat),
}
"""Those that ``kernels.matrix_ops.KINDS`` names."""
