"""The contract of every sequence mixer: a line in ``pdssm.layers.MIXERS`` is all it takes to be tested here."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pdssm import ModelConfig, SequenceModel
from pdssm.errors import PDSSMError
from pdssm.layers import MIXERS, Mixer, make_mixer, mixer_options
from tests.factories import relative_error

DIM = 8
# Further configurations of a mixer that are a path of their own.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "pdssm": [
        {"conv": 3, "initial_state": "learned"},
        {"orientation": "row", "readout": "mlp", "magnitude": "near_one", "phase": "shrink"},
        {"readout": "real", "skip": False, "initial_state": "zero", "conv": 2},
    ],
    "sdssm": [{"conv": 4}],
    "s4d": [{"state_dim": 4, "dt_min": 0.1, "dt_max": 1.0}],
    "linoss_im": [{"oscillators": 3, "readout": "mlp", "conv": 2}],
    "d_slice": [{"input_term": True, "initial_state": "first"}],
    "deltanet": [{"heads": 2, "head_dim": 3, "conv": 0}],
    "gated_deltaproduct": [{"factors": 3, "heads": 2, "head_dim": 3, "expand": 1, "conv": 2, "negative": False}],
    "rwkv7": [{"head_dim": 2, "decay_rank": 3, "rate_rank": 2, "gate_rank": 5}],
    "mamba": [{"state_dim": 3, "expand": 1, "conv": 2, "rank": 2}],
    "mamba3": [{"state_dim": 6, "expand": 1, "head_dim": 4}, {"state_dim": 4, "trapezoid": False}],
    "slstm": [{"heads": 2, "conv": 0}],
    "xlstm": [{"heads": 2, "conv": 3, "ffn_dim": 5}],
    "transformer": [{"heads": 1, "window": 7}],
}
CASES = [(name, options) for name in MIXERS for options in ({}, *OPTIONS.get(name, []))]
every_mixer = pytest.mark.parametrize(("name", "options"), CASES, ids=str)


def make(name: str, options: dict[str, Any]) -> Mixer:
    torch.manual_seed(0)
    return make_mixer(name, DIM, options).double()


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parts(state: Any) -> list[Tensor]:
    """The tensors of a state."""
    if isinstance(state, Tensor):
        return [state]
    return [tensor for entry in state for tensor in parts(entry)]


def mapped(state: Any, function: Any) -> Any:
    if isinstance(state, Tensor):
        return function(state)
    entries = [mapped(entry, function) for entry in state]
    return type(state)(*entries) if hasattr(state, "_fields") else type(state)(entries)


def same(value: Any, expected: Any, bound: float = 1e-9) -> None:
    for a, b in zip(parts(value), parts(expected), strict=True):
        assert a.shape == b.shape
        assert relative_error(a, b) < bound


@every_mixer
def test_shapes_and_precision(name: str, options: dict[str, Any]) -> None:
    mixer = make(name, options)
    y, state = mixer(draw(3, 7), return_state=True)
    assert y.shape == (3, 7, DIM)
    assert y.dtype == torch.float64
    for tensor, start in zip(parts(state), parts(mixer.initial_state(3)), strict=True):
        assert tensor.shape == start.shape
        assert tensor.dtype == start.dtype
        assert tensor.shape[0] == 3
    single = mixer.float()(draw(3, 7).float())
    assert single.dtype == torch.float32
    assert relative_error(single.double(), y) < 1e-3


@every_mixer
@settings(max_examples=8)
@given(split=st.integers(0, 9), seed=st.integers(0, 1000))
def test_step_repeated_is_forward_at_any_split(name: str, options: dict[str, Any], split: int, seed: int) -> None:
    mixer = make(name, options)
    x = draw(2, 9, seed=seed)
    with torch.no_grad():
        expected, final = mixer(x, return_state=True)
        state, outputs = mixer.initial_state(2), []
        if split:
            y, state = mixer(x[:, :split], return_state=True)
            outputs.append(y)
        for t in range(split, 9):
            y, state = mixer.step(x[:, t], state)
            outputs.append(y[:, None])
    same(torch.cat(outputs, 1), expected)
    same(state, final)


@every_mixer
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any), carried=st.booleans())
def test_a_pack_is_its_sequences(name: str, options: dict[str, Any], lengths: list[int], carried: bool) -> None:
    """Empty sequences included: their final state is their initial state."""
    mixer = make(name, options)
    cu = torch.tensor([0, *lengths]).cumsum(0)
    x = draw(1, int(cu[-1]))
    with torch.no_grad():
        start = mixer(draw(len(lengths), 3, seed=9), return_state=True)[1] if carried else None
        y, final = mixer(x, start, cu_seqlens=cu, return_state=True)
        for s in range(len(lengths)):
            own = mixer.initial_state(1) if start is None else mapped(start, lambda t: t[s : s + 1])  # noqa: B023
            if lengths[s]:
                expected, own = mixer(x[:, cu[s] : cu[s + 1]], own, return_state=True)
                same(y[:, cu[s] : cu[s + 1]], expected)
            same(mapped(final, lambda t: t[s : s + 1]), own)  # noqa: B023


@every_mixer
@settings(max_examples=8)
@given(holes=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3))
def test_a_mask_leaves_steps_out(name: str, options: dict[str, Any], holes: list[list[bool]]) -> None:
    """Left padding, right padding, holes and sequences of nothing but padding."""
    mask = torch.tensor([[False, False, True, True, True, True], [True, True, True, False, False, False], *holes])
    mixer = make(name, options)
    x = draw(*mask.shape)
    with torch.no_grad():
        y, final = mixer(x, mask=mask, return_state=True)
        poisoned = mixer(torch.where(mask[..., None], x, 1e9), mask=mask)
        same(poisoned, y)
        for s in range(len(mask)):
            own = mixer.initial_state(1)
            assert not y[s, ~mask[s]].any()
            if mask[s].any():
                expected, own = mixer(x[s, mask[s]][None], own, return_state=True)
                same(y[s, mask[s]], expected[0])
            same(mapped(final, lambda t: t[s : s + 1]), own)  # noqa: B023


@every_mixer
def test_cu_seqlens_wins_over_mask(name: str, options: dict[str, Any]) -> None:
    mixer = make(name, options)
    x, cu = draw(1, 6), torch.tensor([0, 2, 6])
    same(mixer(x, cu_seqlens=cu, mask=torch.zeros(1, 6).bool()), mixer(x, cu_seqlens=cu))


@every_mixer
def test_rows_are_the_inputs_they_stand_for(name: str, options: dict[str, Any]) -> None:
    """Outputs, final states and gradients; dense, packed and masked."""
    mixer = make(name, options)
    table, rows = draw(4).requires_grad_(), torch.randint(0, 4, (3, 8), generator=torch.Generator().manual_seed(2))
    mask = torch.rand(3, 8, generator=torch.Generator().manual_seed(3)) < 0.7
    leaves = [table, *mixer.parameters()]
    for layout in ({}, {"mask": mask}, {"cu_seqlens": torch.tensor([0, 5, 5, 24])}):
        ids = rows.reshape(1, -1) if "cu_seqlens" in layout else rows
        got, expected = (
            mixer(table, rows=ids, return_state=True, **layout),
            mixer(table[ids], return_state=True, **layout),
        )
        same(got, expected)
        weights = torch.cos(torch.arange(got[0].numel(), dtype=torch.float64)).view_as(got[0])
        grads, oracles = (torch.autograd.grad((out[0] * weights).sum(), leaves) for out in (got, expected))
        same(grads, oracles)


@every_mixer
def test_positions_are_a_part_of_the_outputs(name: str, options: dict[str, Any]) -> None:
    mixer = make(name, options)
    x, at = draw(2, 6), torch.tensor([11, 0, 4, 4])
    y, final = mixer(x, return_state=True)
    part, same_final = mixer(x, positions=at, return_state=True)
    same(part, y.flatten(0, 1)[at])
    same(same_final, final)
    mask = torch.tensor([[True, False, True, True, True, True], [False, True, True, True, True, True]])
    same(mixer(x, mask=mask, positions=at), mixer(x, mask=mask).flatten(0, 1)[at])
    with pytest.raises(PDSSMError, match="padded step"):
        mixer(x, mask=mask, positions=torch.tensor([1]))


@every_mixer
def test_gradients_are_finite_and_reach_everything(name: str, options: dict[str, Any]) -> None:
    """Through the outputs, and through the final state back into the initial one."""
    mixer = make(name, options)
    x = draw(2, 6).requires_grad_()
    start = mapped(mixer(draw(2, 3, seed=5), return_state=True)[1], lambda t: t.detach().clone().requires_grad_())
    y, final = mixer(x, start, return_state=True)
    (y.square().sum() + sum(t.abs().square().sum() for t in parts(final))).backward()
    named = {**dict(mixer.named_parameters()), "x": x} | {f"state {i}": t for i, t in enumerate(parts(start))}
    # x_0 is the state's here, not the parameter's.
    named = {key: tensor for key, tensor in named.items() if key != "first"}
    for key, tensor in named.items():
        assert tensor.grad is not None, key
        assert torch.isfinite(tensor.grad).all(), key
        assert float(tensor.grad.abs().max()) > 0, key
    mixer.zero_grad()
    mixer(x).square().sum().backward()
    assert all(float(p.grad.abs().max()) > 0 for p in mixer.parameters() if p.grad is not None)
    assert all(p.grad is not None for p in mixer.parameters())


@every_mixer
def test_the_final_state_carries_the_gradient(name: str, options: dict[str, Any]) -> None:
    """Two halves, joined by their state, have the gradients of the whole."""
    mixer = make(name, options)
    x = draw(2, 8).requires_grad_()
    leaves = [x, *mixer.parameters()]
    whole = mixer(x)
    first, state = mixer(x[:, :3], return_state=True)
    halves = torch.cat((first, mixer(x[:, 3:], state)), 1)
    same(*(torch.autograd.grad(y.square().sum(), leaves) for y in (halves, whole)))


@every_mixer
def test_an_ordinary_module(name: str, options: dict[str, Any]) -> None:
    mixer = make(name, options)
    x = draw(2, 5)
    y = mixer(x)
    assert torch.equal(copy.deepcopy(mixer)(x), y)
    torch.manual_seed(99)
    other = make_mixer(name, DIM, options).double()
    other.load_state_dict(mixer.state_dict())
    assert torch.equal(other(x), y)
    twice = {key: 2 * value for key, value in mixer.named_parameters()}
    called = torch.func.functional_call(mixer, twice, (x,))
    for parameter in other.parameters():
        parameter.data.mul_(2)
    assert torch.equal(called, other(x))
    assert relative_error(called, y) > 1e-6
    assert not next(iter(mixer.parameters())).is_complex()


@every_mixer
def test_a_model_of_it_survives_the_disk(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SequenceModel(ModelConfig(5, 3, dim=DIM, layers=2, mixer=name, mixer_options=options))
    model.save_pretrained(tmp_path)
    again = SequenceModel.from_pretrained(tmp_path)
    assert again.config == model.config
    x = torch.randint(0, 5, (2, 9))
    assert torch.equal(again(x), model(x))


@every_mixer
def test_the_start_belongs_to_nobody(name: str, options: dict[str, Any]) -> None:
    """Changing a returned state in place changes neither the mixer nor other sequences."""
    mixer = make(name, options)
    x = draw(2, 4)
    with torch.no_grad():
        y, state = mixer(x, return_state=True)
        for tensor in parts(state):
            tensor.fill_(7.0)
        assert torch.equal(mixer(x), y)


def test_options_are_known_by_name() -> None:
    for name in MIXERS:
        known = mixer_options(name)
        make_mixer(name, DIM, {key: value for key, value in known.items() if value is not None})
        with pytest.raises(PDSSMError, match="expected one of"):
            make_mixer(name, DIM, {"no_such_option": 1})
    assert mixer_options("pdssm")["dictionary_size"] == 6
    with pytest.raises(PDSSMError, match="did you mean 'pdssm'"):
        mixer_options("pdsm")
