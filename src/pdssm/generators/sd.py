"""SD-SSM: dense transitions, softly selected from a dictionary, with normalised columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdssm.generators.base import Generator, RealInputs, check_positive, full_precision, state_precision
from pdssm.generators.selector import Selector
from pdssm.transitions import Dense


class SDGenerator(Generator):
    """A(u) = sum_k softmax(S u)_k M_k, each column divided by its L_p norm; b = B u; everything real.

    With p below 1 the spectral radius stays below 1 (the paper's footnote), hence the default.
    """

    complex_state = False

    def __init__(self, dim: int, state_dim: int, dictionary_size: int = 6, p: float = 0.9) -> None:
        super().__init__(dim, state_dim)
        check_positive("p", p)
        self.p = p
        self.selector = Selector(dim, dictionary_size)
        self.dictionary = nn.Parameter(torch.randn(dictionary_size, state_dim, state_dim) * state_dim**-0.5)
        self.inputs = RealInputs(dim, state_dim)

    def forward(self, u: Tensor) -> tuple[Dense, Tensor]:
        with full_precision(u.device):
            mixed = torch.einsum("...k,kij->...ij", self.selector(u), state_precision(self.dictionary))
            transition = Dense(normalised_columns(mixed, self.p))
        return transition, self.inputs(u)


def normalised_columns(matrices: Tensor, p: float) -> Tensor:
    """Each column divided by (sum_i |a_ij|^p)^(1/p); a column of zeros stays one.

    Scaled by the largest entry first, so that powers do not overflow, and with |a| kept off zero, where |a|^p has an
    infinite slope.
    """
    size = matrices.abs()
    top = size.amax(-2, keepdim=True).detach()
    empty = top == 0
    top = top.masked_fill(empty, 1.0)
    ratio = (size / top).clamp(min=torch.finfo(matrices.dtype).eps ** 2)
    norms = ratio.pow(p).sum(-2, keepdim=True).pow(1 / p)
    return matrices / top / norms.masked_fill(empty, 1.0)
