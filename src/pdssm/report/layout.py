"""Where the states of an automaton are drawn: as far from one another as the steps between them (least stress).

Stress majorisation (Gansner, Koren and North, 2004): minimise the sum over pairs of w_ij (|x_i - x_j| - d_ij)^2 with d
the number of edges between two states, either way along them, and w = d^-2.  Deterministic: no random start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdssm.automata import DFA

FloatArray = NDArray[np.float64]
ROUNDS = 300
MANY = 80
"""With more states, only one start is tried."""
NEAREST = 0.7
ROUND = 1.2
"""As long as wide, up to this factor."""


def layout(dfa: DFA) -> FloatArray:
    """(states, 2), the distance between neighbours about 1, the initial state on the left."""
    states = len(dfa)
    if states == 1:
        return np.zeros((1, 2))
    distance = distances(dfa)
    tried = ((0, 1), (0, 2), (1, 2)) if states <= MANY else ((0, 1),)
    starts = (_spectral(distance, axes) for axes in tried if max(axes) < max(2, states - 1))
    found = [_majorised(start, distance) for start in (*starts, *([_circle(states)] if states <= MANY else []))]
    best = min(found, key=lambda places: round(stress(places, distance), 6))
    return _turned(_cleared(best), dfa.initial)


def distances(dfa: DFA) -> FloatArray:
    """(states, states): steps between them, edges taken either way; two of no connection are one further than any."""
    states = len(dfa)
    near = np.eye(states, dtype=bool)
    near[np.arange(states)[:, None], dfa.transitions] = True
    near |= near.T
    steps = np.full((states, states), -1.0)
    reached, count = np.eye(states, dtype=bool), 0
    while (fresh := reached & (steps < 0)).any():
        steps[fresh] = count
        reached, count = (reached.astype(np.float32) @ near.astype(np.float32)) > 0, count + 1
    steps[steps < 0] = count
    return steps


def stress(places: FloatArray, distance: FloatArray) -> float:
    """What is minimised."""
    upper = np.triu_indices(len(places), 1)
    apart = np.linalg.norm(places[upper[0]] - places[upper[1]], axis=-1)
    return float(np.sum((apart / distance[upper] - 1) ** 2))


def _spectral(distance: FloatArray, axes: tuple[int, int]) -> FloatArray:
    """Classical scaling, on two of the leading axes."""
    squared = distance**2
    centred = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    chosen = [len(values) - 1 - axis for axis in axes]
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(0), np.arange(len(values))] < 0, -1, 1)
    places = vectors[:, chosen] * np.sqrt(np.maximum(values[chosen], 1e-3))
    return np.asarray(places + 1e-3 * _circle(len(distance)))  # no two in one place


def _circle(states: int) -> FloatArray:
    turn = 2 * np.pi * np.arange(states) / states
    return np.stack([-np.cos(turn), -np.sin(turn)], axis=1) * max(1.0, states / 7)


def _majorised(places: FloatArray, distance: FloatArray) -> FloatArray:
    """Each round solves the quadratic that bounds the stress from above and touches it here."""
    safe = distance + np.eye(len(distance))
    weights = safe**-2 - np.eye(len(distance))
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(ROUNDS):
        apart = np.linalg.norm(places[:, None] - places, axis=-1)
        pull = weights * distance / np.maximum(apart, 1e-9)
        before, places = places, inverse @ (pull.sum(1)[:, None] * places - pull @ places)
        if np.abs(places - before).max() < 1e-5:
            break
    return places


def _cleared(places: FloatArray) -> FloatArray:
    """States nearer than ``NEAREST`` pushed apart, each by half of what is missing."""
    for _ in range(ROUNDS):
        way = places[:, None] - places
        apart = np.linalg.norm(way, axis=-1) + 2 * NEAREST * np.eye(len(places))
        missing = np.maximum(NEAREST - apart, 0)
        if missing.max() < 1e-3:
            break
        places = places + (way * (missing / np.maximum(apart, 1e-9) / 2)[..., None]).sum(1)
    return places


def _turned(places: FloatArray, initial: int) -> FloatArray:
    """The initial state on the left: a round drawing is turned for that, a long one lies along x and is mirrored."""
    places = places - places.mean(0)
    _, spread, axes = np.linalg.svd(places, full_matrices=False)
    x, y = places[initial]
    if spread[0] < ROUND * spread[1] and np.hypot(x, y) > 1e-6:
        return np.asarray(places @ np.array([[-x, -y], [-y, x]]) / np.hypot(x, y))
    places = places @ axes.T
    x, y = places[initial]
    return np.asarray(places * [-1 if x > 1e-6 else 1, -1 if y > 1e-6 else 1])
