"""What is learnt: D's parametrisations, the selection's scores to the same bits however they are asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pdssm import PDSSM
from pdssm.generators import DiagonalEntries, PDGenerator, SDGenerator
from pdssm.generators.entries import _Disc, _magnitude, _phase, _phase_slope
from pdssm.generators.selector import Selector
from pdssm.kernels.ordered import TILE, halving_sum, ordered_product
from pdssm.layers import ConvState
from pdssm.transitions.selected import Selected
from tests.factories import relative_error

# ----------------------------------------------------------------------------- scores to the same bits


def near_ties(layer: PDSSM) -> None:
    """All dictionary matrices nearly the same, and so are all rows: ties in every column, to an ulp or so."""
    with torch.no_grad():
        base = torch.randn(1, 1, layer.state_dim)
        layer.generator.dictionary.copy_(base + 1e-7 * torch.randn_like(layer.generator.dictionary))


@settings(max_examples=15)
@given(dim=st.integers(1, 70), terms=st.integers(1, 9), rows=st.integers(1, 60),
       dtype=st.sampled_from([torch.float32, torch.float64]),
       scale=st.sampled_from([1e-3, 1.0, 1e3]), seed=st.integers(0, 2**20))  # fmt: skip
def test_scores_do_not_depend_on_their_company(
    dim: int, terms: int, rows: int, dtype: torch.dtype, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    selector = Selector(dim, terms).to(dtype)
    x = scale * torch.randn(rows, dim, dtype=dtype)
    with torch.no_grad():
        together = selector(x)
        wide = torch.randn(rows, 2 * dim + 1, dtype=dtype)
        wide[:, :dim] = x
        assert torch.equal(selector(wide[:, :dim]), together)
        assert torch.equal(selector(x.t().contiguous().t()), together)
        assert torch.equal(selector(x.view(1, rows, 1, dim)).view(rows, terms), together)
        thousand = selector(torch.cat((torch.randn(1000, dim, dtype=dtype), x)))[1000:]
        assert torch.equal(thousand, together)
        for row in range(0, rows, 7):
            assert torch.equal(selector(x[row : row + 1])[0], together[row])
    assert torch.equal(selector(x).detach(), together)  # with gradients, another path


def test_scores_of_more_than_a_tile() -> None:
    torch.manual_seed(0)
    selector = Selector(96, 6)
    x = torch.randn(2 * TILE // (6 * 96) + 11, 96)
    with torch.no_grad():
        together = selector(x)
        for row in (0, TILE // (6 * 96), len(x) - 1):
            assert torch.equal(selector(x[row : row + 1])[0], together[row])
    assert relative_error(together, torch.softmax(x.double() @ selector.weight.double().t(), -1).float()) < 1e-6


@given(size=st.integers(1, 40), rows=st.integers(1, 5))
def test_the_sum_for_other_devices(size: int, rows: int) -> None:
    products = torch.randn(rows, 2, size, dtype=torch.float64)
    together = halving_sum(products)
    torch.testing.assert_close(together, products.sum(-1))
    assert torch.equal(halving_sum(products[:1])[0], together[0])


def test_the_product_has_its_gradients() -> None:
    x, weight = torch.randn(7, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    torch.testing.assert_close(ordered_product(x, weight), x @ weight.t())
    assert torch.autograd.gradcheck(ordered_product, (x.requires_grad_(), weight.requires_grad_()))


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("frozen", [False, True])
@settings(max_examples=10)
@given(batch=st.integers(1, 4), time=st.integers(1, 12), split=st.integers(0, 12), seed=st.integers(0, 2**20))
def test_near_ties_do_not_flip(frozen: bool, orientation: Any, batch: int, time: int, split: int, seed: int) -> None:
    """forward, forward in two pieces, step and inspect select the same P to the bit; outputs within 1e-6."""
    torch.manual_seed(seed)
    layer = PDSSM(9, 24, 5, orientation=orientation)
    near_ties(layer)
    if frozen:
        layer.freeze()
    x = torch.randn(batch, time, 9)
    with torch.no_grad():
        together = layer.inspect(x).index
        for t in range(time):
            for s in range(batch):
                alone = layer.generator.select(x[s, t : t + 1]).index
                assert torch.equal(alone[0], together[s, t])
        expected, final = layer(x, return_state=True)
        split = min(split, time)
        y, state = (x[:, :0], layer.initial_state(batch)) if not split else layer(x[:, :split], return_state=True)
        outputs = [y]
        for t in range(split, time):
            y, state = layer.step(x[:, t], state)
            outputs.append(y[:, None])
        scale = max(1.0, float(expected.abs().max()))
        assert float((torch.cat(outputs, 1) - expected).abs().max()) < 1e-6 * scale
        assert float((state - final).abs().max()) < 1e-6 * max(1.0, float(final.abs().max()))


@pytest.mark.parametrize("options", [{}, {"orientation": "row"}, {"conv": 3}], ids=str)
@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4), carried=st.booleans(), frozen=st.booleans(),
       seed=st.integers(0, 2**20))  # fmt: skip
def test_near_ties_do_not_flip_in_any_form(
    options: dict[str, Any], lengths: list[int], carried: bool, frozen: bool, seed: int
) -> None:
    """In float32 a pack, left padding and a table with rows give each sequence what step by step it gets, to 1e-6."""
    torch.manual_seed(seed)
    layer = PDSSM(9, 24, 5, **options).eval()
    near_ties(layer)
    table, count, longest = torch.randn(6, 9), len(lengths), max(lengths)
    rows = torch.randint(0, 6, (count, longest))
    mask = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    with torch.no_grad():
        start = layer(torch.randn(count, 4, 9), return_state=True)[1] if carried else layer.initial_state(count)
        outputs, final = [], []
        for s in range(count):
            state = ConvState(*(part[s : s + 1] for part in start)) if "conv" in options else start[s : s + 1]
            for row in rows[s, mask[s]]:
                y, state = layer.step(table[row][None], state)
                outputs.append(y)
            final.append(state.recurrent if "conv" in options else state)
        expected = torch.cat(outputs), torch.cat(final)
        if frozen:  # of all forms but the steps: to the same bits, so no flip either
            layer.freeze()
        packed = {"cu_seqlens": torch.tensor([0, *lengths]).cumsum(0)}
        ids = rows[mask][None]
        for (y, state), kept in (
            (layer(table[rows], start, mask=mask, return_state=True), mask),
            (layer(table, start, rows=rows, mask=mask, return_state=True), mask),
            (layer(table[ids], start, return_state=True, **packed), slice(None)),
            (layer(table, start, rows=ids, return_state=True, **packed), slice(None)),
        ):
            got = y[kept].view(-1, 9), state.recurrent if "conv" in options else state
            for value, oracle in zip(got, expected, strict=True):
                assert float((value - oracle).abs().max()) < 1e-6 * max(1.0, float(oracle.abs().max()))


def test_a_library_product_would_flip() -> None:
    """The test above is not vacuous: with torch's own product of one row and of many, some index differs."""
    torch.manual_seed(0)
    layer = PDSSM(256, 24, 5)
    near_ties(layer)
    x, weight = torch.randn(400, 256), layer.generator.selector.weight.detach()
    together = torch.softmax(x @ weight.t(), -1)
    alone = torch.cat([torch.softmax(row[None] @ weight.t(), -1) for row in x])
    assert not torch.equal(together, alone)


