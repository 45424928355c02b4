"""SD-SSM: the dense relative, which tracks any automaton at a cost of N^3 a joint."""

from __future__ import annotations

from typing import Unpack

from pdssm.generators import SDGenerator
from pdssm.layers.recurrence import LinearRecurrence, RecurrenceOptions


class SDSSM(LinearRecurrence):
    """A(u) = softly selected dense matrices with L_p-normalised columns; real states.  Arguments as of ``PDSSM``."""

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        dictionary_size: int = 6,
        *,
        p: float = 0.9,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        super().__init__(SDGenerator(dim, dim if state_dim is None else state_dim, dictionary_size, p), **options)
