"""The layers' figures: ``python -m benchmarks.layer [--quick] [--json FILE]``.

Of every variant of PD-SSM, its relatives, LSTM and a causal Transformer layer, D = N = 128, K = 6, float32: the train
step (forward + backward), on the GPU as well where there is one; the streaming step of one sequence and the
bytes of its state; and a million tokens streamed at constant memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.command import Figure, Stored, command, shown
from benchmarks.layer_variants import Cache, Transformer, output, state_bytes, streaming, variants
from benchmarks.measure import Step, side_by_side
from pdssm import PDSSM

DIM, TERMS = 128, 6
BATCH, LENGTH = 8, 1024
DENSE_LENGTH = 128
"""SD-SSM keeps several matrices of every token for its backward pass: 4 GB at L = 1024."""
TOKENS = 20
"""Streamed in one turn."""


def synchronised(step: Step, device: torch.device) -> Step:
    """The step, finished when it returns."""
    if device.type != "cuda":
        return step

    def finished() -> object:
        result = step()
        torch.cuda.synchronize(device)
        return result

    return finished


def train_step(layer: nn.Module, batch: int, length: int, device: torch.device) -> Step:
    """Forward and backward of a fixed loss on all outputs."""
    x = torch.randn(batch, length, DIM, device=device)
    weights = torch.randn_like(x)

    def step() -> object:
        u = x.detach().requires_grad_()
        layer.zero_grad()
        (output(layer, u) * weights).sum().backward()
        return u.grad

    return synchronised(step, device)


def training(device: torch.device, seconds: float, batch: int = BATCH, length: int = LENGTH) -> Iterator[Figure]:
    """A step of each variant, in turns."""
    lengths = {name: min(length, DENSE_LENGTH) if "dense" in name else length for name in variants(DIM, TERMS)}
    steps = {
        name: train_step(make().to(device), batch, lengths[name], device) for name, make in variants(DIM, TERMS).items()
    }
    for name, spent in side_by_side(steps, seconds).items():
        at = f"{device.type}, B={batch}, L={lengths[name]}"
        token = 1e6 * spent / (batch * lengths[name])
        measured = f"{1e3 * spent:.1f} ms, {token:.2f} us/token"
        yield Figure(f"train step, {name}", at, "reported", "", measured, token, None, {name: spent})


def streaming_step(layer: nn.Module, tokens: Tensor, state: Any = None) -> tuple[Step, dict[str, Any]]:
    """Some tokens, one after the other; the state of the sequence so far lies in the dictionary."""
    step, start = streaming(layer, DIM, tokens.device)
    held = {"state": start if state is None else state}

    def run() -> object:
        with torch.no_grad():
            for x in tokens:
                y, held["state"] = step(x, held["state"])
        return y

    return synchronised(run, tokens.device), held


def streams(device: torch.device, seconds: float) -> Iterator[Figure]:
    """A token of each variant, in turns."""
    tokens = torch.randn(TOKENS, 1, DIM, device=device)
    steps, held = {}, {}
    for name, make in variants(DIM, TERMS).items():
        if name != "Transformer":
            steps[name], held[name] = streaming_step(make().to(device).eval(), tokens)
    soft = PDSSM(DIM, DIM, TERMS, dense_inference=True).to(device).eval()  # which trains as any other
    steps["PD-SSM, softmax P"], held["PD-SSM, softmax P"] = streaming_step(soft, tokens)
    if has_numba():  # the candidates are listed on the CPU, wherever they are searched
        frozen = PDSSM(DIM, DIM, TERMS).to(device).eval()
        frozen.freeze()
        steps["PD-SSM, frozen"], held["PD-SSM, frozen"] = streaming_step(frozen, tokens)
    for length in (1000, 10000):
        name = f"Transformer after {length:,} tokens"
        # Its cache is put back after every turn, or the figure would be of another length.
        steps[name], held[name] = cached_step(Transformer(DIM).to(device).eval(), tokens, length)
    for name, spent in side_by_side(steps, seconds).items():
        token, held_bytes = 1e6 * spent / TOKENS, state_bytes(held[name]["state"])
        measured = f"{token:.0f} us/token, {held_bytes:,} B"
        at = f"{device.type}, one sequence"
        yield Figure(
            f"streaming step, {name}", at, "reported", "", measured, token, None,
            {name: spent / TOKENS, "bytes": held_bytes},
        )  # fmt: skip


def cached_step(layer: Transformer, tokens: Tensor, length: int) -> tuple[Step, dict[str, Any]]:
    """A Transformer's tokens after ``length`` others."""
    cache = Cache(DIM, length, tokens.device)
    run, held = streaming_step(layer, tokens, cache)

    def step() -> object:
        cache.length = length
        return run()

    return step, held


