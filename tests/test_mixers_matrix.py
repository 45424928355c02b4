"""Matrix states: the fused scan and readout against the plain one, and what is special about the layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pdssm import DiagonalPlusLowRank, Householder, scan_readout
from pdssm.errors import DtypeError, GradientError, PDSSMError, RangeError
from pdssm.kernels.cpu.families import FAMILIES
from pdssm.kernels.cpu.matrix_families import BY_ARRAYS
from pdssm.kernels.matrix_ops import KINDS, PIECE, matrix_readout
from pdssm.layers import make_mixer
from pdssm.scanning.delta import delta_readout, is_delta
from tests.factories import STRUCTURES, Draw, differentiable, real_loss, relative_error

Outcome = tuple[list[Tensor], tuple[Tensor, ...]]
LENGTHS = (PIECE, 0, 2 * PIECE + 2, 1, 5)


def outcome(
    name: str, sizes: tuple[int, int], period: int, packed: bool, dtype: torch.dtype, **options: Any
) -> Outcome:
    """Values and all gradients of a problem that is the same for the same arguments but ``options``."""
    channels, size = sizes
    draw = Draw(5, dtype)
    cu = torch.tensor([0, *LENGTHS]).cumsum(0) * period if packed else None
    shape = (1, int(cu[-1]), 2) if cu is not None else (2, 9 * period, 2)
    transition = STRUCTURES[name](draw, shape, size)
    read = (shape[0], shape[1] // period, 2)
    sequences = len(LENGTHS) if packed else 2
    extra = [draw(*shape, channels), draw(*shape, size), draw(*read, size), draw(sequences, 2, channels, size)]
    leaves = [*differentiable(transition), *(tensor.requires_grad_() for tensor in extra)]
    got = scan_readout(transition, *leaves[-4:], cu_seqlens=cu, period=period, **options)
    return list(got), torch.autograd.grad(real_loss(*got), leaves)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("sizes", "period"), [((3, 4), 1), ((16, 8), 3), ((37, 4), 2)])
@pytest.mark.parametrize("name", ["diagonal", "householder", "delta", "low_rank"])
def test_the_loop_that_reads(name: str, sizes: tuple[int, int], period: int, packed: bool) -> None:
    """More channels than lanes, and fewer; sequences of several pieces, of none and of one step; a decay of 1 and N."""
    problem = (name, sizes, period, packed, torch.float64)
    (got, grads), (expected, oracles) = outcome(*problem), outcome(*problem, backend="cpu", chunk=7)
    for value, oracle in zip((*got, *grads), (*expected, *oracles), strict=True):
        assert value.shape == oracle.shape
        assert relative_error(value, oracle) < 1e-11


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("chunk", [3, 64])
def test_the_delta_rule_by_chunks(period: int, packed: bool, chunk: int) -> None:
    """What other devices do, beside the plain scan: values and gradients."""
    draw = Draw(7, torch.float64)
    cu = torch.tensor([0, *LENGTHS]).cumsum(0) * period if packed else None
    shape = (1, int(cu[-1]), 2) if cu is not None else (2, 9 * period, 2)
    sequences, read = len(LENGTHS) if packed else 2, (shape[0], shape[1] // period, 2)
    leaves = [draw(*shape, 4), draw(*shape, 1), draw(*shape, 1), draw(*shape, 3), draw(*shape, 4), draw(*read, 4)]
    leaves = [leaf.requires_grad_() for leaf in (*leaves, draw(sequences, 2, 3, 4))]
    results = []
    for chunked in (True, False):
        keys, beta, decay, *rest = leaves
        unit = torch.nn.functional.normalize(keys, dim=-1)[..., None, :]
        a = Householder(unit, 2 * torch.sigmoid(beta), torch.sigmoid(3 + decay))
        assert is_delta(a)
        got = (
            delta_readout(a, *rest, cu, period, chunk)
            if chunked
            else scan_readout(a, *rest, cu_seqlens=cu, period=period, backend="reference")
        )
        results.append((*got, *torch.autograd.grad(real_loss(*got), leaves)))
    for value, oracle in zip(*results, strict=True):
        assert value.shape == oracle.shape
        assert relative_error(value, oracle) < 1e-11


def test_a_decay_of_zero_forgets() -> None:
    draw = Draw(8, torch.float64)
    keys = torch.nn.functional.normalize(draw(1, 6, 2, 1, 4), dim=-1)
    decay = torch.ones(1, 6, 2, 1, dtype=torch.float64)
    decay[:, 3] = 0
    a = Householder(keys, torch.rand(1, 6, 2, 1, dtype=torch.float64), decay)
    rest = draw(1, 6, 2, 3), draw(1, 6, 2, 4), draw(1, 6, 2, 4), draw(1, 2, 3, 4)
    expected = scan_readout(a, *rest, backend="reference")
    for value, oracle in zip(delta_readout(a, *rest, None), expected, strict=True):
        assert relative_error(value, oracle) < 1e-11


def test_a_rank_above_the_dimension() -> None:
    draw = Draw(2, torch.float64)
    wide = DiagonalPlusLowRank(draw(1, 5, 3), draw(1, 5, 3, 40, scale=0.1), draw(1, 5, 3, 40, scale=0.1))
    rest = draw(1, 5, 7), draw(1, 5, 3), draw(1, 5, 3)
    for value, oracle in zip(scan_readout(wide, *rest), scan_readout(wide, *rest, backend="reference"), strict=True):
        assert relative_error(value, oracle) < 1e-12


def test_in_single_precision() -> None:
    problem = ("householder", (37, 4), 2, True, torch.float32)
    (got, grads), (expected, oracles) = outcome(*problem), outcome(*problem, backend="cpu")
    for value, oracle in zip((*got, *grads), (*expected, *oracles), strict=True):
        assert value.dtype == torch.float32
        assert relative_error(value, oracle) < 1e-5


def test_the_same_bits_on_any_number_of_threads() -> None:
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 3):
            torch.set_num_threads(count)
            got, grads = outcome("low_rank", (37, 16), 1, True, torch.float32)
            results.append((*got, *grads))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def arguments(dtype: torch.dtype = torch.float64) -> list[Any]:
    draw = Draw(1, dtype)
    shapes = [(6, 2, 5), (6, 2, 4), (3, 2, 4), (2, 2, 5, 4)]
    tensors = [draw(*shape).requires_grad_() for shape in shapes]
    return ["diagonal", [draw(6, 2, 4).requires_grad_()], *tensors, torch.tensor([0, 2, 6]), 2]


def test_the_op_is_a_good_citizen() -> None:
    torch.library.opcheck(matrix_readout, arguments())


def test_no_second_derivative() -> None:
    given = arguments()
    outputs, _, _ = matrix_readout(*given)
    (first,) = torch.autograd.grad(outputs.square().sum(), given[2], create_graph=True)
    with pytest.raises(GradientError, match="no second derivative"):
        first.sum().backward()


def test_every_kind_has_its_loops() -> None:
    assert {FAMILIES[kind].arrays for kind in KINDS} == set(BY_ARRAYS)


def test_other_families_and_backends_read_too() -> None:
    """Complex numbers, and families without such a loop, go through ``scan``."""
    for name, dtype in (("diagonal", torch.complex128), ("dense", torch.float64), ("block_diagonal", torch.float64)):
        (got, _), (expected, _) = (
            outcome(name, (3, 4), 2, True, dtype, **options) for options in ({}, {"backend": "reference", "chunk": 1})
        )
        for value, oracle in zip(got, expected, strict=True):
            assert relative_error(value, oracle) < 1e-12


def test_errors_of_reading() -> None:
    draw = Draw(1, torch.float64)
    transition = STRUCTURES["diagonal"](draw, (1, 6), 4)
    values, keys, queries = draw(1, 6, 3), draw(1, 6, 4), draw(1, 6, 4)
    cases: list[tuple[dict[str, Any], type[PDSSMError], str]] = [
        ({"period": 4}, RangeError, "period is 4; expected a divisor of 6"),
        ({"period": 0}, RangeError, "period is 0; expected at least 1"),
        ({"values": values.float()}, DtypeError, "values is torch.float32; expected torch.float64"),
        ({"queries": queries.float()}, DtypeError, "queries is torch.float32; expected torch.float64"),
        ({"period": 2}, PDSSMError, r"queries has shape \(1, 6, 4\); expected \(1, 3, 4\)"),
        ({"initial_state": draw(1, 4, 3)}, PDSSMError, r"initial_state has shape \(1, 4, 3\); expected \(1, 3, 4\)"),
        ({"cu_seqlens": torch.tensor([0, 4, 5])}, RangeError, "cu_seqlens runs from 0 to 5"),
        ({"transition": transition[0]}, PDSSMError, "transition has batch axes"),
    ]
    for changes, error, message in cases:
        given = {"transition": transition, "values": values, "keys": keys, "queries": queries, **changes}
        with pytest.raises(error, match=message):
            scan_readout(**given)


# -------------------------------------------------------------------------------------------------- the layers


def test_states_are_checked() -> None:
    mixer, plain = make_mixer("deltanet", 8, {}), make_mixer("deltanet", 8, {"conv": 0})
    x = torch.randn(2, 3, 8)
    state = mixer.initial_state(2)
    cases = [
        (mixer, state.recurrent, r"initial_state is a Tensor; expected ConvState\(recurrent, window\)"),
        (mixer, state._replace(window=state.window[:, :1]), r"window has shape \(2, 1, 24\); expected \(2, 3, 24\)"),
        (mixer, mixer.initial_state(3), r"expected \(2, 3, 24\)"),
        (plain, state, r"initial_state is a ConvState; expected a tensor \(2, 4, 2, 2\)"),
        (plain, state.recurrent[:, :2], r"initial_state has shape \(2, 2, 2, 2\); expected \(2, 4, 2, 2\)"),
    ]
    for layer, start, message in cases:
        with pytest.raises(PDSSMError, match=message):
            layer(x, start)


@pytest.mark.parametrize("name", ["deltanet", "gated_deltanet", "gated_deltaproduct"])
def test_options_are_checked(name: str) -> None:
    for option, value in (("heads", 0), ("head_dim", 0), ("conv", -1), ("conv", 1)):
        with pytest.raises(RangeError, match=option if option != "head_dim" else "dim"):
            make_mixer(name, 8, {option: value})
    with pytest.raises(RangeError, match="factors is 0"):
        make_mixer("gated_deltaproduct", 8, {"factors": 0})


def test_options_of_rwkv7_are_checked() -> None:
    with pytest.raises(RangeError, match="head_dim is 3; expected a divisor of 8"):
        make_mixer("rwkv7", 8, {"head_dim": 3})
    assert make_mixer("rwkv7", 128, {}).heads == 2
    assert make_mixer("rwkv7", 128, {}).gate.down.weight.shape == (64, 128)


@pytest.mark.parametrize(("name", "lowest"), [("deltanet", 0.0), ("deltanet_neg", -1.0), ("gated_deltaproduct", -1.0)])
def test_how_far_a_step_can_turn(name: str, lowest: float) -> None:
    """The eigenvalue along a key, 1 - beta, with beta's network driven to its ends."""
    torch.manual_seed(0)
    mixer = make_mixer(name, 8, {}).double()
    torch.nn.init.normal_(mixer.beta.weight, std=1e3)
    x = torch.randn(50, 8, dtype=torch.float64)
    transition = mixer.pieces(x, torch.nn.functional.silu(mixer.project(x))).transition
    eigenvalues = 1 - transition.beta.detach()
    assert abs(float(eigenvalues.min()) - lowest) < 1e-6
    assert abs(float(eigenvalues.max()) - 1) < 1e-6
    norms = transition.keys.detach().norm(dim=-1)
    assert 0.9 < float(norms.median()) <= float(norms.max()) <= 1


