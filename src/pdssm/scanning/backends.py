"""How a problem is solved: one function for each backend, all with one signature, and the choice between them."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
from torch import Tensor

from pdssm.errors import BackendError
from pdssm.kernels import ops
from pdssm.kernels.associative import Elements, prefix
from pdssm.scanning.problem import Problem
from pdssm.transitions import Transition
from pdssm.transitions.selected import Selected

Solver = Callable[[Problem], tuple[Tensor, Tensor]]
"""Packed states (T, H, V, N) and final states (S, H, V, N)."""


def reference(problem: Problem) -> tuple[Tensor, Tensor]:
    """Step by step in plain torch: the oracle.  Gradients by autograd, to any order."""
    problem.check_values()
    transition, inputs = problem.side_by_side()
    x = problem.initial
    states = []
    for a, b in zip(transition.unbind(1), inputs.unbind(1), strict=True):
        x = a.plain().apply(x) + b
        states.append(x)
    return problem.packed(torch.stack(states, 1))


def associative(problem: Problem) -> tuple[Tensor, Tensor]:
    """Log-depth in plain torch, for the families that are closed under products."""
    if isinstance(problem.transition, Selected):
        return _selected(problem, "associative")
    if not problem.transition.closed:
        raise BackendError(
            f"backend 'associative' composes transitions, and {type(problem.transition).__name__} is not closed under "
            "products; expected 'reference' or None"
        )
    problem.check_values()
    transition, inputs = problem.side_by_side()
    names = list(transition._batched())

    def build(elements: Elements) -> Transition:
        return transition._replace(dict(zip(names, elements, strict=True)))

    def combine(later: Elements, earlier: Elements) -> Elements:
        a, before = build(later[:-1]), build(earlier[:-1])
        return *a.compose(before)._batched().values(), a.apply(earlier[-1]) + later[-1]

    first = transition[:, 0].apply(problem.initial) + inputs[:, 0]
    b = torch.cat((first[:, None], inputs[:, 1:]), 1)
    return problem.packed(prefix(combine, (*transition._batched().values(), b))[-1])


def cpu(problem: Problem) -> tuple[Tensor, Tensor]:
    """The compiled kernels; on many threads they cut a long sequence of their own accord."""
    return _compiled(problem, "cpu")


def chunked(problem: Problem) -> tuple[Tensor, Tensor]:
    """The compiled kernels, every sequence cut into pieces that are scanned side by side and joined."""
    return _compiled(problem, "chunked")


def _compiled(problem: Problem, backend: str) -> tuple[Tensor, Tensor]:
    if isinstance(problem.transition, Selected):
        return _selected(problem, backend)
    form = problem.transition.kernel_form()
    if form is None or (backend == "chunked" and not problem.transition.closed):
        raise BackendError(
            f"backend '{backend}' has no kernel for {type(problem.transition).__name__}; expected 'reference' or None"
        )
    states, final = ops.recurrence(
        form.kind, form.maps, form.params, problem.inputs, problem.initial,
        problem.rows, problem.cu_seqlens, problem.reverse, backend == "chunked",
    )  # fmt: skip
    return states, final


def _selected(problem: Problem, backend: str) -> tuple[Tensor, Tensor]:
    assert isinstance(problem.transition, Selected)
    return problem.transition.recurrence(
        problem.inputs, problem.initial, problem.rows, problem.cu_seqlens, problem.reverse, backend
    )


BACKENDS: dict[str, Solver] = {"reference": reference, "associative": associative, "cpu": cpu, "chunked": chunked}


def choose(problem: Problem, backend: str | None) -> Solver:
    """The named backend, or the fastest for where the tensors lie now."""
    transition = problem.transition
    on_cpu = transition.device.type == "cpu"
    if backend is None:
        selected = isinstance(transition, Selected)
        if on_cpu:
            return cpu if selected or transition.kernel_form() is not None else reference
        return associative if selected or transition.closed else reference
    if backend not in BACKENDS:
        near = difflib.get_close_matches(backend, BACKENDS, 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise BackendError(f"backend is '{backend}'; expected one of {sorted(BACKENDS)} or None{hint}")
    if backend in ("cpu", "chunked") and not on_cpu:
        raise BackendError(
            f"backend '{backend}' reads CPU memory, and the tensors are on {transition.device}; expected None"
        )
    return BACKENDS[backend]
