"""The PD-SSM layer."""

from __future__ import annotations

from pdssm.generators import PDGenerator
from pdssm.generators.base import Start
from pdssm.layers.base import LinearRecurrence


class PDSSM(LinearRecurrence):
    """The paper's layer: A(u) = P(u) D(u), linear readout.

    ``start="long"`` begins with |D| near 1 and phases near 0, so that gradients reach far back from the first
    step; ``start="paper"`` as published.
    """

    def __init__(self, dim: int, state_dim: int, dictionary_size: int = 6, *, start: Start = "long") -> None:
        super().__init__(PDGenerator(dim, state_dim, dictionary_size, start))
