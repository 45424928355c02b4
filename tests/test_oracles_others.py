"""Mixers against independent implementations, weights transplanted: transformers and xlstm."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from pdssm.layers import SLSTM, XLSTM, Mamba, Mixer, Transformer
from pdssm.layers.mlstm import MLSTM
from tests.factories import relative_error

pytestmark = pytest.mark.slow


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_transformer_is_llamas_attention() -> None:
    """The Llama layer's attention has the same pairs, speeds and scale; its eager path over the whole sequence."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    torch.manual_seed(0)
    mixer = Transformer(24, heads=3).double()
    config = LlamaConfig(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=3, attention_bias=False,
        attn_implementation="eager", rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )  # fmt: skip
    oracle = LlamaAttention(config, 0).double()
    with torch.no_grad():
        projections = (oracle.q_proj, oracle.k_proj, oracle.v_proj)
        for projection, weight in zip(projections, mixer.inputs.weight.chunk(3), strict=True):
            projection.weight.copy_(weight)
        oracle.o_proj.weight.copy_(mixer.output.weight)
    x = 3 * draw(2, 70, 24)
    position = LlamaRotaryEmbedding(config)(x, torch.arange(70)[None])
    mask = torch.full((70, 70), -torch.inf, dtype=torch.float64).triu(1)
    expected = oracle(x, position, mask[None, None])[0]
    # Its angles are rounded to float32.
    assert relative_error(mixer(x), expected) < 1e-6


# ---------------------------------------------------------------------------------------------------------- xLSTM


def copy_slstm(mixer: SLSTM, oracle: Any) -> None:
    """Into the package's layer; it hands what its ``fgate`` makes to the cell's input gate, and the other way round."""
    with torch.no_grad():
        oracle.conv1d.conv.weight.copy_(mixer.conv.weight.flip(0).t()[:, None])  # type: ignore[union-attr]
        oracle.conv1d.conv.bias.copy_(mixer.conv.bias)  # type: ignore[union-attr]
        own = (*mixer.convolved_gates.unbind(2), *mixer.direct_gates.unbind(2))
        for gate, weight in zip((oracle.fgate, oracle.igate, oracle.zgate, oracle.ogate), own, strict=True):
            gate.weight.copy_(weight.transpose(1, 2))
        cell = oracle.slstm_cell
        cell._recurrent_kernel_.copy_(cell._recurrent_kernel_ext2int(mixer.recurrent))
        cell._bias_.copy_(cell._bias_ext2int(mixer.bias))
        oracle.group_norm.weight.copy_(mixer.norm - 1)


def randomise(mixer: Mixer) -> None:
    """Also what begins at a constant."""
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


def test_slstm_is_xlstms() -> None:
    from xlstm import sLSTMLayerConfig
    from xlstm.blocks.slstm.layer import sLSTMLayer

    torch.manual_seed(0)
    mixer = SLSTM(24, heads=3).double()
    config = sLSTMLayerConfig(embedding_dim=24, num_heads=3, backend="vanilla", dtype="float32",
                              enable_automatic_mixed_precision=False)  # fmt: skip
    oracle = sLSTMLayer(config)
    oracle.reset_parameters()
    # Its bias begins as ours.
    begun = oracle.double().slstm_cell
    assert relative_error(begun._bias_int2ext(begun._bias_), mixer.bias) < 1e-6
    randomise(mixer)
    copy_slstm(mixer, oracle)
    x = 3 * draw(2, 50, 24).requires_grad_()
    y, expected = mixer(x), oracle(x)
    assert relative_error(y, expected) < 1e-9
    grads = (torch.autograd.grad(out.square().sum(), x)[0] for out in (y, expected))
    assert relative_error(*grads) < 1e-9


def copy_mlstm(mixer: MLSTM, oracle: Any) -> None:
    with torch.no_grad():
        oracle.proj_up.weight.copy_(mixer.up.weight)
        oracle.conv1d.conv.weight.copy_(mixer.conv.weight.flip(0).t()[:, None])
        oracle.conv1d.conv.bias.copy_(mixer.conv.bias)
        own = (*mixer.queries_keys.unbind(2), mixer.values)
        for projection, weight in zip((oracle.q_proj, oracle.k_proj, oracle.v_proj), own, strict=True):
            projection.weight.copy_(weight.transpose(1, 2))
        cell = oracle.mlstm_cell
        for gate, weight, bias in zip(
            (cell.igate, cell.fgate), mixer.gates.weight.chunk(2), mixer.gates.bias.chunk(2), strict=True
        ):
            gate.weight.copy_(weight)
            gate.bias.copy_(bias)
        cell.outnorm.weight.copy_(mixer.norm - 1)
        oracle.learnable_skip.copy_(mixer.skip)
        oracle.proj_down.weight.copy_(mixer.down.weight)


