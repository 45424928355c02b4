"""S5: one time-invariant diagonal state space for all channels."""

from __future__ import annotations

from typing import ClassVar, Unpack

from pdssm.generators.s5 import S5Generator
from pdssm.layers.recurrence import DEFAULTS, LinearRecurrence, RecurrenceOptions


class S5(LinearRecurrence):
    """A = exp(dt poles), which no input changes.  Arguments as of ``PDSSM`` and ``S5Generator``."""

    defaults: ClassVar[RecurrenceOptions] = {**DEFAULTS, "initial_state": "zero", "bias": False}

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        *,
        blocks: int = 1,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        super().__init__(S5Generator(dim, state_dim, blocks, dt_min, dt_max), **options)
