"""One small thread pool per process for the compiled kernels.

Numba's own threading layers are not used: the OpenMP one dies after a fork, the workqueue one when two
Python threads call it at once.  Here a kernel is a ``nogil`` function over a range of tasks; a task's
arithmetic does not depend on who runs it, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

# Below about this many elementary operations a second thread costs more (a wake-up) than it saves.
WORTH_A_THREAD = 200_000
CHUNKS_PER_THREAD = 4

_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None
_size = 0


def _forget_after_fork() -> None:
    """A child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _executor, _size, _lock
    _executor, _size, _lock = None, 0, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


def _helpers(count: int) -> ThreadPoolExecutor:
    global _executor, _size
    with _lock:
        if _executor is None or _size < count:
            # A smaller pool is left to finish its work; its idle threads end with it.
            _executor = ThreadPoolExecutor(count, thread_name_prefix="pdssm")
            _size = count
        return _executor


def run(kernel: Callable[..., None], tasks: int, work: int, *args: Any) -> None:
    """Run ``kernel(lo, hi, *args)`` over 0..tasks on as many threads as torch would use.

    ``work`` is a rough count of elementary operations, which decides whether threads pay at all.
    """
    threads = min(torch.get_num_threads(), tasks, 1 + work // WORTH_A_THREAD)
    if threads <= 1:
        kernel(0, tasks, *args)
        return
    step = max(1, tasks // (threads * CHUNKS_PER_THREAD))
    starts = iter(range(0, tasks, step))
    claim = threading.Lock()

    def drain() -> None:
        while True:
            with claim:
                start = next(starts, None)
            if start is None:
                return
            kernel(start, min(start + step, tasks), *args)

    pending = [_helpers(threads - 1).submit(drain) for _ in range(threads - 1)]
    try:
        drain()
    finally:
        for future in pending:
            if not future.cancel():
                future.result()
