"""A matrix product whose rounding does not depend on how many rows there are.

A library's product of one row and of a thousand rows round differently; where an argmax follows, a near tie then
flips between ``forward`` and ``step``.  Here every entry is a product and a sum along its own row, in one order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.kernels.linear import linear

# Products that exist at a time: as many as stay in a core's cache.
TILE = 1 << 17


def halving_sum(products: Tensor) -> Tensor:
    """The sum over the last axis, the second half added to the first until one is left: one order on any device."""
    while products.shape[-1] > 1:
        half = products.shape[-1] // 2
        rest = products[..., 2 * half :]
        products = torch.cat((products[..., :half] + products[..., half : 2 * half], rest), -1)
    return products[..., 0]


def _product(x: Tensor, weight: Tensor) -> Tensor:
    products = x[:, None, :] * weight
    # torch's own sum over the last axis takes a row's entries in one order on a CPU, and on a GPU in one that
    # depends on the number of rows.
    return products.sum(-1) if products.device.type == "cpu" else halving_sum(products)


def _by_tiles(x: Tensor, weight: Tensor) -> Tensor:
    rows = max(1, TILE // weight.numel())
    if torch.compiler.is_compiling() or x.shape[0] <= rows:
        return _product(x, weight)
    return torch.cat([_product(tile, weight) for tile in x.split(rows)])


class _OrderedProduct(torch.autograd.Function):
    """y = x W^T;  gx = g W,  gW = g^T x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _by_tiles(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        (g,) = grads
        x, weight = ctx.saved_tensors
        return linear(g, weight.t()), g.t() @ x


def ordered_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` for x ``(rows, D)`` and few weights ``(K, D)``: the same bits for a row on its own."""
    x, weight = x.contiguous(), weight.contiguous()
    if not torch.is_grad_enabled():
        return _by_tiles(x, weight)
    y: Tensor = _OrderedProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return y
