"""The block-diagonal layer of the PyPI package torch-slices: ``SLiCE(D, N, block_size=4)``, without a residual.

The package has two modes, and the faster one depends on the shape and the machine: *recurrent*, a python loop over
the steps (``use_parallel=False``), and *parallel*, chunks of steps through torch's generic associative scan
(``use_parallel=True``), each chunk after the one before it. The recurrent mode, the parallel one with the package's
default chunk and the parallel one with the whole sequence as one chunk are built with the same parameters. Each is
timed twice after a warm-up when the step is built, and the step of the fastest is returned.
"""

from __future__ import annotations

import time

import torch
from slices import SLiCE

from . import Shape, Step

BLOCK_SIZE = 4
# The package's default. Shorter chunks were slower at every shape that was tried.
CHUNK_SIZE = 256
TIMED_RUNS = 2


def _step(shape: Shape, chunk_size: int | None) -> Step:
    """A step in the parallel mode with this chunk, or (None) in the recurrent mode."""
    torch.manual_seed(0)
    layer = SLiCE(
        shape.dim,
        shape.dim,
        block_size=BLOCK_SIZE,
        use_parallel=chunk_size is not None,
        chunk_size=chunk_size or 1,
    )
    u = torch.randn(shape.batch, shape.length, shape.dim, requires_grad=True)
    w = torch.randn(shape.batch, shape.length, shape.dim)
    differentiated = [u, *layer.parameters()]

    def step() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad((layer(u) * w).sum(), differentiated)

    return step


def _seconds(step: Step) -> float:
    """The best time of a few runs after one that is not counted."""
    step()
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times)


def build(shape: Shape) -> Step:
    """The step of one block-diagonal layer in whichever mode is faster at this shape, here and now."""
    chunk_sizes = {None, min(CHUNK_SIZE, shape.length), shape.length}
    return min((_step(shape, size) for size in chunk_sizes), key=_seconds)
