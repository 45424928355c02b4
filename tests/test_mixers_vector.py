"""The mixers with vector states against their papers' equations in numpy; how they start; their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pdssm import scan
from pdssm.errors import ChoiceError, PDSSMError, RangeError, ShapeError
from pdssm.generators.s5 import hippo_normal
from pdssm.layers import Mixer, make_mixer
from pdssm.scanning.invariant import convolve
from pdssm.transitions import Diagonal
from tests.factories import Draw, real_loss, relative_error

DIM = 4
Weights = dict[str, np.ndarray]
Array = np.ndarray


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def complex_of(parts: Array) -> Array:
    return parts[..., 0] + 1j * parts[..., 1]


def complex_rows(weight: Array) -> Array:
    """B or C^T as the layers keep them: real and imaginary rows take turns."""
    return weight[0::2] + 1j * weight[1::2]


def readout(w: Weights, states: Array, x: Array) -> Array:
    """Re(C x) + d u + c."""
    c = w["readout.map.weight"]
    y = (states @ (c[:, 0::2] - 1j * c[:, 1::2]).T).real if np.iscomplexobj(states) else states @ c.T
    return y + w.get("readout.map.bias", 0) + w["skip"] * x


def run(step: Callable[[Array, Array], Array], state: Array, x: Array) -> Array:
    states = []
    for u in x:
        state = step(state, u)
        states.append(state)
    return np.stack(states)


def lru(w: Weights, x: Array) -> Array:
    poles = np.exp(-np.exp(w["generator.log_rate"]) + 1j * np.exp(w["generator.log_phase"]))
    b = np.exp(w["generator.log_gain"])[:, None] * complex_rows(w["generator.inputs.linear.weight"])
    return readout(w, run(lambda h, u: poles * h + b @ u, np.zeros(len(poles)), x), x)


def s5(w: Weights, x: Array) -> Array:
    poles, dt = complex_of(w["generator.poles"]), np.exp(w["generator.log_dt"])
    a = np.exp(dt * poles)
    b = ((a - 1) / poles)[:, None] * complex_rows(w["generator.inputs.linear.weight"])
    return readout(w, run(lambda h, u: a * h + b @ u, np.zeros(len(poles)), x), x)


def s7(w: Weights, x: Array) -> Array:
    def affine(name: str, u: Array) -> Array:
        return w[f"generator.{name}.weight"] @ u + w[f"generator.{name}.bias"]

    def step(h: Array, u: Array) -> Array:
        b = np.diag(affine("size", u)) @ w["generator.inputs.linear.weight"]
        return (1 - 1 / (affine("rate", u) ** 2 + 0.5)) * h + b @ u + affine("offset", u)

    return readout(w, run(step, np.zeros(len(w["generator.rate.bias"])), x), x)


def linoss(w: Weights, x: Array, implicit: bool) -> Array:
    """The two discretisations as the implicit equations they are, solved in each step; not their closed form."""
    a, dt = np.maximum(w["generator.stiffness"], 0), sigmoid(w["generator.step"])
    size = len(a)

    def step(h: Array, u: Array) -> Array:
        z, y = h[:size], h[size:]
        force = w["generator.inputs.linear.weight"] @ u
        if implicit:  # z+ = z + dt (-A y+ + f),  y+ = y + dt z+
            solved = [np.linalg.solve([[1, d * k], [-d, 1]], [p + d * f, q]) for p, q, f, k, d in
                      zip(z, y, force, a, dt, strict=True)]  # fmt: skip
            return np.concatenate([np.array(solved)[:, 0], np.array(solved)[:, 1]])
        z = z + dt * (-a * y + force)  # z+ = z + dt (-A y + f),  y+ = y + dt z+
        return np.concatenate([z, y + dt * z])

    return readout(w, run(step, np.zeros(2 * size), x)[:, size:], x)


def s4d(w: Weights, x: Array) -> Array:
    """As a convolution over the whole sequence, the way S4D is published."""
    poles = -np.exp(w["log_decay"]) + 1j * w["frequency"]
    dt_poles = np.exp(w["log_dt"])[:, None] * poles
    c = complex_of(w["output"]) * (np.exp(dt_poles) - 1) / poles
    kernel = 2 * np.einsum("hn,hnl->hl", c, np.exp(dt_poles[..., None] * np.arange(len(x)))).real
    y = np.stack([np.convolve(kernel[h], x[:, h])[: len(x)] for h in range(DIM)], -1) + w["skip"] * x
    y = torch.nn.functional.gelu(torch.from_numpy(y)).numpy() @ w["mixing.weight"].T + w["mixing.bias"]
    return y[:, :DIM] * sigmoid(y[:, DIM:])


def field(w: Weights, name: str, u: Array, function: Callable[[Array], Array] = lambda z: z) -> Array:
    """W (1, u) / 40."""
    whole = np.concatenate((w[f"generator.{name}.bias"][:, None], w[f"generator.{name}.weight"]), 1)
    return function(whole) @ np.concatenate(([1.0], u)) / 40


def slices(w: Weights, x: Array, a: Callable[[Array], Array]) -> Array:
    return readout(w, run(lambda h, u: h + a(u) @ h, w["first"][:, 0], x), x)


def block_diagonal(blocks: Array) -> Array:
    size = blocks.shape[-1]
    out = np.zeros((len(blocks) * size, len(blocks) * size))
    for k, block in enumerate(blocks):
        out[k * size : (k + 1) * size, k * size : (k + 1) * size] = block
    return out


def hadamard(size: int) -> Array:
    return np.ones((1, 1)) if size == 1 else np.kron([[1, 1], [1, -1]], hadamard(size // 2))


def dplr(w: Weights, u: Array) -> Array:
    left, right = (field(w, name, u).reshape(2, -1) for name in ("left", "right"))
    return np.diag(field(w, "diag", u)) + sum(np.outer(p, q) for p, q in zip(left, right, strict=True))


def d_de(w: Weights, u: Array) -> Array:
    out = np.diag(np.concatenate((field(w, "diag", u), np.zeros(3))))
    out[-3:, -3:] = field(w, "block", u).reshape(3, 3)
    return out


REFERENCES: dict[str, tuple[dict[str, Any], Callable[[Weights, Array], Array]]] = {
    "lru": ({"state_dim": 6}, lru),
    "s5": ({"state_dim": 6, "blocks": 2}, s5),
    "s4d": ({"state_dim": 6, "dt_min": 0.1, "dt_max": 1.0}, s4d),
    "s7": ({"state_dim": 6}, s7),
    "linoss_im": ({"oscillators": 3}, lambda w, x: linoss(w, x, True)),
    "linoss_imex": ({"oscillators": 3}, lambda w, x: linoss(w, x, False)),
    "d_slice": ({"state_dim": 6}, lambda w, x: slices(w, x, lambda u: np.diag(field(w, "diag", u)))),
    "bd_slice": (
        {"state_dim": 6, "block_size": 3},
        lambda w, x: slices(w, x, lambda u: block_diagonal(field(w, "blocks", u).reshape(2, 3, 3))),
    ),
    "dplr_slice": ({"state_dim": 6, "rank": 2}, lambda w, x: slices(w, x, lambda u: dplr(w, u))),
    "wh_slice": (
        {"state_dim": 8},
        lambda w, x: slices(w, x, lambda u: hadamard(8) @ np.diag(field(w, "diag", u, np.tanh)) / np.sqrt(8)),
    ),
    "d_de_slice": ({"block_size": 3}, lambda w, x: slices(w, x, lambda u: d_de(w, u))),
}
every = pytest.mark.parametrize("name", REFERENCES)


def make(name: str) -> tuple[Mixer, Tensor]:
    torch.manual_seed(3)
    return make_mixer(name, DIM, REFERENCES[name][0]).double(), torch.randn(11, DIM, dtype=torch.float64)


def reference(name: str, mixer: Mixer, x: Tensor) -> Tensor:
    weights = {key: value.detach().numpy().copy() for key, value in mixer.named_parameters()}
    return torch.from_numpy(REFERENCES[name][1](weights, x.numpy()))


@every
def test_the_equations(name: str) -> None:
    mixer, x = make(name)
    assert relative_error(mixer(x[None])[0], reference(name, mixer, x)) < 1e-10


@every
def test_the_comparison_sees_every_weight(name: str) -> None:
    """A planted error in any one of them shows."""
    mixer, x = make(name)
    expected = reference(name, mixer, x)
    for key, parameter in mixer.named_parameters():
        with torch.no_grad():
            kept = parameter.clone()
            parameter.view(-1)[0] += 0.1
            assert relative_error(mixer(x[None])[0], expected) > 1e-7, key
            parameter.copy_(kept)


@pytest.mark.parametrize("piece", [1, 3, 64])
def test_a_convolution_by_pieces_is_the_scan(piece: int) -> None:
    """Outputs, final states and gradients; sequences that are shorter than a piece, a multiple of one, or empty."""
    draw = Draw(4, torch.complex128)
    cu = torch.tensor([0, 2, 2, 8, 9, 19])
    exponent = (-draw.reals(DIM, 3).abs() + 1j * draw.reals(DIM, 3, scale=3)).requires_grad_()
    weights, initial = draw(DIM, 3).requires_grad_(), draw(5, DIM, 3).requires_grad_()
    inputs = draw.reals(19, DIM).requires_grad_()
    got = convolve(exponent, weights, inputs, initial, cu, piece)
    a = Diagonal(exponent.exp().expand(1, 19, DIM, 3))
    states, final = scan(a, inputs[None, ..., None].expand(1, 19, DIM, 3).to(a.dtype), initial, cu_seqlens=cu)
    expected = ((weights * states[0]).real.sum(-1), final)
    leaves = [exponent, weights, inputs, initial]
    values = [*got, *torch.autograd.grad(real_loss(*got), leaves)]
    oracles = [*expected, *torch.autograd.grad(real_loss(*expected), leaves)]
    for value, oracle in zip(values, oracles, strict=True):
        assert relative_error(value, oracle) < 1e-10


# ------------------------------------------------------------------------------------------------------- starts


def transition(mixer: Mixer, count: int = 5) -> Tensor:
    u = torch.randn(count, mixer.dim)
    dense: Tensor = mixer.generator(u)[0].to_dense().detach()  # type: ignore[operator, union-attr]
    return dense


def test_lru_starts_on_its_ring() -> None:
    poles = transition(make_mixer("lru", 8, {"state_dim": 400, "r_min": 0.6, "r_max": 0.9, "max_phase": 1.0}), 1)
    poles = poles[0].diagonal().detach()
    assert 0.6 <= float(poles.abs().min()) < 0.65
    assert 0.85 < float(poles.abs().max()) <= 0.9
    assert float(poles.angle().max()) <= 1.0


def test_lru_starts_with_states_as_large_as_its_inputs() -> None:
    """What the gain is for: however long the memory, white noise gives states of one size."""
    torch.manual_seed(0)
    mixer = make_mixer("lru", 64, {"state_dim": 200, "r_min": 0.5, "r_max": 0.95})
    with torch.no_grad():
        _, state = mixer(torch.randn(50, 200, 64), return_state=True)
        order = transition(mixer, 1)[0].diagonal().abs().argsort()
    short, long = state.abs().square().mean(0)[order].split(100)
    assert float(short.mean()) == pytest.approx(1, abs=0.1)
    assert float(long.mean()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", ["lru", "s5", "s7", "linoss_im"])
def test_the_start_forgets(name: str) -> None:
    """The spectral radius is at most 1."""
    torch.manual_seed(0)
    assert float(torch.linalg.eigvals(transition(make_mixer(name, 8, {}))).abs().max()) <= 1 + 1e-6


def test_imex_keeps_its_volume_and_im_loses_it() -> None:
    torch.manual_seed(0)
    im, imex = (transition(make_mixer(name, 8, {}), 1)[0] for name in ("linoss_im", "linoss_imex"))
    assert float(torch.linalg.det(imex)) == pytest.approx(1, abs=1e-5)
    assert float(torch.linalg.det(im)) < 0.9


def test_hippos_normal_part() -> None:
    poles, vectors = hippo_normal(7)
    root = np.sqrt(2 * np.arange(7) + 1.0)
    hippo = -(np.tril(np.outer(root, root)) - np.diag(np.arange(7)))
    normal = torch.from_numpy(hippo + np.outer(root, root) / 2).to(torch.complex64)
    assert torch.allclose((vectors * poles) @ vectors.mH, normal, atol=1e-5)


def test_a_slice_starts_near_the_identity() -> None:
    torch.manual_seed(0)
    for name in ("d_slice", "bd_slice", "dplr_slice", "wh_slice", "d_de_slice"):
        start = transition(make_mixer(name, 8, {"init_std": 1e-3}), 3)
        assert float((start - torch.eye(start.shape[-1])).abs().max()) < 1e-3


@pytest.mark.parametrize("name", ["d_slice", "bd_slice", "dplr_slice", "wh_slice", "d_de_slice"])
def test_a_slice_survives_its_growth(name: str) -> None:
    """The same input over and over, as in a formal language: beyond float32, with finite outputs and gradients."""
    torch.manual_seed(0)
    mixer, x = make_mixer(name, 32, {}), 8 * torch.randn(32).expand(1, 256, 32)
    y, state = mixer(x, return_state=True)
    assert float(state.detach().abs().max()) > torch.finfo(torch.float32).max
    assert torch.isfinite(y).all()
    torch.nn.functional.layer_norm(y, (32,)).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters() if p.grad is not None)


def test_an_input_term_is_added() -> None:
    torch.manual_seed(0)
    mixer = make_mixer("d_slice", DIM, {"input_term": True}).double()
    x = torch.randn(1, 5, DIM, dtype=torch.float64)
    w = {key: value.detach().numpy() for key, value in mixer.named_parameters()}
    states = run(
        lambda h, u: h + field(w, "diag", u) * h + field(w, "inputs", u), w["first"][:, 0], x[0].numpy()
    )  # fmt: skip
    assert relative_error(mixer(x)[0], torch.from_numpy(readout(w, states, x[0].numpy()))) < 1e-12


# ------------------------------------------------------------------------------------------------------- errors

ERRORS: list[tuple[str, dict[str, Any], type[PDSSMError], str]] = [
    ("lru", {"r_min": 0.9, "r_max": 0.5}, RangeError, r"r_min is 0.9; expected less than r_max, 0.5"),
    ("lru", {"r_max": 1.5}, RangeError, r"r_max is 1.5; expected a number in \[0, 1\]"),
    ("lru", {"max_phase": 0}, RangeError, r"max_phase is 0; expected a positive number"),
    ("s5", {"state_dim": 6, "blocks": 4}, RangeError, r"state_dim is 6; expected a multiple of blocks, 4"),
    ("s5", {"dt_min": 0.5, "dt_max": 0.1}, RangeError, r"dt_min is 0.5; expected at most dt_max, 0.1"),
    ("s5", {"dt_min": -1}, RangeError, r"dt_min is -1; expected a positive number"),
    ("s4d", {"state_dim": 5}, RangeError, r"state_dim is 5; expected an even number"),
    ("s4d", {"dropout": 2}, RangeError, r"dropout is 2; expected a number in \[0, 1\)"),
    ("s4d", {"readout": "mlp"}, ChoiceError, r"option of mixer 's4d' is 'readout'; expected one of"),
    ("linoss_im", {"oscillators": 0}, RangeError, r"oscillators is 0; expected a whole number"),
    (
        "bd_slice",
        {"state_dim": 6, "block_size": 4},
        RangeError,
        r"state_dim is 6; expected a multiple of block_size, 4",
    ),
    ("dplr_slice", {"rank": 0}, RangeError, r"rank is 0; expected a whole number of at least 1"),
    ("wh_slice", {"state_dim": 6}, ShapeError, r"state_dim is 6; expected a power of two"),
    ("d_de_slice", {"state_dim": 4, "block_size": 4}, RangeError, r"block_size is 4; expected less than state_dim, 4"),
    ("d_slice", {"scale": 0}, RangeError, r"scale is 0; expected a positive number"),
    ("d_slice", {"init_std": -1}, RangeError, r"init_std is -1; expected a positive number"),
]


@pytest.mark.parametrize(("name", "options", "kind", "message"), ERRORS, ids=str)
def test_errors_name_what_came(name: str, options: dict[str, Any], kind: type[PDSSMError], message: str) -> None:
    with pytest.raises(kind, match=message):
        make_mixer(name, DIM, options)


@pytest.mark.parametrize("state", [torch.zeros(2, DIM, 3), (1, 2)])
def test_a_state_of_another_shape(state: Any) -> None:
    mixer = make_mixer("s4d", DIM, {"state_dim": 4})
    with pytest.raises(ShapeError, match=r"initial_state has shape .*; expected \(2, 4, 2\)"):
        mixer(torch.randn(2, 3, DIM), state)
    with pytest.raises(ShapeError, match=r"state has shape .*; expected \(2, 4, 2\)"):
        mixer.step(torch.randn(2, DIM), state)


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_keep_full_states(name: str, dtype: torch.dtype) -> None:
    mixer = make(name)[0].to(dtype)
    y, state = mixer(torch.randn(2, 5, DIM, dtype=dtype), return_state=True)
    assert y.dtype == dtype
    assert state.dtype in (torch.float32, torch.complex64, torch.float64)
    y, state = mixer.step(torch.randn(2, DIM, dtype=dtype), state)
    assert y.dtype == dtype
    assert state.dtype in (torch.float32, torch.complex64, torch.float64)


@every
def test_autocast_leaves_the_recurrence_alone(name: str) -> None:
    mixer, x = make(name)
    mixer, x = mixer.float(), x.float()[None]
    with torch.autocast("cpu", torch.bfloat16):
        y, state = mixer(x, return_state=True)
    assert state.dtype in (torch.float32, torch.complex64, torch.float64)
    assert relative_error(y.float(), mixer(x)) < 0.1
