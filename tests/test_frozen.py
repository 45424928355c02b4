"""The frozen selection gives the full selection's index to the bit, whatever the dictionary and the scores."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pdssm.errors import DtypeError, RangeError, ShapeError
from pdssm.kernels import cpu, frozen, reference
from pdssm.kernels.cpu import searching
from pdssm.kernels.cpu.candidates import beats
from pdssm.kernels.frozen import CompiledCandidates, FrozenDictionary, GatheredCandidates, freeze

DTYPES = [torch.float32, torch.float64]
DICTIONARIES = [
    "normal", "integers", "ulps", "duplicates", "constant", "huge", "overflowing", "tiny", "subnormal", "uneven",
    "convex",
]  # fmt: skip


def random_dictionary(kind: str, k: int, n: int, dtype: torch.dtype, seed: int) -> Tensor:
    """(K, N, N) with the trouble that ``kind`` names."""
    rng = np.random.default_rng(seed)
    limits = torch.finfo(dtype)
    normal = torch.from_numpy(rng.standard_normal((k, n, n))).to(dtype)
    if kind == "integers":
        return torch.from_numpy(rng.integers(-2, 3, (k, n, n))).to(dtype)
    if kind == "subnormal":  # a few of the smallest steps there are: every product is rounded away
        return torch.from_numpy(rng.integers(-3, 4, (k, n, n))).to(dtype) * (limits.tiny * limits.eps)
    if kind == "ulps":  # every row within a few units in the last place of the column's first
        ulps = torch.from_numpy(rng.integers(-2, 3, (k, n, n))).to(dtype)
        return normal[:, :1] * (1 + limits.eps * ulps)
    if kind == "duplicates":
        return normal[:, torch.from_numpy(rng.integers(0, max(1, n // 3), n))].contiguous()
    if kind == "convex":  # every row can win
        return normal.abs() / normal.norm(dim=0)
    troubles = {"constant": 0.0, "huge": limits.max / 100, "overflowing": limits.max / 3, "tiny": limits.tiny * 1e3}
    scale = troubles.get(kind, 1.0)
    if kind == "uneven":
        return normal * torch.from_numpy(10.0 ** rng.integers(-8, 9, (k, n, 1))).to(dtype)
    return (normal * scale).clamp(-limits.max, limits.max) + (kind == "constant")


def hard_scores(k: int, dtype: torch.dtype, seed: int, count: int = 40) -> Tensor:
    """Vertices, edges, dyadic numbers and softmaxes from flat to one-hot."""
    rng = np.random.default_rng(seed)
    edges = np.zeros((count, k))
    for row in edges:
        share = rng.choice([0.5, 0.25, rng.random(), 2.0**-40])
        row[rng.integers(k)] += share
        row[rng.integers(k)] += 1 - share
    dyadic = rng.multinomial(16, np.ones(k) / k, count) / 16
    logits = rng.standard_normal((count, k)) * rng.choice([0.01, 1, 10, 300], (count, 1))
    soft = torch.softmax(torch.from_numpy(logits).to(dtype), -1)
    return torch.cat((torch.eye(k, dtype=dtype), torch.from_numpy(np.concatenate((edges, dyadic))).to(dtype), soft))


def as_on_a_device(dictionary: Tensor) -> GatheredCandidates:
    """What ``freeze`` makes on other devices, here."""
    lists = frozen._gathered(dictionary, *frozen._lists(dictionary, searching.candidates(dictionary)))
    return dataclasses.replace(lists, pays_from=0)  # or the reference would search the small ones


def from_mask(dictionary: Tensor, kept: Tensor) -> CompiledCandidates:
    rows, values, counts = frozen._lists(dictionary, kept)
    return CompiledCandidates(counts, dictionary.shape[0], *searching.pack(rows, values, counts))


def assert_exact(candidates: FrozenDictionary, dictionary: Tensor, scores: Tensor) -> None:
    """The index of the full selection of the same backend."""
    full = cpu.select if isinstance(candidates, CompiledCandidates) else reference.select
    index, expected = candidates.select(scores), full(scores, dictionary, None)
    assert index.dtype == torch.int32
    assert torch.equal(index, expected), f"{int((index != expected).sum())} of {index.numel()} differ"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=150)
@given(kind=st.sampled_from(DICTIONARIES), n=st.sampled_from([1, 2, 3, 7, 16, 17, 33, 50]), k=st.integers(1, 9),
       seed=st.integers(0, 2**20))  # fmt: skip
def test_exact(dtype: torch.dtype, kind: str, n: int, k: int, seed: int) -> None:
    dictionary, scores = random_dictionary(kind, k, n, dtype, seed), hard_scores(k, dtype, seed)
    candidates = freeze(dictionary)
    assert candidates.counts.shape == (n,)
    assert int(candidates.counts.min()) >= 1
    assert int(candidates.counts.max()) <= n
    assert_exact(candidates, dictionary, scores)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=60)
@given(
    kind=st.sampled_from(DICTIONARIES), n=st.sampled_from([1, 5, 33]), k=st.integers(1, 7), seed=st.integers(0, 2**20)
)
def test_exact_on_other_devices(dtype: torch.dtype, kind: str, n: int, k: int, seed: int) -> None:
    """The plain-torch lists, on this device, against the reference."""
    dictionary, scores = random_dictionary(kind, k, n, dtype, seed), hard_scores(k, dtype, seed)
    assert_exact(as_on_a_device(dictionary), dictionary, scores)


def test_the_lists_decide_on_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear winners are not left to the reference: it is asked only where something is close."""
    dictionary, scores = random_dictionary("normal", 6, 128, torch.float64, 0), hard_scores(6, torch.float64, 0)
    candidates, expected = as_on_a_device(dictionary), reference.select(scores, dictionary, None)
    monkeypatch.setattr(frozen.device, "select", None)
    assert torch.equal(candidates.select(scores), expected)


