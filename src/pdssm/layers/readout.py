"""From states to outputs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from pdssm.errors import check_choice
from pdssm.kernels.linear import GELU, Linear

ReadoutKind = Literal["linear", "mlp", "real"]


class Readout(nn.Module):
    """y = psi(x), for states ``(..., N)``.

    ``linear`` W (Re x, Im x) + c; ``mlp`` W2 gelu(W1 (Re x, Im x) + c1) + c2 with ``dim`` hidden units; ``real``
    W Re x + c.  Re and Im of each component lie side by side: a view of a complex state, no copy.  Real
    states have no imaginary part to read.
    """

    def __init__(
        self,
        state_dim: int,
        dim: int,
        kind: ReadoutKind = "linear",
        complex_state: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("readout", kind, ("linear", "mlp", "real"))
        self.kind, self.complex_state = kind, complex_state
        width = 2 * state_dim if complex_state and kind != "real" else state_dim
        self.dropout = nn.Dropout(dropout)
        self.map: nn.Module
        if kind == "mlp":
            self.map = nn.Sequential(Linear(width, dim, bias), GELU(), Linear(dim, dim, bias))
        else:
            self.map = Linear(width, dim, bias)

    @property
    def _dtype(self) -> torch.dtype:
        first = self.map[0] if isinstance(self.map, nn.Sequential) else self.map
        assert isinstance(first, nn.Linear)
        return first.weight.dtype

    def forward(self, states: Tensor) -> Tensor:
        if self.kind == "real" and self.complex_state:
            states = states.real
        elif self.complex_state:
            states = torch.view_as_real(states.resolve_conj()).flatten(-2)
        # States are float32 at least; the parameters may be half precision.
        y: Tensor = self.map(self.dropout(states.to(self._dtype)))
        return y
