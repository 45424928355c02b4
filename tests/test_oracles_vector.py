"""The mixers with vector states against other people's packages, weights transplanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pdssm.generators.s5 import hippo_normal
from pdssm.layers import make_mixer
from tests.factories import relative_error

pytestmark = pytest.mark.slow
DIM = 8


def gradients(y: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    weights = torch.cos(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)
    return list(torch.autograd.grad((weights * y).sum(), leaves))


# ------------------------------------------------------------------------------------------------- torch-slices

SLICES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "d_slice": ({}, {"block_size": 1}, {"diag": "vf_A"}),
    "bd_slice": ({}, {"block_size": 4}, {"blocks": "vf_A"}),
    "d_de_slice": (
        {"block_size": 3, "state_dim": 11}, {"block_size": 3, "diagonal_dense": True},
        {"diag": "vf_A_diag", "block": "vf_A_dense"},
    ),
}  # fmt: skip


def slices(name: str, input_term: bool) -> tuple[Any, Any, dict[str, str]]:
    """Ours and theirs with the same weights: their first column is our bias, it belongs to the 1 in (1, x)."""
    from slices import SLiCE  # type: ignore[import-not-found]

    torch.manual_seed(0)
    options, their_options, names = SLICES[name]
    ours: Any = make_mixer(name, DIM, {"input_term": input_term, **options}).double()
    theirs = SLiCE(
        DIM, ours.state_dim, bias=input_term, init_std=1.0, scale=1 / 40, use_parallel=False,
        path_mode="increments", **their_options,
    ).double()  # fmt: skip
    names = {**names, "inputs": "vf_B"} if input_term else names
    for own, other in names.items():
        weight = getattr(theirs, other).weight.data
        getattr(ours.generator, own).bias.data = weight[:, 0].clone()
        getattr(ours.generator, own).weight.data = weight[:, 1:].clone()
    ours.first.data = theirs.init.data[:, None].clone()
    return ours, theirs, names


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("input_term", [False, True])
def test_torch_slices(name: str, input_term: bool) -> None:
    """Outputs and gradients, float64.  Theirs has no readout: its states go through ours."""
    ours, theirs, names = slices(name, input_term)
    x = torch.randn(3, 20, DIM, dtype=torch.float64).requires_grad_()
    got, expected = ours(x), ours.readout(theirs(x)) + ours.skip * x
    assert relative_error(got, expected) < 1e-12
    fields = [getattr(ours.generator, own) for own in names]
    leaves = [x, ours.first, *(field.bias for field in fields), *(field.weight for field in fields)]
    their_weights = [getattr(theirs, other).weight for other in names.values()]
    grads, oracles = gradients(got, leaves), gradients(expected, [x, theirs.init, *their_weights])
    split = [oracles[0], oracles[1][:, None], *(g[:, 0] for g in oracles[2:]), *(g[:, 1:] for g in oracles[2:])]
    for value, oracle in zip(grads, split, strict=True):
        assert relative_error(value, oracle) < 1e-10


def test_torch_slices_sees_a_planted_error() -> None:
    ours, theirs, _ = slices("bd_slice", False)
    ours.generator.blocks.weight.data = ours.generator.blocks.weight.data.flip(0)
    x = torch.randn(3, 20, DIM, dtype=torch.float64)
    assert relative_error(ours(x), ours.readout(theirs(x)) + ours.skip * x) > 1e-3


# --------------------------------------------------------------------------------------------------- s5-pytorch


def s5(blocks: int) -> tuple[Any, nn.Module]:
    """Ours and theirs with the same weights; y = Re(C x) + D u in both.  Time steps are so long that poles matter."""
    from s5 import S5  # type: ignore[import-not-found]

    torch.manual_seed(0)
    ours: Any = make_mixer("s5", DIM, {"state_dim": 6, "blocks": blocks})
    theirs = S5(DIM, 6, block_count=blocks, bcInit="dense", dt_min=0.1, dt_max=1.0)
    with torch.no_grad():
        ours.generator.poles.copy_(torch.view_as_real(theirs.seq.Lambda))
        ours.generator.log_dt.copy_(theirs.seq.log_step.flatten())
        ours.generator.inputs.linear.weight.copy_(theirs.seq.B.transpose(1, 2).flatten(0, 1))
        ours.readout.map.weight.copy_(torch.view_as_real(theirs.seq.C.conj().resolve_conj()).flatten(1))
        ours.skip.copy_(theirs.seq.D)
    return ours, theirs


@pytest.mark.parametrize("blocks", [1, 2])
def test_s5_pytorch(blocks: int) -> None:
    """Outputs, the final state and gradients in float32: all it offers."""
    ours, theirs = s5(blocks)
    x = torch.randn(2, 50, DIM).requires_grad_()
    (got, state), (expected, their_state) = ours(x, return_state=True), theirs(x, return_state=True)
    assert relative_error(got, expected) < 2e-6
    assert relative_error(state, their_state) < 2e-6
    leaves = [x, ours.generator.log_dt, ours.skip, ours.generator.poles]
    oracles = gradients(expected, [x, theirs.seq.log_step, theirs.seq.D, theirs.seq.Lambda])
    oracles[3] = torch.view_as_real(oracles[3])
    grads = gradients(got, leaves)
    for value, oracle in zip(grads, oracles, strict=True):
        assert relative_error(value, oracle.view_as(value)) < 1e-5


def test_s5_pytorch_sees_a_planted_error() -> None:
    ours, theirs = s5(1)
    with torch.no_grad():
        ours.generator.poles[0, 1] += 0.01
    x = torch.randn(2, 50, DIM)
    assert relative_error(ours(x), theirs(x)) > 2e-5


def test_s5_starts_where_theirs_does() -> None:
    from s5.init import make_DPLR_HiPPO  # type: ignore[import-not-found]

    theirs = np.sort_complex(make_DPLR_HiPPO(16)[0])
    ours = np.sort_complex(hippo_normal(16)[0].numpy())
    assert np.abs(ours - theirs).max() < 1e-5
