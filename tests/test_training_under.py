"""What people train under: compile, autocast, half precision, checkpointing, clipping, DistributedDataParallel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pdssm import PDSSM, SDSSM, ComplexDiagonal, ModelConfig, RealDiagonal, SequenceModel
from pdssm.layers import GivenPDSSM, LinearRecurrence
from tests.factories import relative_error


def model(**changes: Any) -> SequenceModel:
    torch.manual_seed(0)
    return SequenceModel(ModelConfig(**{"input_size": 5, "output_size": 3, "dim": 8, **changes}))


def tokens(batch: int, time: int) -> Tensor:
    return torch.randint(0, 5, (batch, time), generator=torch.Generator().manual_seed(batch * time))


def gradients(module: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in module.parameters()]


def one_step(module: nn.Module, run: Any, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    module.zero_grad()
    y = run(x)
    y.square().sum().backward()
    return y.detach(), gradients(module)


LAYERS: dict[str, Any] = {
    "pdssm": lambda: PDSSM(8, 8, 3),
    "row": lambda: PDSSM(8, 8, 3, orientation="row", magnitude="near_one", phase="shrink", readout="mlp"),
    "conv": lambda: PDSSM(8, 8, 3, conv=3, initial_state="learned"),
    "complex_diagonal": lambda: ComplexDiagonal(8, 8),
    "real_diagonal": lambda: RealDiagonal(8, 8, readout="real"),
    "sdssm": lambda: SDSSM(8, 8, 3),
    "dense_inference": lambda: PDSSM(8, 8, 3, dense_inference=True).eval(),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


# --------------------------------------------------------------------------------------------------- compile


def compiled(module: nn.Module) -> tuple[Any, list[int]]:
    """Through dynamo and autograd's tracing with one graph, and how often it was traced."""
    torch._dynamo.reset()
    traces: list[int] = []
    from torch._dynamo.backends.debugging import aot_eager

    def backend(graph: Any, inputs: Any) -> Any:
        traces.append(1)
        return aot_eager(graph, inputs)

    return torch.compile(module, backend=backend, fullgraph=True), traces


slow = pytest.mark.slow


COMPILED: dict[str, Any] = {
    **LAYERS,
    "stochastic": lambda: PDSSM(8, 8, 3, stochastic=True),
    "given": lambda: GivenPDSSM(8, 8, torch.tensor([1, 0, 3, 3, 7, 2, 0, 5])),
}


@pytest.mark.parametrize("name", [name if name == "pdssm" else pytest.param(name, marks=slow) for name in COMPILED])
def test_a_layer_compiles_whole_with_changing_lengths(name: str) -> None:
    torch.manual_seed(0)
    layer = COMPILED[name]()
    run, traces = compiled(layer)
    for time in (5, 9, 13, 21):
        x = torch.randn(2, time, 8)
        torch.manual_seed(time)  # the stochastic one's noise
        got = one_step(layer, run, x)
        torch.manual_seed(time)
        expected = one_step(layer, layer, x)
        assert relative_error(got[0], expected[0]) < 1e-5
        for value, oracle in zip(got[1], expected[1], strict=True):
            assert relative_error(value, oracle) < 1e-4
    assert len(traces) <= 2  # once for a length, once for all


def test_a_frozen_layer_compiles_whole() -> None:
    """It searches all rows again, as a graph cannot see that the dictionary has changed; the results are the same."""
    torch.manual_seed(0)
    layer = PDSSM(8, 8, 3).eval()
    layer.freeze()
    run, _ = compiled(layer)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(run(x), layer(x))
        layer.generator.dictionary.neg_()
        changed = run(x)
        layer.unfreeze()
        torch.testing.assert_close(changed, layer(x))


WITH_CONVOLUTION = {"mixer_options": {"conv": 3}, "norm": "pre", "residual": True, "ffn": 1, "head": "last"}


