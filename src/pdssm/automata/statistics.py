"""What so many words without, or with so few, disagreements say about all words: exact binomial intervals."""

from __future__ import annotations

import math

import numpy as np

from pdssm.errors import RangeError


def check_confidence(name: str, value: float) -> None:
    """A probability strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise RangeError(f"{name} is {value!r}; expected a probability, above 0 and below 1")


def clopper_pearson(found: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact two-sided interval of a probability that showed ``found`` times in ``trials``."""
    tail = (1 - confidence) / 2
    low = 0.0 if found == 0 else 1 - _upper(trials - found, trials, tail)
    return low, _upper(found, trials, tail)


def upper_bound(found: int, trials: int, confidence: float) -> float:
    """The exact one-sided bound: with this confidence the probability is no larger."""
    return _upper(found, trials, 1 - confidence)


def words_needed(error: float, confidence: float) -> int:
    """How many random words without a disagreement show, with this confidence, that they are rarer than ``error``."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-error))


def _upper(found: int, trials: int, tail: float) -> float:
    """p with P(at most ``found`` of ``trials``) = tail, found by bisection and rounded up."""
    if not 0 <= found <= trials or trials < 1:
        raise RangeError(f"found is {found} of {trials} trials; expected 0..trials of at least one")
    if found == trials:
        return 1.0
    if found == 0:
        return -math.expm1(math.log(tail) / trials)
    k = np.arange(found + 1)
    choose = math.lgamma(trials + 1) - np.array([math.lgamma(i + 1) + math.lgamma(trials - i + 1) for i in k.tolist()])
    low, high = found / trials, 1.0
    while high - low > 1e-12 * high:
        p = (low + high) / 2
        logs = choose + k * math.log(p) + (trials - k) * math.log1p(-p)
        below = float(np.exp(logs - logs.max()).sum()) * math.exp(float(logs.max())) > tail if p < 1 else False
        low, high = (p, high) if below else (low, p)
    return high
