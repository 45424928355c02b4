"""The kernels' figures: ``python -m benchmarks.kernels [--quick] [--json FILE]``.

A layer step is forward + backward of two generator MLPs (one hidden layer of 2N), selector, B, selection,
scan and linear readout, float32, D = N; every input distinct unless the row says so.  ``make bench`` installs the
opponents' packages and stores the run; ``python -m benchmarks.tables`` makes the tables of README and docs from it.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Iterator

import torch

from benchmarks.command import Figure, Stored, command, shown
from benchmarks.measure import in_fresh_process, side_by_side
from benchmarks.opponents import OPPONENTS, Shape, described
from benchmarks.ours import diagonal_step, pd_step, rows_step

NEEDS = {"jax": "jax", "jax-tuned": "jax", "jax-chunked": "jax", "block-diagonal": "slices"}  # an opponent's package


Goal = float | None  # a ratio to reach; None: the figure is reported, and no goal set


def versus(what: str, opponent: str, shape: Shape, must: Goal, aim: Goal, seconds: float) -> Figure | None:
    """How many times faster than an opponent our PD layer step is."""
    package = NEEDS.get(opponent)
    if package and importlib.util.find_spec(package) is None:
        print(f"left out: {what} ({package} is not installed; `make bench` installs it)")
        return None
    times = side_by_side({"pdssm": pd_step(shape), opponent: OPPONENTS[opponent](shape)}, seconds)
    return faster(what, shape, times, opponent, must, aim)


def faster(what: str, shape: Shape, times: dict[str, float], opponent: str, must: Goal, aim: Goal) -> Figure:
    """A ratio that should be large."""
    ratio = times[opponent] / times["pdssm"]
    at = f"B={shape.batch}, L={shape.length}, N={shape.dim}, K={shape.terms}"
    needed = "reported" if must is None else "no slower" if must == 1 else f"{must:g}x faster"
    met = None if must is None else ratio >= must
    return Figure(what, at, needed, f"{aim:g}x" if aim else "", f"{ratio:.1f}x faster", ratio, met, times)


def against_diagonal(seconds: float) -> Figure:
    """The price of P over P = I."""
    shape = Shape(32, 256, 128, 6)
    times = side_by_side({"pdssm": pd_step(shape), "complex-diagonal": diagonal_step(shape)}, seconds)
    ratio = times["pdssm"] / times["complex-diagonal"]
    at = "B=32, L=256, N=128, K=6"
    return Figure(
        "PD step / complex-diagonal step", at, "at most 2.5", "2.0", f"{ratio:.2f}", ratio, ratio <= 2.5, times
    )


def with_rows(seconds: float) -> Figure:
    """Ten distinct tokens, loss on every output."""
    shape = Shape(256, 40, 128, 8)
    times = side_by_side({"pdssm": rows_step(shape, 10), "lstm": OPPONENTS["lstm"](shape)}, seconds)
    return faster("PD with rows (10 tokens) vs lstm", shape, times, "lstm", 2, 5)


def growth(seconds: float) -> Figure:
    """Linear in time."""
    steps = {f"L={length}": pd_step(Shape(1, length, 128, 6)) for length in (4096, 65536)}
    times = side_by_side(steps, seconds)
    ratio = times["L=65536"] / times["L=4096"]
    at = "L=4,096 to 65,536, B=1, N=128"
    return Figure("time growth, 16x the length", at, "at most 18x", "16x", f"{ratio:.1f}x", ratio, ratio <= 18, times)


MEMORY = """
import time, torch
from benchmarks.measure import peak_memory, reset_peak_memory
from benchmarks.ours import pd_layer
length, size = {length}, 512
layer, x = pd_layer(size), torch.randn(1, length, size, requires_grad=True)
layer(x[:, :64]).sum().backward()                       # kernels compiled, gradients allocated
layer.zero_grad(set_to_none=False); x.grad = torch.zeros_like(x)
before = reset_peak_memory()
start = time.perf_counter()
layer(x).sum().backward()
print((peak_memory() - before) / (length * size), time.perf_counter() - start)
"""


def memory(quick: bool) -> Figure:
    """What a step needs beside the parameters, the input and their gradients: growth of the peak in a fresh process."""
    length = 4096 if quick else 16384
    value, spent = map(float, in_fresh_process(MEMORY.format(length=length)).split())
    at = f"N=512, L={length:,}, B=1"
    what, measured = "extra memory of a PD step, a state entry", f"{value:.0f} B"
    return Figure(what, at, "at most 200 B", "120 B", measured, value, value <= 200, {"pdssm": spent})


FIRST_CALL = """
import time, torch
from benchmarks.ours import pd_layer
layer, x = pd_layer(64), torch.randn(2, 16, 64)
start = time.perf_counter()
layer(x).sum().backward()
print(time.perf_counter() - start)
"""


def first_call() -> list[Figure]:
    """Compilation, and what the on-disk cache leaves of it."""
    with tempfile.TemporaryDirectory() as cache:
        cold = float(in_fresh_process(FIRST_CALL, NUMBA_CACHE_DIR=cache))
        warm = float(in_fresh_process(FIRST_CALL, NUMBA_CACHE_DIR=cache))

    def figure(what: str, at: str, limit: int, spent: float) -> Figure:
        return Figure(what, at, f"under {limit} s", "", f"{spent:.1f} s", spent, spent < limit, {"pdssm": spent})

    return [
        figure("first call, compiling", "forward + backward", 30, cold),
        figure("first call, from the cache", "a new process", 2, warm),
    ]


def measurements(quick: bool) -> list[Callable[[], Figure | list[Figure] | None]]:
    """What is measured, in the order of the table."""
    seconds = 1.0 if quick else 8.0
    short, long, wide = Shape(8, 40, 128, 8), Shape(4, 1024, 128, 6), Shape(1, 64, 512, 6)

    def line(opponent: str, shape: Shape, must: Goal, aim: Goal) -> Callable[[], Figure | None]:
        return lambda: versus(f"PD step vs {opponent}", opponent, shape, must, aim, seconds)

    return [
        line("published", short, 150, 300),
        line("published", Shape(32, 40, 128, 8), None, None),
        line("published-tuned", short, None, None),
        line("plain-torch", Shape(8, 1024, 128, 6), None, 10),
        line("jax", long, 6, 9),
        line("jax", wide, 15, 30),
        line("jax-tuned", long, None, None),
        line("jax-tuned", wide, None, None),
        line("jax-chunked", long, None, None),
        line("jax-chunked", wide, None, None),
        line("block-diagonal", long, 1.0, 1.3),
        lambda: against_diagonal(seconds),
        lambda: with_rows(seconds),
        lambda: growth(seconds),
        lambda: memory(quick),
        first_call,
    ]


def figures(quick: bool) -> Iterator[Figure]:
    """All of them."""
    for measure in measurements(quick):
        torch.manual_seed(0)
        new = measure()
        yield from new if isinstance(new, list) else [new] if new else []


def measure(arguments: argparse.Namespace) -> Stored:
    """Everything."""
    opponents = described()
    print(*(f"{name:16s} {value}" for name, value in opponents.items()), "", sep="\n")
    return {"opponents": opponents, "figures": shown(figures(arguments.quick))}


def main() -> None:
    """Measure, print, store."""
    command(__doc__, measure, quick="a second for each figure instead of eight")


if __name__ == "__main__":
    main()
