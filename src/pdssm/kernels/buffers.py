"""Where the kernels get uninitialised memory: one place, which recycles it, and which the tests can poison.

A fresh buffer of 10 MB costs 3 ms of page faults from torch's CPU allocator, as much as the kernel that fills it,
and a training step asks for the same sizes again and again.  So large CPU buffers are kept when their last tensor
dies, as a GPU allocator keeps them: a NumPy array owns the memory, every tensor over it holds a reference to that
array, and an array to which only this module refers is free.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 20
_TILE = 1 << 20  # entries
# An eighth of the machine, at most 2 GiB: the buffers of a step over 65,536 tokens with N = 128 take 1.5 GiB.
_KEPT = min(2 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8)
_CACHE_LINE = 64
_UNUSED = 3  # references to a free array while it is looked at: the list, the loop's variable, the question

_lock = threading.Lock()
_arrays: list[np.ndarray] = []


def is_large(entries: int, dtype: torch.dtype) -> bool:
    """Whether so many numbers are worth recycling."""
    return entries * dtype.itemsize >= _LARGE


def empty(shape: tuple[int, ...], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Memory that the caller promises to write in full."""
    dtype = dtype or like.dtype
    size = math.prod(shape) * dtype.itemsize
    if like.device.type != "cpu" or size < _LARGE:
        return torch.empty(shape, dtype=dtype, device=like.device)
    with _lock:
        memory = torch.from_numpy(_take(size))
    return memory.view(dtype).view(shape)


def by_tiles(function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> tuple[Tensor, ...]:
    """``function(*inputs)`` for a function that treats every row of the last axis alike.

    Large inputs on a CPU go through it a few rows at a time: what it allocates is then small, stays in the cache and is
    used again by torch's allocator, and only the results lie in (recycled) memory of the whole size.
    """
    first = inputs[0]
    step = max(1, _TILE // first.shape[-1])
    count = first.numel() // first.shape[-1]
    if first.device.type != "cpu" or count < 2 * step or torch.compiler.is_compiling():
        return function(*inputs)
    rows = [tensor.reshape(count, tensor.shape[-1]) for tensor in inputs]
    results: list[Tensor] = []
    for start in range(0, count, step):
        part = function(*(tensor[start : start + step] for tensor in rows))
        if not results:
            results = [empty((count, tensor.shape[-1]), tensor) for tensor in part]
        for result, tensor in zip(results, part, strict=True):
            result[start : start + step] = tensor
    return tuple(result.view(*first.shape[:-1], result.shape[-1]) for result in results)


def _take(size: int) -> np.ndarray:
    """``size`` bytes from a cache line on, of a free array of about that size or of a new one."""
    for array in _arrays:
        if size <= array.nbytes - _CACHE_LINE <= 2 * size and sys.getrefcount(array) == _UNUSED:
            break
    else:
        array = np.empty(size + _CACHE_LINE, np.uint8)
        _keep(array)
    start = -array.ctypes.data % _CACHE_LINE
    return array[start : start + size]


def _keep(array: np.ndarray) -> None:
    """Remember a new array; forget the oldest ones (which live on while a tensor uses them) beyond the limit."""
    if array.nbytes > _KEPT:
        return
    _arrays.append(array)
    while sum(kept.nbytes for kept in _arrays) > _KEPT:
        _arrays.pop(0)
