"""Training's figures: ``python -m benchmarks.training [--quick] [--json FILE]``.

A step of the published formal-language protocol (parity, one layer, N = 128, K = 8, batch 256, lengths 3..40, loss at
the last token), its data included, on two threads and on one, beside two LSTMs of the same width under the same loop;
and what a batch of every task's generator costs.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.command import Figure, command, shown
from benchmarks.measure import Step, side_by_side
from pdssm.layers import LSTM, MIXERS, Layout, LSTMState
from pdssm.models import SequenceModel
from pdssm.tasks import make_task, sample_batch
from pdssm.training import TrainConfig
from pdssm.training.interruption import Interruption
from pdssm.training.presets import paper_formal
from pdssm.training.processes import Processes
from pdssm.training.state import TrainState
from pdssm.training.step import Stepper

LIMITS = {2: 20.0, 1: 25.0}
"""Milliseconds a step may take, by threads."""
LEAST_RATIO = 3.0
TASKS = ("parity", "even_pairs", "cycle_navigation", "modular_arithmetic", "A5:2", "S5:8", "regex:(ab)*")


class PaddedLSTM(LSTM):
    """Padded to the longest, which the fused kernel for batches prefers to a pack.  The final state is not kept."""

    def mix(
        self, x: Tensor, state: LSTMState, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, LSTMState]:
        x = x if rows is None else x[rows]
        lengths = layout.cu_seqlens.diff()
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        padded = x.new_zeros(*real.shape, self.dim)
        padded[real] = x
        y = self.lstm(padded)[0][real]
        return (y if positions is None else y[positions]), state


def train_step(config: TrainConfig) -> Step:
    """One step after the other of a run's own loop: data, forward and backward pass, optimiser, counters."""
    task = config.make_task()
    torch.manual_seed(config.seed)
    state = TrainState(config, SequenceModel(config.model_config(task)))
    stepper = Stepper(config, task, state, Processes("cpu"), Interruption())

    def step() -> object:
        loss, _ = stepper()
        state.observe(loss)
        return loss

    return step


def parties() -> dict[str, Step]:
    """PD-SSM as published, and the LSTMs in its place."""
    lstm = {"mixer": "lstm", "mixer_options": {}}
    MIXERS["padded_lstm"] = PaddedLSTM
    try:
        return {
            "pdssm": train_step(paper_formal("parity")),
            "lstm": train_step(paper_formal("parity", **lstm)),
            "padded lstm": train_step(paper_formal("parity", **lstm | {"mixer": "padded_lstm"})),
        }
    finally:
        del MIXERS["padded_lstm"]


def steps(threads: int, seconds: float) -> Iterator[Figure]:
    """A training step in milliseconds, and how many times faster than the faster LSTM it is."""
    torch.set_num_threads(threads)
    times = side_by_side(parties(), seconds)
    spent, limit = 1e3 * times["pdssm"], LIMITS[threads]
    at = f"{threads} thread{'s' * (threads > 1)}, batch 256, lengths 3..40, N=128, K=8"
    yield Figure(
        "training step, data included", at, f"at most {limit:g} ms", "", f"{spent:.1f} ms", spent, spent <= limit, times
    )
    for name in ("lstm", "padded lstm"):
        ratio = times[name] / times["pdssm"]
        what, measured = f"training step vs {name}", f"{ratio:.1f}x faster"
        yield Figure(what, at, f"{LEAST_RATIO:g}x faster", "", measured, ratio, ratio >= LEAST_RATIO, times)


def generators(seconds: float) -> Iterator[Figure]:
    """Microseconds for a batch of 256 words of lengths 3..40."""
    torch.set_num_threads(1)

    def draw(name: str) -> Step:
        task, numbers = make_task(name), iter(range(10**9))
        return lambda: sample_batch(task, 0, "train", next(numbers), 256, (3, 40))

    for name, spent in side_by_side({name: draw(name) for name in TASKS}, seconds).items():
        measured = f"{1e6 * spent:.0f} us"
        at = "256 words of lengths 3..40"
        yield Figure(f"batch of {name}", at, "under 1 ms", "", measured, 1e6 * spent, spent < 1e-3, {name: spent})


def figures(quick: bool) -> Iterator[Figure]:
    """All of them."""
    seconds = 1.0 if quick else 20.0
    threads = torch.get_num_threads()
    try:
        for count in LIMITS:
            yield from steps(count, seconds)
        yield from generators(seconds / 4)
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    """Measure, print, store."""
    command(
        __doc__,
        lambda arguments: {"figures": shown(figures(arguments.quick))},
        quick="a second for each comparison instead of twenty",
    )


if __name__ == "__main__":
    main()
