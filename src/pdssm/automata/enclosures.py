"""Sets of states as products of discs, what a token makes of them, and whether the readout is right on them.

A disc in each component: complex multiplication turns a disc into a disc, and a one-hot P sends several of them to
their sum.

Rounding. A state is a sum of terms, each an input b (or x_0) times the entries of D that it has passed. Whatever order
the recurrence is computed in, step by step or by products of maps joined in a tree, a term is multiplied once by each
entry and added to at most N others for each step that it is carried on; and to N others at each level of the tree. So
a step may change it by ``step_loss`` of its size, and its beginning by ``birth_loss``, where ``sizes`` bounds the sum
of all terms' sizes. Where a component has one term at most, which is only copied, or multiplied by a power of i, there
is nothing to round in any order: such states are followed exactly (``copied``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdssm.automata.affine import AffineModel
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.rounding import LEVELS, TINY, ULPS, UNIT, Floats, gamma, layer_norm
from pdssm.automata.token_maps import Complex, TokenMaps


class Discs(NamedTuple):
    """Sets of states, one a row: component j within ``radius[:, j]`` of ``centre[:, j]``."""

    centre: Complex
    radius: Floats

    def take(self, rows: IntArray) -> Discs:
        """Some of them."""
        return Discs(self.centre[rows], self.radius[rows])


class Arriving:
    """What one token sends where: the entries of A, sorted by the component that they reach."""

    def __init__(self, maps: TokenMaps, token: int) -> None:
        order = np.argsort(maps.target[token], kind="stable")
        self.rows, self.starts = np.unique(maps.target[token][order], return_index=True)
        self.diag, self.error = maps.diag[token][order], maps.diag_error[token][order]
        self.source = maps.source[token][order]
        self.inputs, self.inputs_error = maps.inputs[token], maps.inputs_error[token]

    def summed(self, terms: NDArray[Any]) -> NDArray[Any]:
        """By the component reached."""
        total = np.zeros(terms.shape, dtype=terms.dtype)
        total[:, self.rows] = np.add.reduceat(terms, self.starts, axis=1)
        return total

    def sizes(self, sizes: Floats) -> Floats:
        """The sums of the sizes of all terms, after this token."""
        grown = self.summed((np.abs(self.diag) + self.error) * sizes[:, self.source])
        return np.asarray(grown + np.abs(self.inputs) + self.inputs_error)


def step_loss(size: int) -> float:
    """Of a term's size, in one step: a complex product, and as many sums as there are components."""
    return float(gamma(size + 4))


def birth_loss(size: int) -> float:
    """Of a term's size, once."""
    return float(np.expm1(gamma(LEVELS * (size + 1))))


def image(maps: TokenMaps, token: int, discs: Discs, sizes: Floats) -> Discs:
    """Discs that hold A_s x + b_s as float32 computes it, for every x in ``discs`` whose terms are within ``sizes``."""
    way, count = Arriving(maps, token), discs.centre.shape[1]
    x, r, step, birth = discs.centre[:, way.source], discs.radius[:, way.source], step_loss(count), birth_loss(count)
    carried = way.summed((np.abs(way.diag) + way.error) * (r * (1 + step) + sizes[:, way.source] * step))
    unsure = way.summed(way.error * np.abs(x)) + way.inputs_error
    begun = birth * (np.abs(way.inputs) + way.inputs_error) + TINY * count * (1 + sizes.max(1, keepdims=True))
    return Discs(way.summed(way.diag * x) + way.inputs, carried + unsure + begun)


def copied(maps: TokenMaps, token: int, points: Complex) -> tuple[Complex, bool]:
    """A_s x + b_s, and whether nothing can be rounded there."""
    way = Arriving(maps, token)
    x = points[:, way.source]
    acting = (x != 0) & ((way.diag != 0) | (way.error > 0))
    turned = np.isin(way.diag, (1, -1, 1j, -1j)) & (way.error == 0)
    alone = way.summed(acting.astype(float)) + ((way.inputs != 0) | (way.inputs_error > 0)) <= 1
    known = bool((way.inputs_error == 0).all() and not (acting & ~turned).any())
    return np.asarray(way.summed(way.diag * x) + way.inputs), known and bool(alone.all())


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