# ------------------------------------------------------------------------------- magnitudes and phases


@pytest.mark.parametrize("kind", ["sigmoid", "near_one"])
def test_magnitudes_stay_in_the_disc(kind: str) -> None:
    """From -80 to 90 on a fine grid: above 0, at most 1 (which is what float32 has after 1 - 1e-8), never falling."""
    m = torch.linspace(-80, 90, 400_001)
    r = _magnitude(m, kind)
    assert float(r.min()) > 0
    assert float(r.max()) <= 1
    exact = _magnitude(m.double(), kind)
    assert float(exact[m.abs() < 17].max()) < 1
    assert float(((r - exact) / exact).abs().max()) < 1e-6
    assert bool((exact.diff() >= 0).all())


def test_near_one_remembers_longer_at_the_same_bias() -> None:
    """Steps until half a signal is left, for D at the start of both: 150 times as many."""
    memory = {}
    for kind in ("sigmoid", "near_one"):
        torch.manual_seed(0)
        entries = DiagonalEntries(8, 8, magnitude=kind).double()  # type: ignore[arg-type]
        r = entries(torch.randn(200, 8, dtype=torch.float64)).abs().log().mean()
        memory[kind] = math.log(0.5) / float(r.detach())
    assert 80 < memory["sigmoid"] < 130
    assert 12_000 < memory["near_one"] < 18_000


