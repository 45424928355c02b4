"""The fused selection of P and its surrogate gradient, tile by tile.

With softmax axis ``a`` and vector axis ``b`` (column form: a = row i, b = column j; row form: the other way
round, on the transposed dictionary), u a generated transition and e a step of the scan that uses it:

    logits[u, a, b] = sum_k scores[u, k] dictionary[k, a, b]  (+ Gumbel noise hashed from (keys[u], a, b))
    index[u, b]     = argmax_a logits[u, a, b], ties to the lowest a
    dP[u, a, b]     = sum over the steps e of u of <left[e, a], right[e, b]>       (<,> real inner product)
    pi              = softmax_a(logits / tau)
    dM[u, a, b]     = pi (dP - sum_a pi dP) / tau
    dscores[u, k]   = sum_ab dM[u, a, b] dictionary[k, a, b],    ddictionary[k] = sum_u scores[u, k] dM[u]

Nothing of size U x N x N exists: a tile is LANES columns of a few transitions.  A task is one tile (of one
part of the transitions), its arithmetic is the same whichever thread runs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from pdssm.kernels.cpu.vector import (
    LANES,
    add,
    broadcast,
    div,
    elements_of_rows,
    exp2_negative,
    fma,
    gather,
    gumbel,
    load,
    mul,
    only_lane,
    splat,
    store,
    sub,
    sum_lanes,
    where_greater,
)

FORWARD_BLOCK = 8  # transitions whose logits share one pass over the dictionary
BACKWARD_BLOCK = 4
STEPS = 32  # steps whose factors stay in the cache while dP of one transition is summed
ROWS = 32

compiled: Any = njit(nogil=True, cache=True, error_model="numpy")


@compiled
def _select_eight(u: Any, tile: Any, scores: Any, dictionary: Any, index: Any) -> None:
    rows, terms = dictionary.shape[1], dictionary.shape[2]
    kind = dictionary.dtype.type
    zero, none = splat(kind(0)), splat(np.int32(0))
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = splat(kind(-np.inf))
    i0 = i1 = i2 = i3 = i4 = i5 = i6 = i7 = none
    for a in range(rows):
        l0 = l1 = l2 = l3 = l4 = l5 = l6 = l7 = zero
        for k in range(terms):
            w = load(dictionary, (tile, a, k, 0))
            l0 = fma(broadcast(scores, (k, u)), w, l0)
            l1 = fma(broadcast(scores, (k, u + 1)), w, l1)
            l2 = fma(broadcast(scores, (k, u + 2)), w, l2)
            l3 = fma(broadcast(scores, (k, u + 3)), w, l3)
            l4 = fma(broadcast(scores, (k, u + 4)), w, l4)
            l5 = fma(broadcast(scores, (k, u + 5)), w, l5)
            l6 = fma(broadcast(scores, (k, u + 6)), w, l6)
            l7 = fma(broadcast(scores, (k, u + 7)), w, l7)
        row = splat(np.int32(a))
        i0, m0 = where_greater(l0, m0, row, i0), where_greater(l0, m0, l0, m0)
        i1, m1 = where_greater(l1, m1, row, i1), where_greater(l1, m1, l1, m1)
        i2, m2 = where_greater(l2, m2, row, i2), where_greater(l2, m2, l2, m2)
        i3, m3 = where_greater(l3, m3, row, i3), where_greater(l3, m3, l3, m3)
        i4, m4 = where_greater(l4, m4, row, i4), where_greater(l4, m4, l4, m4)
        i5, m5 = where_greater(l5, m5, row, i5), where_greater(l5, m5, l5, m5)
        i6, m6 = where_greater(l6, m6, row, i6), where_greater(l6, m6, l6, m6)
        i7, m7 = where_greater(l7, m7, row, i7), where_greater(l7, m7, l7, m7)
    store(index, (u, tile * LANES), i0)
    store(index, (u + 1, tile * LANES), i1)
    store(index, (u + 2, tile * LANES), i2)
    store(index, (u + 3, tile * LANES), i3)
    store(index, (u + 4, tile * LANES), i4)
    store(index, (u + 5, tile * LANES), i5)
    store(index, (u + 6, tile * LANES), i6)
    store(index, (u + 7, tile * LANES), i7)


@compiled
def _select_one(u: Any, tile: Any, scores: Any, dictionary: Any, keys: Any, index: Any) -> None:
    """The same arithmetic for one transition, and the noise where there is any."""
    rows, terms = dictionary.shape[1], dictionary.shape[2]
    kind = dictionary.dtype.type
    zero = splat(kind(0))
    best, at = splat(kind(-np.inf)), splat(np.int32(0))
    for a in range(rows):
        logit = zero
        for k in range(terms):
            logit = fma(broadcast(scores, (k, u)), load(dictionary, (tile, a, k, 0)), logit)
        if keys.size:
            logit = add(logit, gumbel(zero, keys[u], a, tile * LANES))
        at, best = where_greater(logit, best, splat(np.int32(a)), at), where_greater(logit, best, logit, best)
    store(index, (u, tile * LANES), at)


@compiled
def select(lo: Any, hi: Any, scores: Any, dictionary: Any, keys: Any, bounds: Any, index: Any) -> None:
    """Tasks lo..hi of ``index`` (U, Np), a task being (part of the transitions, tile of columns).

    scores (K, U), dictionary (tiles, N, K, LANES); part p owns the transitions bounds[p]..bounds[p + 1].
    """
    tiles = dictionary.shape[0]
    for task in range(lo, hi):
        part, tile = task // tiles, task % tiles
        u = bounds[part]
        if keys.size == 0:
            while u + FORWARD_BLOCK <= bounds[part + 1]:
                _select_eight(u, tile, scores, dictionary, index)
                u += FORWARD_BLOCK
        while u < bounds[part + 1]:
            _select_one(u, tile, scores, dictionary, keys, index)
            u += 1


@compiled
def _scratch(rows: Any, columns: Any, like: Any) -> Any:
    """An uninitialised (rows, columns, LANES) buffer that starts on a cache line: no vector straddles two."""
    size = rows * columns * LANES
    raw = np.empty(size + LANES, like.dtype)
    start = (-(raw.ctypes.data // raw.itemsize)) % LANES
    return raw[start : start + size].reshape((rows, columns, LANES))


@compiled
def _outer_pass(u: Any, c: Any, left: Any, right: Any, order: Any, offsets: Any, dP: Any) -> None:
    """dP[:, q] = sum over the steps e of u + q, and over (re, im), of left[e, :] right[e, c:c+LANES]."""
    rows, components = left.shape[1], left.shape[2]
    zero = splat(dP.dtype.type(0))
    for q in range(BACKWARD_BLOCK):
        start, stop = offsets[u + q], offsets[u + q + 1]
        if start == stop:
            for a in range(rows):
                store(dP, (a, q, 0), zero)
        for s in range(start, stop):
            e = order[s]
            re, im = load(right, (e, 0, c)), load(right, (e, components - 1, c))
            if components == 2 and s == start:
                for a in range(rows):
                    store(dP, (a, q, 0), fma(broadcast(left, (e, a, 1)), im, mul(broadcast(left, (e, a, 0)), re)))
            elif components == 2:
                for a in range(rows):
                    total = fma(broadcast(left, (e, a, 0)), re, load(dP, (a, q, 0)))
                    store(dP, (a, q, 0), fma(broadcast(left, (e, a, 1)), im, total))
            elif s == start:
                for a in range(rows):
                    store(dP, (a, q, 0), mul(broadcast(left, (e, a, 0)), re))
            else:
                for a in range(rows):
                    store(dP, (a, q, 0), fma(broadcast(left, (e, a, 0)), re, load(dP, (a, q, 0))))


@compiled
def _copy_pass(u: Any, c: Any, sums: Any, dP: Any) -> None:
    """dP[:, q] from the sums that ``sum_outer`` has made."""
    for q in range(BACKWARD_BLOCK):
        for a in range(dP.shape[0]):
            store(dP, (a, q, 0), load(sums, (u + q, a, c)))


@compiled
def _add_outer(
    i: Any, a: Any, c: Any, d: Any, start: Any, stop: Any, left: Any, right: Any, order: Any, sums: Any
) -> None:
    """sums[i, a:a+8] += left x right over the steps start..stop, in the tiles at c and d: the sums stay in registers.

    Two tiles share each element of ``left`` that is fetched; for the last one of an odd number, c = d.
    """
    t0, w0 = load(sums, (i, a, c)), load(sums, (i, a, d))
    t1, w1 = load(sums, (i, a + 1, c)), load(sums, (i, a + 1, d))
    t2, w2 = load(sums, (i, a + 2, c)), load(sums, (i, a + 2, d))
    t3, w3 = load(sums, (i, a + 3, c)), load(sums, (i, a + 3, d))
    t4, w4 = load(sums, (i, a + 4, c)), load(sums, (i, a + 4, d))
    t5, w5 = load(sums, (i, a + 5, c)), load(sums, (i, a + 5, d))
    t6, w6 = load(sums, (i, a + 6, c)), load(sums, (i, a + 6, d))
    t7, w7 = load(sums, (i, a + 7, c)), load(sums, (i, a + 7, d))
    for s in range(start, stop):
        e = order[s]
        for p in range(left.shape[2]):
            r, q = load(right, (e, p, c)), load(right, (e, p, d))
            f = broadcast(left, (e, a, p))
            t0, w0 = fma(f, r, t0), fma(f, q, w0)
            f = broadcast(left, (e, a + 1, p))
            t1, w1 = fma(f, r, t1), fma(f, q, w1)
            f = broadcast(left, (e, a + 2, p))
            t2, w2 = fma(f, r, t2), fma(f, q, w2)
            f = broadcast(left, (e, a + 3, p))
            t3, w3 = fma(f, r, t3), fma(f, q, w3)
            f = broadcast(left, (e, a + 4, p))
            t4, w4 = fma(f, r, t4), fma(f, q, w4)
            f = broadcast(left, (e, a + 5, p))
            t5, w5 = fma(f, r, t5), fma(f, q, w5)
            f = broadcast(left, (e, a + 6, p))
            t6, w6 = fma(f, r, t6), fma(f, q, w6)
            f = broadcast(left, (e, a + 7, p))
            t7, w7 = fma(f, r, t7), fma(f, q, w7)
    store(sums, (i, a, c), t0)
    store(sums, (i, a, d), w0)
    store(sums, (i, a + 1, c), t1)
    store(sums, (i, a + 1, d), w1)
    store(sums, (i, a + 2, c), t2)
    store(sums, (i, a + 2, d), w2)
    store(sums, (i, a + 3, c), t3)
    store(sums, (i, a + 3, d), w3)
    store(sums, (i, a + 4, c), t4)
    store(sums, (i, a + 4, d), w4)
    store(sums, (i, a + 5, c), t5)
    store(sums, (i, a + 5, d), w5)
    store(sums, (i, a + 6, c), t6)
    store(sums, (i, a + 6, d), w6)
    store(sums, (i, a + 7, c), t7)
    store(sums, (i, a + 7, d), w7)


@compiled
def sum_outer(
    lo: Any, hi: Any, first: Any, left: Any, right: Any, order: Any, offsets: Any, groups: Any, sums: Any
) -> None:
    """sums[i] (N, Np) = dP of transition first + i: a matrix product over its steps, for transitions with many.

    A task is (transition, group of tiles).  A few steps at a time go through all its tiles, so that their factors
    are fetched from memory once: they lie far apart, and a miss costs more than the arithmetic.
    """
    rows, components = left.shape[1], left.shape[2]
    tiles = sums.shape[2] // LANES
    zero = splat(sums.dtype.type(0))
    for task in range(lo, hi):
        i, group = task // groups, task % groups
        begin, end = offsets[first + i], offsets[first + i + 1]
        low, high = group * tiles // groups * LANES, (group + 1) * tiles // groups * LANES
        for a in range(rows):
            for c in range(low, high, LANES):
                store(sums, (i, a, c), zero)
        for start in range(begin, end, STEPS):
            stop = min(start + STEPS, end)
            a = 0
            while a + 8 <= rows:
                for c in range(low, high, 2 * LANES):
                    d = min(c + LANES, high - LANES)
                    _add_outer(i, a, c, d, start, stop, left, right, order, sums)
                a += 8
            while a < rows:
                for c in range(low, high, LANES):
                    total = load(sums, (i, a, c))
                    for s in range(start, stop):
                        for p in range(components):
                            total = fma(broadcast(left, (order[s], a, p)), load(right, (order[s], p, c)), total)
                    store(sums, (i, a, c), total)
                a += 1


@compiled
def _minus_top(u: Any, tile: Any, factor: Any, scaled: Any, dictionary: Any, index: Any, keys: Any) -> Any:
    """Minus the largest logit of each column, which the forward pass found at ``index``, in units of log2."""
    terms = dictionary.shape[2]
    kind = dictionary.dtype.type
    rows = load(index, (u, tile * LANES))
    at = elements_of_rows(rows, np.int32(terms * LANES))
    total = splat(kind(0))
    for k in range(terms):
        total = fma(broadcast(scaled, (k, u)), gather(dictionary, (tile, 0, k, 0), at), total)
    if keys.size:
        noise = _scratch(1, 1, dictionary)
        for lane in range(LANES):
            store(noise, (0, 0, 0), gumbel(total, keys[u], index[u, tile * LANES + lane], tile * LANES))
            # Only this lane's value belongs to this lane's row.
            noise[0, 0, 0] = noise[0, 0, lane]
            total = add(total, only_lane(splat(kind(noise[0, 0, 0] * factor)), lane))
    return sub(splat(kind(0)), total)


@compiled
def _softmax_pass(
    u: Any,
    tile: Any,
    scale: Any,
    factor: Any,
    scaled: Any,
    dictionary: Any,
    index: Any,
    keys: Any,
    dP: Any,
    e: Any,
    norm: Any,
) -> None:
    """e = exp((logits - top) scale), norm = (scale / sum e, sum e dP / sum e), for four transitions at once.

    ``scaled`` are the scores times ``factor`` = scale / ln 2, so that the exponential is a power of two.
    """
    rows, terms = dictionary.shape[1], dictionary.shape[2]
    kind = dictionary.dtype.type
    zero, factor_v = splat(kind(0)), splat(kind(factor))
    t0 = _minus_top(u, tile, factor, scaled, dictionary, index, keys)
    t1 = _minus_top(u + 1, tile, factor, scaled, dictionary, index, keys)
    t2 = _minus_top(u + 2, tile, factor, scaled, dictionary, index, keys)
    t3 = _minus_top(u + 3, tile, factor, scaled, dictionary, index, keys)
    s0 = s1 = s2 = s3 = w0 = w1 = w2 = w3 = zero
    for a in range(rows):
        l0, l1, l2, l3 = t0, t1, t2, t3
        for k in range(terms):
            m = load(dictionary, (tile, a, k, 0))
            l0 = fma(broadcast(scaled, (k, u)), m, l0)
            l1 = fma(broadcast(scaled, (k, u + 1)), m, l1)
            l2 = fma(broadcast(scaled, (k, u + 2)), m, l2)
            l3 = fma(broadcast(scaled, (k, u + 3)), m, l3)
        if keys.size:
            l0 = fma(gumbel(zero, keys[u], a, tile * LANES), factor_v, l0)
            l1 = fma(gumbel(zero, keys[u + 1], a, tile * LANES), factor_v, l1)
            l2 = fma(gumbel(zero, keys[u + 2], a, tile * LANES), factor_v, l2)
            l3 = fma(gumbel(zero, keys[u + 3], a, tile * LANES), factor_v, l3)
        e0, e1, e2, e3 = exp2_negative(l0), exp2_negative(l1), exp2_negative(l2), exp2_negative(l3)
        s0, w0 = add(s0, e0), fma(e0, load(dP, (a, 0, 0)), w0)
        s1, w1 = add(s1, e1), fma(e1, load(dP, (a, 1, 0)), w1)
        s2, w2 = add(s2, e2), fma(e2, load(dP, (a, 2, 0)), w2)
        s3, w3 = add(s3, e3), fma(e3, load(dP, (a, 3, 0)), w3)
        store(e, (a, 0, 0), e0)
        store(e, (a, 1, 0), e1)
        store(e, (a, 2, 0), e2)
        store(e, (a, 3, 0), e3)
    scale_v = splat(kind(scale))
    store(norm, (0, 0, 0), div(scale_v, s0))
    store(norm, (0, 1, 0), div(scale_v, s1))
    store(norm, (0, 2, 0), div(scale_v, s2))
    store(norm, (0, 3, 0), div(scale_v, s3))
    store(norm, (1, 0, 0), div(w0, s0))
    store(norm, (1, 1, 0), div(w1, s1))
    store(norm, (1, 2, 0), div(w2, s2))
    store(norm, (1, 3, 0), div(w3, s3))


@compiled
def _gradient_pass(
    u: Any, tile: Any, task: Any, scores: Any, dictionary: Any, dP: Any, e: Any, norm: Any, sums: Any, dM: Any
) -> None:
    """dM into ``e``'s place, then its two contractions; ``sums`` (4, K, LANES) collects dscores lane by lane.

    Two terms k at a time, so that one load of the four transitions' dM serves sixteen multiplications.
    """
    rows, terms = dictionary.shape[1], dictionary.shape[2]
    n0, n1, n2, n3 = load(norm, (0, 0, 0)), load(norm, (0, 1, 0)), load(norm, (0, 2, 0)), load(norm, (0, 3, 0))
    q0, q1, q2, q3 = load(norm, (1, 0, 0)), load(norm, (1, 1, 0)), load(norm, (1, 2, 0)), load(norm, (1, 3, 0))
    for start in range(0, rows, ROWS):
        stop = min(start + ROWS, rows)
        for a in range(start, stop):
            g0 = mul(mul(load(e, (a, 0, 0)), n0), sub(load(dP, (a, 0, 0)), q0))
            g1 = mul(mul(load(e, (a, 1, 0)), n1), sub(load(dP, (a, 1, 0)), q1))
            g2 = mul(mul(load(e, (a, 2, 0)), n2), sub(load(dP, (a, 2, 0)), q2))
            g3 = mul(mul(load(e, (a, 3, 0)), n3), sub(load(dP, (a, 3, 0)), q3))
            store(e, (a, 0, 0), g0)
            store(e, (a, 1, 0), g1)
            store(e, (a, 2, 0), g2)
            store(e, (a, 3, 0), g3)
        for k in range(0, terms, 2):
            d0, d1, d2, d3 = load(sums, (k, 0, 0)), load(sums, (k, 1, 0)), load(sums, (k, 2, 0)), load(sums, (k, 3, 0))
            f0, f1 = load(sums, (k + 1, 0, 0)), load(sums, (k + 1, 1, 0))
            f2, f3 = load(sums, (k + 1, 2, 0)), load(sums, (k + 1, 3, 0))
            s0, s1 = broadcast(scores, (k, u)), broadcast(scores, (k, u + 1))
            s2, s3 = broadcast(scores, (k, u + 2)), broadcast(scores, (k, u + 3))
            t0, t1 = broadcast(scores, (k + 1, u)), broadcast(scores, (k + 1, u + 1))
            t2, t3 = broadcast(scores, (k + 1, u + 2)), broadcast(scores, (k + 1, u + 3))
            for a in range(start, stop):
                m, n = load(dictionary, (tile, a, k, 0)), load(dictionary, (tile, a, k + 1, 0))
                g0, g1, g2, g3 = load(e, (a, 0, 0)), load(e, (a, 1, 0)), load(e, (a, 2, 0)), load(e, (a, 3, 0))
                d0, d1, d2, d3 = fma(g0, m, d0), fma(g1, m, d1), fma(g2, m, d2), fma(g3, m, d3)
                f0, f1, f2, f3 = fma(g0, n, f0), fma(g1, n, f1), fma(g2, n, f2), fma(g3, n, f3)
                total = fma(s1, g1, fma(s0, g0, load(dM, (task, a, k, 0))))
                other = fma(t1, g1, fma(t0, g0, load(dM, (task, a, k + 1, 0))))
                store(dM, (task, a, k, 0), fma(s3, g3, fma(s2, g2, total)))
                store(dM, (task, a, k + 1, 0), fma(t3, g3, fma(t2, g2, other)))
            store(sums, (k, 0, 0), d0)
            store(sums, (k, 1, 0), d1)
            store(sums, (k, 2, 0), d2)
            store(sums, (k, 3, 0), d3)
            store(sums, (k + 1, 0, 0), f0)
            store(sums, (k + 1, 1, 0), f1)
            store(sums, (k + 1, 2, 0), f2)
            store(sums, (k + 1, 3, 0), f3)


@compiled
def surrogate(
    lo: Any,
    hi: Any,
    scores: Any,
    dictionary: Any,
    index: Any,
    keys: Any,
    scale: Any,
    left: Any,
    right: Any,
    order: Any,
    offsets: Any,
    sums_of: Any,
    first: Any,
    bounds: Any,
    dscores: Any,
    dM: Any,
) -> None:
    """Tasks lo..hi, a task being (part of the transitions, tile of columns).

    scores (K, Up), index (Up, Np) and offsets (Up + 1) are padded to whole blocks (no steps there); left is
    (E, N, C), right (E, C, Np), C the components 1 or 2; part p owns the transitions bounds[p]..bounds[p + 1];
    ``sums_of``, where it has a size, holds their dP from ``first`` on, and left, right are not read.  Each task
    writes its own dscores[tile] (Up, K) and dM[task] (N, K, LANES), which the caller sums, in order.
    """
    rows, terms = dictionary.shape[1], dictionary.shape[2]
    tiles = dictionary.shape[0]
    factor = scale * dictionary.dtype.type(1.4426950408889634)
    scaled = scores * factor
    dP = _scratch(rows, BACKWARD_BLOCK, dictionary)
    e = _scratch(rows, BACKWARD_BLOCK, dictionary)
    norm = _scratch(2, BACKWARD_BLOCK, dictionary)
    sums = _scratch(terms, BACKWARD_BLOCK, dictionary)
    for task in range(lo, hi):
        part, tile = task // tiles, task % tiles
        dM[task] = 0
        for u in range(bounds[part], bounds[part + 1], BACKWARD_BLOCK):
            if sums_of.size:
                _copy_pass(u - first, tile * LANES, sums_of, dP)
            else:
                _outer_pass(u, tile * LANES, left, right, order, offsets, dP)
            _softmax_pass(u, tile, scale, factor, scaled, dictionary, index, keys, dP, e, norm)
            sums[:] = 0
            _gradient_pass(u, tile, task, scores, dictionary, dP, e, norm, sums, dM)
            for q in range(BACKWARD_BLOCK):
                for k in range(terms):
                    dscores[tile, u + q, k] = sum_lanes(load(sums, (k, q, 0)))
