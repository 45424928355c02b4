"""Sets of states as products of discs, what a token makes of them, and whether the readout is right on them.

A disc in each component: complex multiplication turns a disc into a disc, and a one-hot P sends several of them to
their sum. The radii bound float32's rounding too; where nothing can be rounded (a single term, taken as it is or
times a power of i) they stay exactly 0, so that a compiled automaton's one-hot states are enclosed by themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdssm.automata.affine import AffineModel
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.rounding import TINY, ULPS, UNIT, Floats, gamma, layer_norm
from pdssm.automata.token_maps import Complex, TokenMaps


class Discs(NamedTuple):
    """Sets of states, one a row: component j within ``radius[:, j]`` of ``centre[:, j]``."""

    centre: Complex
    radius: Floats

    def take(self, rows: IntArray) -> Discs:
        """Some of them."""
        return Discs(self.centre[rows], self.radius[rows])


def image(maps: TokenMaps, token: int, discs: Discs) -> Discs:
    """Discs that hold A_s x + b_s as float32 computes it, for every x in ``discs``."""
    order = np.argsort(maps.target[token], kind="stable")
    rows, starts = np.unique(maps.target[token][order], return_index=True)
    diag, error = maps.diag[token][order], maps.diag_error[token][order]
    source = maps.source[token][order]
    x, r = discs.centre[:, source], discs.radius[:, source]
    size = np.abs(x) + r

    def summed(terms: NDArray[Any]) -> NDArray[Any]:
        total = np.zeros(discs.centre.shape, dtype=terms.dtype)
        total[:, rows] = np.add.reduceat(terms, starts, axis=1)
        return total

    own, own_error = maps.inputs[token], maps.inputs_error[token]
    spread = summed(np.abs(diag) * r + error * size) + own_error
    terms = summed((np.abs(diag) + error) * size) + (np.abs(own) + own_error)
    acting = (size > 0) & ((diag != 0) | (error > 0))
    taken = np.isin(diag, (1, -1, 1j, -1j)) & (error == 0)
    count = summed(acting.astype(float)) + ((own != 0) | (own_error > 0))
    exact = (count <= 1) & (summed((acting & ~taken).astype(float)) == 0)
    rounding = np.where(exact, 0.0, gamma(2 * (count + 4)) * terms + TINY * count)
    return Discs(summed(diag * x) + own, spread + rounding)


def margins(model: AffineModel, discs: Discs, offset: int, label: IntArray) -> tuple[Floats, IntArray]:
    """Lower bounds of how far the logit of ``label`` is above every other, and the nearest other.

    ``offset`` is the token whose skip and residual are added.
    """
    constant = model.offset[offset]
    centre = (discs.centre @ model.readout.T).real + constant
    weights = np.abs(model.readout)
    spread = discs.radius @ weights.T
    terms = (np.abs(discs.centre) + discs.radius) @ weights.T + model.offset_size[offset]
    rounded = gamma(2 * weights.shape[1] + 8) * terms + model.offset_error[offset] + TINY * weights.shape[1]
    low, high, tilt, bias, error = _after_norm(model, discs, centre, np.abs(centre) + spread, rounded)
    lead = np.full((len(label), len(model.head)), np.inf)
    heights, directions = centre @ tilt.T, tilt @ model.readout
    for own in np.unique(label):
        at = np.flatnonzero(label == own)
        least = heights[at, own, None] - heights[at]
        if discs.radius[at].any():
            least = least - discs.radius[at] @ np.abs(directions[own] - directions).T
        # Over a standard deviation between low and high.
        scaled = np.where(least > 0, least / high[at, None], least / low[at, None])
        lead[at] = scaled + (bias[own] - bias) - error[at, own, None] - error[at]
        lead[at, own] = np.inf
    nearest = lead.argmin(1)
    return lead[np.arange(len(label)), nearest], nearest


def _after_norm(
    model: AffineModel, discs: Discs, centre: Floats, size: Floats, rounded: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Logits = (tilt y) / deviation + bias: the bounds of the deviation, tilt, bias, and each logit's rounding."""
    head, count, ones = np.abs(model.head), model.head.shape[1], np.ones(len(centre))
    if model.norm is None:
        values, low, high, tilt, bias = size, ones, ones, model.head, model.head_bias
    else:
        gain, shift, eps = model.norm
        apart = centre - centre.mean(1, keepdims=True)
        middle = np.sqrt((apart**2).mean(1) + eps)
        columns = model.readout - model.readout.mean(0)
        moved = discs.radius @ np.sqrt((np.abs(columns) ** 2).mean(0))
        low, high = np.maximum(middle - moved, np.sqrt(eps)) * (1 - ULPS * UNIT), (middle + moved) * (1 + ULPS * UNIT)
        tilted = model.head * gain
        tilt, bias = tilted - tilted.mean(1, keepdims=True), model.head @ shift + model.head_bias
        values = np.broadcast_to(np.abs(gain) * np.sqrt(count) + np.abs(shift), size.shape)
        rounded = layer_norm(size, rounded, low, gain, shift)
    with np.errstate(invalid="ignore"):
        error = rounded @ head.T + gamma(count + 2) * ((values + rounded) @ head.T + np.abs(model.head_bias)) + TINY
    return low, high, tilt, bias, np.where(np.isnan(error), np.inf, error)