def test_xlstm_is_the_packages_blocks() -> None:
    """An mLSTM block and an sLSTM block with its gated network, without the norm after a whole stack."""
    from xlstm import (
        FeedForwardConfig,
        mLSTMBlockConfig,
        mLSTMLayerConfig,
        sLSTMBlockConfig,
        sLSTMLayerConfig,
        xLSTMBlockStack,
        xLSTMBlockStackConfig,
    )

    torch.manual_seed(0)
    mixer = XLSTM(32, heads=2).double()
    stack = xLSTMBlockStackConfig(
        mlstm_block=mLSTMBlockConfig(mLSTMLayerConfig(num_heads=2)),
        slstm_block=sLSTMBlockConfig(
            sLSTMLayerConfig(num_heads=2, backend="vanilla", dtype="float32", enable_automatic_mixed_precision=False),
            FeedForwardConfig(proj_factor=1.3, act_fn="gelu"),
        ),
        context_length=80, num_blocks=2, embedding_dim=32, slstm_at=[1], add_post_blocks_norm=False,
    )  # fmt: skip
    oracle = xLSTMBlockStack(stack).double()
    matrix, scalar = oracle.blocks
    begun = scalar.xlstm.slstm_cell
    assert relative_error(begun._bias_int2ext(begun._bias_), mixer.slstm.bias) < 1e-6
    assert relative_error(matrix.xlstm.mlstm_cell.fgate.bias, mixer.mlstm.gates.bias[2:]) < 1e-6
    randomise(mixer)
    copy_mlstm(mixer.mlstm, matrix.xlstm)
    copy_slstm(mixer.slstm, scalar.xlstm)
    with torch.no_grad():
        norms = (matrix.xlstm_norm, scalar.xlstm_norm, scalar.ffn_norm)
        for norm, own in zip(norms, mixer.norms, strict=True):
            norm.weight.copy_(own.weight - 1)
        scalar.ffn.proj_up.weight.copy_(mixer.up.weight)
        scalar.ffn.proj_down.weight.copy_(mixer.down.weight)
    x = draw(2, 80, 32).requires_grad_()
    y, expected = mixer(x), oracle(x)
    # Its parallel form has another m, and so another 1e-6 in the normaliser; step by step it has ours.
    assert relative_error(y, expected) < 1e-6
    grads = (torch.autograd.grad(out.square().sum(), x)[0] for out in (y, expected))
    assert relative_error(*grads) < 1e-6
    state, outputs = {}, []
    for step in x.split(1, 1):
        out, state = matrix.xlstm.step(step, **state)
        outputs.append(out)
    assert relative_error(mixer.mlstm(x), torch.cat(outputs, 1)) < 1e-12


# ---------------------------------------------------------------------------------------------------------- Mamba


def test_mamba_is_transformers() -> None:
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    torch.manual_seed(0)
    mixer = Mamba(32).double()
    oracle = MambaMixer(MambaConfig(hidden_size=32, num_hidden_layers=1), 0).double().eval()
    assert (oracle.time_step_rank, oracle.conv_kernel_size) == (mixer.rank, mixer.conv.width)
    # It begins as ours, dt's bias up to chance: its step sizes lie between the same bounds.
    assert relative_error(oracle.A_log, mixer.log_rates) < 1e-6
    for bias in (oracle.dt_proj.bias, mixer.steps.bias):
        assert 1e-3 < softplus(bias).min().item() < softplus(bias).max().item() < 0.1
    randomise(mixer)
    with torch.no_grad():
        for own, weight in (
            (mixer.inputs.weight, oracle.in_proj.weight), (mixer.selection.weight, oracle.x_proj.weight),
            (mixer.steps.weight, oracle.dt_proj.weight), (mixer.steps.bias, oracle.dt_proj.bias),
            (mixer.conv.weight.flip(0).t()[:, None], oracle.conv1d.weight), (mixer.conv.bias, oracle.conv1d.bias),
            (mixer.log_rates, oracle.A_log), (mixer.skip, oracle.D), (mixer.output.weight, oracle.out_proj.weight),
        ):  # fmt: skip
            weight.copy_(own)
    x = 3 * draw(2, 100, 32).requires_grad_()
    y, expected = mixer(x), oracle(x)
    # Its A, D and dt's bias are float32.
    assert relative_error(y, expected) < 1e-6
    grads = (torch.autograd.grad(out.square().sum(), x)[0] for out in (y, expected))
    assert relative_error(*grads) < 1e-6
