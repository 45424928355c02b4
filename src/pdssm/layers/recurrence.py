"""A linear recurrence as a mixer: (convolution ->) generator -> scan -> readout."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, TypedDict, Unpack

import torch
from torch import Tensor, nn

from pdssm.errors import DtypeError, ShapeError, check_choice, check_fraction, check_size
from pdssm.generators import Generator
from pdssm.generators.base import full_precision, state_precision
from pdssm.layers.base import Layout, Mixer
from pdssm.layers.conv import ShortConvolution
from pdssm.layers.readout import Readout, ReadoutKind
from pdssm.scanning import scan
from pdssm.transitions import Transition

InitialState = Literal["first", "zero", "learned"]


class ConvState(NamedTuple):
    """The state of a layer with a convolution."""

    recurrent: Tensor
    """(sequences, N)."""
    window: Tensor
    """(sequences, width - 1, dim): the last inputs, the oldest first."""


class RecurrenceOptions(TypedDict, total=False):
    """What every linear recurrence can be told, whatever its transitions."""

    readout: ReadoutKind
    """``"linear"`` (the default), ``"mlp"`` or ``"real"``: see ``Readout``."""
    skip: bool
    """Whether to add d * u (true by default)."""
    initial_state: InitialState
    """x_0: the ``"first"`` unit vector (the default), ``"zero"``, or ``"learned"``."""
    conv: int
    """Width of a short causal convolution before the generator; 0, the default, for none."""
    dropout: float
    """On the states, before the readout; 0 by default."""
    bias: bool
    """Whether the readout has one (true by default)."""


DEFAULTS: RecurrenceOptions = {
    "readout": "linear", "skip": True, "initial_state": "first", "conv": 0, "dropout": 0.0, "bias": True
}  # fmt: skip


class LinearRecurrence(Mixer):
    """y_t = psi(x_t) + d * u_t with x_t = A(u_t) x_{t-1} + b(u_t); options as in ``RecurrenceOptions``."""

    defaults: ClassVar[RecurrenceOptions] = DEFAULTS
    """Of the options that this mixer has; a subclass may leave out what makes no sense for it."""

    def __init__(self, generator: Generator, **options: Unpack[RecurrenceOptions]) -> None:
        super().__init__(generator.dim)
        for name in options:
            check_choice(f"option of {type(self).__name__}", name, self.defaults)
        chosen: RecurrenceOptions = {**self.defaults, **options}
        check_choice("initial_state", chosen["initial_state"], ("first", "zero", "learned"))
        check_size("conv", chosen["conv"], 0)
        check_fraction("dropout", chosen["dropout"])
        self.state_dim, self.start = generator.state_dim, chosen["initial_state"]
        self.conv = ShortConvolution(self.dim, chosen["conv"]) if chosen["conv"] else None
        self.generator = generator
        self.readout = self._make_readout(generator, chosen)
        self.skip = nn.Parameter(torch.randn(self.dim) * self.dim**-0.5) if chosen["skip"] else None
        if self.start == "learned":
            parts = 2 if generator.complex_state else 1
            self.first = nn.Parameter(torch.zeros(generator.state_dim, parts))
            nn.init.constant_(self.first[0, 0], 1.0)

    @staticmethod
    def _make_readout(generator: Generator, chosen: RecurrenceOptions) -> Readout:
        return Readout(
            generator.state_dim, generator.dim, chosen["readout"], generator.complex_state,
            chosen["bias"], chosen["dropout"],
        )  # fmt: skip

    @property
    def rowwise(self) -> bool:
        return self.generator.rowwise

    # ----------------------------------------------------------------------------------------------- states

    def initial_state(self, sequences: int) -> Any:
        check_size("sequences", sequences)
        x0 = self._first().expand(sequences, -1)
        return x0 if self.conv is None else ConvState(x0, self.conv.initial_window(sequences))

    def _first(self) -> Tensor:
        """x_0, (N,)."""
        if self.start == "learned":
            parts = state_precision(self.first)
        else:
            weight = next(self.generator.parameters())
            real = torch.float64 if weight.dtype == torch.float64 else torch.float32
            parts = torch.zeros(self.state_dim, 2, dtype=real, device=weight.device)
            if self.start == "first":
                parts[0, 0] = 1
        return torch.view_as_complex(parts) if self.generator.complex_state else parts[:, 0]

    def _split(self, name: str, state: Any, sequences: int) -> tuple[Tensor, Tensor | None]:
        """The recurrent state and the convolution's window."""
        if self.conv is None:
            if not isinstance(state, Tensor):
                raise ShapeError(f"{name} is a {type(state).__name__}; expected a tensor (sequences, N)")
            recurrent, window = state, None
        elif not (isinstance(state, tuple) and len(state) == 2):
            raise ShapeError(f"{name} is a {type(state).__name__}; expected ConvState(recurrent, window)")
        else:
            recurrent, window = state
            before = (sequences, self.conv.width - 1, self.dim)
            if window.shape != before:
                raise ShapeError(f"{name}.window has shape {tuple(window.shape)}; expected {before}")
        expected = (sequences, self.state_dim)
        if recurrent.shape != expected:
            raise ShapeError(f"{name} has shape {tuple(recurrent.shape)}; expected {expected}, (sequences, N)")
        if recurrent.dtype.is_complex != self.generator.complex_state:
            kind = "complex" if self.generator.complex_state else "real"
            raise DtypeError(f"{name} is {recurrent.dtype}; expected a {kind} tensor")
        return recurrent, window

    def _joined(self, recurrent: Tensor, window: Tensor | None) -> Any:
        return recurrent if window is None else ConvState(recurrent, window)

    # ---------------------------------------------------------------------------------------------- forward

    def mix(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Any]:
        recurrent, window = self._split("initial_state", state, layout.sequences)
        # How many windows are distinct would be a size that depends on data: not in a compiled graph.
        if rows is not None and not (self.rowwise and (self.conv is None or not torch.compiler.is_compiling())):
            x, rows = x[rows], None
        u, u_rows = x, rows
        if self.conv is not None:
            assert window is not None
            if rows is None:
                u, window = self.conv(x, window, layout.cu_seqlens)
            else:
                u, u_rows, window = self.conv.rows(x, rows, window, layout.cu_seqlens)
        transition, inputs = self._generate(u, layout, u_rows)
        states, final = self._scan(transition, inputs, recurrent, layout, u_rows)
        if positions is not None:
            states = states[positions]
        return self._output(states, self._own_inputs(x, rows, positions)), self._joined(final, window)

    def _generate(self, u: Tensor, layout: Layout, rows: Tensor | None) -> tuple[Transition, Tensor]:
        """What ``scan`` wants: a batch of (batch, time), or of rows."""
        if rows is None:
            u = u.view(*((layout.batch, layout.time) if layout.even else (1, u.shape[0])), self.dim)
        transition, inputs = self.generator(u)
        return transition, inputs

    def _scan(
        self, transition: Transition, inputs: Tensor, recurrent: Tensor, layout: Layout, rows: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        shape = (layout.batch, layout.time) if layout.even else (1, -1)
        with full_precision(inputs.device):
            states, final = scan(
                transition,
                inputs,
                recurrent,
                cu_seqlens=None if layout.even else layout.cu_seqlens,
                rows=None if rows is None else rows.view(shape),
            )
        return states.flatten(0, 1), final

    def _own_inputs(self, x: Tensor, rows: Tensor | None, positions: Tensor | None) -> Tensor | None:
        """x of each output, for the skip term."""
        if self.skip is None:
            return None
        if rows is not None:
            return x[rows if positions is None else rows[positions]]
        return x if positions is None else x[positions]

    def _output(self, states: Tensor, x: Tensor | None) -> Tensor:
        y: Tensor = self.readout(states)
        return y if self.skip is None or x is None else y + self.skip * x

    # ------------------------------------------------------------------------------------------------- step

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        self._check_step(x)
        recurrent, window = self._split("state", state, x.shape[0])
        u = x
        if self.conv is not None:
            assert window is not None
            u, window = self.conv.step(x, window)
        transition, inputs = self.generator(u)
        if recurrent.dtype != transition.dtype:
            raise DtypeError(f"state is {recurrent.dtype}; expected {transition.dtype}")
        with full_precision(inputs.device):
            recurrent = transition.apply(recurrent) + inputs
        return self._output(recurrent, x if self.skip is not None else None), self._joined(recurrent, window)

    # -------------------------------------------------------------------------------------- frozen weights

    def freeze(self) -> None:
        self.generator.freeze()

    def unfreeze(self) -> None:
        self.generator.unfreeze()
