"""The short convolution's compiled loops against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pdssm.errors import GradientError, RangeError
from pdssm.kernels.convolution import convolution, convolve, plain
from tests.factories import Draw, real_loss, relative_error


def problem(inputs: int, steps: int, width: int, channels: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    draw = Draw(3, dtype)
    lags = draw.integers(inputs, steps, width)
    return [draw(inputs, channels), lags, draw(width, channels), draw(channels)]


@pytest.mark.parametrize("sizes", [(9, 7, 4, 5), (40, 200, 2, 300), (3, 1, 3, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loops_are_plain_torch(sizes: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    """To the same bits; several blocks of columns and of steps, an input used often, and one never."""
    given = problem(*sizes, dtype)
    leaves = [given[i].requires_grad_() for i in (0, 2, 3)]
    got, expected = convolution(*given), plain(*given)
    assert torch.equal(got, expected)
    grads, oracles = (torch.autograd.grad(real_loss(y), leaves) for y in (got, expected))
    for grad, oracle in zip(grads, oracles, strict=True):
        assert grad.shape == oracle.shape
        assert relative_error(grad, oracle) < (1e-4 if dtype == torch.float32 else 1e-12)


def test_the_same_bits_on_any_number_of_threads() -> None:
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            given = problem(500, 700, 4, 600, torch.float32)
            leaves = [given[i].requires_grad_() for i in (0, 2, 3)]
            y = convolution(*given)
            results.append((y, *torch.autograd.grad(real_loss(y), leaves)))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_long_sums_keep_their_digits() -> None:
    """The bias's gradient is a sum over all steps."""
    inputs, lags, weight, bias = problem(4, 100_000, 2, 3, torch.float32)
    bias.requires_grad_()
    (grad,) = torch.autograd.grad((convolution(inputs, lags, weight, bias) * 0.1).sum(), bias)
    assert relative_error(grad.double(), torch.full((3,), 10_000.0, dtype=torch.float64)) < 1e-5


def test_other_element_types_take_plain_torch() -> None:
    inputs, lags, weight, bias = problem(9, 7, 4, 5, torch.float32)
    half = [inputs.bfloat16(), lags, weight.bfloat16(), bias.bfloat16()]
    assert torch.equal(convolve(*half), plain(*half))
    mixed: list[Any] = [inputs.bfloat16(), lags, weight, bias]
    assert convolve(*mixed).dtype == torch.float32


def test_a_good_citizen() -> None:
    given = problem(9, 7, 4, 5)
    for i in (0, 2, 3):
        given[i].requires_grad_()
    torch.library.opcheck(convolution, given)
    (first,) = torch.autograd.grad(convolution(*given).square().sum(), given[0], create_graph=True)
    with pytest.raises(GradientError, match="no second derivative"):
        first.sum().backward()
    with pytest.raises(RangeError, match=r"lags holds \d+; expected values in 0\.\.8"):
        convolution(given[0], given[1] + 9, *given[2:])
