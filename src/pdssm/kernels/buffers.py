"""Where the kernels get uninitialised memory: one place, so that the tests can poison it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 20
_CACHE_LINE = 64


def empty(shape: tuple[int, ...], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Memory that the caller promises to write in full.

    A large buffer on a CPU comes through NumPy, which asks Linux for huge pages: 10 MB cost 3 ms of page faults
    from torch's allocator and 0.1 ms from this one, and a kernel takes no longer to fill them.
    """
    dtype = dtype or like.dtype
    size = math.prod(shape) * dtype.itemsize
    if like.device.type != "cpu" or size < _LARGE:
        return torch.empty(shape, dtype=dtype, device=like.device)
    raw = np.empty(size + _CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % _CACHE_LINE
    return torch.from_numpy(raw[start : start + size]).view(dtype).view(shape)
