"""Measuring a model on words it has never seen, in chunks, so that memory stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pdssm.models import SequenceModel
from pdssm.tasks import Batch, Split, Task, sample_batch
from pdssm.training.config import Lengths

CHUNK = 2**16


@dataclass(frozen=True)
class Evaluation:
    """What came out, over all words."""

    accuracy: float
    """The fraction of right labels."""
    last: float
    """The same at each word's last label."""
    whole: float
    """The fraction of words with no wrong label at all."""
    loss: float
    """Mean cross-entropy of a label."""
    sequences: int
    labels: int


def evaluate(
    model: SequenceModel,
    task: Task,
    lengths: Lengths,
    samples: int,
    *,
    seed: int = 0,
    split: Split = "validation",
    chunk: int = CHUNK,
    share: tuple[int, int] = (0, 1),
    total: Callable[[Tensor], Tensor] = lambda counts: counts,
    autocast: AbstractContextManager[object] | None = None,
) -> Evaluation:
    """``samples`` words of the stream (seed, split), the same ones whenever asked, about ``chunk`` steps at once.

    Process ``share[0]`` of ``share[1]`` takes every ``share[1]``-th chunk; ``total`` adds up their counts.
    """
    device = next(model.parameters()).device
    counts = torch.zeros(6, dtype=torch.float64, device=device)
    size = max(1, chunk // lengths[1])
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), autocast or nullcontext():
            for number, start in enumerate(range(0, samples, size)):
                if number % share[1] == share[0]:
                    batch = sample_batch(task, seed, split, number, min(size, samples - start), lengths)
                    counts += _counts(model, batch.to(device))
    finally:
        model.train(training)
    right, last, whole, loss, sequences, labels = (float(c) for c in total(counts))
    return Evaluation(right / labels, last / sequences, whole / sequences, loss / labels, int(sequences), int(labels))


def _counts(model: SequenceModel, batch: Batch) -> Tensor:
    """Right labels, right last labels, faultless words, summed loss, words, labels."""
    logits = model(batch.tokens[None], cu_seqlens=batch.cu_seqlens, positions=batch.positions).float()
    right = logits.argmax(-1) == batch.labels
    loss = cross_entropy(logits, batch.labels, reduction="sum")
    labels, sequences = len(right), len(batch)
    # Each word's labels lie together, so the faultless words are those whose wrong labels do not count up.
    ends = torch.searchsorted(batch.positions, batch.cu_seqlens[1:]) - 1
    wrong = torch.cumsum(~right, 0)[ends].diff(prepend=torch.zeros(1, dtype=torch.int64, device=right.device))
    values = [
        right.sum(),
        right[ends].sum(),
        (wrong == 0).sum(),
        loss,
        loss.new_tensor(sequences),
        loss.new_tensor(labels),
    ]
    return torch.stack([value.double() for value in values])


def accuracy_by_length(
    model: SequenceModel,
    task: Task,
    lengths: Iterable[int],
    samples: int,
    *,
    seed: int = 0,
    steps: int = 2**21,
    chunk: int = CHUNK,
) -> dict[int, Evaluation]:
    """Of words of one length each, from the test stream.

    Of long ones there are fewer, so that a length costs at most ``steps``, but never fewer than eight.
    """
    found = {}
    for length in lengths:
        count = max(8, min(samples, steps // length))
        found[length] = evaluate(model, task, (length, length), count, seed=seed, split="test", chunk=chunk)
    return found
