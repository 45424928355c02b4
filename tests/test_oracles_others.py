"""Mixers against independent implementations, weights transplanted: transformers and xlstm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdssm.layers import Transformer
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