# -------------------------------------------------------------------------------------------- a million tokens


def resident() -> int:
    """Bytes of this process's resident memory."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def flatness(tokens: int) -> Iterator[Figure]:
    """PD-SSM, streamed: the last tenth takes as long as the first one, and nothing accumulates."""
    layer = PDSSM(DIM, DIM, TERMS).eval()
    inputs = torch.randn(1024, 1, DIM)
    state = layer.initial_state(1)
    tenth = tokens // 10
    spent: list[list[float]] = [[] for _ in range(10)]
    with torch.no_grad():
        for x in inputs[:512]:
            _, state = layer.step(x, state)
        memory = resident()
        for pieces in spent:
            for first in range(0, tenth, 100):
                last = min(first + 100, tenth)
                start = time.perf_counter()
                for t in range(first, last):
                    y, state = layer.step(inputs[t % 1024], state)
                pieces.append((time.perf_counter() - start) / (last - first))
    grown = resident() - memory
    assert bool(torch.isfinite(y).all())
    # Medians of pieces of 100 tokens: what else the machine does should not decide.
    first_tenth, last_tenth = statistics.median(spent[0]), statistics.median(spent[-1])
    at = f"cpu, {tokens:,} tokens"
    ratio = last_tenth / first_tenth
    times = {"first tenth": first_tenth, "last tenth": last_tenth}
    measured = f"{ratio:.2f} ({1e6 * first_tenth:.0f} us, {1e6 * last_tenth:.0f} us)"
    yield Figure(
        "a token of the last tenth / the first", at, "at most 1.2", "1.05", measured, ratio, ratio <= 1.2, times
    )
    megabytes = grown / 2**20
    yield Figure(
        "memory growth while streaming", at, "at most 4 MiB", "0", f"{megabytes:.1f} MiB", megabytes, megabytes <= 4, {}
    )


# ------------------------------------------------------------------------------------------------------ all of them


def has_numba() -> bool:
    """Whether our CPU kernels can run: a machine with a GPU may do without."""
    return importlib.util.find_spec("numba") is not None


def available() -> list[str]:
    """Devices the layers can be measured on."""
    return [*(["cpu"] if has_numba() else []), *(["cuda"] if torch.cuda.is_available() else [])]


def figures(quick: bool, tokens: int | None = None, devices: Sequence[str] = ("cpu",)) -> Iterator[Figure]:
    """All of them; ``tokens`` streamed for the flatness figures."""
    seconds = 2.0 if quick else 20.0
    batch, length = (2, 256) if quick else (BATCH, LENGTH)
    for device in map(torch.device, devices):
        yield from training(device, seconds, batch, length)
        yield from streams(device, seconds / 2)
    if "cpu" in devices:
        yield from flatness(tokens or (20_000 if quick else 1_000_000))


def options(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("--tokens", type=int, help="streamed for the flatness figures (a million; about 1 ms each)")
    parser.add_argument("--device", nargs="+", choices=available(), default=available(), help="all there are")


def measure(given: argparse.Namespace) -> Stored:
    """Everything."""
    torch.manual_seed(0)
    return {"figures": shown(figures(given.quick, given.tokens, given.device))}


def main() -> None:
    """Measure, print, store."""
    command(__doc__, measure, quick="shorter sequences, 20,000 tokens streamed", extend=options)


if __name__ == "__main__":
    main()
