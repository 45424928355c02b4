"""The paper's generator: u -> P(u) D(u), with P selected from a dictionary."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdssm.errors import RangeError
from pdssm.generators.base import ComplexDiagonalEntries, ComplexInputs, Generator, Start
from pdssm.transitions import SelectedPD


class PDGenerator(Generator):
    """s = softmax(S u) over K matrices; P(u) = column hardmax of sum_k s_k M_k; D(u) complex."""

    def __init__(self, dim: int, state_dim: int, dictionary_size: int = 6, start: Start = "long") -> None:
        super().__init__(dim, state_dim)
        if dictionary_size < 1:
            raise RangeError(f"dictionary_size is {dictionary_size}; expected at least 1")
        self.entries = ComplexDiagonalEntries(dim, state_dim, start)
        self.selector = nn.Linear(dim, dictionary_size, bias=False)
        self.dictionary = nn.Parameter(torch.randn(dictionary_size, state_dim, state_dim))
        self.inputs = ComplexInputs(dim, state_dim)

    def forward(self, u: Tensor) -> tuple[SelectedPD, Tensor]:
        scores = torch.softmax(self.selector(u), -1)
        return SelectedPD(scores, self.dictionary, self.entries(u)), self.inputs(u)
