"""Matrix states: X_t = X_{t-1} A_t^T + v_t k_t^T, read as X_t q_t; DeltaNet and its family, RWKV-7, Mamba.

Each head's state is V rows of N numbers that share the transition A_t.  A layer of this kind says what goes through
the short convolution (``project``), what the recurrence is made of (``pieces``) and what becomes of its outputs
(``finish``); all else is here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pdssm.errors import ShapeError, check_size
from pdssm.generators.base import full_precision
from pdssm.layers.base import Layout, Mixer, make_layout
from pdssm.layers.conv import ShortConvolution
from pdssm.layers.recurrence import ConvState
from pdssm.layers.token_shift import TokenShift
from pdssm.scanning import scan_readout
from pdssm.transitions import Transition


class Pieces(NamedTuple):
    """What the recurrence is made of, in float32 or float64.

    Leading axes are ``(steps, heads)``; those of transition, values and keys ``(steps, substeps, heads)`` where a step
    has several.
    """

    transition: Transition
    """A, on R^N."""
    values: Tensor
    """v, (..., V)."""
    keys: Tensor
    """k, (..., N)."""
    queries: Tensor
    """q, (steps, heads, N)."""
    kept: tuple[Tensor, ...] = ()
    """(steps, ...): what ``finish`` wants besides the inputs and the outputs."""


class MatrixState(Mixer):
    """y_t = finish(X_t q_t), X_t = X_{t-1} A_t^T + v_t k_t^T.

    The state is ``ConvState``, with a recurrent part ``(sequences, heads, V, N)``, or that part alone without a
    convolution.
    """

    substeps = 1
    """So many steps of the recurrence make a step of the layer, which is read after the last of them."""

    def __init__(self, dim: int, heads: int, value_dim: int, key_dim: int, channels: int, conv: int) -> None:
        """V and N of each head; a convolution of width ``conv`` over what ``project`` gives, none for 0."""
        super().__init__(dim)
        for name, size in (("heads", heads), ("value_dim", value_dim), ("key_dim", key_dim)):
            check_size(name, size)
        check_size("conv", conv, 0)
        self.heads, self.value_dim, self.key_dim = heads, value_dim, key_dim
        self.conv: ShortConvolution | TokenShift | None = ShortConvolution(channels, conv) if conv else None

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """``(steps, dim)`` to ``(steps, channels)``: the linear maps whose results are convolved."""

    @abstractmethod
    def pieces(self, x: Tensor, convolved: Tensor) -> Pieces:
        """From the inputs and the convolved (and activated) projections."""

    @abstractmethod
    def finish(self, x: Tensor, outputs: Tensor, *kept: Tensor) -> Tensor:
        """Inputs ``(steps, dim)`` and outputs ``(steps, heads, V)`` of the recurrence to ``(steps, dim)``."""

    # ----------------------------------------------------------------------------------------------- states

    def initial_state(self, sequences: int) -> Any:
        check_size("sequences", sequences)
        weight = next(self.parameters())
        real = torch.float64 if weight.dtype == torch.float64 else torch.float32
        recurrent = weight.new_zeros((sequences, self.heads, self.value_dim, self.key_dim), dtype=real)
        if self.conv is None:
            return recurrent
        return ConvState(recurrent, weight.new_zeros(sequences, self.conv.width - 1, self.conv.dim))

    def _split(self, name: str, state: Any, sequences: int) -> tuple[Tensor, Tensor | None]:
        """The recurrent state and the convolution's window."""
        if self.conv is None:
            recurrent, window = state, None
        elif not (isinstance(state, tuple) and len(state) == 2):
            raise ShapeError(f"{name} is a {type(state).__name__}; expected ConvState(recurrent, window)")
        else:
            recurrent, window = state
            before = (sequences, self.conv.width - 1, self.conv.dim)
            if window.shape != before:
                raise ShapeError(f"{name}.window has shape {tuple(window.shape)}; expected {before}")
        expected = (sequences, self.heads, self.value_dim, self.key_dim)
        if not isinstance(recurrent, Tensor):
            raise ShapeError(f"{name} is a {type(recurrent).__name__}; expected a tensor {expected}")
        if recurrent.shape != expected:
            raise ShapeError(
                f"{name} has shape {tuple(recurrent.shape)}; expected {expected}, (sequences, heads, V, N)"
            )
        return recurrent, window

    # ------------------------------------------------------------------------------------- forward and step

    def mix(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Any]:
        recurrent, window = self._split("initial_state", state, layout.sequences)
        if rows is not None:
            x = x[rows]
        projected = self.project(x)
        if self.conv is None:
            convolved = functional.silu(projected)
        else:
            assert window is not None
            convolved, window = self.conv(projected, window, layout.cu_seqlens)
        pieces = self.pieces(x, convolved)
        outputs, final = self._scan(pieces, recurrent, layout)
        # The recurrence is float32 at least; the parameters may be half precision.
        finished = (x, outputs.to(x.dtype), *pieces.kept)
        y = self.finish(*(finished if positions is None else (tensor[positions] for tensor in finished)))
        return y, final if window is None else ConvState(final, window)

    def _scan(self, pieces: Pieces, recurrent: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Outputs ``(steps, heads, V)``, and the state after each sequence."""
        batch, time = (layout.batch, layout.time) if layout.even else (1, pieces.queries.shape[0])

        def batched(tensor: Tensor, steps: int) -> Tensor:
            return tensor.reshape(batch, steps, *tensor.shape[-2:])

        substeps = time * self.substeps
        with full_precision(recurrent.device):
            outputs, final = scan_readout(
                pieces.transition.reshape(batch, substeps, self.heads),
                batched(pieces.values, substeps),
                batched(pieces.keys, substeps),
                batched(pieces.queries, time),
                recurrent,
                cu_seqlens=None if layout.even else layout.cu_seqlens * self.substeps,
                period=self.substeps,
            )
        return outputs.flatten(0, 1), final

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Sequences of one step each."""
        self._check_step(x)
        return self.mix(x, state, make_layout(x.shape[0], 1, None, None, x.device), None, None)
