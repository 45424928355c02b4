"""Several symbols at a step: the same outputs and states as symbol by symbol."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pdssm.automata import DFA, AutomatonError, compile_dfa, fast_forward
from pdssm.automata.fast_forward import _composed, _together
from pdssm.models import ModelConfig, SequenceModel
from pdssm.transitions import PD


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 6), st.integers(1, 400), st.booleans())
def test_compiled_models_to_the_bit(seed: int, states: int, symbols: int, time: int, halves: bool) -> None:
    rng = np.random.default_rng(seed)
    dfa = DFA.random(states, symbols, rng)
    model, tokens = compile_dfa(dfa).eval(), torch.from_numpy(rng.integers(symbols, size=(3, time)))
    with torch.no_grad():
        expected, final = model(tokens, return_state=True)
    state = None
    for part in tokens.chunk(2, 1) if halves else [tokens]:
        outputs, state = fast_forward(model, part, state)
    assert torch.equal(outputs, expected[:, -1])
    assert torch.equal(state[0], final[0])
    assert outputs.argmax(-1).tolist() == [int(dfa.label(word)) for word in tokens.numpy()]


@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_other_models_to_rounding(orientation: str, norm: str) -> None:
    torch.manual_seed(0)
    options = {"state_dim": 6, "dictionary_size": 3, "orientation": orientation, "initial_state": "learned"}
    config = ModelConfig(3, 4, dim=5, norm=norm, residual=norm == "pre", mixer_options=options, head="last")
    model = SequenceModel(config).double().eval()
    tokens = torch.randint(3, (4, 3000))
    with torch.no_grad():
        expected, final = model(tokens, return_state=True)
    outputs, state = fast_forward(model, tokens)
    assert _together(3, 6, tokens.numel()) == 3
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(state[0], final[0])


def test_words_are_numbered_in_their_order() -> None:
    """Word (s, t, u) is number 9 s + 3 t + u, and acts as s, then t, then u."""
    rng = torch.Generator().manual_seed(0)
    index = torch.randint(4, (3, 4), generator=rng)
    maps, inputs = PD(index, torch.randn(3, 4, generator=rng)), torch.randn(3, 4, generator=rng)
    words, offsets = _composed(maps, inputs, 3)
    h = torch.randn(4, generator=rng)
    for number, word in enumerate(np.ndindex(3, 3, 3)):
        x = h
        for symbol in word:
            x = maps[symbol].apply(x) + inputs[symbol]
        torch.testing.assert_close(words[number].apply(h) + offsets[number], x)


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(3, 4, layers=2),
        ModelConfig(3, 4, inputs="samples"),
        ModelConfig(3, 4, head="mean"),
        ModelConfig(3, 4, mixer="real_diagonal"),
        ModelConfig(3, 4, mixer_options={"conv": 3}),
        ModelConfig(3, 4, mixer_options={"stochastic": True}),
        ModelConfig(3, 4, mixer_options={"dense_inference": True}),
    ],
)
def test_other_architectures_are_refused(config: ModelConfig) -> None:
    with pytest.raises(AutomatonError, match="expected one PD-SSM layer over tokens"):
        fast_forward(SequenceModel(config), torch.zeros(1, 10, dtype=torch.int64))
