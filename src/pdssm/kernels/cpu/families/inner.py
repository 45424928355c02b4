"""Sums of products, in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdssm.kernels.cpu.compiling import compiled_sum


@compiled_sum
def inner(a: Any, b: Any) -> Any:
    """a^H b."""
    total = b.dtype.type(0)
    for j in range(b.shape[0]):
        total += np.conj(a[j]) * b[j]
    return total


@compiled_sum
def dot(a: Any, b: Any) -> Any:
    """a^T b."""
    total = b.dtype.type(0)
    for j in range(b.shape[0]):
        total += a[j] * b[j]
    return total
