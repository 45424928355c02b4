"""The state after a long word, several symbols at a step.

PD matrices are closed under products, so k symbols in a row are one step x -> A x + b of the same kind: there are
S^k of them, made once, and a word of T symbols is T / k steps.  Only the states in between are not seen.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from pdssm.automata.errors import AutomatonError
from pdssm.layers import PDSSM
from pdssm.models import SequenceModel
from pdssm.models.block import Block
from pdssm.scanning import scan
from pdssm.transitions import PD, RowPD

Maps = TypeVar("Maps", PD, RowPD)

ENTRIES = 1 << 15
"""Of all composed maps together: they should stay in a core's cache."""
PAYS_FROM = 256
"""Symbols to read, for each composed map."""


@torch.no_grad()
def fast_forward(model: SequenceModel, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """The outputs ``(batch, output_size)`` after the last of ``tokens`` ``(batch, time)``, and the model's state there.

    For models of one PD-SSM layer over tokens; what ``model(tokens, state, return_state=True)`` gives, to the bit for
    compiled models, and to rounding for others.
    """
    layer, table = _layer(model)
    maps: Any = layer.generator.select(table).hard()
    inputs = layer.generator.inputs(table)
    symbols, together = table.shape[0], _together(table.shape[0], layer.state_dim, tokens.numel())
    skipped = (tokens.shape[1] - 1) // together * together  # the model itself reads the rest, at least one symbol
    if together > 1 and skipped:
        start = model.initial_state(tokens.shape[0]) if state is None else state
        rows = tokens[:, :skipped:together]
        for place in range(1, together):
            rows = rows * symbols + tokens[:, place:skipped:together]
        _, reached = scan(*_composed(maps, inputs, together), start[0], rows=rows)
        tokens, state = tokens[:, skipped:], (reached,)
    ends = torch.arange(1, tokens.shape[0] + 1, device=tokens.device) * tokens.shape[1] - 1
    if model.config.head == "every":
        outputs, state = model(tokens, state, positions=ends, return_state=True)
    else:
        outputs, state = model(tokens, state, return_state=True)
    return outputs, state


def _layer(model: SequenceModel) -> tuple[PDSSM, Tensor]:
    """The layer and what it reads of each token."""
    block = model.blocks[0]
    assert isinstance(block, Block)
    layer, config = block.mixer, model.config
    fitting = config.layers == 1 and config.inputs == "tokens" and config.head != "mean" and isinstance(layer, PDSSM)
    if (
        not fitting
        or not layer.rowwise
        or config.mixer_options.get("conv")
        or config.mixer_options.get("dense_inference")
    ):
        raise AutomatonError(
            f"the model has {config.layers} layers of {config.mixer!r} with {dict(config.mixer_options)}, reads "
            f"{config.inputs} and has head {config.head!r}; expected one PD-SSM layer over tokens with head 'every' or "
            "'last', neither stochastic nor with a convolution or dense inference"
        )
    assert isinstance(layer, PDSSM)
    table = model.encoder.weight
    assert isinstance(table, Tensor)
    return layer, block.norm(table) if config.norm == "pre" else table


def _together(symbols: int, state_dim: int, steps: int) -> int:
    """How many symbols make one step: as many as fit, and as pay."""
    most, together = min(ENTRIES // state_dim, steps // PAYS_FROM), 1
    while symbols > 1 and symbols ** (together + 1) <= most:
        together += 1
    return together


def _composed(maps: Maps, inputs: Tensor, together: int) -> tuple[Maps, Tensor]:
    """All words of that many symbols as single steps, in the order of their numbers in base S."""
    words, offsets = maps, inputs
    for _ in range(together - 1):
        offsets = maps[None].apply(offsets[:, None].expand(-1, inputs.shape[0], -1)) + inputs
        words = maps[None].compose(words[:, None]).reshape(-1)
        offsets = offsets.flatten(0, 1)
    return words, offsets
