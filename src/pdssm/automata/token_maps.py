"""The maps x -> A_s x + b_s of a PD-SSM layer's tokens, and how far float32 may move them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdssm.automata.permutation_group import IntArray
from pdssm.automata.rounding import (
    ULPS,
    UNIT,
    Ball,
    Floats,
    between,
    gamma,
    linear,
    mlp,
    point,
    sigmoid,
    softmax,
)
from pdssm.generators import GivenPDGenerator, PDGenerator
from pdssm.generators.entries import DiagonalEntries

Complex = NDArray[np.complex128]

# From here on float32's sigmoid is exactly 1, and the square of its distance from 1 vanishes beside 1.
SATURATED = {"sigmoid": 20.0, "near_one": 10.0}
# exp of the opposite overflows, so float32's sigmoid is exactly 0.
VANISHED = -105.0
NEGLIGIBLE = 1e-30


class TokenMaps(NamedTuple):
    """(A_s x)[target[s, j]] gets diag[s, j] x[source[s, j]]; b_s is inputs[s]."""

    target: IntArray
    source: IntArray
    diag: Complex
    diag_error: Floats
    inputs: Complex
    inputs_error: Floats
    near_ties: int
    """Columns of P that other machines may select otherwise: none, and the proof holds on all of them."""


def token_maps(generator: PDGenerator | GivenPDGenerator, actual: Tensor, u: Ball) -> TokenMaps:
    """Of the generator's inputs ``(tokens, dim)``: what they are here, and where they are on any machine."""
    diag, diag_error = _entries(generator.entries, u)
    parts = linear(u, generator.inputs.linear.weight, None)
    inputs = np.ascontiguousarray(parts.centre).view(np.complex128)
    inputs_error = np.hypot(parts.radius[:, 0::2], parts.radius[:, 1::2])
    index, own = _index(generator, actual), np.broadcast_to(np.arange(generator.state_dim), diag.shape)
    target, source = (index, own) if generator.orientation == "column" else (own, index)
    ties = _near_ties(generator, u, index) if isinstance(generator, PDGenerator) else 0
    return TokenMaps(target, source, diag, diag_error, inputs, inputs_error, ties)


# ---------------------------------------------------------------------------------------------------- the diagonal


def _entries(entries: DiagonalEntries, u: Ball) -> tuple[Complex, Floats]:
    size = _magnitude(mlp(u, entries.magnitude), entries.magnitude_kind)
    if entries.phase is None:
        return size.centre.astype(np.complex128), size.radius
    angle = _angle(mlp(u, entries.phase), entries.phase_kind)
    straight = (angle.centre == 0) & (angle.radius == 0)  # then cosine and sine are 1 and 0
    turned = size.radius + size.size * (angle.radius + ULPS * UNIT * (1 + np.abs(angle.centre)))
    return size.centre * np.exp(1j * angle.centre), np.where(straight, size.radius, turned)


def _magnitude(m: Ball, kind: str) -> Ball:
    least, most = m.centre - m.radius, m.centre + m.radius
    if kind == "sigmoid":
        low, high = sigmoid(least), sigmoid(most)
    else:
        low, high = (sigmoid(x) * (1 + sigmoid(-x)) for x in (least, most))
    # No formula of |D| in float32 gives more than 1.
    ball = between(low * (1 - ULPS * UNIT), np.minimum(high * (1 + ULPS * UNIT), 1.0))
    saturated = least > SATURATED[kind]
    return Ball(np.where(saturated, 1.0, ball.centre), np.where(saturated, 0.0, ball.radius))


def _angle(p: Ball, kind: str) -> Ball:
    least, most = p.centre - p.radius, p.centre + p.radius
    if kind == "sigmoid":
        low, high, exact = 2 * math.pi * sigmoid(least), 2 * math.pi * sigmoid(most), most < VANISHED
    else:
        shrunk = [np.sign(x) * np.maximum(np.abs(x) - 1, 0) for x in (least, most)]
        low, high, exact = math.pi * np.tanh(shrunk[0]), math.pi * np.tanh(shrunk[1]), (least > -1) & (most < 1)
    ball = between(low, high)
    radius = ball.radius + ULPS * UNIT * ball.size
    return Ball(np.where(exact, 0.0, ball.centre), np.where(exact, 0.0, radius))


# --------------------------------------------------------------------------------------------------- the selection


def _index(generator: PDGenerator | GivenPDGenerator, u: Tensor) -> IntArray:
    """(tokens, N): the row of each column's one (row form: the column of each row's), as this machine selects it.

    The selection is made so that it comes to the same bits for one token as for a thousand.
    """
    if isinstance(generator, GivenPDGenerator):
        return np.broadcast_to(generator.index.numpy().astype(np.int64), (len(u), generator.state_dim))
    return generator.select(u).index.cpu().numpy().astype(np.int64)


def _near_ties(generator: PDGenerator, u: Ball, index: IntArray) -> int:
    """How many columns have another row that float32's rounding could make the greatest.

    Equal rows tie everywhere, and the first wins: they do not count.
    """
    scores = softmax(linear(u, generator.selector.weight, None))
    dictionary = generator.dictionary.detach().cpu()
    by_columns = dictionary if generator.orientation == "column" else dictionary.transpose(1, 2)
    negligible = NEGLIGIBLE * len(dictionary) * (1 + float(dictionary.abs().max()))
    return sum(
        _rivalled(by_columns, negligible, weights, errors, best)
        for weights, errors, best in zip(scores.centre, scores.radius, index, strict=True)
    )


def _rivalled(dictionary: Tensor, negligible: float, weights: Floats, errors: Floats, best: IntArray) -> int:
    """Of one token: the columns whose best row has a rival."""
    chosen = np.flatnonzero(weights + errors > NEGLIGIBLE)
    matrices = point(dictionary[torch.from_numpy(chosen)]).centre
    logits = np.tensordot(weights[chosen], matrices, 1)
    error = np.tensordot(weights[chosen] * gamma(len(weights) + 2) + errors[chosen], np.abs(matrices), 1)
    error += negligible
    columns = np.arange(logits.shape[1])
    rivals = logits + error >= (logits - error)[best, columns]
    rivals[best, columns] = False
    row, column = np.nonzero(rivals)
    equal = (dictionary[:, row, column] == dictionary[:, best[column], column]).all(0).numpy()
    return len(np.unique(column[~equal]))
