"""s = softmax(S u): the weights of a dictionary's matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdssm.errors import check_size
from pdssm.generators.base import state_precision
from pdssm.kernels.ordered import ordered_product


class Selector(nn.Linear):
    """The weights of K matrices, to the same bits for one input as for a thousand."""

    def __init__(self, dim: int, dictionary_size: int) -> None:
        check_size("dictionary_size", dictionary_size)
        super().__init__(dim, dictionary_size, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        flat = state_precision(input.reshape(-1, self.in_features))
        scores = torch.softmax(ordered_product(flat, state_precision(self.weight)), -1)
        return scores.view(*input.shape[:-1], self.out_features)