@pytest.mark.parametrize(
    ("size", "changes"),
    [
        (5, {}),
        pytest.param(100, {}, marks=slow),
        pytest.param(5, WITH_CONVOLUTION, marks=slow),
        (100, WITH_CONVOLUTION),
    ],
    ids=str,
)
def test_a_model_compiles_whole_on_tokens(size: int, changes: dict[str, Any]) -> None:
    """With fewer tokens than steps (a table) and with more (the inputs themselves)."""
    m = model(input_size=size, **changes)
    run, traces = compiled(m)
    for time in (7, 9, 11):
        x = tokens(2, time)
        got, expected = one_step(m, run, x), one_step(m, m, x)
        assert relative_error(got[0], expected[0]) < 1e-5
        for value, oracle in zip(got[1], expected[1], strict=True):
            assert relative_error(value, oracle) < 1e-4
    assert len(traces) <= 2


@pytest.mark.slow
def test_inductor() -> None:
    """The default backend, code generation included."""
    torch._dynamo.reset()
    m = model(layers=2, norm="pre", residual=True, head="mean")
    run = torch.compile(m, fullgraph=True)
    for time in (7, 9):
        x = tokens(2, time)
        got, expected = one_step(m, run, x), one_step(m, m, x)
        assert relative_error(got[0], expected[0]) < 1e-4
        for value, oracle in zip(got[1], expected[1], strict=True):
            assert relative_error(value, oracle) < 1e-3


def test_a_compiled_step() -> None:
    torch.manual_seed(0)
    layer = PDSSM(8, 8, 3)
    torch._dynamo.reset()
    step = torch.compile(layer.step, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        x, state = torch.randn(2, 8), layer.initial_state(2)
        for a, b in zip(step(x, state), layer.step(x, state), strict=True):
            torch.testing.assert_close(a, b)


# ------------------------------------------------------------------------------------------ lower precisions


def states_of(layer: LinearRecurrence) -> list[torch.dtype]:
    """The element types that the scan sees, forward."""
    seen: list[torch.dtype] = []
    original = layer._scan

    def watched(transition: Any, inputs: Tensor, *rest: Any) -> Any:
        out = original(transition, inputs, *rest)
        seen.extend((transition.dtype, inputs.dtype, out[0].dtype, out[1].dtype))
        return out

    layer._scan = watched  # type: ignore[method-assign]
    return seen


@every_layer
def test_autocast(name: str) -> None:
    """The networks run in bfloat16, the recurrence in float32; parameters and their gradients stay float32."""
    torch.manual_seed(0)
    layer = LAYERS[name]()
    x = torch.randn(2, 9, 8)
    expected, oracles = one_step(layer, layer, x)
    seen = states_of(layer)
    linears: list[torch.dtype] = []
    layer.generator.inputs.linear.register_forward_hook(lambda _, given, out: linears.append(out.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = layer(x, return_state=True)
        first = layer.step(x[:, 0], layer.initial_state(2))
        half = layer(x.bfloat16())
    y.float().square().sum().backward()
    wanted = torch.float32 if name == "sdssm" else torch.complex64
    assert set(seen) == {wanted}
    assert set(linears) == {torch.bfloat16}
    assert {tensor.dtype for tensor in (state if isinstance(state, tuple) else (state,))} == {wanted} | (
        {torch.float32} if name == "conv" else set()
    )
    # The selection's scores are float32 as well: nothing flips, so bfloat16's three digits are all that is lost.
    assert relative_error(y.float(), expected) < 0.05
    torch.testing.assert_close(first[0].float(), y[:, 0].float(), rtol=0.05, atol=0.05)
    assert torch.isfinite(half).all()
    for parameter, oracle in zip(layer.parameters(), oracles, strict=True):
        assert parameter.grad.dtype == torch.float32
        assert relative_error(parameter.grad - oracle, oracle) < 0.1  # added to the float32 step's


def test_autocast_selects_what_float32_selects() -> None:
    torch.manual_seed(0)
    layer = PDSSM(16, 16, 5)
    x = torch.randn(2, 50, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.generator.select(x).index, layer.generator.select(x).index)
        low = layer.generator.select(x).index
    assert torch.equal(low, layer.generator.select(x).index)


@every_layer
def test_parameters_in_bfloat16(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().bfloat16()
    x = torch.randn(2, 9, 8, dtype=torch.bfloat16)
    y, state = layer(x, return_state=True)
    assert y.dtype == torch.bfloat16
    recurrent = state.recurrent if name == "conv" else state
    assert recurrent.dtype == (torch.float32 if name == "sdssm" else torch.complex64)
    y.float().square().sum().backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.dtype == torch.bfloat16 for p in layer.parameters())
    with torch.no_grad():
        now = layer.initial_state(2)
        for t in range(9):
            z, now = layer.step(x[:, t], now)
            assert relative_error(z.float(), y[:, t].float()) < 0.03


def test_a_model_in_bfloat16() -> None:
    for head in ("every", "last", "mean"):
        m = model(head=head, layers=2, norm="pre", residual=True, ffn=1).bfloat16()
        mask = torch.tensor([[False, True, True, True, True], [True, True, True, False, False]])
        for arguments in ({}, {"mask": mask}):
            y = m(tokens(2, 5), **arguments)
            assert y.dtype == torch.bfloat16
            y.float().sum().backward()
        single = model(head=head)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            single(tokens(2, 5), mask=mask).float().sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in single.parameters())


# ------------------------------------------------------------------------------- checkpointing and clipping


@pytest.mark.parametrize(
    "changes", [{}, {"dropout": 0.3, "ffn": 1, "norm": "pre"}, {"mixer_options": {"stochastic": True}}], ids=str
)
def test_gradient_checkpointing(changes: dict[str, Any]) -> None:
    """The same outputs and gradients, to the bit, dropout and noise included; and the blocks do run again."""
    m = model(layers=2, **changes)
    x = tokens(2, 9)
    runs: list[int] = []
    for block in m.blocks:
        block.mixer.generator.register_forward_pre_hook(lambda *_: runs.append(1))
    results = []
    for wanted in (False, True):
        m.gradient_checkpointing = wanted
        torch.manual_seed(7)
        results.append(one_step(m, m, x))
    assert len(runs) == 2 + 4
    assert torch.equal(results[0][0], results[1][0])
    for a, b in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(a, b)


def test_clipping() -> None:
    m = model(layers=2)
    (100 * m(tokens(2, 9))).square().sum().backward()
    total = torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    assert float(total) > 1
    after = torch.stack([parameter.grad.norm() for parameter in m.parameters()]).norm()
    torch.testing.assert_close(after, torch.tensor(1.0))


def test_an_optimiser_learns_every_parameter() -> None:
    m = model(mixer_options={"initial_state": "learned", "conv": 2}, ffn=1)
    before = [parameter.detach().clone() for parameter in m.parameters()]
    optimiser = torch.optim.AdamW(m.parameters(), 1e-2)
    for _ in range(2):
        one_step(m, m, tokens(4, 9))
        optimiser.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, m.parameters(), strict=True))