def test_half_precision_keeps_the_state_in_float32() -> None:
    torch.manual_seed(0)
    mixer = make_mixer("gated_deltanet", 16, {}).bfloat16()
    x = torch.randn(2, 9, 16).bfloat16()
    y, state = mixer(x, return_state=True)
    assert y.dtype == torch.bfloat16
    assert state.recurrent.dtype == torch.float32
    expected = mixer.float()(x.float())
    assert relative_error(y.float(), expected) < 0.05
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = mixer(x.float(), return_state=True)
    assert state.recurrent.dtype == torch.float32
    assert relative_error(y.float(), expected) < 0.05


@pytest.mark.parametrize("name", ["gated_deltaproduct", "rwkv7"])
def test_one_graph(name: str) -> None:
    """Convolution or token shift, and the loop, are nodes that ``torch.compile`` sees through, backward too."""
    torch.manual_seed(0)
    mixer, x = make_mixer(name, 8, {}), torch.randn(2, 5, 8)
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    leaves = list(mixer.parameters())
    for got, expected in zip(
        (compiled(x), *torch.autograd.grad(compiled(x).square().sum(), leaves)),
        (mixer(x), *torch.autograd.grad(mixer(x).square().sum(), leaves)),
        strict=True,
    ):
        assert relative_error(got, expected) < 1e-4


def test_memory_is_a_fraction_of_the_states() -> None:
    """What the backward pass starts from: one state in so many steps, and one for each sequence."""
    outputs = matrix_readout(*arguments())
    assert outputs[2].shape == (2, 2, 5, 4)
    long = [*arguments()[:2], *(torch.randn(640, 1, size) for size in (3, 2, 2)), torch.zeros(1, 1, 3, 2)]
    long[1] = [torch.rand(640, 1, 2)]
    kept = matrix_readout(*long, torch.tensor([0, 640]), 1)[2]
    assert kept.shape[0] == 640 // PIECE + 1
