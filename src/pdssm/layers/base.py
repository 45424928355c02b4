"""A linear recurrence as a layer: generator -> scan -> readout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdssm.errors import ShapeError
from pdssm.generators import Generator
from pdssm.generators.base import Linear
from pdssm.scanning import scan


class LinearRecurrence(nn.Module):
    """y_t = W (Re x_t, Im x_t) + c with x_t = A(u_t) x_{t-1} + b(u_t) and x_0 = e_1.

    The readout sees Re and Im of each component side by side: a view of the complex state, no copy.
    """

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        self.generator = generator
        self.readout = Linear(2 * generator.state_dim, generator.dim)

    def forward(self, x: Tensor, *, rows: Tensor | None = None, cu_seqlens: Tensor | None = None) -> Tensor:
        """``(batch, time, dim)`` to the same; with ``rows`` ``(batch, time)``, x is a table ``(rows, dim)``.

        ``cu_seqlens`` are the offsets of packed sequences, as in ``pdssm.scan``.
        """
        generator = self.generator
        expected = ("batch", "time", generator.dim) if rows is None else ("rows", generator.dim)
        if x.ndim != len(expected) or x.shape[-1] != generator.dim:
            raise ShapeError(f"x has shape {tuple(x.shape)}; expected ({', '.join(map(str, expected))})")
        transition, inputs = generator(x)
        batch = x.shape[0] if rows is None else rows.shape[0]
        sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
        first = torch.zeros(generator.state_dim, dtype=inputs.dtype, device=x.device)
        first[0] = 1
        states, _ = scan(transition, inputs, first.expand(sequences, -1), cu_seqlens=cu_seqlens, rows=rows)
        readout: Tensor = self.readout(torch.view_as_real(states).flatten(-2))
        return readout
