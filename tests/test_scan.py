"""``scan``: every backend against a loop over dense matrices, written here, for values and gradients."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pdssm import BlockDiagonal, scan, scan_readout
from pdssm.kernels.cpu.families import blocks
from pdssm.transitions import Transition
from tests.factories import CLOSED, COMPILED, STRUCTURES, Draw, differentiable, real_loss, relative_error

# How else a family can be solved; None is what a user gets.
CASES = [(name, backend) for name in STRUCTURES for backend in ("reference", None)]
CASES += [(name, "chunked") for name in ("pd", "row_pd", "selected_pd", "selected_row_pd", "noisy_pd", "diagonal")]
CASES += [(name, "associative") for name in sorted({*CLOSED, "selected_pd", "selected_row_pd", "noisy_pd"})]

seeds = st.integers(0, 2**20)
lengths_of_packs = st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any)


def oracle(
    a: Transition, inputs: Tensor, initial: Tensor, cu: list[int], rows: Tensor, reverse: bool
) -> tuple[Tensor, Tensor]:
    """x_t = A x_{t-1} + b by dense matrices; (1, T, H, V, N) packed, rows (T,)."""
    matrices = a.to_dense()
    states: list[Tensor | None] = [None] * len(rows)
    final = []
    for s, (start, stop) in enumerate(itertools.pairwise(cu)):
        x = initial[s]
        for t in reversed(range(start, stop)) if reverse else range(start, stop):
            x = (matrices[rows[t]] @ x.mT).mT + inputs[rows[t]]
            states[t] = x
        final.append(x)
    return torch.stack(states)[None], torch.stack(final)  # type: ignore[arg-type]


def compare(got: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float) -> None:
    for value, oracle_value in zip(got, expected, strict=True):
        assert value.shape == oracle_value.shape
        assert not value.isnan().any()
        assert relative_error(value, oracle_value) < tolerance


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(("name", "backend"), CASES)
@settings(max_examples=8)
@given(lengths=lengths_of_packs, heads=st.integers(1, 2), channels=st.integers(1, 2), with_rows=st.booleans(),
       reverse=st.booleans(), n=st.sampled_from([4, 8]), count=st.integers(1, 4), seed=seeds)  # fmt: skip
def test_values_and_gradients(
    name: str, backend: str | None, dtype: torch.dtype, lengths: list[int], heads: int, channels: int,
    with_rows: bool, reverse: bool, n: int, count: int, seed: int,
) -> None:  # fmt: skip
    """Packed, with heads, channels, rows and either direction: states, final ones and all gradients."""
    draw = Draw(seed, dtype)
    cu = torch.tensor([0, *lengths]).cumsum(0)
    steps = int(cu[-1])
    rows = draw.integers(count, steps) if with_rows else torch.arange(steps)
    batch = (count, heads) if with_rows else (steps, heads)
    a = STRUCTURES[name](draw, batch, n)
    leaves = differentiable(a)
    inputs = draw(*batch, channels, n).requires_grad_()
    initial = draw(len(lengths), heads, channels, n).requires_grad_()
    given_a, given_inputs = (a, inputs) if with_rows else (a[None], inputs[None])
    got = scan(
        given_a,
        given_inputs,
        initial,
        cu_seqlens=cu,
        rows=rows[None] if with_rows else None,
        reverse=reverse,
        backend=backend,
    )
    expected = oracle(a, inputs, initial, cu.tolist(), rows, reverse)
    compare(got, expected, 1e-10)
    everything = [*leaves, inputs, initial]
    for pick in (slice(0, 2), slice(0, 1), slice(1, 2)):  # a loss on the states, the final ones, or both
        gradients = torch.autograd.grad(real_loss(*got[pick]), everything, retain_graph=True, allow_unused=True)
        oracles = torch.autograd.grad(real_loss(*expected[pick]), everything, retain_graph=True, allow_unused=True)
        for value, oracle_value in zip(gradients, oracles, strict=True):
            if oracle_value is None or not oracle_value.abs().any():
                assert value is None or not value.abs().any()
            else:
                compare((value,), (oracle_value,), 1e-9)


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_single_precision(name: str, dtype: torch.dtype) -> None:
    """float32 within 1e-4 of the same problem in float64, gradients too."""
    results = []
    for precision in (dtype, torch.complex128 if dtype.is_complex else torch.float64):
        draw = Draw(3, precision)
        single = Draw(3, dtype)
        a = STRUCTURES[name](single, (2, 30), 16)
        wide = {f: getattr(a, f) for f in (*a.event_axes, "dictionary") if isinstance(getattr(a, f, None), Tensor)}
        wide = {f: t.to(precision if t.is_complex() else draw.real) if t.is_floating_point() or t.is_complex() else t
                for f, t in wide.items()}  # fmt: skip
        a = a._replace(wide)
        leaves = differentiable(a)
        inputs = single(2, 30, 16).to(precision).requires_grad_()
        states, final = scan(a, inputs)
        grads = torch.autograd.grad(real_loss(states, final), [*leaves, inputs])
        results.append((states, final, *grads))
    compare(results[0], results[1], 1e-4)


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_a_pack_is_its_sequences_to_the_bit(name: str, backend: str | None) -> None:
    draw = Draw(11, torch.complex64)
    lengths = [5, 1, 0, 9, 16]
    cu = torch.tensor([0, *lengths]).cumsum(0)
    a = STRUCTURES[name](draw, (1, int(cu[-1])), 8)
    inputs, initial = draw(1, int(cu[-1]), 8), draw(len(lengths), 8)
    if hasattr(a, "index"):
        assert a.index is not None  # one selection: whether it depends on the batch is test_selected's question
    states, final = scan(a, inputs, initial, cu_seqlens=cu, backend=backend)
    for s, (start, stop) in enumerate(zip(cu[:-1].tolist(), cu[1:].tolist(), strict=True)):
        if start == stop:
            assert torch.equal(final[s], initial[s])
            continue
        alone, last = scan(a[:, start:stop], inputs[:, start:stop], initial[s : s + 1], backend=backend)
        assert torch.equal(states[:, start:stop], alone)
        assert torch.equal(final[s], last[0])


@pytest.mark.parametrize("name", COMPILED)
def test_a_scan_can_be_cut_anywhere(name: str) -> None:
    """Carrying the final state over a cut changes no bit."""
    draw = Draw(5, torch.complex64)
    a, inputs = STRUCTURES[name](draw, (2, 12), 8), draw(2, 12, 8)
    whole, last = scan(a, inputs)
    carried = None
    for start, stop in ((0, 1), (1, 7), (7, 12)):
        piece, carried = scan(a[:, start:stop], inputs[:, start:stop], carried)
        assert torch.equal(piece, whole[:, start:stop])
    assert carried is not None
    assert torch.equal(carried, last)


@pytest.mark.parametrize("name", COMPILED)
def test_rows_are_the_dense_case(name: str) -> None:
    draw = Draw(6, torch.complex64)
    a, inputs, rows = STRUCTURES[name](draw, (3,), 8), draw(3, 8), draw.integers(3, 2, 10)
    assert torch.equal(scan(a, inputs, rows=rows)[0], scan(a[rows], inputs[rows])[0])


def test_batches_broadcast() -> None:
    """One transition for all steps, as in a time-invariant model."""
    draw = Draw(7, torch.float64)
    a, inputs = STRUCTURES["diagonal"](draw, (1, 1), 4), draw(2, 5, 4)
    assert torch.equal(scan(a, inputs)[0], scan(a[torch.zeros(2, 5).long(), torch.zeros(2, 5).long()], inputs)[0])


@pytest.mark.parametrize("name", ["householder", "delta", "dense", "low_rank"])
@pytest.mark.parametrize("packed", [False, True])
def test_readout_without_the_states(name: str, packed: bool) -> None:
    """``scan_readout`` equals scan and then readout, gradients included, whatever the chunk."""
    draw = Draw(8, torch.float64)
    shape = (1, 14, 2) if packed else (2, 14, 2)
    a = STRUCTURES[name](draw, shape, 4)
    leaves = [*differentiable(a), *(draw(*shape, w).requires_grad_() for w in (3, 4, 4))]
    values, keys, queries = leaves[-3:]
    cu = torch.tensor([0, 6, 6, 14]) if packed else None
    states, final = scan(a, values[..., :, None] * keys[..., None, :], cu_seqlens=cu)
    expected = ((states * queries[..., None, :]).sum(-1), final)
    grads = torch.autograd.grad(real_loss(*expected), leaves)
    for chunk in (1, 5, 64):
        got = scan_readout(a, values, keys, queries, cu_seqlens=cu, chunk=chunk)
        compare(got, expected, 1e-12)
        compare(torch.autograd.grad(real_loss(*got), leaves), grads, 1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("width", [1, blocks.NARROW, blocks.NARROW + 1])
def test_narrow_and_wide_blocks(width: int, dtype: torch.dtype) -> None:
    """Two loops for the same thing, by the blocks' width."""
    draw = Draw(9, dtype)
    leaves = [draw(1, 7, 3, width, width, scale=0.3).requires_grad_(), draw(1, 7, 2, 3 * width).requires_grad_()]
    results = []
    for backend in (None, "reference"):
        got = scan(BlockDiagonal(leaves[0]), leaves[1], backend=backend)
        results.append((*got, *torch.autograd.grad(real_loss(*got), leaves)))
    compare(*results, 1e-12)
