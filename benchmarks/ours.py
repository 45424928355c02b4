"""Our layers as every benchmark builds them, so that the work is the same in all of them."""

from __future__ import annotations

import torch

from benchmarks.measure import Step
from benchmarks.opponents import Shape
from pdssm import PDSSM, ComplexDiagonal

# A layer step is two generator MLPs with one hidden layer of 2N, selector, B, scan and readout; nothing else.
HIDDEN = 2


def pd_layer(dim: int, terms: int = 6) -> PDSSM:
    """PD-SSM with a dictionary of ``terms`` matrices."""
    return PDSSM(dim, dim, terms, hidden_dim=HIDDEN * dim, skip=False)


def layer_step(layer: torch.nn.Module, shape: Shape) -> Step:
    """Forward and backward of one of our layers on dense input."""
    x = torch.randn(shape.batch, shape.length, shape.dim)
    weights = torch.randn_like(x)

    def step() -> object:
        u = x.detach().requires_grad_()
        layer.zero_grad()
        (layer(u) * weights).sum().backward()
        return u.grad

    return step


def pd_step(shape: Shape) -> Step:
    """PD-SSM on dense input."""
    return layer_step(pd_layer(shape.dim, shape.terms), shape)


def diagonal_step(shape: Shape) -> Step:
    """The complex-diagonal layer, P = I, on dense input."""
    return layer_step(ComplexDiagonal(shape.dim, hidden_dim=HIDDEN * shape.dim, skip=False), shape)


def rows_step(shape: Shape, tokens: int) -> Step:
    """PD-SSM on a table of ``tokens`` distinct inputs, loss on every output."""
    layer = pd_layer(shape.dim, shape.terms)
    table = torch.randn(tokens, shape.dim)
    rows = torch.randint(0, tokens, (shape.batch, shape.length))
    weights = torch.randn(shape.batch, shape.length, shape.dim)

    def step() -> object:
        u = table.detach().requires_grad_()
        layer.zero_grad()
        (layer(u, rows=rows) * weights).sum().backward()
        return u.grad

    return step
