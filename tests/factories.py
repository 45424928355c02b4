"""Every structure once: a line here enrols a family in all the law, scan and error tests."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pdssm import (
    PD,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DiagonalPlusLowRank,
    Householder,
    RowPD,
    SelectedPD,
    SelectedRowPD,
    Transition,
    WalshHadamard,
)

Batch = tuple[int, ...]


class Draw:
    """Random tensors of one element type from one seed."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.real = torch.empty(0, dtype=dtype).real.dtype

    def __call__(self, *shape: int, scale: float = 0.6) -> Tensor:
        return scale * torch.randn(*shape, dtype=self.dtype, generator=self.generator)

    def reals(self, *shape: int, scale: float = 0.6) -> Tensor:
        return scale * torch.randn(*shape, dtype=self.real, generator=self.generator)

    def integers(self, high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=self.generator)


Factory = Callable[[Draw, Batch, int], Transition]

# Sizes: N is any power of two from 4 on (WalshHadamard's condition), so that blocks of 2 fit as well.
STRUCTURES: dict[str, Factory] = {
    "pd": lambda d, b, n: PD(d.integers(n, *b, n), d(*b, n)),
    "row_pd": lambda d, b, n: RowPD(d.integers(n, *b, n), d(*b, n)),
    "selected_pd": lambda d, b, n: SelectedPD(d.reals(*b, 3), d.reals(3, n, n), d(*b, n), 0.8),
    "selected_row_pd": lambda d, b, n: SelectedRowPD(d.reals(*b, 3), d.reals(3, n, n), d(*b, n)),
    "noisy_pd": lambda d, b, n: SelectedPD(d.reals(*b, 3), d.reals(3, n, n), d(*b, n), noise=d.integers(1 << 32, *b)),
    "diagonal": lambda d, b, n: Diagonal(d(*b, n)),
    "block_diagonal": lambda d, b, n: BlockDiagonal(d(*b, n // 2, 2, 2)),
    "dense": lambda d, b, n: Dense(d(*b, n, n, scale=0.4)),
    "householder": lambda d, b, n: Householder(d(*b, 2, n, scale=0.4), d.reals(*b, 2), d.reals(*b, n)),
    "delta": lambda d, b, n: Householder(d(*b, 1, n, scale=0.4), d.reals(*b, 1)),
    "low_rank": lambda d, b, n: DiagonalPlusLowRank(d(*b, n), d(*b, n, 2, scale=0.4), d(*b, n, 2, scale=0.4)),
    "walsh_hadamard": lambda d, b, n: WalshHadamard(d(*b, n, scale=0.3)),
    "diagonal_dense": lambda d, b, n: DiagonalDense(d(*b, n - 2), d(*b, 2, 2)),
}
CLOSED = sorted(name for name, make in STRUCTURES.items() if make(Draw(0, torch.float64), (1,), 4).closed)
COMPILED = [
    "pd",
    "row_pd",
    "selected_pd",
    "selected_row_pd",
    "noisy_pd",
    "diagonal",
    "block_diagonal",
    "dense",
    "householder",
    "delta",
    "low_rank",
    "walsh_hadamard",
    "diagonal_dense",
]


def differentiable(transition: Transition) -> list[Tensor]:
    """The transition's floating tensors as leaves that require gradients, put back into it."""
    leaves = []
    for name in (*transition.event_axes, "dictionary"):
        tensor = getattr(transition, name, None)
        if isinstance(tensor, Tensor) and (tensor.is_floating_point() or tensor.is_complex()):
            leaf = tensor.detach().clone().requires_grad_()
            object.__setattr__(transition, name, leaf)
            leaves.append(leaf)
    return leaves


def real_loss(*tensors: Tensor) -> Tensor:
    """A real number that depends on every entry, with different weights."""
    total = torch.zeros((), dtype=torch.float64)
    for tensor in tensors:
        flat = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        weights = torch.cos(torch.arange(flat.numel(), dtype=torch.float64)).view(flat.shape)
        total = total + (weights * flat).sum()
    return total


def relative_error(value: Tensor, expected: Tensor) -> float:
    """The largest deviation in units of the largest expected entry."""
    if not expected.numel():
        return 0.0
    value, expected = value.detach(), expected.detach()
    return float((value - expected).abs().max()) / max(float(expected.abs().max()), 1e-30)
