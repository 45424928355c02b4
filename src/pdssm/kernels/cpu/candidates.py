"""Which rows of a column can be the argmax for some scores on the simplex: the frozen selection's lists.

Row i of a column can go when a mixture of other rows beats it at every corner of the simplex,

    sum_r lambda_r m_r[k] >= m_i[k] + margin  for every k,      lambda >= 0,  sum_r lambda_r = 1,

because then, whatever the scores, one of those r has a logit larger by ``margin``, which is more than the rounding
of both logits together.  The best mixture is the optimal strategy of a matrix game, found by the simplex method; its
dual are the scores that suit row i best, and the row that wins there is one more opponent (Clarkson's algorithm:
the games only ever have the winners found so far).  The method may fail, its rounding does no harm: a row goes only
when the inequality above has been checked for the mixture at hand, and opponents are never dropped themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

compiled: Any = njit(nogil=True, cache=True, error_model="numpy")

BUDGET = 1 << 24  # multiplications spent on one column before the rows left are kept as they are
BEATEN, WITNESS, UNSOLVED = 0, 1, 2
_SHIFT = 3.0  # makes a game's payoffs, which lie in [-2, 2], positive
_SMALL = 1e-12


@compiled
def margin(terms: Any, largest: Any, unit: Any, tiny: Any, top: Any) -> Any:
    """By how much a row must be beaten where no entry exceeds ``largest``: above every rounding on both sides.

    ``unit`` is the format's rounding unit, ``tiny`` its smallest normal number, ``top`` its largest number.  A logit is
    K rounded steps from the exact sum, each off by ``tiny`` at most where it underflows (flushed or not); the check
    of a mixture is made in float64.  Where a sum could overflow, no margin is enough.
    """
    if largest > top / 4:
        return np.inf
    logit = terms * unit / (1 - terms * unit) * largest + (terms + 1) * tiny
    check = (4 * terms + 16) * 2.0**-53 * largest
    return 1.01 * (2 * logit + check)


@compiled
def _distinct(column: Any, order: Any, key: Any) -> Any:
    """Compact ``order``, sorted by ``key`` and then by row, to the first of each set of equal rows; their number."""
    count = 0
    for row in order:
        known = False
        at = count - 1
        while at >= 0 and key[order[at]] == key[row] and not known:
            known = True
            for k in range(column.shape[1]):
                known = known and column[row, k] == column[order[at], k]
            at -= 1
        if not known:
            order[count] = row
            count += 1
    return count


@compiled
def _beaten_by_one(points: Any, i: Any, opponents: Any, size: Any, delta: Any) -> Any:
    for r in range(size):
        k = 0
        while k < points.shape[0] and points[k, opponents[r]] >= points[k, i] + delta:
            k += 1
        if k == points.shape[0]:
            return True
    return False


@compiled
def _pivot(table: Any, size: Any, row_label: Any, column_label: Any, p: Any, q: Any) -> None:
    """Exchange the variables of row p and column q."""
    inverse = 1.0 / table[p, q]
    for j in range(size + 1):
        table[p, j] *= inverse
    table[p, q] = inverse
    for i in range(table.shape[0]):
        if i != p:
            factor = table[i, q]
            table[i, q] = 0.0
            for j in range(size + 1):
                table[i, j] -= factor * table[p, j]
    row_label[p], column_label[q] = column_label[q], row_label[p]


@compiled
def _entering(table: Any, size: Any) -> Any:
    """The column of the most negative reduced cost, -1 at the optimum."""
    best, q = -_SMALL, -1
    for j in range(size):
        if table[-1, j] < best:
            best, q = table[-1, j], j
    return q


@compiled
def _leaving(table: Any, size: Any, q: Any) -> Any:
    """The row that limits column q first, -1 if none does."""
    best, p = np.inf, -1
    for i in range(table.shape[0] - 1):
        if table[i, q] > _SMALL and table[i, size] < best * table[i, q]:
            best, p = table[i, size] / table[i, q], i
    return p


@compiled
def beats(points: Any, i: Any, rows: Any, weights: Any, delta: Any) -> Any:
    """The certificate: whether the mixture of ``rows`` is above row i by ``delta`` at every corner."""
    total = 0.0
    for weight in weights:
        total += max(weight, 0.0)
    for k in range(points.shape[0]):
        value = 0.0
        for r in range(rows.shape[0]):
            value += max(weights[r], 0.0) * points[k, rows[r]]
        if not value >= total * (points[k, i] + delta):
            return False
    return total > 0.0


@compiled
def _play(
    points: Any, i: Any, opponents: Any, size: Any, delta: Any, table: Any, row_label: Any, column_label: Any,
    rows: Any, weights: Any, scores: Any,
) -> Any:  # fmt: skip
    """The game of row i against its opponents: (BEATEN, WITNESS with ``scores``, or UNSOLVED; pivots made).

    maximise sum x  subject to  sum_r (points[k, i] - points[k, r] + shift) x_r <= 1,  x >= 0:  the game's value is
    1 / sum x - shift.  Labels: 0..size-1 are opponents, size + k is the slack of corner k.
    """
    terms = points.shape[0]
    for k in range(terms):
        for r in range(size):
            table[k, r] = points[k, i] - points[k, opponents[r]] + _SHIFT
        table[k, size] = 1.0
        row_label[k] = size + k
    for r in range(size):
        table[terms, r] = -1.0
        column_label[r] = r
    table[terms, size] = 0.0
    for pivots in range(20 + 4 * terms):
        if table[terms, size] * (_SHIFT - delta) > 1.0:
            for k in range(terms):
                real = row_label[k] < size
                rows[k] = opponents[row_label[k]] if real else i
                weights[k] = table[k, size] if real else 0.0
            if beats(points, i, rows, weights, delta):
                return BEATEN, pivots
        q = _entering(table, size)
        if q < 0:
            scores[:] = 0.0
            for r in range(size):
                if column_label[r] >= size:
                    scores[column_label[r] - size] = max(table[terms, r], 0.0)
            scores /= scores.sum()
            return WITNESS, pivots
        p = _leaving(table, size, q)
        if p < 0:
            return UNSOLVED, pivots
        _pivot(table, size, row_label, column_label, p, q)
    return UNSOLVED, pivots


@compiled
def _dot(points: Any, j: Any, scores: Any) -> Any:
    total = 0.0
    for k in range(points.shape[0]):
        total += scores[k] * points[k, j]
    return total


@compiled
def _winner(points: Any, i: Any, count: Any, scores: Any, is_opponent: Any, dots: Any) -> Any:
    """The best of i and of the rows after it that are no opponents yet."""
    dots[i:count] = 0.0
    for k in range(points.shape[0]):
        for j in range(i, count):
            dots[j] += scores[k] * points[k, j]
    best = i
    for j in range(i + 1, count):
        if dots[j] > dots[best] and not is_opponent[j]:
            best = j
    return best


@compiled
def _filter(points: Any, count: Any, delta: Any, is_kept: Any) -> None:
    """is_kept[i] of the distinct rows ``points`` (K, count), largest sum first."""
    terms = points.shape[0]
    opponents, is_opponent, size = np.empty(count, np.int64), np.zeros(count, np.bool_), 0
    table = np.empty((terms + 1, count + 1))
    row_label, column_label = np.empty(terms, np.int64), np.empty(count, np.int64)
    rows, weights, scores, dots = np.empty(terms, np.int64), np.empty(terms), np.empty(terms), np.empty(count)
    for k in range(terms):
        top = np.argmax(points[k, :count])
        if not is_opponent[top]:
            opponents[size], is_opponent[top], is_kept[top] = top, True, True
            size += 1
    spent = 0
    for i in range(count):
        if is_kept[i] or _beaten_by_one(points, i, opponents, size, delta):
            continue
        is_kept[i] = True
        while spent < BUDGET:
            outcome, pivots = _play(
                points, i, opponents, size, delta, table, row_label, column_label, rows, weights, scores
            )
            spent += (pivots + 2) * (terms + 1) * (size + 1)
            if outcome != WITNESS:
                is_kept[i] = outcome != BEATEN
                break
            spent += terms * (count - i)
            new = _winner(points, i, count, scores, is_opponent, dots)
            best = -np.inf
            for r in range(size):
                best = max(best, _dot(points, opponents[r], scores))
            # A row that only ties with the opponents is kept, but would beat nothing that they do not.
            if new != i or _dot(points, i, scores) > best + delta:
                opponents[size], is_opponent[new], is_kept[new] = new, True, True
                size += 1
            if new == i:
                break


@compiled
def list_candidates(lo: Any, hi: Any, columns: Any, unit: Any, tiny: Any, top: Any, kept: Any) -> None:
    """kept[b, a] = whether row a can win column b, for b in lo..hi; columns[b, a, k], finite."""
    size, terms = columns.shape[1:]
    points, key = np.empty((terms, size)), np.empty(size)
    for b in range(lo, hi):
        column = columns[b]
        largest = 0.0
        for a in range(size):
            key[a] = 0.0
            for k in range(terms):
                value = np.float64(column[a, k])
                largest = max(largest, abs(value))
                # Unequal weights, so that rows of small integers rarely have one key.
                key[a] -= value / (terms + 0.618 * (k * 0.618 % 1.0))
        order = np.argsort(key, kind="mergesort")
        count = _distinct(column, order, key)
        kept[b] = False
        delta = margin(terms, largest, unit, tiny, top) / largest if largest > 0.0 else np.inf
        if not delta < 2.0:  # no two scaled rows are that far apart
            for j in range(count):
                kept[b, order[j]] = True
            continue
        for j in range(count):
            for k in range(terms):
                points[k, j] = column[order[j], k] / largest
        is_kept = np.zeros(count, np.bool_)
        _filter(points, count, delta, is_kept)
        for j in range(count):
            kept[b, order[j]] = is_kept[j]
