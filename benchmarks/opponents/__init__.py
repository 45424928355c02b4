"""The opponents of the speed benchmark: one layer step, forward and backward, each done in another way.

A *layer step* takes a dense input u of shape (batch, length, dim) through ONE layer with state size N = dim, and
computes the gradients of the fixed loss ``(y * w).sum()`` with respect to every parameter and to u, in float32.

An opponent's file is imported only when a step of it is built, so that a missing package (jax, torch-slices) costs
nothing but its own row of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Step = Callable[[], object]
"""One forward and backward pass; what it returns holds every gradient, so none of them can be skipped."""


@dataclass(frozen=True)
class Shape:
    """The size of one layer step: ``batch`` B, ``length`` L, ``dim`` D = N, and the dictionary's ``terms`` K."""

    batch: int
    length: int
    dim: int
    terms: int

    @property
    def tokens(self) -> int:
        """The number of tokens of one step, B L."""
        return self.batch * self.length


def _published(shape: Shape) -> Step:
    """The recurrence as published: P and A materialised for every token, a python loop that indexes them, autograd."""
    from .published import build

    return build(shape)


def _published_tuned(shape: Shape) -> Step:
    """The same, but A is taken apart once: autograd is spared zeros of its whole size at every step."""
    from .published import build_tuned

    return build_tuned(shape)


def _plain_torch(shape: Shape) -> Step:
    """PD in plain torch, done well: backward pass by hand, nothing of size tokens x N x N, gather and scatter."""
    from .plain_torch import build

    return build(shape)


def _jax(shape: Shape) -> Step:
    """PD in jit-compiled JAX, straight from the paper: associative_scan, softmax and dP materialised."""
    from .jax_described import build

    return build(shape)


def _jax_tuned(shape: Shape) -> Step:
    """The same in JAX, logits still materialised, in the layout and with the argmax that suit XLA."""
    from .jax_scan import build_tuned

    return build_tuned(shape)


def _jax_chunked(shape: Shape) -> Step:
    """The same in JAX, logits and softmax only ever of a few tokens at a time."""
    from .jax_scan import build_chunked

    return build_chunked(shape)


def _lstm(shape: Shape) -> Step:
    """torch.nn.LSTM, one layer."""
    from .lstm import build

    return build(shape)


def _block_diagonal(shape: Shape) -> Step:
    """The block-diagonal layer (blocks of 4) of torch-slices, in the faster of its modes."""
    from .slices import build

    return build(shape)


OPPONENTS: dict[str, Callable[[Shape], Step]] = {
    "published": _published,
    "published-tuned": _published_tuned,
    "plain-torch": _plain_torch,
    "jax": _jax,
    "jax-tuned": _jax_tuned,
    "jax-chunked": _jax_chunked,
    "lstm": _lstm,
    "block-diagonal": _block_diagonal,
}
"""Each opponent's name, and what builds its parameters and data for a shape and returns the step."""


def described() -> dict[str, str]:
    """Each opponent's name and what it is, in a line."""
    return {name: (make.__doc__ or "").strip() for name, make in OPPONENTS.items()}


__all__ = ["OPPONENTS", "Shape", "Step", "described"]