# --------------------------------------------------------------------------------------- several processes

WORKER = """
import json, os, sys
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from pdssm import ModelConfig, SequenceModel

torch.set_num_threads(1)
rank, world, rendezvous, out = int(sys.argv[1]), 2, sys.argv[2], sys.argv[3]
distributed.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=world)
torch.manual_seed(rank)  # DDP brings the weights of process 0 to all
config = ModelConfig(5, 3, dim=8, layers=2, ffn=1, mixer_options={"initial_state": "learned", "conv": 2})
model = SequenceModel(config).double()
wrapped = DistributedDataParallel(model)
x = torch.randint(0, 5, (4, 9), generator=torch.Generator().manual_seed(3))
for _ in range(2):  # the second step would fail if a parameter of the first had had no gradient
    model.zero_grad()
    wrapped(x[2 * rank : 2 * rank + 2]).square().mean().backward()
if rank == 0:
    model.save_pretrained(out)
    gradients = {name: parameter.grad.flatten().tolist() for name, parameter in model.named_parameters()}
    with open(os.path.join(out, "gradients.json"), "w") as file:
        json.dump(gradients, file)
distributed.destroy_process_group()
"""


def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    out = tmp_path / "out"
    commands = [[sys.executable, str(script), str(rank), str(tmp_path / "rendezvous"), str(out)] for rank in range(2)]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for worker in workers:
        _, errors = worker.communicate(timeout=240)
        assert worker.returncode == 0, errors
    alone = SequenceModel.from_pretrained(out)
    x = torch.randint(0, 5, (4, 9), generator=torch.Generator().manual_seed(3))
    alone(x).square().mean().backward()
    shared = json.loads((out / "gradients.json").read_text())
    for name, parameter in alone.named_parameters():
        expected = torch.tensor(shared[name], dtype=torch.float64).view_as(parameter)
        assert relative_error(parameter.grad, expected) < 1e-9, name
