"""What is particular to the mixers that are no linear recurrences, and to the Mamba family, beyond the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pdssm.errors import PDSSMError
from pdssm.kernels import slstm
from pdssm.kernels.cpu.selective import MARK
from pdssm.kernels.selective import selective_scan
from pdssm.layers import SLSTM, XLSTM, Mamba, Mamba3, Transformer, make_mixer
from pdssm.layers.transformer import QUERIES
from pdssm.scanning import decay_readout, scan_readout, selective_readout
from pdssm.scanning.selective import selective_readout_plain
from pdssm.transitions import Diagonal
from tests.factories import real_loss, relative_error

DIM = 8


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------------------ attention


def attention_by_hand(mixer: Transformer, x: Tensor) -> np.ndarray[Any, Any]:
    """One sequence: each pair of a head a complex number, turned by its position; every step by itself."""
    heads, half = mixer.heads, mixer.dim // mixer.heads // 2
    speed = mixer.base ** (-np.arange(half) / half)
    turn = np.exp(1j * np.arange(len(x))[:, None, None] * speed)
    weight = mixer.inputs.weight.detach().numpy()
    q, k, v = np.split(x.numpy() @ weight.T, 3, -1)
    q, k = ((p.reshape(len(x), heads, 2, half)[:, :, 0] + 1j * p.reshape(len(x), heads, 2, half)[:, :, 1]) * turn
            for p in (q, k))  # fmt: skip
    v, y = v.reshape(len(x), heads, -1), np.zeros((len(x), mixer.dim))
    for t in range(len(x)):
        seen = slice(max(0, t - mixer.window + 1), t + 1)
        scores = np.exp((q[t].conj() * k[seen]).sum(-1).real / np.sqrt(2 * half))
        y[t] = np.einsum("th,thd->hd", scores / scores.sum(0), v[seen]).ravel()
    return np.asarray(y @ mixer.output.weight.detach().numpy().T)


@pytest.mark.parametrize(("window", "dim"), [(5, 8), (QUERIES + 40, 8), (1024, 8), (1024, 36)])
def test_attention_is_its_formula(window: int, dim: int) -> None:
    """Longer than a block of queries, longer than the window, cut at places that are neither; heads of 4 and of 18."""
    torch.manual_seed(0)
    mixer = Transformer(dim, heads=2, window=window, base=30.0).double()
    x = 3 * torch.randn(2, 2 * QUERIES + 9, dim, dtype=torch.float64)
    with torch.no_grad():
        y = mixer(x)
        state, pieces = None, []
        for piece in x.split([3, QUERIES + 50, QUERIES - 45, 1], 1):
            out, state = mixer(piece, state, return_state=True)
            pieces.append(out)
    for s in range(2):
        assert relative_error(y[s], torch.from_numpy(attention_by_hand(mixer, x[s]))) < 1e-12
    assert relative_error(torch.cat(pieces, 1), y) < 1e-12


def test_attention_forgets_what_has_left_its_window() -> None:
    torch.manual_seed(0)
    mixer = Transformer(DIM, window=4).double()
    x = draw(1, 12)
    y = mixer(x)
    changed = x.clone()
    changed[:, 3] += 1
    assert torch.equal(mixer(changed)[:, 7:], y[:, 7:])
    assert not torch.allclose(mixer(changed)[:, 6], y[:, 6])


@pytest.mark.parametrize(("options", "message"), [
    ({"heads": 3}, "heads is 3 with dim 8; expected heads of an even size"),
    ({"heads": 8}, "heads is 8 with dim 8"),
    ({"heads": 0}, "heads is 0; expected a whole number"),
    ({"window": 0}, "window is 0"),
    ({"base": -1.0}, "base is -1.0; expected a positive number"),
])  # fmt: skip
def test_attention_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PDSSMError, match=message):
        make_mixer("transformer", DIM, options)


def test_attention_refuses_a_state_of_another_window() -> None:
    mixer = Transformer(DIM, window=4).double()
    with pytest.raises(PDSSMError, match=r"initial_state.keys has shape \(2, 5, 8\); expected \(2, 4, 8\)"):
        mixer(draw(2, 3), Transformer(DIM, window=5).double().initial_state(2))


# ---------------------------------------------------------------------------------------------------------- sLSTM


def cell_problem(scale: float = 1.0, fresh: int = 1) -> tuple[list[Tensor], Tensor]:
    """(inputs, weights, initial state), offsets: three sequences, one of them empty, ``fresh`` with empty memories."""
    generator = torch.Generator().manual_seed(0)
    inputs, weights, initial = (
        scale * torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in ((9, 2, 4, 3), (2, 3, 4, 3), (3, 2, 4, 3))
    )
    initial[:fresh, :, 1:3] = 0
    initial[fresh:, :, 2] = 1 + initial[fresh:, :, 2].abs()
    return [tensor.requires_grad_() for tensor in (inputs, weights, initial)], torch.tensor([0, 4, 4, 9])


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_compiled_cell_is_the_loop(scale: float) -> None:
    leaves, cu = cell_problem(scale)
    results = []
    for scan in (slstm.scan, slstm.loop):
        outputs, final = scan(*leaves, cu)
        loss = real_loss(outputs, final)
        results.append((outputs, final, *torch.autograd.grad(loss, leaves)))
    for value, oracle in zip(*results, strict=True):
        assert torch.isfinite(value).all()
        assert relative_error(value, oracle) < 1e-12


def test_the_compiled_cell_is_an_op() -> None:
    leaves, cu = cell_problem(fresh=0)
    torch.library.opcheck(slstm.slstm, (*leaves, cu))
    assert torch.autograd.gradcheck(lambda *args: slstm.scan(*args, cu), leaves)
    outputs, _ = slstm.scan(*leaves, cu)
    (first,) = torch.autograd.grad(outputs.square().sum(), leaves[0], create_graph=True)
    with pytest.raises(PDSSMError, match="slstm has no second derivative"):
        first.sum().backward()
    with pytest.raises(PDSSMError, match="cu_seqlens runs from 0 to 8; expected it to run from 0 to 9"):
        slstm.scan(*leaves, torch.tensor([0, 4, 8]))


def test_an_input_gate_far_below_the_forget_gate_still_starts_the_memory() -> None:
    """exp(-200) is 0 in float32: without its rule for the first step, the stabiliser would make this 0 / 0."""
    torch.manual_seed(0)
    mixer = SLSTM(DIM)
    with torch.no_grad():
        mixer.bias[:, 0] = -200
    x = draw(2, 5).float()
    y = mixer(x)
    y.square().sum().backward()
    assert torch.isfinite(y).all()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters() if p.grad is not None)


def test_slstm_refuses() -> None:
    with pytest.raises(PDSSMError, match="heads is 3 with dim 8; expected a divisor of dim"):
        SLSTM(DIM, heads=3)
    with pytest.raises(PDSSMError, match=r"initial_state.recurrent has shape \(2, 4, 4, 2\); expected \(3, 4, 4, 2\)"):
        SLSTM(DIM)(draw(3, 4).float(), SLSTM(DIM).initial_state(2))


# -------------------------------------------------------------------------------------------- one decay for a state


@pytest.mark.parametrize("lengths", [None, [3, 0, 9, 1]])
@pytest.mark.parametrize("chunk", [4, 64])
def test_products_over_chunks_are_the_scan(lengths: list[int] | None, chunk: int) -> None:
    generator = torch.Generator().manual_seed(0)

    def rand(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

    batch, time = (1, 13) if lengths else (2, 13)
    sequences = len(lengths) if lengths else 2
    log_decay = rand(batch, time, 3).detach().exp().neg().requires_grad_()
    values, keys, queries = (rand(batch, time, 3, size) for size in (4, 5, 5))
    initial = rand(sequences, 3, 4, 5)
    cu = None if lengths is None else torch.tensor([0, *lengths]).cumsum(0)
    leaves = (log_decay, values, keys, queries, initial)
    got = decay_readout(log_decay, values, keys, queries, initial, cu_seqlens=cu, chunk=chunk)
    transition = Diagonal(log_decay.exp()[..., None].expand(-1, -1, -1, 5))
    expected = scan_readout(transition, values, keys, queries, initial, cu_seqlens=cu, backend="reference")
    for value, oracle in zip(got, expected, strict=True):
        assert relative_error(value, oracle) < 1e-12
    grads = (torch.autograd.grad(real_loss(*out), leaves) for out in (got, expected))
    for value, oracle in zip(*grads, strict=True):
        assert relative_error(value, oracle) < 1e-12


def test_products_over_chunks_refuse() -> None:
    x = draw(2, 5, 3)
    with pytest.raises(PDSSMError, match=r"keys has shape \(2, 5, 8\); expected \(2, 5, 3\) and one more"):
        decay_readout(x[..., 0], x, x[:, :, 0], x, draw(2, 3, 8))


# ---------------------------------------------------------------------------------------------------------- xLSTM


@pytest.mark.parametrize("bias", [-300.0, 300.0])
def test_extreme_gates_stay_finite(bias: float) -> None:
    """Neither exponent fits float32."""
    torch.manual_seed(0)
    mixer = XLSTM(DIM)
    with torch.no_grad():
        mixer.mlstm.gates.bias[:4] = bias
        mixer.slstm.bias[:, 0] = bias
    y = mixer(draw(2, 70).float())
    y.square().sum().backward()
    assert torch.isfinite(y).all()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters() if p.grad is not None)


def test_xlstm_refuses() -> None:
    for options, message in (
        ({"heads": 3}, "heads is 3 with dim 8; expected 2 dim to be a multiple of it and of 4"),
        ({"ffn_dim": 0}, "ffn_dim is 0"),
        ({"conv": 1}, "conv is 1; expected a whole number of at least 2"),
    ):
        with pytest.raises(PDSSMError, match=message):
            XLSTM(DIM, **options)  # type: ignore[arg-type]
    with pytest.raises(PDSSMError, match=r"initial_state.memory has shape \(2, 4, 5, 4\); expected \(3, 4, 5, 4\)"):
        XLSTM(DIM)(draw(3, 4).float(), XLSTM(DIM).initial_state(2))


# ---------------------------------------------------------------------------------------------------------- Mamba


def scan_problem(channels: int, lengths: list[int], size: int = 3) -> tuple[list[Tensor], Tensor]:
    """(dt, x, rates, keys, queries, initial state), offsets."""
    generator = torch.Generator().manual_seed(0)
    steps, sequences = sum(lengths), len(lengths)
    dt, x, rates, keys, queries, initial = (
        torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in (
            (steps, channels), (steps, channels), (channels, size), (steps, size), (steps, size),
            (sequences, channels, size),
        )
    )  # fmt: skip
    leaves = [dt.abs(), x, -rates.abs(), keys, queries, initial]
    return [tensor.requires_grad_() for tensor in leaves], torch.tensor([0, *lengths]).cumsum(0)


@pytest.mark.parametrize("channels", [5, 16, 35])
@pytest.mark.parametrize("lengths", [[3, 0, 4], [MARK, 1, 2 * MARK + 7, MARK - 1]])
def test_the_compiled_selective_scan_is_the_plain_one(channels: int, lengths: list[int]) -> None:
    """With channels that fill no block, and sequences of several pieces."""
    leaves, cu = scan_problem(channels, lengths)
    results = []
    for function in (selective_readout, selective_readout_plain):
        outputs, final = function(*leaves, cu)
        results.append((outputs, final, *torch.autograd.grad(real_loss(outputs, final), leaves)))
    for value, oracle in zip(*results, strict=True):
        assert relative_error(value, oracle) < 1e-12


def test_the_compiled_selective_scan_is_an_op() -> None:
    leaves, cu = scan_problem(2, [3, 0, 2], 2)
    torch.library.opcheck(selective_scan, (*leaves, cu))
    assert torch.autograd.gradcheck(lambda *args: selective_readout(*args, cu), leaves)
    outputs, _ = selective_readout(*leaves, cu)
    (first,) = torch.autograd.grad(outputs.square().sum(), leaves[1], create_graph=True)
    with pytest.raises(PDSSMError, match="selective_scan has no second derivative"):
        first.sum().backward()
    with pytest.raises(PDSSMError, match="cu_seqlens runs from 0 to 4; expected it to run from 0 to 5"):
        selective_readout(*leaves, torch.tensor([0, 3, 3, 4]))


def test_a_loss_on_the_final_state_alone() -> None:
    leaves, cu = scan_problem(4, [3, 2])
    grads = (torch.autograd.grad(real_loss(function(*leaves, cu)[1]), leaves, allow_unused=True)
             for function in (selective_readout, selective_readout_plain))  # fmt: skip
    for value, oracle in zip(*grads, strict=True):
        assert (float(value.abs().max()) == 0) if oracle is None else (relative_error(value, oracle) < 1e-12)


def test_mamba_refuses() -> None:
    for option in ("state_dim", "expand", "rank"):
        with pytest.raises(PDSSMError, match=f"{option} is 0; expected a whole number"):
            Mamba(DIM, **{option: 0})
    with pytest.raises(PDSSMError, match=r"initial_state.recurrent has shape \(2, 16, 16\); expected \(3, 16, 16\)"):
        Mamba(DIM)(draw(3, 4).float(), Mamba(DIM).initial_state(2))


# --------------------------------------------------------------------------------------------------------- Mamba-3


def mamba3_by_hand(mixer: Mamba3, x: Tensor) -> np.ndarray[Any, Any]:
    """One sequence, in complex arithmetic, step by step."""
    weight = {name: parameter.detach().numpy() for name, parameter in mixer.named_parameters()}
    heads, half = mixer.heads, mixer.state_dim // 2
    y, state, before = [], np.zeros((heads, mixer.head_dim, half), dtype=complex), 0.0
    for u in x.numpy():
        z, v, k, q, theta, scalars = np.split(weight["inputs.weight"] @ u, np.cumsum(mixer.widths)[:-1])
        dt, rate, *share = np.split(scalars, 3 if mixer.trapezoid else 2)
        dt, rate = np.log1p(np.exp(dt + weight["step_bias"])), -np.log1p(np.exp(rate))
        share = 1 / (1 + np.exp(-share[0])) if share else np.ones(heads)
        k, q = (
            part / np.sqrt((part**2).mean() + 1e-5) * norm + bias
            for part, norm, bias in zip((k, q), weight["norms"], weight["biases"], strict=True)
        )
        k, q = k[:, :half] + 1j * k[:, half:], q[:, :half] + 1j * q[:, half:]
        v = v.reshape(heads, -1)
        step = np.exp(dt[:, None] * (rate[:, None] + 1j * np.pi * np.tanh(theta)))[:, None]
        write = np.einsum("h,hp,hn->hpn", dt, v, k)
        late = ((1 - share) * dt)[:, None, None] * step * before
        state, before = step * state + late + share[:, None, None] * write, np.einsum("hp,hn->hpn", v, k)
        read = np.einsum("hpn,hn->hp", state, q.conj()).real + weight["skip"][:, None] * v
        y.append(weight["output.weight"] @ (read.ravel() * z / (1 + np.exp(-z))))
    return np.asarray(y)


@pytest.mark.parametrize("trapezoid", [True, False])
def test_mamba3_is_its_complex_recurrence(trapezoid: bool) -> None:
    torch.manual_seed(0)
    mixer = Mamba3(DIM, 6, head_dim=4, trapezoid=trapezoid).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        mixer.step_bias.add_(3)  # so that it turns far
    x = draw(1, 150)
    assert relative_error(mixer(x)[0], torch.from_numpy(mamba3_by_hand(mixer, x[0]))) < 1e-12


def test_mamba3_refuses() -> None:
    for options, message in (
        ({"head_dim": 3}, "head_dim is 3; expected a divisor of expand . dim, 16"),
        ({"state_dim": 5}, "state_dim is 5; expected an even number"),
        ({"state_dim": 1}, "state_dim is 1; expected a whole number of at least 2"),
        ({"expand": 0}, "expand is 0"),
    ):
        with pytest.raises(PDSSMError, match=message):
            Mamba3(DIM, **options)
    with pytest.raises(
        PDSSMError, match=r"initial_state.recurrent has shape \(2, 1, 16, 4\); expected \(3, 1, 16, 4\)"
    ):
        Mamba3(DIM, 4)(draw(3, 4).float(), Mamba3(DIM, 4).initial_state(2))


# ---------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("name", ["transformer", "slstm", "xlstm", "mamba", "mamba3"])
def test_a_state_of_another_mixer_is_refused(name: str) -> None:
    mixer = make_mixer(name, DIM, {})
    x, foreign = draw(2, 3).float(), make_mixer("lstm", DIM, {}).initial_state(2)
    for state in (foreign[0], foreign, (*foreign, *foreign, *foreign)):
        with pytest.raises(PDSSMError, match="initial_state"):
            mixer(x, state)
        with pytest.raises(PDSSMError, match="state"):
            mixer.step(x[:, 0], state)


@pytest.mark.parametrize(("name", "options"), [("slstm", {"conv": 0}), ("mamba3", {"trapezoid": False})])
def test_a_state_of_one_tensor_is_a_tensor(name: str, options: dict[str, Any]) -> None:
    mixer = make_mixer(name, DIM, options)
    with pytest.raises(PDSSMError, match="initial_state is a tuple; expected a tensor"):
        mixer(draw(2, 3).float(), (mixer.initial_state(2),))
    with pytest.raises(PDSSMError, match="initial_state has shape"):
        mixer(draw(2, 3).float(), mixer.initial_state(3))
