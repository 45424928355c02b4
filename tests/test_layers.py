"""The layers against a plain-torch model that materialises every matrix."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pdssm import PDSSM, ComplexDiagonal
from tests.factories import relative_error


def plain(layer: PDSSM | ComplexDiagonal, u: Tensor) -> Tensor:
    """The paper's equations, one token after the other; parameters by name."""
    p = dict(layer.named_parameters())

    def mlp(name: str, x: Tensor) -> Tensor:
        w = [p[f"generator.entries.{name}.{i}.{kind}"] for i in (0, 2) for kind in ("weight", "bias")]
        return functional.gelu(x @ w[0].T + w[1]) @ w[2].T + w[3]

    n = layer.generator.state_dim
    outputs = []
    for sequence in u:
        x = torch.zeros(n, dtype=torch.complex128)
        x[0] = 1
        for token in sequence:
            magnitude, phase = torch.sigmoid(mlp("magnitude", token)), 2 * math.pi * torch.sigmoid(mlp("phase", token))
            d = torch.complex(magnitude * torch.cos(phase), magnitude * torch.sin(phase))
            one_hot = torch.eye(n, dtype=torch.float64)
            if "generator.dictionary" in p:
                s = torch.softmax(p["generator.selector.weight"] @ token, 0)
                m = torch.einsum("k,kij->ij", s, p["generator.dictionary"])
                soft = torch.softmax(m, 0)
                hard = functional.one_hot(m.argmax(0), n).T.double()
                one_hot = (hard - soft).detach() + soft
            b = (p["generator.inputs.linear.weight"] @ token).view(n, 2)
            x = (one_hot * d) @ x + torch.complex(b[:, 0], b[:, 1])
            outputs.append(p["readout.weight"] @ torch.view_as_real(x).flatten() + p["readout.bias"])
    return torch.stack(outputs).view(*u.shape[:2], -1)


@pytest.mark.parametrize("start", ["long", "paper"])
@pytest.mark.parametrize("kind", ["pd", "diagonal"])
def test_against_the_equations(kind: str, start: str) -> None:
    torch.manual_seed(0)
    layer = PDSSM(5, 7, 3, start=start) if kind == "pd" else ComplexDiagonal(5, 7, start=start)  # type: ignore[arg-type]
    layer = layer.double()
    u = torch.randn(2, 9, 5, dtype=torch.float64, requires_grad=True)
    leaves = [*layer.parameters(), u]
    got, expected = layer(u), plain(layer, u)
    assert relative_error(got, expected) < 1e-9
    weights = torch.cos(torch.arange(got.numel(), dtype=torch.float64)).view_as(got)
    grads = torch.autograd.grad((got * weights).sum(), leaves)
    oracles = torch.autograd.grad((expected * weights).sum(), leaves)
    for value, oracle in zip(grads, oracles, strict=True):
        assert relative_error(value, oracle) < 1e-9


def test_rows_and_packs() -> None:
    """A table with rows, and packed sequences, give what the plain call gives."""
    torch.manual_seed(0)
    layer = PDSSM(6, 8, 3)
    table, rows = torch.randn(4, 6), torch.randint(0, 4, (2, 11))
    expected = layer(table[rows])
    torch.testing.assert_close(layer(table, rows=rows), expected)
    packed = layer(table, rows=rows.reshape(1, -1), cu_seqlens=torch.tensor([0, 11, 22]))
    torch.testing.assert_close(packed.view_as(expected), expected)


def test_starts() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 50, 16)
    for start, low, high in (("long", 0.98, 1.0), ("paper", 0.2, 0.8)):
        transition, _ = PDSSM(16, 16, start=start).generator(x)  # type: ignore[arg-type]
        magnitude = transition.diag.detach().abs()
        assert low < float(magnitude.min()) <= float(magnitude.max()) < high


def test_a_layer_is_an_ordinary_module() -> None:
    torch.manual_seed(0)
    layer, x = PDSSM(6, 8, 3), torch.randn(2, 5, 6)
    twin = copy.deepcopy(layer)
    other = PDSSM(6, 8, 3)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x), layer(x))
    assert torch.equal(other(x), layer(x))
    assert torch.equal(torch.func.functional_call(layer, dict(layer.named_parameters()), (x,)), layer(x))


def test_parameter_count() -> None:
    """The paper counts MLPs of N hidden units and no readout bias; here they have 2 N, as the published code's."""
    d, n, k = 10, 12, 3
    counted = sum(p.numel() for p in PDSSM(d, n, k).parameters())
    mlp = 2 * n * d + 2 * n + 2 * n * n + n
    assert counted == 2 * mlp + k * d + k * n * n + 2 * n * d + 2 * n * d + d


def test_it_learns_to_count() -> None:
    """Parity at every step: exact at the training length, and most of the way at four times that length."""
    torch.manual_seed(0)
    embed, layer, head = torch.nn.Embedding(2, 32), PDSSM(32, 32), torch.nn.Linear(32, 2)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, 5e-3)
    for _ in range(500):
        bits = torch.randint(0, 2, (64, 16))
        logits = head(layer(embed.weight, rows=bits))
        loss = functional.cross_entropy(logits.flatten(0, 1), (bits.cumsum(1) % 2).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for length, least in ((16, 0.999), (64, 0.9)):
        bits = torch.randint(0, 2, (64, length))
        accuracy = (head(layer(embed.weight, rows=bits)).argmax(-1) == bits.cumsum(1) % 2).double().mean()
        assert float(accuracy) > least
