"""Every mixer side by side: ``python -m benchmarks.mixers [--quick] [--json FILE]``.

Width 128, float32, each with its default options: the train step (forward + backward on dense input, B = 8,
L = 1024), the streaming step of one sequence, the bytes of its state and the number of its parameters.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch

from benchmarks.command import Figure, Stored, command, shown
from benchmarks.layer import BATCH, DENSE_LENGTH, DIM, LENGTH, TOKENS, streaming_step, train_step
from benchmarks.layer_variants import state_bytes
from benchmarks.measure import side_by_side
from pdssm.layers import MIXERS, make_mixer

MUST = 4.0
"""Times our PD layer's train step, at most."""
DENSE = ("sdssm",)
"""Matrices of every token at L = 1024 would take 4 GB: a shorter sequence, and the figure is per token."""
DEVICE = torch.device("cpu")


def training(seconds: float, batch: int, length: int) -> Iterator[Figure]:
    """A step of each, in turns with PD-SSM's: the figure is a ratio of times a token."""
    for name in MIXERS:
        own = min(length, DENSE_LENGTH) if name in DENSE else length
        steps = {
            each: train_step(make_mixer(each, DIM, {}), batch, own if each == name else length, DEVICE)
            for each in dict.fromkeys(("pdssm", name))
        }
        spent = side_by_side(steps, seconds)
        token = {each: spent[each] / (batch * (own if each == name else length)) for each in spent}
        ratio = token[name] / token["pdssm"]
        yield Figure(
            f"train step, {name}", f"B={batch}, L={own}", f"at most {MUST:g}x PD-SSM", "1x",
            f"{ratio:.2f}x, {1e6 * token[name]:.2f} us/token", ratio, ratio <= MUST, spent,
        )  # fmt: skip


def streams(seconds: float) -> Iterator[Figure]:
    """A token of each, in turns; its state and its parameters."""
    tokens = torch.randn(TOKENS, 1, DIM)
    mixers = {name: make_mixer(name, DIM, {}).eval() for name in MIXERS}
    steps, held = {}, {}
    for name, mixer in mixers.items():
        steps[name], held[name] = streaming_step(mixer, tokens)
    for name, spent in side_by_side(steps, seconds).items():
        size, weights = state_bytes(held[name]["state"]), sum(p.numel() for p in mixers[name].parameters())
        token = 1e6 * spent / TOKENS
        yield Figure(
            f"streaming step, {name}", "one sequence", "reported", "", f"{token:.0f} us/token", token, None,
            {name: spent / TOKENS, "bytes": size, "parameters": weights},
        )  # fmt: skip


def measure(given: argparse.Namespace) -> Stored:
    """Everything."""
    torch.manual_seed(0)
    batch, length = (2, 128) if given.quick else (BATCH, LENGTH)
    seconds = 1.0 if given.quick else 6.0
    return {"figures": [*shown(training(seconds, batch, length)), *shown(streams(4 * seconds))]}


def main() -> None:
    """Measure, print, store."""
    command(__doc__, measure, quick="shorter sequences, a second each")


if __name__ == "__main__":
    main()
