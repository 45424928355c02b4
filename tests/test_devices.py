"""Every device gives what the CPU's oracle gives; where there is no GPU, the CPU by its portable backends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdssm import ModelConfig, PDSSMError, SequenceModel, scan
from pdssm.kernels.ops import select
from pdssm.layers import MIXERS, make_mixer
from pdssm.transitions import Transition
from tests.factories import CLOSED, STRUCTURES, Draw, differentiable, real_loss, relative_error

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
PORTABLE = [name for name in STRUCTURES if name in CLOSED or "selected" in name or "noisy" in name]


def moved(transition: Transition, device: str) -> Transition:
    """The same matrices there, the dictionary of a selection included."""
    changes = {name: tensor.to(device) for name, tensor in transition._batched().items()}
    if hasattr(transition, "dictionary"):
        changes["dictionary"] = transition.dictionary.to(device)
    return transition._replace(changes)


def solved(a: Transition, inputs: Tensor, backend: str | None) -> list[Tensor]:
    """States, final state and all gradients, on the CPU."""
    leaves = [*differentiable(a), inputs.detach().clone().requires_grad_()]
    states, final = scan(a, leaves[-1], cu_seqlens=torch.tensor([0, 4, 4, 9], device=inputs.device), backend=backend)
    loss = real_loss(states.cpu(), final.cpu())
    return [tensor.detach().cpu() for tensor in (states, final, *torch.autograd.grad(loss, leaves))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_scan(name: str, device: str) -> None:
    backend = "associative" if device == "cpu" and name in PORTABLE else None
    draw = Draw(3, torch.complex128)
    a, inputs = STRUCTURES[name](draw, (1, 9, 2), 8), draw(1, 9, 2, 8)
    expected = solved(moved(a, "cpu"), inputs, "reference")
    got = solved(moved(a, device), inputs.to(device), backend)
    for value, oracle in zip(got, expected, strict=True):
        assert relative_error(value, oracle) < 1e-10


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MIXERS)
def test_mixers(name: str, device: str) -> None:
    torch.manual_seed(0)
    here, there = make_mixer(name, 12, {}).double(), make_mixer(name, 12, {}).double()  # cuDNN's LSTM: training only
    there.load_state_dict(here.state_dict())
    there.to(device)
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    expected, got = here(x), there(x.to(device))
    assert relative_error(got.cpu(), expected) < 1e-10
    (expected**2).sum().backward()
    (got**2).sum().backward()
    for ours, theirs in zip(there.parameters(), here.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert relative_error(ours.grad.cpu(), theirs.grad) < 1e-9
    state = there.initial_state(2)
    for t in range(7):
        y, state = there.step(x[:, t].to(device), state)
    assert relative_error(y.cpu(), expected[:, -1]) < 1e-10


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_trains_and_freezes(device: str) -> None:
    torch.manual_seed(0)
    model = SequenceModel(ModelConfig(3, 4, dim=16, mixer_options={"conv": 2})).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    tokens = torch.randint(0, 3, (8, 12), device=device)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval()
    with torch.no_grad():
        before = model(tokens)
        assert torch.equal(model.freeze()(tokens), before)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("terms", "size", "count"), [(1, 1, 1), (3, 7, 5), (6, 70, 300), (32, 128, 40)])
def test_selection(device: str, terms: int, size: int, count: int) -> None:
    """Exact in any order of summation, and full of ties, which go to the lowest row."""
    generator = torch.Generator().manual_seed(size)
    dictionary = torch.randint(-3, 4, (terms, size, size), generator=generator).float()
    dictionary[:, size // 2] = dictionary[:, 0]
    scores = torch.randint(0, 9, (count, terms), generator=generator) / 8
    logits = torch.einsum("uk,kab->uab", scores.double(), dictionary.double())
    expected = torch.stack([(column == column.max(0).values).int().argmax(0) for column in logits])
    assert torch.equal(select(scores.to(device), dictionary.to(device), False, None).cpu().long(), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_equal_rows_tie_whatever_the_rounding(device: str, dtype: torch.dtype) -> None:
    """The second of two equal rows never wins, and a transition alone gets what it gets among others."""
    dictionary = torch.randn(7, 37, 37, dtype=dtype).repeat_interleave(2, 1).repeat(1, 1, 2).to(device)
    scores = torch.softmax(torch.randn(200, 7, dtype=dtype), -1).to(device)
    index = select(scores, dictionary, False, None)
    assert bool((index % 2 == 0).all())
    alone = torch.cat([select(row[None], dictionary, False, None) for row in scores[:20]])
    assert torch.equal(alone, index[:20])


@pytest.mark.parametrize("device", DEVICES)
def test_values_are_checked(device: str) -> None:
    """A bad index, offset or NaN is refused wherever the tensors lie."""
    draw = Draw(0, torch.float64)
    a = moved(STRUCTURES["selected_pd"](draw, (1, 5), 4), device)
    inputs = draw(1, 5, 4).to(device)
    for options in (
        {"cu_seqlens": torch.tensor([0, 3], device=device)},
        {"rows": torch.full((1, 2), 7, device=device)},
    ):
        flat = options.get("rows") is not None
        with pytest.raises(PDSSMError):
            scan(a.reshape(5) if flat else a, inputs[0] if flat else inputs, **options)
    broken = a._replace({"scores": a.scores * float("nan"), "known_index": None})  # type: ignore[attr-defined]
    with pytest.raises(PDSSMError, match="scores"):
        scan(broken, inputs)
