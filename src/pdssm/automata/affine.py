"""A one-layer token model as numbers: an affine map a token, and an affine readout before at most one LayerNorm.

    x_t = A_s x_{t-1} + b_s,   y_t = R (Re x_t, Im x_t) + c_s,   logits = H norm(y_t) + h

All values are float64 copies of what the float32 model has, each with a bound of how far float32 may move it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np
import torch
from torch import Tensor, nn

from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.rounding import Ball, Floats, point, torch_norm
from pdssm.automata.token_maps import Complex, TokenMaps, token_maps
from pdssm.generators import GivenPDGenerator, PDGenerator
from pdssm.layers import PDSSM
from pdssm.models import SequenceModel
from pdssm.models.block import Block

ALONE = 4
"""Tokens whose maps are computed one by one too, where a reading is compared with what the machine computes."""


@final
@dataclass(frozen=True)
class AffineModel:
    """What a proof about a model needs to know of it."""

    maps: TokenMaps
    initial: Complex
    """x_0, (N,)."""
    readout: Complex
    """(D, N): y gets Re(readout x), so its entry is w_re - i w_im."""
    offset: Floats
    """(tokens, D): bias, skip and residual."""
    offset_size: Floats
    """(tokens, D): the sum of the sizes of what is added up there."""
    offset_error: Floats
    norm: tuple[Floats, Floats, float] | None
    """Gain, bias and eps of the LayerNorm before the head."""
    head: Floats
    """(classes, D)."""
    head_bias: Floats

    def alike(self) -> IntArray:
        """(tokens,): for each the first token that adds the same to y."""
        added = np.concatenate([self.offset, self.offset_size, self.offset_error], axis=1)
        _, first, which = np.unique(added, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[which.ravel()])


@torch.no_grad()
def read_model(model: SequenceModel) -> AffineModel:
    """The model's maps and readout; what has no such form is refused by name."""
    layer, block = parts_of(model)
    table = model.encoder.weight
    assert isinstance(table, Tensor)
    embedding = u = point(table)
    if block.kind == "pre":
        assert isinstance(block.norm, nn.LayerNorm)
        u, table = torch_norm(embedding, block.norm), block.norm(table)
    generator = layer.generator
    assert isinstance(generator, PDGenerator | GivenPDGenerator)
    norm = {"none": None, "pre": model.norm, "post": block.norm}[block.kind]
    offset, size, error = _offset(layer, block, embedding, u)
    return AffineModel(
        maps=token_maps(generator, table, u),
        initial=layer.initial_state(1)[0].cpu().to(torch.complex128).numpy(),
        readout=_readout(layer),
        offset=offset,
        offset_size=size,
        offset_error=error,
        norm=None if norm is None else (_floats(norm.weight), _floats(norm.bias), norm.eps),  # type: ignore[arg-type]
        head=_floats(model.head.weight),
        head_bias=_floats(model.head.bias),
    )


@torch.no_grad()
def agrees(model: SequenceModel, affine: AffineModel) -> bool:
    """Whether this machine computes maps within the bounds, from all tokens at once and from some one at a time."""
    layer, block = parts_of(model)
    table = model.encoder.weight
    assert isinstance(table, Tensor)
    for token in (slice(None), *(slice(token, token + 1) for token in range(min(len(table), ALONE)))):
        transition, inputs = layer.generator(block.norm(table[token]) if block.kind == "pre" else table[token])
        target, source, diag, diag_error, own, own_error = (array[token] for array in affine.maps[:6])
        moved = target if layer.generator.orientation == "column" else source
        near = np.abs(transition.diag.cpu().numpy() - diag) <= diag_error * (1 + 1e-9)
        close = np.abs(inputs.cpu().numpy() - own) <= own_error * (1 + 1e-9)
        if not (near.all() and close.all() and (transition.index.cpu().numpy() == moved).all()):
            return False
    return True


def fingerprint(model: SequenceModel) -> str:
    """A hash of the configuration and of every weight's bits."""
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _floats(tensor: Tensor) -> Floats:
    return point(tensor).centre


def _readout(layer: PDSSM) -> Complex:
    weight = _floats(layer.readout.map.weight)  # type: ignore[arg-type]
    if layer.readout.kind == "real":
        return weight.astype(np.complex128)
    return np.asarray(weight[:, 0::2] - 1j * weight[:, 1::2])


def _offset(layer: PDSSM, block: Block, embedding: Ball, u: Ball) -> tuple[Floats, Floats, Floats]:
    """What y gets whatever the state: its value, the sum of its terms' sizes, its error before any addition."""
    bias = layer.readout.map.bias
    offset = np.zeros_like(u.centre) if bias is None else np.broadcast_to(_floats(bias), u.centre.shape).copy()  # type: ignore[arg-type]
    size, error = np.abs(offset), np.zeros_like(offset)
    if layer.skip is not None:
        skip = _floats(layer.skip)
        offset, size, error = offset + skip * u.centre, size + np.abs(skip) * u.size, error + np.abs(skip) * u.radius
    if block.residual:
        offset, size = offset + embedding.centre, size + np.abs(embedding.centre)
    return offset, size, error


def parts_of(model: SequenceModel) -> tuple[PDSSM, Block]:
    """Layer and block of a model that can be read; any other is refused by name."""
    config, block = model.config, model.blocks[0]
    assert isinstance(block, Block)
    layer = block.mixer
    if config.inputs != "tokens":
        _refuse("inputs", config.inputs, "'tokens'")
    if config.layers != 1:
        _refuse("layers", config.layers, "1")
    if config.head == "mean":
        _refuse("head", config.head, "'every' or 'last'")
    if config.ffn:
        _refuse("ffn", config.ffn, "0")
    if not isinstance(layer, PDSSM) or not isinstance(layer.generator, PDGenerator | GivenPDGenerator):
        _refuse("mixer", config.mixer, "'pdssm'")
    if layer.conv is not None:
        _refuse("conv", layer.conv.width, "0")
    if layer.readout.kind == "mlp":
        _refuse("readout", layer.readout.kind, "'linear' or 'real'")
    if isinstance(layer.generator, PDGenerator) and layer.generator.stochastic:
        _refuse("stochastic", True, "False")
    if isinstance(layer.generator, PDGenerator) and layer.generator.dense_inference:
        _refuse("dense_inference", True, "False")
    if any(parameter.dtype != torch.float32 for parameter in model.parameters()):
        _refuse("element type", next(p.dtype for p in model.parameters() if p.dtype != torch.float32), "torch.float32")
    return layer, block


def _refuse(name: str, found: Any, expected: str) -> NoReturn:
    raise AutomatonError(f"{name} of the model is {found!r}; expected {expected}, which is what can be certified")
