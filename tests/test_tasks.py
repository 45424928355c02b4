"""The formal languages against a slow reading of their definitions; batches, streams, the registry."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdssm.errors import RangeError
from pdssm.tasks import SPLITS, TASKS, Task, make_task, sample_batch, stream_generator


def parity(word: list[int]) -> int:
    return 1 if word.count(2) % 2 == 0 else 2


def even_pairs(word: list[int]) -> int:
    changes = sum(pair in ((1, 2), (2, 1)) for pair in itertools.pairwise(word))
    return 1 if changes % 2 == 0 else 2


def cycle_navigation(word: list[int]) -> int:
    place = 0
    for symbol in word:
        place = (place + {1: 0, 2: 1, 3: -1}[symbol]) % 5
    return 4 + place


def modular_arithmetic(word: list[int]) -> int:
    assert word[-1] == 4
    expression = "".join({1: "+", 2: "-", 3: "*"}.get(s, str(s - 5)) for s in word[:-1])
    return 5 + eval(expression) % 5


SLOW: dict[str, Callable[[list[int]], int]] = {
    f.__name__: f for f in (parity, even_pairs, cycle_navigation, modular_arithmetic)
}
SYMBOLS = {
    "parity": {1, 2},
    "even_pairs": {1, 2},
    "cycle_navigation": {1, 2, 3},
    "modular_arithmetic": set(range(1, 10)),
}
EVERY = [*SLOW, "A5:2", "regex:(ab)*"]


@pytest.mark.parametrize("name", SLOW)
@given(low=st.integers(1, 60), span=st.integers(0, 60), count=st.integers(1, 40), seed=st.integers(0, 2**64 - 1))
def test_labels_are_those_of_the_definition(name: str, low: int, span: int, count: int, seed: int) -> None:
    batch = sample_batch(make_task(name), seed, "train", 0, count, (low, low + span))
    assert len(batch) == count
    for index in range(count):
        tokens, labels = batch.sequence(index)
        assert set(tokens.tolist()) <= SYMBOLS[name]
        assert labels.tolist() == [SLOW[name](tokens.tolist())]


@pytest.mark.parametrize("name", EVERY)
@given(low=st.integers(1, 30), span=st.integers(1, 30), count=st.integers(1, 40), number=st.integers(0, 2**64 - 1))
def test_batches_are_packed(name: str, low: int, span: int, count: int, number: int) -> None:
    task = make_task(name)
    batch = sample_batch(task, 3, "validation", number, count, (low, low + span))
    assert all(t.dtype == torch.int64 for t in (batch.tokens, batch.cu_seqlens, batch.positions, batch.labels))
    assert batch.cu_seqlens[0] == 0
    assert batch.cu_seqlens[-1] == len(batch.tokens)
    rounding = name == "modular_arithmetic"
    assert low <= int(batch.lengths.min()) <= int(batch.lengths.max()) <= low + span + rounding
    if task.label_at == "end":
        assert torch.equal(batch.positions, batch.cu_seqlens[1:] - 1)
    else:
        assert torch.equal(batch.positions, torch.arange(len(batch.tokens)))
    assert batch.labels.shape == batch.positions.shape
    assert set(batch.labels.tolist()) <= set(task.answers)
    assert 0 <= int(batch.tokens.min()) <= int(batch.tokens.max()) < task.input_size


def test_published_vocabularies() -> None:
    sizes = {name: (make_task(name).input_size, make_task(name).output_size) for name in SLOW}
    assert sizes == {
        "parity": (3, 3),
        "even_pairs": (3, 3),
        "cycle_navigation": (9, 9),
        "modular_arithmetic": (10, 10),
    }
    assert [make_task(name).chance for name in SLOW] == [1 / 2, 1 / 2, 1 / 5, 1 / 5]
    assert make_task("modular_arithmetic").spell([7, 3, 9, 4]) == "2 * 4 ="


def within_five_sigma(counts: torch.Tensor, probability: float) -> bool:
    total = int(counts.sum())
    sigma = (total * probability * (1 - probability)) ** 0.5
    return bool((counts - total * probability).abs().max() < 5 * sigma)


@pytest.mark.parametrize("name", [n for n in EVERY if n != "modular_arithmetic"])
def test_lengths_are_uniform_on_the_closed_interval(name: str) -> None:
    lengths = sample_batch(make_task(name), 0, "train", 0, 20_000, (3, 12)).lengths
    counts = torch.bincount(lengths)[3:]
    assert len(counts) == 10
    assert within_five_sigma(counts, 1 / 10)


def test_modular_arithmetic_rounds_odd_lengths_up() -> None:
    task = make_task("modular_arithmetic")
    counts = torch.bincount(sample_batch(task, 0, "train", 0, 20_000, (3, 12)).lengths)
    assert counts.nonzero().flatten().tolist() == [4, 6, 8, 10, 12]
    assert within_five_sigma(counts[4::2], 1 / 5)
    assert sample_batch(task, 0, "train", 1, 8, (41, 41)).lengths.tolist() == [42] * 8
    assert sample_batch(task, 0, "train", 2, 8, (1, 1)).lengths.tolist() == [2] * 8


@pytest.mark.parametrize("name", SLOW)
def test_symbols_are_uniform(name: str) -> None:
    tokens = sample_batch(make_task(name), 1, "train", 0, 4_000, (20, 20)).tokens.view(4_000, 20)
    kinds = [tokens[:, :-1:2], tokens[:, 1:-1:2]] if name == "modular_arithmetic" else [tokens]
    for kind in kinds:
        counts = torch.bincount(kind.flatten())
        counts = counts[counts > 0]
        assert within_five_sigma(counts, 1 / len(counts))


def test_long_expressions_do_not_overflow() -> None:
    batch = sample_batch(make_task("modular_arithmetic"), 0, "test", 0, 2, (5_000, 5_000))
    for index in range(2):
        tokens, labels = batch.sequence(index)
        assert labels.tolist() == [modular_arithmetic(tokens.tolist())]


def test_a_batch_is_a_function_of_seed_split_and_number() -> None:
    task = make_task("parity")
    places = [(seed, split, number) for seed in range(6) for split in SPLITS for number in range(6)]
    batches = {p: sample_batch(task, *p, 64, (20, 40)).tokens for p in places}
    for place in reversed(places):
        assert torch.equal(batches[place], sample_batch(task, *place, 64, (20, 40)).tokens)
    assert len({b.numpy().tobytes() for b in batches.values()}) == len(places)


def test_streams_are_disjoint() -> None:
    # The published code's trap: the validation stream of seed s was the training stream of seed 2 s.
    seen: set[int] = set()
    places = [
        (seed, split, number) for seed in (0, 1, 2, 2**64 - 1) for split in SPLITS for number in (0, 1, 2**64 - 1)
    ]
    for seed, split, number in places:
        seen |= set(stream_generator(seed, split, number).integers(0, 2**64, 1_000, dtype=np.uint64).tolist())
    assert len(seen) == 1_000 * len(places)


@pytest.mark.parametrize("name", EVERY)
def test_the_global_generators_are_left_alone(name: str) -> None:
    def states() -> tuple[object, ...]:
        return random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002

    before = states()
    first = sample_batch(make_task(name), 0, "train", 0, 32, (3, 40))
    assert states() == before
    random.seed(1)
    torch.manual_seed(1)
    assert torch.equal(first.tokens, sample_batch(make_task(name), 0, "train", 0, 32, (3, 40)).tokens)


@pytest.mark.parametrize("name", EVERY)
def test_speed_of_a_published_batch(name: str) -> None:
    task = make_task(name)
    times = []
    for number in range(30):
        begin = time.perf_counter()
        batch = sample_batch(task, 0, "train", number, 256, (3, 40))
        times.append(time.perf_counter() - begin)
        assert len(batch) == 256
    print(f"{name}: 256 sequences of 3..40 in {statistics.median(times) * 1e3:.3f} ms (median)")


@pytest.mark.parametrize("name", TASKS)
def test_registry_describes_every_task(name: str) -> None:
    entry = TASKS[name]
    assert entry.summary
    assert "\n    " not in entry.description
    if entry.spelling != "dfa:FILE.json":
        task = make_task(entry.spelling)
        assert isinstance(task, Task)
        assert make_task(task.name).name == task.name


def test_spellings() -> None:
    assert make_task("Cycle-Navigation").name == "cycle_navigation"
    assert make_task("group", group="S3", generators=3).name == make_task("S3:3").name == "S3:3"
    assert make_task("A5:2", seed=4).input_size == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_task("partiy"), "did you mean 'parity'"),
        (lambda: make_task("modular arithmetik"), "did you mean 'modular_arithmetic'"),
        (lambda: make_task("A5"), "did you mean 'A5:2'"),
        (lambda: make_task("zzz"), "expected one of, or one like: parity, even_pairs"),
        (lambda: make_task("parity", length=3), "task 'parity' has no option 'length'; expected none"),
        (lambda: make_task("A5:2", generator=3), "no option 'generator'; expected group, generators, seed, label_at"),
        (lambda: make_task("A5:2", generators=3), "already says generators"),
        (lambda: make_task("regex"), "task 'regex' needs pattern"),
        (lambda: make_task("A5:2", label_at="start"), "label_at is 'start'; expected one of 'end', 'every'"),
        (lambda: make_task("A5:60"), "n is 60; expected 2 to 59"),
        (lambda: sample_batch(make_task("parity"), 0, "train", 0, 4, (0, 3)), "lengths is (0, 3); expected"),
        (lambda: sample_batch(make_task("parity"), 0, "train", 0, 4, (5, 3)), "lengths is (5, 3); expected"),
        (lambda: sample_batch(make_task("parity"), 0, "train", 0, 0, (3, 5)), "count is 0; expected at least 1"),
        (lambda: sample_batch(make_task("parity"), -1, "train", 0, 4, (3, 5)), "seed is -1; expected"),
        (lambda: sample_batch(make_task("parity"), 0, "train", 2**64, 4, (3, 5)), "number is 18446744073709551616"),
        (lambda: sample_batch(make_task("parity"), 0, "dev", 0, 4, (3, 5)), "split is 'dev'; expected one of train"),
        (lambda: sample_batch(make_task("parity"), 0, "train", 0, 4, (3, 5)).sequence(4), "index is 4; expected 0..3"),
    ],
)
def test_errors_name_the_argument(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RangeError) as caught:
        call()
    assert message in str(caught.value)
