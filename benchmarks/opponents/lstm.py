"""``torch.nn.LSTM``, one layer from D to N = D, with the loss on all its outputs."""

from __future__ import annotations

import torch

from . import Shape, Step


def build(shape: Shape) -> Step:
    """The step of one LSTM layer; it returns the gradients of the input and of all parameters."""
    torch.manual_seed(0)
    layer = torch.nn.LSTM(shape.dim, shape.dim, batch_first=True)
    u = torch.randn(shape.batch, shape.length, shape.dim, requires_grad=True)
    w = torch.randn(shape.batch, shape.length, shape.dim)
    differentiated = [u, *layer.parameters()]

    def step() -> tuple[torch.Tensor, ...]:
        y, _ = layer(u)
        return torch.autograd.grad((y * w).sum(), differentiated)

    return step
