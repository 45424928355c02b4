"""What torch asks of an op: gradcheck, opcheck, compile, one node, no second derivative."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pdssm import PDSSM, PDSSMError, SelectedPD, scan
from pdssm.kernels import ops
from tests.factories import COMPILED, STRUCTURES, Draw, differentiable, real_loss


def problem(rows: bool, dtype: torch.dtype = torch.complex128) -> tuple[list[Tensor], Tensor | None, Tensor]:
    """(scores, dictionary, diag, inputs, initial), rows, cu for the ops themselves."""
    draw = Draw(0, dtype)
    u = 4 if rows else 9
    tensors = [draw.reals(2 * u, 3), draw.reals(3, 5, 5), draw(u, 2, 5), draw(u, 2, 2, 5), draw(3, 2, 2, 5)]
    leaves = [tensor.requires_grad_() for tensor in tensors]
    return leaves, draw.integers(u, 9) if rows else None, torch.tensor([0, 4, 4, 9])


OPTIONS = {
    "plain": {"reverse": False, "row_form": False, "noise": None},
    "row form, reversed": {"reverse": True, "row_form": True, "noise": None},
    "noisy": {"reverse": False, "row_form": False, "noise": True},
}


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("backend", ["cpu", "associative"])
def test_opcheck_selected(rows: bool, option: str, backend: str) -> None:
    leaves, steps, cu = problem(rows)
    chosen: dict[str, Any] = dict(OPTIONS[option])
    noise = torch.arange(leaves[0].shape[0]) if chosen["noise"] else None
    for index in (None, ops.selection(leaves[0], leaves[1], chosen["row_form"], noise)):
        args = (*leaves, steps, cu, index, chosen["reverse"], chosen["row_form"], 0.7, noise, backend)
        torch.library.opcheck(ops.selected_recurrence, args)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", [
    "pd", "row_pd", "diagonal", "block_diagonal", "householder", "low_rank", "walsh_hadamard", "diagonal_dense",
])  # fmt: skip
def test_opcheck_recurrence(name: str, rows: bool) -> None:
    draw = Draw(0, torch.complex128)
    u = 4 if rows else 9
    form = STRUCTURES[name](draw, (u, 2), 4).kernel_form()
    assert form is not None
    params = [param.requires_grad_() for param in form.params]
    inputs, initial = draw(u, 2, 3, 4).requires_grad_(), draw(3, 2, 3, 4).requires_grad_()
    steps = draw.integers(u, 9) if rows else None
    args = (form.kind, form.maps, params, inputs, initial, steps, torch.tensor([0, 4, 4, 9]), False, False)
    torch.library.opcheck(ops.recurrence, args)


def test_opcheck_selection() -> None:
    leaves, _, _ = problem(False)
    torch.library.opcheck(ops.selection, (leaves[0], leaves[1], False, None))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", COMPILED)
def test_gradcheck(name: str, reverse: bool, dtype: torch.dtype) -> None:
    """Everything with a true derivative: parameters (not scores and dictionary), inputs and initial state."""
    draw = Draw(1, dtype)
    a = STRUCTURES[name](draw, (1, 6), 4)
    leaves = differentiable(a)
    if isinstance(a, SelectedPD) or hasattr(a, "scores"):
        assert a.index is not None
        leaves = [a.diag]  # type: ignore[attr-defined]
    inputs, initial = draw(1, 6, 4).requires_grad_(), draw(2, 4).requires_grad_()
    cu = torch.tensor([0, 2, 6])

    def function(inputs: Tensor, initial: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        names = [name for name in (*a.event_axes, "dictionary") if getattr(a, name, None) is not None]
        own = {n: p for n in names for leaf, p in zip(leaves, parameters, strict=True) if getattr(a, n) is leaf}
        return scan(a._replace(own), inputs, initial, cu_seqlens=cu, reverse=reverse)

    assert torch.autograd.gradcheck(function, (inputs, initial, *leaves))


def test_one_node() -> None:
    """From scores and dictionary to states, autograd sees a single op."""
    draw = Draw(2, torch.float32)
    scores = draw(1, 5, 3).requires_grad_()
    states, _ = scan(SelectedPD(scores, draw(3, 4, 4), draw(1, 5, 4)), draw(1, 5, 4))
    node = states.grad_fn
    while node is not None and "selected_recurrence" not in node.name():
        assert "View" in node.name()
        node = node.next_functions[0][0]
    assert node is not None


@pytest.mark.parametrize("make", [
    lambda d: SelectedPD(d(1, 4, 3).requires_grad_(), d(3, 4, 4), d(1, 4, 4)),
    lambda d: STRUCTURES["diagonal"](d, (1, 4), 4).map(lambda t: t.requires_grad_()),
])  # fmt: skip
def test_a_second_derivative_is_refused(make: Any) -> None:
    draw = Draw(3, torch.float64)
    a = make(draw)
    leaf = a.scores if isinstance(a, SelectedPD) else a.diag
    states, _ = scan(a, draw(1, 4, 4))
    (first,) = torch.autograd.grad((states**2).sum(), leaf, create_graph=True)
    with pytest.raises(PDSSMError, match="has no second derivative"):
        first.sum().backward()


def test_the_oracle_has_second_derivatives() -> None:
    draw = Draw(4, torch.float64)
    a = STRUCTURES["diagonal"](draw, (1, 4), 4)
    (leaf,) = differentiable(a)
    states, _ = scan(a, draw(1, 4, 4), backend="reference")
    (first,) = torch.autograd.grad((states**2).sum(), leaf, create_graph=True)
    first.sum().backward()
    assert leaf.grad is not None


def test_compile_with_changing_lengths() -> None:
    """One graph, no breaks, no recompilation for every length; the same values and gradients."""
    torch.manual_seed(0)
    layer = PDSSM(8, 16, 3).double()  # a compiled graph's products may be another library's than an eager one's
    graphs = 0

    def counting(graph: Any, example: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counting)
    for length in (5, 9, 17, 33):
        x = torch.randn(2, length, 8, dtype=torch.float64)
        layer.zero_grad()
        compiled(x).square().sum().backward()
        got = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
        layer.zero_grad()
        y = layer(x)
        y.square().sum().backward()
        torch.testing.assert_close(compiled(x), y)
        for gradient, parameter in zip(got, layer.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad)
    assert graphs <= 2


@pytest.mark.parametrize("packed", [False, True])
def test_compile_aot(packed: bool) -> None:
    """Through AOTAutograd too, which traces the backward pass."""
    draw = Draw(5, torch.complex64)
    leaves = [draw.reals(7, 3), draw.reals(3, 4, 4), draw(7, 4), draw(7, 4)]
    scores, dictionary, diag, inputs = (leaf.requires_grad_() for leaf in leaves)
    cu = torch.tensor([0, 3, 7]) if packed else None

    def function() -> Tensor:
        states, final = scan(SelectedPD(scores[None], dictionary, diag[None]), inputs[None], cu_seqlens=cu)
        return real_loss(states, final)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(function(), leaves)
    for value, oracle in zip(torch.autograd.grad(compiled(), leaves), expected, strict=True):
        torch.testing.assert_close(value, oracle)


def test_unused_outputs_cost_nothing() -> None:
    """A loss on the final state alone: no gradient of the states is made up."""
    draw = Draw(6, torch.float64)
    inputs = draw(1, 5, 4).requires_grad_()
    _, final = scan(STRUCTURES["pd"](draw, (1, 5), 4), inputs)
    final.sum().backward()
    assert inputs.grad is not None
    assert torch.equal(inputs.grad[0, -1], torch.ones(4, dtype=torch.float64))
