"""SLiCEs, structured linear controlled differential equations: h <- h + A(u) h with A linear in (1, u).

Nothing keeps I + A(u) from growing, so h may grow like 2^t, beyond float32 within a hundred steps.  The published code
bounds it by a tanh of 1e11 within the recurrence, which is then no longer linear; here the recurrence is float64,
whatever the weights are, and its readout bounds what it sees.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from pdssm.errors import RangeError, ShapeError, check_size
from pdssm.generators.base import Generator, check_positive
from pdssm.kernels.linear import linear
from pdssm.transitions import BlockDiagonal, Diagonal, DiagonalDense, DiagonalPlusLowRank, Transition, WalshHadamard


class VectorField(nn.Linear):
    """The scale times W (1, u), float64: torch's linear layer, whose bias is the column of the 1."""

    def __init__(self, dim: int, out: int, std: float, scale: float) -> None:
        super().__init__(dim, out)
        self.scale = scale
        nn.init.normal_(self.weight, std=std)
        nn.init.normal_(self.bias, std=std)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.scale * self.weight, self.scale * self.bias).double()


class BoundedField(VectorField):
    """The same with tanh W."""

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = torch.tanh(self.weight), torch.tanh(self.bias)
        return linear(input, self.scale * weight, self.scale * bias).double()


class SliceGenerator(Generator):
    """What the five share: ``scale`` is the time between two inputs, ``std`` the size of W's entries at the start.

    With ``input_term``, B (1, u) times the scale is added to the state.
    """

    complex_state = False

    def __init__(self, dim: int, state_dim: int, std: float, scale: float, input_term: bool) -> None:
        super().__init__(dim, state_dim)
        check_positive("init_std", std)
        check_positive("scale", scale)
        self.inputs = VectorField(dim, state_dim, std, scale) if input_term else None

    def forward(self, u: Tensor) -> tuple[Transition, Tensor]:
        transition = self.transition(u)
        if self.inputs is not None:
            return transition, self.inputs(u)
        return transition, torch.zeros((), dtype=transition.dtype, device=u.device).expand(
            *u.shape[:-1], self.state_dim
        )

    @abstractmethod
    def transition(self, u: Tensor) -> Transition:
        """I + A(u)."""


class DSliceGenerator(SliceGenerator):
    """A diagonal."""

    def __init__(self, dim: int, state_dim: int, std: float, scale: float, input_term: bool) -> None:
        super().__init__(dim, state_dim, std, scale, input_term)
        self.diag = VectorField(dim, state_dim, std, scale)

    def transition(self, u: Tensor) -> Diagonal:
        return Diagonal(1 + self.diag(u))


class BDSliceGenerator(SliceGenerator):
    """Blocks along the diagonal."""

    def __init__(self, dim: int, state_dim: int, block_size: int, std: float, scale: float, input_term: bool) -> None:
        super().__init__(dim, state_dim, std, scale, input_term)
        check_size("block_size", block_size)
        if state_dim % block_size:
            raise RangeError(f"state_dim is {state_dim}; expected a multiple of block_size, {block_size}")
        self.shape = (state_dim // block_size, block_size, block_size)
        self.blocks = VectorField(dim, state_dim * block_size, std * block_size**-0.5, scale)

    def transition(self, u: Tensor) -> BlockDiagonal:
        return BlockDiagonal(one_plus(self.blocks(u).unflatten(-1, self.shape)))


class DPLRSliceGenerator(SliceGenerator):
    """A diagonal plus U(u) V(u)^T of some rank; U and V are linear in (1, u), so their product is not."""

    def __init__(self, dim: int, state_dim: int, rank: int, std: float, scale: float, input_term: bool) -> None:
        super().__init__(dim, state_dim, std, scale, input_term)
        check_size("rank", rank)
        self.shape = (rank, state_dim)
        self.diag = VectorField(dim, state_dim, std, scale)
        # A column of U or V is then about as long as one entry of the diagonal is large.
        self.left = VectorField(dim, rank * state_dim, std * state_dim**-0.5, scale)
        self.right = VectorField(dim, rank * state_dim, std * state_dim**-0.5, scale)

    def transition(self, u: Tensor) -> DiagonalPlusLowRank:
        left, right = (field(u).unflatten(-1, self.shape).mT for field in (self.left, self.right))
        return DiagonalPlusLowRank(1 + self.diag(u), left, right)


class WHSliceGenerator(SliceGenerator):
    """H diag((1, u) tanh W) / sqrt(N) with H the Walsh-Hadamard matrix."""

    def __init__(self, dim: int, state_dim: int, std: float, scale: float, input_term: bool) -> None:
        super().__init__(dim, state_dim, std, scale, input_term)
        if state_dim & (state_dim - 1):
            raise ShapeError(f"state_dim is {state_dim}; expected a power of two")
        self.diag = BoundedField(dim, state_dim, std, scale)

    def transition(self, u: Tensor) -> WalshHadamard:
        return WalshHadamard(self.diag(u))


class DDESliceGenerator(SliceGenerator):
    """A diagonal, and one dense block for the last components."""

    def __init__(self, dim: int, state_dim: int, block_size: int, std: float, scale: float, input_term: bool) -> None:
        super().__init__(dim, state_dim, std, scale, input_term)
        check_size("block_size", block_size)
        if block_size >= state_dim:
            raise RangeError(f"block_size is {block_size}; expected less than state_dim, {state_dim}")
        self.shape = (block_size, block_size)
        self.diag = VectorField(dim, state_dim - block_size, std, scale)
        self.block = VectorField(dim, block_size**2, std * block_size**-0.5, scale)

    def transition(self, u: Tensor) -> DiagonalDense:
        return DiagonalDense(1 + self.diag(u), one_plus(self.block(u).unflatten(-1, self.shape)))


def one_plus(matrices: Tensor) -> Tensor:
    """I + A."""
    return matrices + torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
