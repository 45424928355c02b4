"""The kernels' figures: ``python -m benchmarks.kernels [--quick] [--json FILE]``.

A layer step is forward + backward of two generator MLPs (one hidden layer of 2N), selector, B, selection,
scan and linear readout, float32, D = N; every input distinct unless the row says so.  ``make bench`` installs the
opponents' packages and stores the run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.measure import Step, in_fresh_process, machine, side_by_side
from benchmarks.opponents import OPPONENTS, Shape
from pdssm import PDSSM, ComplexDiagonal

NEEDS = {"jax": "jax", "jax-tuned": "jax", "jax-chunked": "jax", "block-diagonal": "slices"}  # an opponent's package


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, what it must reach and what came out."""

    what: str
    at: str
    must: str
    aim: str
    measured: str
    value: float
    met: bool | None
    seconds: dict[str, float]


def layer_step(layer: torch.nn.Module, shape: Shape) -> Step:
    """One of our layers on dense input."""
    x = torch.randn(shape.batch, shape.length, shape.dim)
    weights = torch.randn_like(x)

    def step() -> object:
        u = x.detach().requires_grad_()
        layer.zero_grad()
        (layer(u) * weights).sum().backward()
        return u.grad

    return step


def pd_step(shape: Shape) -> Step:
    """PD-SSM on dense input."""
    return layer_step(PDSSM(shape.dim, shape.dim, shape.terms), shape)


def rows_step(shape: Shape, tokens: int) -> Step:
    """PD-SSM on a table of ``tokens`` distinct inputs."""
    layer = PDSSM(shape.dim, shape.dim, shape.terms)
    table = torch.randn(tokens, shape.dim)
    rows = torch.randint(0, tokens, (shape.batch, shape.length))
    weights = torch.randn(shape.batch, shape.length, shape.dim)

    def step() -> object:
        u = table.detach().requires_grad_()
        layer.zero_grad()
        (layer(u, rows=rows) * weights).sum().backward()
        return u.grad

    return step


def versus(what: str, opponent: str, shape: Shape, must: float | None, aim: float, seconds: float) -> Figure | None:
    """How many times faster than an opponent our PD layer step is."""
    package = NEEDS.get(opponent)
    if package and importlib.util.find_spec(package) is None:
        print(f"left out: {what} ({package} is not installed; `make bench` installs it)")
        return None
    times = side_by_side({"pdssm": pd_step(shape), opponent: OPPONENTS[opponent](shape)}, seconds)
    return faster(what, shape, times, opponent, must, aim)


def faster(what: str, shape: Shape, times: dict[str, float], opponent: str, must: float | None, aim: float) -> Figure:
    """A ratio that should be large."""
    ratio = times[opponent] / times["pdssm"]
    at = f"B={shape.batch}, L={shape.length}, N={shape.dim}, K={shape.terms}"
    needed = "reported" if must is None else f"{must:g}x faster"
    met = None if must is None else ratio >= must
    return Figure(what, at, needed, f"{aim:g}x", f"{ratio:.1f}x faster", ratio, met, times)


def against_diagonal(seconds: float) -> Figure:
    """The price of P over P = I."""
    shape = Shape(32, 256, 128, 6)
    diagonal = layer_step(ComplexDiagonal(shape.dim, shape.dim), shape)
    times = side_by_side({"pdssm": pd_step(shape), "complex-diagonal": diagonal}, seconds)
    ratio = times["pdssm"] / times["complex-diagonal"]
    at = "B=32, L=256, N=128, K=6"
    return Figure(
        "PD step / complex-diagonal step", at, "at most 2.5", "2.0", f"{ratio:.2f}", ratio, ratio <= 2.5, times
    )


def with_rows(seconds: float) -> Figure:
    """Ten distinct tokens, loss on every output."""
    shape = Shape(256, 40, 128, 8)
    times = side_by_side({"pdssm": rows_step(shape, 10), "lstm": OPPONENTS["lstm"](shape)}, seconds)
    return faster("with rows (10 tokens) vs LSTM", shape, times, "lstm", 2, 5)


def growth(seconds: float) -> Figure:
    """Linear in time."""
    steps = {f"L={length}": pd_step(Shape(1, length, 128, 6)) for length in (4096, 65536)}
    times = side_by_side(steps, seconds)
    ratio = times["L=65536"] / times["L=4096"]
    at = "L=4,096 to 65,536, B=1, N=128"
    return Figure("time growth, 16x the length", at, "at most 18x", "16x", f"{ratio:.1f}x", ratio, ratio <= 18, times)


