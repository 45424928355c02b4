"""Proposition 1: with |A_t|_max <= 1 - eps and |x_0|, |b_t| <= B, |x_t| <= sqrt(N) B / eps for all t."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdssm import PD, PDSSM, scan
from pdssm.layers.base import make_layout
from tests.factories import Draw


@given(n=st.integers(1, 12), steps=st.integers(1, 80), eps=st.floats(1e-3, 1.0), bound=st.floats(1e-3, 1e3),
       aligned=st.booleans(), seed=st.integers(0, 2**20))  # fmt: skip
def test_bounded_input_bounded_state(n: int, steps: int, eps: float, bound: float, aligned: bool, seed: int) -> None:
    """Random maps and phases, and the worst case: all states merge into one and all inputs push the same way."""
    draw = Draw(seed, torch.complex128)
    if aligned:
        index, phases = torch.zeros(1, steps, n, dtype=torch.int64), torch.ones(1, steps, n, dtype=torch.complex128)
        b = torch.ones(1, steps, n, dtype=torch.complex128)
    else:
        index, phases, b = draw.integers(n, 1, steps, n), draw(1, steps, n), draw(1, steps, n)
    diag = (1 - eps) * phases / phases.abs()
    b = bound * b / b.norm(dim=-1, keepdim=True)
    initial = bound * draw(1, n)
    initial = bound * initial / initial.norm(dim=-1, keepdim=True)
    states, _ = scan(PD(index, diag), b, initial)
    assert float(states.norm(dim=-1).max()) <= math.sqrt(n) * bound / eps * (1 + 1e-9)


def test_the_bound_can_be_exceeded_when_the_condition_is_not_met() -> None:
    """The property above is not vacuous: with |A| = 1 the state grows without end."""
    index, diag = torch.zeros(1, 500, 1, dtype=torch.int64), torch.ones(1, 500, 1)
    states, _ = scan(PD(index, diag), torch.ones(1, 500, 1))
    assert float(states[0, -1, 0]) == 500


@pytest.mark.parametrize("options", [{}, {"magnitude": "near_one", "phase": "shrink"}, {"init": "paper"}], ids=str)
def test_a_layer_over_100_000_steps(options: dict[str, str]) -> None:
    """eps = 1 - max |D| as the layer itself made it, B the largest input and initial state that it saw."""
    torch.manual_seed(0)
    layer = PDSSM(8, 16, 4, **options).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        x = torch.rand(1, 100_000, 8) * 6 - 3
        transition, inputs = layer.generator(x)
        eps = 1 - float(transition.diag.abs().max())
        assert 0 < eps < 1
        bound = max(1.0, float(inputs.norm(dim=-1).max()))
        layout = make_layout(1, 100_000, None, None, x.device)
        states, final = layer._scan(transition, inputs, layer.initial_state(1), layout, None)
        assert float(states.norm(dim=-1).max()) <= math.sqrt(16) * bound / eps
        y, carried = layer(x, return_state=True)
        assert torch.isfinite(y).all()
        torch.testing.assert_close(carried, final)
        # The bound is not met by everything being zero: the states are as large as one input at least.
        assert float(states.norm(dim=-1).median()) > float(inputs.norm(dim=-1).median())


@pytest.mark.slow
def test_a_million_steps() -> None:
    """float32 stays inside the bound and within 1e-3 of float64."""
    draw = Draw(0, torch.float64)
    n, steps, count = 32, 1_000_000, 64
    phases = torch.polar(torch.ones(count, n, dtype=torch.float64), 6.3 * draw.reals(count, n))
    eps = 1e-3
    magnitude = 1 - eps - 0.02 * torch.rand(count, n, dtype=torch.float64, generator=draw.generator)
    b = torch.polar(torch.ones(count, n, dtype=torch.float64), draw.reals(count, n, scale=9.0)) / math.sqrt(n)
    index, rows = draw.integers(n, count, n), draw.integers(count, 1, steps)
    results = []
    for dtype in (torch.complex64, torch.complex128):
        states, _ = scan(PD(index, (magnitude * phases).to(dtype)), b.to(dtype), rows=rows)
        assert float(states.abs().square().sum(-1).max().sqrt()) <= math.sqrt(n) / eps
        results.append(states)
    single, double = results
    error = (single - double).norm(dim=-1) / double.norm(dim=-1)
    assert float(error.max()) < 1e-3
