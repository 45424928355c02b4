"""What float32 may make of a layer: a value and how far any order of summation, fused or not, can be from it.

A ``Ball`` holds every number within ``radius`` of ``centre``. Each function here takes balls that hold the inputs of a
float32 computation and returns one that holds its result on any machine, where

- a sum of n products is off by at most ``gamma(n)`` of the sum of their sizes, in any order, with fused
  multiply-adds or without;
- exp, tanh, erf, the sigmoid, GELU, sine and cosine are off by at most ``ULPS`` units in the last place of their
  largest term, and a sigmoid whose exponential vanishes beside 1 is exactly 1;
- sums of whole numbers below 2^24 are exact.

Our own arithmetic is float64: its errors are 2^-29 of the above, and the bounds are wide enough for both.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

UNIT = 2.0**-24
"""Half a unit in the last place of 1, in float32."""
TINY = 2.0**-125
"""What a result below the normal numbers may lose."""
ULPS = 8
GELU_SLOPE = 1.13
LEVELS = 64
"""Of a scan in the order of a tree: enough for 2^64 steps."""
EXACT_BELOW = 2.0**24


class Ball(NamedTuple):
    """All numbers within ``radius`` of ``centre``, entry by entry."""

    centre: Floats
    radius: Floats

    @property
    def size(self) -> Floats:
        """The largest absolute value."""
        return np.abs(self.centre) + self.radius


def point(values: Tensor) -> Ball:
    """Numbers known exactly."""
    centre = values.detach().cpu().double().numpy()
    return Ball(centre, np.zeros_like(centre))


def gamma(terms: Any) -> Any:
    """n roundings in a row change a number by at most this part of it."""
    return 1.01 * terms * UNIT


def whole(*arrays: Floats) -> bool:
    """Whether all entries are whole numbers."""
    return all(bool((array == np.rint(array)).all()) for array in arrays)


def linear(x: Ball, weight: Tensor, bias: Tensor | None) -> Ball:
    """x W^T + c for x ``(rows, inputs)``."""
    w = point(weight).centre
    c = np.zeros(len(w)) if bias is None else point(bias).centre
    terms = x.size @ np.abs(w).T + np.abs(c)
    spread = x.radius @ np.abs(w).T
    if not spread.any() and whole(w, c, x.centre) and terms.max(initial=0.0) < EXACT_BELOW:
        return Ball(x.centre @ w.T + c, spread)
    rounding = np.where(terms > 0, gamma(w.shape[1] + 2) * terms + TINY * w.shape[1], 0.0)
    return Ball(x.centre @ w.T + c, spread * (1 + UNIT) + rounding)


def gelu(x: Ball) -> Ball:
    """x Phi(x)."""
    phi = np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2.0)), otypes=[float])
    centre = x.centre * (phi(x.centre) if x.centre.size else 1.0)
    rounding = np.where(x.size > 0, ULPS * UNIT * x.size + TINY, 0.0)
    return Ball(centre, GELU_SLOPE * x.radius + rounding)


def mlp(x: Ball, network: Any) -> Ball:
    """Linear, GELU, linear."""
    hidden = gelu(linear(x, network[0].weight, network[0].bias))
    return linear(hidden, network[2].weight, network[2].bias)


def between(low: Floats, high: Floats) -> Ball:
    """The ball around an interval."""
    centre = (low + high) / 2
    return Ball(centre, np.maximum(high - centre, centre - low))


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)) in float64, small values with all their digits."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def softmax(x: Ball) -> Ball:
    """Over the last axis; each weight by the two corners of the ball at which it is least and greatest."""
    exps = np.exp(x.centre - x.centre.max(-1, keepdims=True))
    weights = exps / exps.sum(-1, keepdims=True)
    factor = np.expm1(2 * x.radius.max(-1, keepdims=True)) + gamma(x.centre.shape[-1] + 4 * ULPS)
    # The argument of exp is rounded too: by a unit of its own size.
    factor = factor + gamma(4) * np.abs(x.centre - x.centre.max(-1, keepdims=True))
    return Ball(weights, weights * np.minimum(factor, 1e6) + TINY)


def layer_norm(size: Floats, error: Floats, deviation: Floats, gain: Floats, bias: Floats) -> Floats:
    """How far LayerNorm's result in float32 can be from that of its exact input.

    ``size`` ``(rows, D)`` bounds the exact input's entries, ``error`` what has been rounded before, and ``deviation``
    ``(rows,)`` is a lower bound of sqrt(variance + eps). Holds for every formula of the variance, that by the mean of
    the squares too. Infinite where the variance may vanish beside the rounding.
    """
    count = size.shape[-1]
    shift = error.mean(-1) + gamma(count + 2) * (size + error).mean(-1)  # the mean's
    moved = np.sqrt((error**2).mean(-1))
    least = deviation - moved
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = gamma(2 * count + 16) * ((size + error) ** 2).mean(-1)  # the variance's
        off = moved + squares / least
        scale = np.where((least > 0) & (off < deviation / 2), off / (deviation - off) + ULPS * UNIT, np.inf)
        apart = size + size.mean(-1, keepdims=True)
        inner = ((error + shift[..., None]) * (1 + scale[..., None]) + apart * scale[..., None]) / deviation[..., None]
        inner = inner + 4 * UNIT * (apart / deviation[..., None] + inner)
        total = np.abs(gain) * inner + 2 * UNIT * np.abs(bias) + TINY
    return np.asarray(np.where(np.isnan(total), np.inf, total))


def torch_norm(x: Ball, norm: torch.nn.LayerNorm) -> Ball:
    """LayerNorm of numbers known up to a ball."""
    gain, bias = point(norm.weight).centre, point(norm.bias).centre
    apart = x.centre - x.centre.mean(-1, keepdims=True)
    deviation = np.sqrt((apart**2).mean(-1) + norm.eps) * (1 - 1e-12)
    centre = apart / deviation[:, None] * gain + bias
    return Ball(centre, layer_norm(np.abs(x.centre), x.radius, deviation, gain, bias))
