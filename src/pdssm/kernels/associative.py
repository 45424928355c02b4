"""The log-depth prefix scan, for any associative combination of tuples of tensors; plain torch, any device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Elements = tuple[Tensor, ...]


def prefix(combine: Callable[[Elements, Elements], Elements], elements: Elements) -> Elements:
    """Inclusive prefixes along axis 1, with ``combine(later, earlier)``.

    Pairs are combined, their prefixes found, and the even steps filled in between: 2 log2(T) levels, 2 T
    combinations.  Which products a step consists of depends on its distance from the start only, so a longer
    sequence has the same bits where they overlap.
    """
    steps = elements[0].shape[1]
    if steps == 1:
        return elements
    odd = tuple(x[:, 1::2] for x in elements)
    pairs = odd[0].shape[1]
    inner = prefix(combine, combine(odd, tuple(x[:, 0::2][:, :pairs] for x in elements)))
    rest = tuple(x[:, 2::2] for x in elements)
    count = rest[0].shape[1]
    if count:
        rest = combine(rest, tuple(x[:, :count] for x in inner))
    return tuple(
        _interleave(torch.cat((x[:, :1], later), 1), between)
        for x, later, between in zip(elements, rest, inner, strict=True)
    )


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    pairs = odd.shape[1]
    merged = torch.stack((even[:, :pairs], odd), 2).flatten(1, 2)
    return merged if even.shape[1] == pairs else torch.cat((merged, even[:, pairs:]), 1)