def test_both_learn_how_far_from_one_to_stay() -> None:
    """The gradient of log(1 - |D|) is -|D| for the sigmoid, near_one's twice as large: neither vanishes near 1."""
    for kind, limit in (("sigmoid", 1.0), ("near_one", 2.0)):
        m = torch.tensor([3.0, 5.0, 8.0], dtype=torch.float64, requires_grad=True)
        (1 - _magnitude(m, kind)).log().sum().backward()
        torch.testing.assert_close(m.grad, torch.full((3,), -limit, dtype=torch.float64), rtol=0.06, atol=0.0)


def test_shrunk_phases_rest_at_zero() -> None:
    p = torch.linspace(-1, 1, 101)
    angle = _phase(p, "shrink")
    assert torch.equal(angle, torch.zeros_like(angle))
    assert float(_phase_slope(angle, "shrink").min()) > 0  # a steady pull frees it
    entries = DiagonalEntries(6, 8, phase="shrink")
    d = entries(torch.randn(50, 6))
    assert torch.equal(d.imag, torch.zeros_like(d.imag))
    d.imag.sum().backward()
    assert float(entries.phase[-1].bias.grad.abs().min()) > 0
    wide = _phase(torch.tensor([-9.0, 9.0]), "shrink")
    torch.testing.assert_close(wide, torch.tensor([-math.pi, math.pi]))
    assert float(_phase(torch.tensor([-20.0]), "sigmoid")) > 0  # which the paper's does not


