"""Least fixed points of growing radii."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdssm.automata.rounding import Floats

ROUNDS, STEPS = 100, 16
"""Rounds of so many steps; after each the radii are tested."""
STEADY, PATIENCE = 0.999, 4
"""Growth that in so many rounds fell by less than this is taken for growth without end."""
WIDER = 1e-3
"""By this part radii are widened before they are tested: a fixed point is only approached."""


def close(start: Floats, grow: Callable[[Floats], Floats], fails: Callable[[Floats], bool]) -> tuple[Floats, bool]:
    """Radii with ``grow(radii) <= radii``, the least but for a little, and whether they were found.

    ``grow`` is monotone and nearly linear. Radii on which ``fails`` are given up: so are all larger ones.
    """
    radius, growth, steady = start, np.inf, 0
    for _ in range(ROUNDS):
        before = radius
        for _ in range(STEPS):
            radius = np.maximum(radius, grow(radius))
        if fails(radius):
            break
        added = float((radius - before).max())
        rate, growth = added / growth, added
        # What is still to come, as far as the growth is a geometric series.
        wider = (radius + (radius - before) * (rate / (1 - rate) if rate < 1 else 0)) * (1 + WIDER)
        if (grow(wider) <= wider).all():
            if not fails(wider):
                return wider, True
            if added == 0:
                break
        steady = steady + 1 if rate > STEADY else 0
        if steady == PATIENCE or not 0 < added < np.inf:
            break
    return radius, False
