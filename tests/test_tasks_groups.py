"""Group word problems against permutations composed one by one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdssm.automata import group
from pdssm.tasks import GroupTask, sample_batch

Permutation = tuple[int, ...]
ORDERS = {"A5": 60, "S5": 120, "A4": 12, "S3": 6, "Z7": 7, "D4": 8, "Z2xZ4": 8, "S3xZ2": 12}


def after(first: Permutation, then: Permutation) -> Permutation:
    return tuple(then[first[point]] for point in range(len(first)))


def permutations(task: GroupTask) -> tuple[list[Permutation], list[Permutation]]:
    elements = [tuple(row) for row in task.group.elements.tolist()]
    return elements, [elements[index] for index in task.generators.tolist()]


@pytest.mark.parametrize("name", ORDERS)
@given(extra=st.integers(0, 3), seed=st.integers(0, 1_000), high=st.integers(1, 30))
def test_the_label_is_the_running_product(name: str, extra: int, seed: int, high: int) -> None:
    task = GroupTask(name, len(group(name).generators) + extra, seed=seed)
    elements, symbols = permutations(task)
    batch = sample_batch(task, seed, "train", 0, 5, (1, high))
    for index in range(5):
        tokens, labels = batch.sequence(index)
        product, expected = tuple(range(task.group.degree)), []
        for token in tokens.tolist():
            product = after(product, symbols[token])
            expected.append(product)
        assert [elements[label] for label in labels.tolist()] == expected


@pytest.mark.parametrize(("name", "n"), [("A5", 2), ("A5", 6), ("A5", 8), ("A5", 12), ("S5", 4), ("S5", 8), ("S5", 32)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_symbols_are_distinct_and_generate_the_group(name: str, n: int, seed: int) -> None:
    task = GroupTask(name, n, seed=seed)
    elements, symbols = permutations(task)
    assert len(set(symbols)) == n == task.input_size
    reached = {tuple(range(5))}
    fresh = reached
    while fresh:
        fresh = {after(g, s) for g in fresh for s in symbols} - reached
        reached = reached | fresh
    assert reached == set(elements)
    assert len(reached) == ORDERS[name] == task.output_size == len(task.answers)


def test_the_extra_symbols_depend_on_the_tasks_own_seed() -> None:
    chosen = [GroupTask("A5", 8, seed=seed).generators.tolist() for seed in (0, 1, 0)]
    assert chosen[0] == chosen[2] != chosen[1]
    assert chosen[0][:2] == chosen[1][:2] == GroupTask("A5", 2).generators.tolist()


def test_label_at_the_end_is_the_last_of_every_step() -> None:
    every = sample_batch(GroupTask("S3", 2), 0, "train", 0, 20, (3, 9))
    end = sample_batch(GroupTask("S3", 2, label_at="end"), 0, "train", 0, 20, (3, 9))
    assert end.tokens.equal(every.tokens)
    assert end.positions.equal(every.cu_seqlens[1:] - 1)
    assert end.labels.equal(every.labels[end.positions])


def test_s6_builds() -> None:
    begin = time.perf_counter()
    task = GroupTask("S6", 4)
    print(f"S6 built in {time.perf_counter() - begin:.3f} s")
    assert task.output_size == 720
    batch = sample_batch(task, 0, "test", 0, 2, (2_000, 2_000))
    assert len(batch.labels.unique()) > 600
