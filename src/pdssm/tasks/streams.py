"""Where batches come from: batch ``number`` of a stream is a function of (seed, split, number) and nothing else.

A counter-based generator (Philox) is opened at a place of its own for every batch: its key is (seed, split), the top
word of its 256-bit counter is the number. No two batches share a place, so training and validation never meet, whatever
the seeds; a run resumes at any batch without a saved state, and several processes may draw batches of one stream.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from pdssm.errors import RangeError
from pdssm.tasks.base import Task
from pdssm.tasks.batch import Batch

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


def stream_generator(seed: int, split: Split, number: int) -> np.random.Generator:
    """The random numbers of one batch."""
    if split not in SPLITS:
        raise RangeError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    for name, value in (("seed", seed), ("number", number)):
        if not 0 <= value < 2**64:
            raise RangeError(f"{name} is {value}; expected 0 <= {name} < 2**64")
    key = np.array([seed, SPLITS.index(split)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, number], dtype=np.uint64)))


def sample_batch(task: Task, seed: int, split: Split, number: int, count: int, lengths: tuple[int, int]) -> Batch:
    """Batch ``number`` of the stream (seed, split): ``count`` words of uniform length."""
    return task.sample(count, lengths, stream_generator(seed, split, number))
