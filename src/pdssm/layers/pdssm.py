"""The PD-SSM layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor

from pdssm.errors import ShapeError
from pdssm.generators import GivenPDGenerator, PDGenerator
from pdssm.generators.base import Init
from pdssm.generators.entries import Magnitude, Phase
from pdssm.generators.pd import Orientation
from pdssm.layers.base import Layout, make_layout
from pdssm.layers.recurrence import LinearRecurrence, RecurrenceOptions


@dataclass(frozen=True)
class Inspection:
    """What a layer did at each step of ``(batch, time)``."""

    index: Tensor
    """(batch, time, N): column j of P has its one in row index[j] (row form: row i in column index[i])."""
    diag: Tensor
    """(batch, time, N): D."""
    weights: Tensor
    """(batch, time, K): s, the weights of the dictionary's matrices."""
    inputs: Tensor
    """(batch, time, N): b."""
    states: Tensor
    """(batch, time, N): x."""
    outputs: Tensor
    """(batch, time, dim): y."""


class PDSSM(LinearRecurrence):
    """The paper's layer: A(u) = P(u) D(u), P selected from ``dictionary_size`` matrices.

    Parameters
    ----------
    dim, state_dim
        Width D of inputs and outputs, and size N of the complex state (D by default).
    dictionary_size
        K matrices that P is selected from.
    orientation
        ``"column"`` one-hot P, A = P D (the paper's), or ``"row"``, A = D P (the published PyTorch code's).
    hidden_dim
        Hidden units of the two networks behind D: N by default, as the paper counts; its PyTorch code has 2 N.
    init
        ``"long"`` begins with |D| near 1 and phases near 0, so that gradients reach far back from the first step;
        ``"paper"`` as published.
    magnitude, phase
        How |D| and the phases come from their networks: ``generators/entries.py`` has the formulas and the reasons.
    temperature, stochastic, dense_inference
        Of the surrogate gradient; Gumbel noise on P's logits; softmax instead of hardmax in evaluation.
    options
        ``readout``, ``skip``, ``initial_state``, ``conv``, ``dropout``, ``bias``: as in ``RecurrenceOptions``.
    """

    generator: PDGenerator

    def __init__(
        self,
        dim: int,
        state_dim: int | None = None,
        dictionary_size: int = 6,
        *,
        orientation: Orientation = "column",
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
        temperature: float = 1.0,
        stochastic: bool = False,
        dense_inference: bool = False,
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        state_dim = dim if state_dim is None else state_dim
        generator = PDGenerator(
            dim, state_dim, dictionary_size, hidden_dim, init, magnitude, phase, orientation, temperature,
            stochastic, dense_inference,
        )  # fmt: skip
        super().__init__(generator, **options)

    @torch.no_grad()
    def inspect(self, x: Tensor) -> Inspection:
        """What happens inside at each step of x ``(batch, time, dim)``, for plots and debugging."""
        layout = make_layout(*self._check_input(x, None), None, None, x.device)
        u, state = layout.pack(x), self.initial_state(layout.sequences)
        recurrent, window = self._split("initial_state", state, layout.sequences)
        if self.conv is not None:
            assert window is not None
            u, _ = self.conv(u, window, layout.cu_seqlens)
        u = layout.unpack(u)
        selected = self.generator.select(u)
        inputs = self.generator.inputs(u)
        states, _ = self._scan(self.generator.realised(selected), inputs, recurrent, layout, None)
        outputs = layout.unpack(self._output(states, self._own_inputs(layout.pack(x), None, None)))
        return Inspection(selected.index, selected.diag, selected.scores, inputs, layout.unpack(states), outputs)


class GivenPDSSM(LinearRecurrence):
    """PD-SSM with P given from outside: ``index`` ``(N,)`` or ``(time, N)``; everything else is learnt.

    Other arguments as of ``PDSSM``.
    """

    generator: GivenPDGenerator

    def __init__(
        self,
        dim: int,
        state_dim: int,
        index: Tensor,
        *,
        orientation: Orientation = "column",
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
        **options: Unpack[RecurrenceOptions],
    ) -> None:
        generator = GivenPDGenerator(dim, state_dim, index, hidden_dim, init, magnitude, phase, orientation)
        super().__init__(generator, **options)

    def mix(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Any]:
        if self.generator.index.ndim > 1 and not layout.even:
            raise ShapeError(
                f"index has shape {tuple(self.generator.index.shape)}, one map a step; expected (N,) with mask or "
                "cu_seqlens, whose steps have no common time"
            )
        return super().mix(x, state, layout, rows, positions)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        if self.generator.index.ndim > 1:
            raise ShapeError(
                f"index has shape {tuple(self.generator.index.shape)}, one map a step; expected (N,) for step, which "
                "does not know the time"
            )
        return super().step(x, state)
