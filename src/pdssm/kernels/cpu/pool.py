"""Threads for the compiled kernels: torch's own where that can be had, else a small pool.

A kernel is a ``nogil`` function over a range of tasks; a task's arithmetic does not depend on who runs it, so the
result does not depend on the number of threads, nor on which of the two teams they belong to.

Torch's OpenMP workers spin for milliseconds after every parallel region.  A thread of our own would have to share
its core with a spinning one (measured on two cores: its first task starts 2 to 4 ms late and takes twice as long),
so the kernels run *on* those workers: the OpenMP runtime that torch is linked to starts a parallel region whose
body asks for tasks.  After a fork that runtime has no workers but waits for them, so a child uses the pool, as do
builds of torch without OpenMP.  Numba's own threading layers would bring a second runtime, with the same problems.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

Team = Callable[[Callable[[], None], int], None]
"""Runs a function on so many threads, the calling one among them, and waits for all."""

# Below about this many elementary operations a second thread costs more (a wake-up) than it saves.
WORTH_A_THREAD = 200_000
CHUNKS_PER_THREAD = 4


def run(kernel: Callable[..., None], tasks: int, work: int, *args: Any) -> None:
    """Run ``kernel(lo, hi, *args)`` over 0..tasks on as many threads as torch would use.

    ``work`` is a rough count of elementary operations, which decides whether threads pay at all.
    """
    threads = min(torch.get_num_threads(), tasks, 1 + work // WORTH_A_THREAD)
    if threads <= 1:
        kernel(0, tasks, *args)
        return
    kernel(0, 0, *args)  # compile here if need be, not on a worker's small stack
    step = max(1, tasks // (threads * CHUNKS_PER_THREAD))
    starts = iter(range(0, tasks, step))
    claim = threading.Lock()
    failures: list[BaseException] = []

    def drain() -> None:
        try:
            while True:
                with claim:
                    start = next(starts, None)
                if start is None:
                    return
                kernel(start, min(start + step, tasks), *args)
        except BaseException as failure:  # it must not be lost in a foreign thread
            failures.append(failure)

    _team(drain, threads)
    if failures:
        raise failures[0]


# ------------------------------------------------------------------------------------ torch's OpenMP workers

_REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _find_openmp() -> Any:
    """``GOMP_parallel`` of the runtime that torch is linked to (GNU's; LLVM's and Intel's export it too), or None."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        start: Any = ctypes.CDLL(str(library)).GOMP_parallel
    except (OSError, AttributeError):
        return None
    start.argtypes = [_REGION, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    start.restype = None
    return start


_start_region = _find_openmp()


def _openmp_team(body: Callable[[], None], threads: int) -> None:
    _start_region(_REGION(lambda _: body()), None, threads, 0)


# ---------------------------------------------------------------------------------------------- our own pool

_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None
_size = 0


def _helpers(count: int) -> ThreadPoolExecutor:
    global _executor, _size
    with _lock:
        if _executor is None or _size < count:
            # A smaller pool is left to finish its work; its idle threads end with it.
            _executor = ThreadPoolExecutor(count, thread_name_prefix="pdssm")
            _size = count
        return _executor


def _pool_team(body: Callable[[], None], threads: int) -> None:
    pending = [_helpers(threads - 1).submit(body) for _ in range(threads - 1)]
    body()
    for future in pending:
        if not future.cancel():
            future.result()


_team: Team = _pool_team if _start_region is None else _openmp_team


def _after_fork() -> None:
    """A child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _executor, _size, _lock, _team
    _executor, _size, _lock, _team = None, 0, threading.Lock(), _pool_team


os.register_at_fork(after_in_child=_after_fork)
