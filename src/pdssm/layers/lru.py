"""LRU: the time-invariant linear recurrent unit."""

from __future__ import annotations

import math
from typing import ClassVar, Unpack

from pdssm.generators.lru import LRUGenerator
from pdssm.layers.recurrence import DEFAULTS, LinearRecurrence, RecurrenceOptions


class LRU(LinearRecurrence):
    """A = exp(-exp(nu) + i exp(theta)), which no input changes.  Arguments as of ``PDSSM`` and ``LRUGenerator``."""

    defaults: ClassVar[RecurrenceOptions] = {**DEFAULTS, "initial_state": "zero", "bias": False}

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        super().__init__(LRUGenerator(dim, state_dim, r_min, r_max, max_phase), **options)