@pytest.fixture
def coarse_products() -> Iterator[None]:
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("coarse_products")
def test_coarse_products_are_left_to_the_reference() -> None:
    """With fewer bits in a product than float32 has, the bound does not hold."""
    dictionary, scores = random_dictionary("normal", 6, 64, torch.float32, 0), hard_scores(6, torch.float32, 0)
    assert_exact(as_on_a_device(dictionary), dictionary, scores)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1000])
def test_any_number_of_transitions(count: int) -> None:
    """Blocks, remainders and parts have the same bits, on one thread and on two."""
    dictionary = random_dictionary("normal", 6, 100, torch.float32, 1)
    scores = torch.softmax(torch.randn(count, 6, generator=torch.Generator().manual_seed(0)), -1)
    threads = torch.get_num_threads()
    for number in (1, 2):
        torch.set_num_threads(number)
        candidates = freeze(dictionary)
        assert torch.equal(candidates.select(scores), cpu.select(scores, dictionary, None))
        assert torch.equal(candidates.select(scores.t().contiguous().t()), candidates.select(scores))
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ulps", [-1, 1])
def test_rows_one_ulp_apart_are_both_kept(dtype: torch.dtype, ulps: int) -> None:
    """Rounding may make them tie, and then the lower one wins; equal rows can leave theirs to the lowest."""
    dictionary = torch.tensor([0.7, 0.3, 0.1], dtype=dtype)[:, None, None].repeat(1, 4, 4)
    dictionary[0, 1] *= 1 + ulps * torch.finfo(dtype).eps
    dictionary[:, 3] -= 0.05
    assert searching.candidates(dictionary).tolist() == [[True, True, False, False]] * 4
    assert_exact(freeze(dictionary), dictionary, hard_scores(3, dtype, 0, 2000))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_that_overflow_together_tie(dtype: torch.dtype) -> None:
    """A sum of scores just above 1 takes both rows to infinity, where the lower one wins though it is smaller."""
    top = torch.finfo(dtype).max
    dictionary = torch.tensor([0.9995 * top, top], dtype=dtype)[:, None].repeat(2, 1, 2)
    scores = torch.tensor([[0.5004, 0.5004], [0.49, 0.51]], dtype=dtype)
    assert cpu.select(scores, dictionary, None).tolist() == [[0, 0], [1, 1]]
    assert_exact(freeze(dictionary), dictionary, scores)
    assert_exact(as_on_a_device(dictionary), dictionary, scores)


@given(n=st.integers(2, 60), seed=st.integers(0, 2**20))
def test_no_row_too_many(n: int, seed: int) -> None:
    """K = 2: exactly the rows that are largest somewhere on a segment, found by cutting it at every crossing."""
    dictionary = random_dictionary("normal", 2, n, torch.float64, seed)
    kept = searching.candidates(dictionary)
    for b in range(n):
        start, end = dictionary[0, :, b], dictionary[1, :, b]
        for a in range(n):
            # Row a leads row r at t where (start + t (end - start)) of a minus that of r is positive.
            gap, slope = start[a] - start, (end[a] - end) - (start[a] - start)
            crossing = -gap / slope
            low = max([0.0, *crossing[slope > 0].tolist()])
            high = min([1.0, *crossing[slope < 0].tolist()])
            assert bool(kept[b, a]) == (low < high)


def test_few_of_many() -> None:
    """Random dictionaries have few rows on the envelope (notes: about 30 of 128, K = 6)."""
    dictionary = random_dictionary("normal", 6, 128, torch.float32, 0)
    assert 20 < float(freeze(dictionary).counts.float().mean()) < 40