MEMORY = """
import resource, torch
from pdssm import PDSSM
length, size = {length}, 512
layer, x = PDSSM(size, size, 6), torch.randn(1, length, size, requires_grad=True)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
y = layer(x[:, :64]); y.sum().backward()          # kernels compiled, gradients allocated
layer.zero_grad(set_to_none=False); x.grad = torch.zeros_like(x)
before = peak()
layer(x).sum().backward()
print((peak() - before) / (length * size))
"""


def memory(quick: bool) -> Figure:
    """What a step needs beside the parameters, the input and their gradients: growth of the peak in a fresh process."""
    length = 4096 if quick else 16384
    value = float(in_fresh_process(MEMORY.format(length=length)))
    must = "at most 200 B per state entry"
    at = f"N=512, L={length:,}, B=1"
    return Figure("extra memory of a PD step", at, must, "120 B", f"{value:.0f} B", value, value <= 200, {})


FIRST_CALL = """
import time, torch
from pdssm import PDSSM
layer, x = PDSSM(64, 64), torch.randn(2, 16, 64)
start = time.perf_counter()
layer(x).sum().backward()
print(time.perf_counter() - start)
"""


def first_call() -> list[Figure]:
    """Compilation, and what the on-disk cache leaves of it."""
    with tempfile.TemporaryDirectory() as cache:
        cold = float(in_fresh_process(FIRST_CALL, NUMBA_CACHE_DIR=cache))
        warm = float(in_fresh_process(FIRST_CALL, NUMBA_CACHE_DIR=cache))
    return [
        Figure("first call, compiling", "forward + backward", "under 30 s", "", f"{cold:.1f} s", cold, cold < 30, {}),
        Figure("first call, from the cache", "a new process", "under 2 s", "", f"{warm:.1f} s", warm, warm < 2, {}),
    ]


def figures(quick: bool) -> list[Figure]:
    """All of them, printed as they come."""
    seconds = 1.0 if quick else 8.0
    work: list[Callable[[], Figure | list[Figure] | None]] = [
        lambda: versus("PD step vs published recurrence", "published", Shape(8, 40, 128, 8), 150, 300, seconds),
        lambda: versus("PD step vs plain torch done well", "plain-torch", Shape(8, 1024, 128, 6), None, 10, seconds),
        lambda: versus("PD step vs JAX associative scan", "jax", Shape(4, 1024, 128, 6), 6, 9, seconds),
        lambda: versus("PD step vs JAX associative scan", "jax", Shape(1, 64, 512, 6), 15, 30, seconds),
        lambda: versus("PD step vs JAX, argmax tuned", "jax-tuned", Shape(4, 1024, 128, 6), None, 9, seconds),
        lambda: versus("PD step vs JAX, argmax tuned", "jax-tuned", Shape(1, 64, 512, 6), None, 30, seconds),
        lambda: versus("PD step vs JAX, nothing stored", "jax-chunked", Shape(4, 1024, 128, 6), None, 9, seconds),
        lambda: versus("PD step vs JAX, nothing stored", "jax-chunked", Shape(1, 64, 512, 6), None, 30, seconds),
        lambda: versus("PD step vs block-diagonal SLiCE", "block-diagonal", Shape(4, 1024, 128, 6), 1.0, 1.3, seconds),
        lambda: against_diagonal(seconds),
        lambda: with_rows(seconds),
        lambda: growth(seconds),
        lambda: memory(quick),
        first_call,
    ]
    results: list[Figure] = []
    for measure in work:
        torch.manual_seed(0)
        new = measure()
        for figure in new if isinstance(new, list) else [new] if new else []:
            verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
            print(
                f"{figure.what:34s} {figure.at:34s} {figure.measured:>14s}   must: {figure.must:30s} {verdict}",
                flush=True,
            )
            results.append(figure)
    return results


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a second for each figure instead of eight")
    parser.add_argument("--json", type=Path, help="where to store the run")
    arguments = parser.parse_args()
    description = machine()
    print(", ".join(f"{key} {value}" for key, value in description.items()))
    results = figures(arguments.quick)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        stored = {"machine": description, "quick": arguments.quick, "figures": [asdict(figure) for figure in results]}
        arguments.json.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
