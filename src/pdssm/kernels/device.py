"""The full selection where no compiled CPU kernel is: Triton's kernel on a GPU that has it, else plain torch."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from torch import Tensor

from pdssm.kernels import reference


def select(scores: Tensor, dictionary: Tensor, noise: Tensor | None) -> Tensor:
    """index[u, b] (U, N) int32; the bits of a transition depend neither on its place nor on how many there are."""
    if noise is None and scores.device.type == "cuda" and _has_triton():
        from pdssm.kernels import triton

        return triton.select(scores, dictionary)
    return reference.select(scores, dictionary, noise)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