def test_a_wrong_drop_is_seen() -> None:
    """The comparison above fails when one winner is missing from the lists."""
    dictionary, scores = random_dictionary("normal", 4, 20, torch.float32, 3), hard_scores(4, torch.float32, 3)
    kept = searching.candidates(dictionary)
    assert_exact(from_mask(dictionary, kept), dictionary, scores)
    kept[7, int(cpu.select(scores, dictionary, None)[30, 7])] = False
    with pytest.raises(AssertionError, match="differ"):
        assert_exact(from_mask(dictionary, kept), dictionary, scores)


def test_a_certificate_must_reach_the_margin() -> None:
    """A mixture that falls short in one corner proves nothing, nor do weights that are all zero."""
    points = np.array([[4.0, 0.0, 1.0], [0.0, 4.0, 1.5]])
    rows, half = np.array([0, 1]), np.array([0.5, 0.5])
    assert beats(points, 2, rows, half, 0.5)
    assert not beats(points, 2, rows, half, 0.5001)
    assert beats(points, 2, rows, np.array([1.0, 1.0]), 0.5)
    assert not beats(points, 2, rows, np.array([1.0, 0.0]), 0.0)
    assert not beats(points, 2, rows, np.zeros(2), 0.0)
    assert not beats(points, 2, rows, np.array([0.5, np.nan]), 0.0)


def test_later_changes_do_not_reach_it() -> None:
    """Copies all the way, deep copies included."""
    dictionary, scores = random_dictionary("normal", 3, 20, torch.float32, 0), hard_scores(3, torch.float32, 0)
    for candidates in (freeze(dictionary), as_on_a_device(dictionary)):
        expected, twin = candidates.select(scores), copy.deepcopy(candidates)
        with torch.no_grad():
            dictionary.neg_()
        assert torch.equal(candidates.select(scores), expected)
        assert torch.equal(twin.select(scores), expected)
        dictionary.neg_()
    with pytest.raises(AttributeError, match="counts"):
        candidates.counts = expected  # type: ignore[misc]


def test_in_a_compiled_graph() -> None:
    """One graph, no break, and an op that torch's own checks accept."""
    candidates, scores = freeze(random_dictionary("normal", 3, 20, torch.float32, 0)), hard_scores(3, torch.float32, 0)
    assert isinstance(candidates, CompiledCandidates)
    compiled = torch.compile(lambda s: candidates.select(s) + 1, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(scores), candidates.select(scores) + 1)
    arguments = (scores, candidates.rows, candidates.values, candidates.starts, 20)
    torch.library.opcheck(frozen._frozen_selection, arguments)


@pytest.mark.parametrize(("shape", "message"), [((2, 3, 4), r"\(2, 3, 4\)"), ((3, 3), r"\(3, 3\)"), ((0, 3, 3), "0")])
def test_dictionary_shapes(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        freeze(torch.zeros(shape))


def test_dictionary_values() -> None:
    for bad in (float("nan"), float("inf"), -float("inf")):
        dictionary = torch.zeros(2, 3, 3)
        dictionary[1, 2, 0] = bad
        with pytest.raises(RangeError, match=r"dictionary \(2, 3, 3\) holds 1 NaN or infinite"):
            freeze(dictionary)
    with pytest.raises(DtypeError, match="float16"):
        freeze(torch.zeros(2, 3, 3, dtype=torch.float16))


@pytest.mark.parametrize("make", [freeze, as_on_a_device])
def test_scores(make: type[FrozenDictionary]) -> None:
    """Another shape, another type, or off the simplex."""
    candidates = make(random_dictionary("normal", 3, 5, torch.float32, 0))
    for shape in ((4, 2), (3,), (1, 4, 3)):
        with pytest.raises(ShapeError, match=r"expected \(U, 3\)"):
            candidates.select(torch.ones(shape) / 3)
    with pytest.raises(DtypeError, match="float64"):
        candidates.select(torch.ones(4, 3, dtype=torch.float64) / 3)
    good = torch.tensor([[0.5, 0.25, 0.25]]).repeat(4, 1)
    for bad in ([0.5, 0.6, -0.1], [0.5, 0.25, 0.26], [0.5, 0.25, 0.24], [float("nan"), 0.5, 0.5], [float("inf"), 0, 0]):
        scores = good.clone()
        scores[2] = torch.tensor(bad)
        with pytest.raises(RangeError, match=r"scores\[2\]"):
            candidates.select(scores)
    assert candidates.select(good * 1.0005).shape == (4, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "convex"])
def test_freezing_a_large_dictionary_takes_under_a_minute(kind: str) -> None:
    """On two cores; where every row can win, the search for hopeless ones gives up in time."""
    dictionary = random_dictionary(kind, 6, 2048, torch.float32, 0)
    scores = hard_scores(6, torch.float32, 0, 10)
    start = time.process_time()
    candidates = freeze(dictionary)
    assert time.process_time() - start < 2 * 60
    assert_exact(candidates, dictionary, scores)
