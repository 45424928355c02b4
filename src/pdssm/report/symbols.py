"""What a trained layer does at each symbol: a first layer over tokens has one P, D and b a symbol, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pdssm.layers import PDSSM
from pdssm.layers.pdssm import Inspection
from pdssm.models import SequenceModel
from pdssm.models.block import Block


@dataclass(frozen=True)
class SymbolMatrices:
    """P and D of one symbol."""

    symbol: str
    index: NDArray[np.int64]
    """(N,): column j of P has its one in row index[j]; in the row form, row i has it in column index[i]."""
    magnitude: NDArray[np.float64]
    phase: NDArray[np.float64]
    """In (-pi, pi]."""
    orientation: Literal["column", "row"] = "column"


def first_layer(model: SequenceModel) -> PDSSM | None:
    """The PD-SSM layer that reads the symbols themselves; None where something else does, or mixes them before."""
    mixer = _first_block(model).mixer
    if model.config.inputs != "tokens" or not isinstance(mixer, PDSSM):
        return None
    return mixer if mixer.conv is None and not mixer.generator.stochastic else None


@torch.no_grad()
def inspected(model: SequenceModel) -> Inspection | None:
    """The first layer at each symbol, as words of one symbol."""
    layer = first_layer(model)
    if layer is None:
        return None
    assert isinstance(model.encoder, nn.Embedding)
    embedded = model.encoder.weight
    inputs: Tensor = _first_block(model).norm(embedded) if model.config.norm == "pre" else embedded
    return layer.inspect(inputs[:, None])


def _first_block(model: SequenceModel) -> Block:
    block = model.blocks[0]
    assert isinstance(block, Block)
    return block


def symbol_matrices(model: SequenceModel, symbols: Sequence[tuple[int, str]]) -> tuple[SymbolMatrices, ...]:
    """Of these (token, name)s; none where the first layer is no PD-SSM over plain tokens."""
    layer, seen = first_layer(model), inspected(model)
    if layer is None or seen is None:
        return ()
    index, diag = seen.index[:, 0].cpu().numpy(), seen.diag[:, 0].cpu().numpy().astype(np.complex128)
    form = layer.generator.orientation
    return tuple(
        SymbolMatrices(name, index[token].astype(np.int64), np.abs(diag[token]), np.angle(diag[token]), form)
        for token, name in symbols
    )
