"""Matrix states against independent implementations: each layer in numpy, its recurrence in flash-linear-attention.

flash-linear-attention's package needs Triton to be imported, its ``naive.py`` files do not: they are loaded by path.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pdssm.layers import make_mixer
from tests.factories import relative_error

Weights = dict[str, Any]
DELTA: list[tuple[str, dict[str, Any]]] = [
    ("deltanet", {}),
    ("deltanet", {"conv": 0, "heads": 2}),
    ("deltanet_neg", {}),
    ("gated_deltanet", {}),
    ("gated_deltanet", {"heads": 2, "head_dim": 5, "expand": 3, "negative": True}),
    ("gated_deltaproduct", {}),
    ("gated_deltaproduct", {"factors": 4, "conv": 2, "negative": False}),
]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def silu(x: Any) -> Any:
    return x * sigmoid(x)


def weights_of(mixer: torch.nn.Module) -> Weights:
    return {name: tensor.detach().numpy() for name, tensor in mixer.state_dict().items()}


def shaken(name: str, options: dict[str, Any], dim: int = 8) -> Any:
    """The mixer with all parameters away from where they begin, so that none is 0 or 1 by accident."""
    torch.manual_seed(0)
    mixer = make_mixer(name, dim, options).double()
    for parameter in mixer.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return mixer


def inputs(dim: int = 8, time: int = 11) -> Tensor:
    return torch.randn(1, time, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


# ------------------------------------------------------------------------------------------ whole layers in numpy


def delta_layer(w: Weights, x: Any, heads: int, size: int, width: int, factors: int, strongest: float) -> Any:
    """Gated DeltaProduct, of which the others are special cases; x (time, dim)."""
    raw = x @ w["queries_keys_values.weight"].T
    mixed = np.zeros_like(raw)
    for t in range(len(x)):
        if "conv.weight" in w:
            mixed[t] = w["conv.bias"] + sum(c * raw[t - i] for i, c in enumerate(w["conv.weight"]) if i <= t)
        else:
            mixed[t] = raw[t]
    q, k, v = np.split(silu(mixed), np.cumsum([heads * size, factors * heads * size]), 1)
    state, outputs = np.zeros((heads, width, size)), np.zeros((len(x), heads, width))
    for t in range(len(x)):
        beta = strongest * sigmoid(w["beta.weight"] @ x[t]).reshape(factors, heads)
        for h in range(heads):
            if "decay.bias" in w:
                step = np.log1p(np.exp(w["decay.linear.weight"][h] @ x[t] + w["decay.bias"][h]))
                state[h] *= np.exp(-np.exp(w["decay.log_rate"][h]) * step)
            for n in range(factors):
                key = k[t].reshape(factors, heads, size)[n, h]
                key = key / np.sqrt(key @ key + 1e-6)
                state[h] += beta[n, h] * np.outer(v[t].reshape(factors, heads, width)[n, h] - state[h] @ key, key)
            query = q[t].reshape(heads, size)[h]
            y = state[h] @ query / np.sqrt(query @ query + 1e-6) / np.sqrt(size)
            outputs[t, h] = y / np.sqrt((y**2).mean() + 1e-5) * w["norm.weight"]
    outputs = outputs.reshape(len(x), -1)
    return (outputs * silu(x @ w["gate.weight"].T) if "gate.weight" in w else outputs) @ w["out.weight"].T


@pytest.mark.parametrize(("name", "options"), DELTA, ids=str)
def test_the_delta_rule_in_numpy(name: str, options: dict[str, Any]) -> None:
    mixer, x = shaken(name, options), inputs()
    strongest = 2.0 if name == "deltanet_neg" or options.get("negative", name == "gated_deltaproduct") else 1.0
    sizes = (mixer.heads, mixer.key_dim, mixer.value_dim, mixer.substeps, strongest)
    expected = torch.from_numpy(delta_layer(weights_of(mixer), x[0].numpy(), *sizes))
    assert relative_error(mixer(x)[0], expected) < 1e-12
    changed = torch.from_numpy(delta_layer(weights_of(mixer), x[0].numpy(), *sizes[:-1], 1.01 * strongest))
    assert relative_error(changed, expected) > 1e-4  # a beta that is off by a hundredth would be seen


def rwkv7_layer(w: Weights, x: Any, heads: int) -> Any:
    """x (time, dim); after the formulas of the paper, without the value residual."""
    time, dim = x.shape
    before = np.vstack((np.zeros((1, dim)), x[:-1]))
    r, d, k, v, a, g = (x + (before - x) * share for share in w["shares"])
    r, k, v = (z @ w[f"{name}.weight"].T for z, name in ((r, "queries"), (k, "keys"), (v, "values")))
    d = np.tanh(d @ w["decay.down.weight"].T) @ w["decay.up.weight"].T + w["decay.up.bias"]
    decay = np.exp(-np.exp(-0.5) * sigmoid(d))
    a = sigmoid(a @ w["rate.down.weight"].T @ w["rate.up.weight"].T + w["rate.up.bias"])
    gate = sigmoid(g @ w["gate.down.weight"].T) @ w["gate.up.weight"].T
    removal, k = k * w["removal"], k * (1 + (a - 1) * w["replacement"])
    size = dim // heads
    state, y = np.zeros((heads, size, size)), np.zeros_like(x)
    for t in range(time):
        for h in range(heads):
            at = slice(h * size, (h + 1) * size)
            u = removal[t, at] / np.linalg.norm(removal[t, at])
            state[h] = state[h] * decay[t, at] - np.outer(state[h] @ u, a[t, at] * u) + np.outer(v[t, at], k[t, at])
            z = state[h] @ r[t, at]
            z = (z - z.mean()) / np.sqrt(z.var() + size * 1e-5)
            bonus = (r[t, at] * k[t, at] * w["bonus"][h]).sum() * v[t, at]
            y[t, at] = z * w["norm.weight"][at] + w["norm.bias"][at] + bonus
    return (y * gate) @ w["out.weight"].T


@pytest.mark.parametrize("options", [{}, {"head_dim": 4}], ids=str)
def test_rwkv7_in_numpy(options: dict[str, Any]) -> None:
    mixer, x = shaken("rwkv7", options), inputs()
    w = weights_of(mixer)
    expected = torch.from_numpy(rwkv7_layer(w, x[0].numpy(), mixer.heads))
    assert relative_error(mixer(x)[0], expected) < 1e-12
    w["replacement"] = 1.01 * w["replacement"]
    assert relative_error(torch.from_numpy(rwkv7_layer(w, x[0].numpy(), mixer.heads)), expected) > 1e-4


# ------------------------------------------------------------------------- recurrences in flash-linear-attention


def naive(path: str) -> Any:
    """``fla/ops/<path>/naive.py``, in float32."""
    package = importlib.util.find_spec("fla")
    assert package is not None, "pip install flash-linear-attention==0.6"
    assert package.origin is not None
    file = Path(package.origin).parent / "ops" / path / "naive.py"
    spec = importlib.util.spec_from_file_location(f"naive_{path.replace('/', '_')}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_heads(tensor: Tensor) -> Tensor:
    """(time, heads, ...) to (1, heads, time, ...)."""
    return tensor.float().transpose(0, 1)[None]


def recurrence(mixer: Any, x: Tensor) -> tuple[Any, Tensor, Tensor]:
    """What our layer feeds its recurrence with, and what comes out of it."""
    taken: list[Tensor] = []
    mixer.finish = lambda x, outputs, *kept: taken.append(outputs) or x
    with torch.no_grad():
        _, state = mixer(x, return_state=True)
        projected = mixer.project(x[0])
        if mixer.conv is None:
            convolved = torch.nn.functional.silu(projected)
        else:
            window = mixer.initial_state(1).window
            convolved, _ = mixer.conv(projected, window, torch.tensor([0, x.shape[1]]))
        return mixer.pieces(x[0], convolved), taken[0], state if mixer.conv is None else state.recurrent


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), DELTA, ids=str)
def test_the_delta_rule_of_flash_linear_attention(name: str, options: dict[str, Any]) -> None:
    """Their states are (keys, values), their queries get scaled by N^-1/2 inside."""
    mixer, x = shaken(name, options, dim=32), inputs(dim=32, time=40)
    pieces, outputs, state = recurrence(mixer, x)
    beta, queries = pieces.transition.beta[..., 0], pieces.queries * mixer.key_dim**0.5
    values = pieces.values / beta[..., None]
    if mixer.substeps == 1 and mixer.decay is None:
        q, k, v, b = map(by_heads, (queries, pieces.keys[:, 0], values[:, 0], beta[:, 0]))
        got, final = naive("delta_rule").delta_rule_recurrence(q, k, v, b)
        got = got.transpose(1, 2)
    else:
        q, k, v, b = (t.flatten(0, -3)[None].float() for t in (queries, pieces.keys, values, beta[..., None]))
        log_decay = pieces.transition.decay[:, 0, :, 0].log()[None].float()
        if mixer.substeps == 1:
            module = naive("gated_delta_rule")
            got, final = module.naive_recurrent_gated_delta_rule(q, k, v, b[..., 0], log_decay, output_final_state=True)
        else:
            module = naive("gated_delta_product")
            got, final = module.naive_recurrent_gated_delta_product(
                q, k, v, log_decay, b[..., 0], mixer.key_dim**-0.5, num_householder=mixer.substeps
            )
    assert relative_error(got[0].double(), outputs) < 1e-5
    assert relative_error(final.transpose(-1, -2).double(), state) < 1e-5


@pytest.mark.slow
def test_rwkv7_of_flash_linear_attention() -> None:
    """Its general form S (diag(w) + alpha beta^T) + v k^T, with alpha = -u and beta = a * u."""
    mixer, x = shaken("rwkv7", {"head_dim": 16}, dim=32), inputs(dim=32, time=40)
    pieces, outputs, state = recurrence(mixer, x)
    a = pieces.transition
    q, k, v, alpha, beta, log_decay = map(
        by_heads,
        (
            pieces.queries * mixer.key_dim**0.5,
            pieces.keys,
            pieces.values,
            a.right[..., 0],
            a.left[..., 0],
            a.diag.log(),
        ),
    )
    got, final = naive("generalized_delta_rule/dplr").dplr_recurrence(q, k, v, alpha, beta, log_decay)
    assert relative_error(got.transpose(1, 2)[0].double(), outputs) < 1e-5
    assert relative_error(final.transpose(-1, -2).double(), state) < 1e-5
    swapped, _ = naive("generalized_delta_rule/dplr").dplr_recurrence(q, k, v, beta, alpha, log_decay)
    assert relative_error(swapped.transpose(1, 2)[0].double(), outputs) > 1e-2