@pytest.mark.parametrize("magnitude", ["sigmoid", "near_one"])
@pytest.mark.parametrize("phase", ["sigmoid", "shrink"])
def test_their_gradients(magnitude: str, phase: str) -> None:
    """Against numerical ones, and against autograd through the same formulas; for ``shrink`` where it is smooth."""
    m = torch.tensor([-4.0, -0.3, 0.4, 1.0, 6.0], dtype=torch.float64, requires_grad=True)
    p = torch.tensor([-3.0, 1.4, 2.2, -1.2, 5.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, p: _Disc.apply(m, p, magnitude, phase), (m, p))
    by_formula = torch.polar(_magnitude(m, magnitude), _phase(p, phase))
    with torch.no_grad():
        torch.testing.assert_close(_Disc.apply(m, p, magnitude, phase), by_formula)


@pytest.mark.parametrize("magnitude", ["sigmoid", "near_one"])
def test_without_phases_entries_are_real(magnitude: Any) -> None:
    entries = DiagonalEntries(4, 6, magnitude=magnitude, phase="zero").double()
    u = torch.randn(3, 4, dtype=torch.float64)
    d = entries(u)
    assert torch.equal(d.imag, torch.zeros(3, 6, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda u: entries(u).real, u.requires_grad_())
    assert all("phase" not in name for name, _ in entries.named_parameters())


@pytest.mark.parametrize("magnitude", ["sigmoid", "near_one"])
@pytest.mark.parametrize("phase", ["sigmoid", "shrink"])
def test_gradients_or_none_the_same_values(magnitude: Any, phase: Any) -> None:
    """Inference takes a shorter way to the same bits."""
    entries, u = DiagonalEntries(5, 7, magnitude=magnitude, phase=phase), torch.randn(9, 5)
    with torch.no_grad():
        inference = entries(u)
    assert torch.equal(entries(u), inference)


def test_starts() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 50, 16)
    for init, low, high, turn in (("long", 0.98, 1.0, 0.2), ("paper", 0.2, 0.8, 7.0)):
        transition, inputs = PDSSM(16, 16, init=init).generator(x)  # type: ignore[arg-type]
        magnitude, angle = transition.diag.detach().abs(), transition.diag.detach().angle()
        assert low < float(magnitude.min()) <= float(magnitude.max()) < high
        assert float(angle.abs().max()) < turn
        assert inputs.shape == (1, 50, 16)
    assert 2.5 < float(angle.abs().mean()) < math.pi  # the paper's phases start around pi


def test_hidden_width() -> None:
    """N by default; ``hidden_dim`` as asked."""
    assert DiagonalEntries(5, 7).magnitude[0].weight.shape == (7, 5)
    assert PDGenerator(5, 7, hidden_dim=14).entries.phase[2].weight.shape == (7, 14)


# ------------------------------------------------------------------------------------------- the dense relative


@pytest.mark.parametrize("p", [0.5, 0.9, 1.0, 2.0])
def test_columns_of_norm_one(p: float) -> None:
    generator = SDGenerator(4, 9, 3, p).double()
    a = generator(torch.randn(6, 4, dtype=torch.float64))[0].to_dense().detach()
    norms = (a.abs() ** p).sum(-2) ** (1 / p)
    torch.testing.assert_close(norms, torch.ones_like(norms))
    if p <= 1:
        assert float(torch.linalg.eigvals(a).abs().max()) <= 1 + 1e-12


@pytest.mark.parametrize("p", [0.5, 0.9, 1.5])
def test_columns_with_zeros_and_extremes(p: float) -> None:
    """A zero entry, a column of zeros, and entries near the ends of float32: values and gradients stay finite."""
    generator = SDGenerator(2, 3, 1, p)
    with torch.no_grad():
        generator.dictionary.copy_(torch.tensor([[[1e30, 0.0, 1.0], [1e-30, 0.0, 0.0], [-1e30, 0.0, -2.0]]]))
    a = generator(torch.randn(1, 2))[0].to_dense()
    assert torch.isfinite(a).all()
    assert torch.equal(a[0, :, 1], torch.zeros(3))
    a.square().sum().backward()
    assert torch.isfinite(generator.dictionary.grad).all()


# ------------------------------------------------------------------------------------- the selection's two ways


@pytest.mark.parametrize("orientation", ["column", "row"])
def test_apply_without_gradients(orientation: Any) -> None:
    """Inference does not go through the fused op, and gives what the op gives."""
    torch.manual_seed(0)
    generator = PDGenerator(5, 8, 3, orientation=orientation).double()
    u, h = torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 2, 8, dtype=torch.complex128)
    with torch.no_grad():
        selected = generator(u)[0]
        assert isinstance(selected, Selected)
        light = selected.apply(h)
        adjoint = selected.apply_adjoint(h)
    full = generator(u)[0]
    assert full.apply(h).requires_grad
    torch.testing.assert_close(light, full.apply(h).detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(adjoint, full.apply_adjoint(h).detach(), rtol=1e-12, atol=1e-12)


def test_generators_are_modules_of_tensors() -> None:
    def shapes(u: Tensor) -> tuple[Any, ...]:
        transition, inputs = PDGenerator(5, 8, 3)(u)
        return tuple(transition.batch_shape), tuple(inputs.shape)

    assert shapes(torch.randn(5)) == ((), (8,))
    assert shapes(torch.randn(2, 3, 4, 5)) == ((2, 3, 4), (2, 3, 4, 8))
