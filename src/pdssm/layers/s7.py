"""S7: a real diagonal recurrence that depends on the input."""

from __future__ import annotations

from typing import ClassVar, Unpack

from pdssm.generators.s7 import S7Generator
from pdssm.layers.recurrence import DEFAULTS, LinearRecurrence, RecurrenceOptions


class S7(LinearRecurrence):
    """A(u) = 1 - 1 / (l(u)^2 + 1/2), inputs B(u) u + b(u); real states.  Arguments as of ``PDSSM``."""

    defaults: ClassVar[RecurrenceOptions] = {**DEFAULTS, "initial_state": "zero"}

    def __init__(self, dim: int, state_dim: int | None = None, **options: Unpack[RecurrenceOptions]) -> None:
        super().__init__(S7Generator(dim, dim if state_dim is None else state_dim), **options)
