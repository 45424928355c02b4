"""The fused selection and its surrogate gradient, against twenty lines that materialise P."""

from __future__ import annotations

import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pdssm.kernels.cpu
import pdssm.kernels.cpu.loops
import pdssm.kernels.cpu.selecting
from pdssm import SelectedPD, SelectedRowPD, scan
from pdssm.kernels import ops, reference
from tests.factories import Draw, real_loss, relative_error

FORMS = [SelectedPD, SelectedRowPD]


def oracle(
    scores: Tensor, dictionary: Tensor, diag: Tensor, inputs: Tensor, initial: Tensor, rows: Tensor, cu: list[int],
    row_form: bool, temperature: float, gumbel: Tensor | float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """P = (hard - soft).detach() + soft for every row, a loop over the steps, autograd."""
    axis = 2 if row_form else 1
    logits = torch.einsum("uk,kij->uij", scores, dictionary) + gumbel
    soft = torch.softmax(logits / temperature, axis)
    hard = torch.zeros_like(soft).scatter_(axis, logits.argmax(axis, keepdim=True), 1.0)
    p = (hard - soft).detach() + soft
    a = diag[:, :, None] * p if row_form else p * diag[:, None, :]
    states, final = [], []
    for s in range(len(cu) - 1):
        x = initial[s]
        for t in range(cu[s], cu[s + 1]):
            x = a[rows[t]].to(x.dtype) @ x + inputs[rows[t]]
            states.append(x)
        final.append(x)
    return torch.stack(states), torch.stack(final)


@pytest.mark.parametrize("backend", ["cpu", "associative"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@settings(max_examples=25)
@given(lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any), n=st.sampled_from([1, 5, 16, 17, 33]),
       k=st.integers(1, 5), count=st.one_of(st.none(), st.integers(1, 9)), temperature=st.sampled_from([1.0, 0.3]),
       noisy=st.booleans(), seed=st.integers(0, 2**20))  # fmt: skip
def test_against_the_oracle(
    form: type[SelectedPD], dtype: torch.dtype, backend: str, lengths: list[int], n: int, k: int, count: int | None,
    temperature: float, noisy: bool, seed: int,
) -> None:  # fmt: skip
    """States, final states and the gradients of scores, dictionary, diag, inputs and initial state."""
    draw = Draw(seed, dtype)
    cu = torch.tensor([0, *lengths]).cumsum(0)
    steps = int(cu[-1])
    u = count or steps
    rows = draw.integers(u, steps) if count else torch.arange(steps)
    leaves = [draw.reals(u, k), draw.reals(k, n, n), draw(u, n), draw(u, n), draw(len(lengths), n)]
    scores, dictionary, diag, inputs, initial = (leaf.requires_grad_() for leaf in leaves)
    keys = draw.integers(1 << 32, u) if noisy else None
    gumbel = reference.gumbel(keys, n, draw.real) if keys is not None else torch.zeros(())
    if form is SelectedRowPD and keys is not None:
        gumbel = gumbel.transpose(1, 2)  # the hash's first coordinate is the softmax's axis
    a = form(scores, dictionary, diag, temperature, keys)
    if count:
        got = scan(a, inputs, initial, cu_seqlens=cu, rows=rows[None], backend=backend)
    else:
        got = scan(a[None], inputs[None], initial, cu_seqlens=cu, backend=backend)
    expected = oracle(
        scores, dictionary, diag, inputs, initial, rows, cu.tolist(), form is SelectedRowPD, temperature, gumbel
    )
    assert relative_error(got[0][0], expected[0]) < 1e-10
    assert relative_error(got[1], expected[1]) < 1e-10
    grads = torch.autograd.grad(real_loss(*got), leaves)
    oracles = torch.autograd.grad(real_loss(*expected), leaves)
    # Softmax gradients of one row, or with nothing to carry, are zero up to rounding: compare on a common scale.
    scale = max(float(g.abs().max()) for g in oracles)
    for value, oracle_value in zip(grads, oracles, strict=True):
        assert float((value - oracle_value).abs().max()) <= 1e-10 * scale


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("implementation", [pdssm.kernels.cpu.select, reference.select], ids=["cpu", "reference"])
@given(n=st.integers(1, 40), k=st.integers(1, 6), count=st.integers(1, 20), seed=st.integers(0, 2**20))
def test_ties_go_to_the_lowest(form: type[SelectedPD], implementation, n: int, k: int, count: int, seed: int) -> None:
    """Small integers and dyadic scores: sums are exact in any order, and ties are everywhere."""
    draw = Draw(seed, torch.float64)
    dictionary = draw.integers(3, k, n, n).to(torch.float32)
    scores = draw.integers(5, count, k).to(torch.float32) / 4
    axis = 2 if form is SelectedRowPD else 1
    logits = torch.einsum("uk,kij->uij", scores, dictionary)
    positions = torch.arange(n).view((1, 1, n) if axis == 2 else (1, n, 1)).expand_as(logits)
    lowest = torch.where(logits == logits.amax(axis, keepdim=True), positions, n).amin(axis)
    oriented = dictionary.transpose(1, 2) if axis == 2 else dictionary
    assert torch.equal(implementation(scores, oriented, None).long(), lowest)


def test_an_index_does_not_depend_on_its_company() -> None:
    """The same scores give the same bits of logits alone and in any batch: near ties never flip."""
    draw = Draw(0, torch.float32)
    base = draw(6, 48, 48)
    dictionary = base[:1].expand(6, -1, -1) + 1e-7 * base  # nearly equal everywhere: near ties in every column
    scores = torch.softmax(draw(37, 6), -1)
    together = ops.selection(scores, dictionary, False, None)
    for u in range(37):
        assert torch.equal(ops.selection(scores[u : u + 1], dictionary, False, None)[0], together[u])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_single_precision_selection_equals_double(dtype: torch.dtype) -> None:
    draw = Draw(1, dtype)
    scores, dictionary = torch.softmax(draw(50, 8), -1), draw(8, 64, 64)
    logits = torch.einsum("uk,kij->uij", scores.double(), dictionary.double())
    chosen = ops.selection(scores, dictionary, False, None).long()
    lost = logits.amax(1) - logits.gather(1, chosen[:, None])[:, 0]
    assert float(lost.max()) < 1e-6


def test_noise_is_gumbel_and_reproducible() -> None:
    keys = reference.noise_keys(1234, 200)
    noise = reference.gumbel(keys, 32, torch.float64)
    assert torch.equal(noise, reference.gumbel(reference.noise_keys(1234, 200), 32, torch.float64))
    assert not torch.equal(noise[0], reference.gumbel(reference.noise_keys(1235, 1), 32, torch.float64)[0])
    assert abs(float(noise.mean()) - 0.5772) < 0.01
    assert abs(float(noise.var()) - 1.6449) < 0.03
    flat = noise.flatten()
    assert abs(float(torch.corrcoef(torch.stack((flat[:-1], flat[1:])))[0, 1])) < 0.01


def test_noise_samples_the_softmax() -> None:
    """argmax(logits + Gumbel) is a sample of the softmax (the paper's stochastic ablation)."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    dictionary = logits[None, :, None].expand(1, 4, 4).contiguous()
    index = ops.selection(torch.ones(20_000, 1), dictionary, False, reference.noise_keys(7, 20_000))
    frequency = torch.bincount(index.flatten().long(), minlength=4) / index.numel()
    assert float((frequency - torch.softmax(logits, 0)).abs().max()) < 0.01


def test_many_and_few_steps_a_row_agree() -> None:
    """The two ways the kernel sums dP (a matrix product for rows with many steps) give one gradient."""
    draw = Draw(2, torch.complex128)
    scores, dictionary, diag, inputs = draw.reals(3, 4), draw.reals(4, 21, 21), draw(3, 21), draw(3, 21)
    rows = draw.integers(3, 1, 500)
    leaves = [tensor.requires_grad_() for tensor in (scores, dictionary, diag, inputs)]
    by_rows = scan(SelectedPD(scores, dictionary, diag), inputs, rows=rows)
    each = scan(SelectedPD(scores[rows], dictionary, diag[rows]), inputs[rows])
    assert torch.equal(by_rows[0], each[0])
    for a, b in zip(*(torch.autograd.grad(real_loss(*out), leaves) for out in (by_rows, each)), strict=True):
        assert relative_error(a, b) < 1e-12


def test_extreme_logits() -> None:
    """A low temperature and large dictionaries: the softmax saturates, nothing overflows."""
    draw = Draw(3, torch.float32)
    leaves = [draw(9, 2), 1e4 * draw(2, 16, 16), draw(9, 16), draw(9, 16)]
    scores, dictionary, diag, inputs = (leaf.requires_grad_() for leaf in leaves)
    states, _ = scan(SelectedPD(scores, dictionary, diag, 1e-3)[None], inputs[None])
    for gradient in torch.autograd.grad(states.sum(), leaves):
        assert torch.isfinite(gradient).all()


def test_nothing_of_steps_times_n_squared(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 steps of N = 64 in float32: P alone would be 32 MB; no single buffer comes near, in either direction."""
    sizes: list[int] = []

    def recording(shape: tuple[int, ...], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        buffer = torch.empty(shape, dtype=dtype or like.dtype)
        sizes.append(buffer.nbytes)
        return buffer

    for module in (pdssm.kernels.cpu, pdssm.kernels.cpu.loops, pdssm.kernels.cpu.selecting):
        monkeypatch.setattr(module, "empty", recording)
    draw = Draw(4, torch.complex64)
    leaves = [draw.reals(2000, 4), draw.reals(4, 64, 64), draw(2000, 64), draw(2000, 64)]
    scores, dictionary, diag, inputs = (leaf.requires_grad_() for leaf in leaves)
    tracemalloc.start()
    states, _ = scan(SelectedPD(scores, dictionary, diag)[None], inputs[None])
    states.abs().sum().backward()
    numpy_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(sizes) <= 2000 * 64 * 8
    assert numpy_peak < 2000 * 64 * 8
