"""The custom ops: one node each for autograd, ``torch.compile`` and ``opcheck``.

    pdssm::recurrence            x_t = A_t x_{t-1} + b_t for a compiled family, CPU only
    pdssm::selection             scores, dictionary -> index
    pdssm::selected_recurrence   scores, dictionary -> index -> states, with the surrogate gradient, any device

Axes as in ``kernels/cpu/recurrence.py``.  Shapes are the caller's business (``pdssm.scan`` checks them);
values (indices, offsets, NaN) are checked here, where a compiled graph does not look.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdssm.errors import GradientError
from pdssm.kernels import device, reference
from pdssm.kernels.checks import check_below, check_finite, check_offsets


def _plain(tensor: Tensor) -> Tensor:
    """Contiguous, with no lazy conjugation or negation: what a kernel can read."""
    return tensor.resolve_conj().resolve_neg().contiguous()


def _maybe_plain(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _plain(tensor)


def _every_step(rows: Tensor | None, count: int, device: torch.device) -> Tensor:
    return torch.arange(count, device=device) if rows is None else rows.contiguous()


def _shapes(inputs: Tensor, initial: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    steps = inputs.shape[0] if rows is None else rows.shape[0]
    return inputs.new_empty((steps, *inputs.shape[1:])), inputs.new_empty(initial.shape)


# ------------------------------------------------------------------------------------------- the recurrence


@torch.library.custom_op("pdssm::recurrence", mutates_args=())
def recurrence(
    kind: str, index: Tensor | None, params: list[Tensor], inputs: Tensor, initial: Tensor,
    rows: Tensor | None, cu: Tensor, reverse: bool, cut: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(states, final); ``cut`` forces the three-phase scan of ``kernels/cpu/chunked.py``."""
    from pdssm.kernels import cpu

    count, size = inputs.shape[0], inputs.shape[-1]
    steps = _every_step(rows, count, inputs.device)
    check_below("rows", steps, count, "transitions")
    check_offsets(cu, steps.shape[0])
    if index is not None:
        check_below("index", index, size, "state components")
        index = index.to(torch.int32).contiguous()
    plain = [_plain(param) for param in params]
    return cpu.scan_forward(kind, index, plain, _plain(inputs), _plain(initial), steps, cu.contiguous(), reverse, cut)


@recurrence.register_fake
def _(
    kind: str, index: Any, params: Any, inputs: Tensor, initial: Tensor, rows: Any, cu: Any, reverse: bool, cut: bool
) -> Any:
    return _shapes(inputs, initial, rows)


@torch.library.custom_op("pdssm::recurrence_backward", mutates_args=())
def recurrence_backward(
    kind: str, index: Tensor | None, params: list[Tensor], initial: Tensor, rows: Tensor | None, cu: Tensor,
    reverse: bool, cut: bool, states: Tensor, g_states: Tensor | None, g_final: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """[*params' gradients, the inputs', the initial state's]."""
    from pdssm.kernels import cpu

    count = params[0].shape[0]
    steps = _every_step(rows, count, initial.device)
    place, offsets = (steps, None) if rows is None else cpu.sort_steps(steps, count)
    grads, g_inputs, g_initial = cpu.scan_backward(
        kind, None if index is None else index.to(torch.int32).contiguous(), [_plain(param) for param in params],
        _plain(initial), steps, place, cu.contiguous(), reverse, cut,
        _plain(states), _maybe_plain(g_states), _maybe_plain(g_final),
    )  # fmt: skip
    per_row = [*grads, g_inputs]
    if offsets is not None:
        per_row = [cpu.sum_rows(grad, offsets) for grad in per_row]
    return [*per_row, g_initial]


@recurrence_backward.register_fake
def _(
    kind: str,
    index: Any,
    params: Any,
    initial: Tensor,
    rows: Any,
    cu: Any,
    reverse: bool,
    cut: bool,
    states: Tensor,
    g_states: Any,
    g_final: Any,
) -> Any:
    grads = [param.new_empty(param.shape) for param in params]
    g_inputs = initial.new_empty((params[0].shape[0], *initial.shape[1:]))
    return [*grads, g_inputs, initial.new_empty(initial.shape)]


def _save_recurrence(ctx: Any, inputs: Any, output: Any) -> None:
    kind, index, params, _, initial, rows, cu, reverse, cut = inputs
    ctx.kind, ctx.options, ctx.count = kind, (reverse, cut), len(params)
    ctx.save_for_backward(index, *params, initial, rows, cu, output[0])
    ctx.set_materialize_grads(False)


def _recurrence_gradients(ctx: Any, g_states: Tensor | None, g_final: Tensor | None) -> Any:
    index, *params, initial, rows, cu, states = ctx.saved_tensors
    grads = recurrence_backward(ctx.kind, index, params, initial, rows, cu, *ctx.options, states, g_states, g_final)
    return None, None, grads[: ctx.count], grads[-2], grads[-1], None, None, None, None


recurrence.register_autograd(_recurrence_gradients, setup_context=_save_recurrence)


# --------------------------------------------------------------------------------- selection and recurrence


def _selected_index(scores: Tensor, dictionary: Tensor, row_form: bool, noise: Tensor | None) -> Tensor:
    check_finite("scores", scores)
    check_finite("dictionary", dictionary)
    if row_form:
        dictionary = dictionary.transpose(1, 2)
    if scores.device.type == "cpu":
        from pdssm.kernels import cpu

        return cpu.select(scores, dictionary, noise)
    return device.select(scores, dictionary, noise)


@torch.library.custom_op("pdssm::selection", mutates_args=())
def selection(scores: Tensor, dictionary: Tensor, row_form: bool, noise: Tensor | None) -> Tensor:
    """index (U, N) int32 from scores (U, K) and dictionary (K, N, N); see ``kernels/cpu/selection.py``."""
    return _selected_index(scores, dictionary, row_form, noise)


def select(scores: Tensor, dictionary: Tensor, row_form: bool, noise: Tensor | None) -> Tensor:
    """``selection``, without the op's overhead where no graph needs one: it has no gradient."""
    take = selection if torch.compiler.is_compiling() else _selected_index
    index: Tensor = take(scores, dictionary, row_form, noise)
    return index


@selection.register_fake
def _(scores: Tensor, dictionary: Tensor, row_form: bool, noise: Any) -> Any:
    return scores.new_empty((scores.shape[0], dictionary.shape[-1]), dtype=torch.int32)


@torch.library.custom_op("pdssm::selected_recurrence", mutates_args=())
def selected_recurrence(
    scores: Tensor, dictionary: Tensor, diag: Tensor, inputs: Tensor, initial: Tensor, rows: Tensor | None, cu: Tensor,
    index: Tensor | None, reverse: bool, row_form: bool, temperature: float, noise: Tensor | None, backend: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(states, final, index), with scores (R * H, K).

    ``index``, where it is known already, is taken as it is; the one returned is then empty.
    """
    count, heads, size = diag.shape
    steps = _every_step(rows, count, diag.device)
    check_below("rows", steps, count, "transitions")
    check_offsets(cu, steps.shape[0])
    chosen = _selected_index(scores, dictionary, row_form, noise) if index is None else index.contiguous()
    maps = chosen.view(count, heads, size)
    plain = _plain(diag), _plain(inputs), _plain(initial)
    states, final = _pd_forward(maps, *plain, steps, cu.contiguous(), reverse, row_form, backend)
    return states, final, chosen if index is None else chosen.new_empty((0, size))


@selected_recurrence.register_fake
def _(
    scores: Tensor, dictionary: Tensor, diag: Tensor, inputs: Tensor, initial: Tensor, rows: Any, cu: Any,
    index: Any, reverse: bool, row_form: bool, temperature: float, noise: Any, backend: str,
) -> Any:  # fmt: skip
    count = scores.shape[0] if index is None else 0
    chosen = scores.new_empty((count, dictionary.shape[-1]), dtype=torch.int32)
    return *_shapes(inputs, initial, rows), chosen


def _pd_forward(
    index: Tensor, diag: Tensor, inputs: Tensor, initial: Tensor, rows: Tensor, cu: Tensor, reverse: bool,
    row_form: bool, backend: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if backend == "associative":
        return reference.pd_forward(index, diag, inputs, initial, rows, cu, reverse, row_form)
    from pdssm.kernels import cpu

    kind = "row_pd" if row_form else "pd"
    return cpu.scan_forward(kind, index, [diag], inputs, initial, rows, cu, reverse, backend == "chunked")


@torch.library.custom_op("pdssm::selected_recurrence_backward", mutates_args=())
def selected_recurrence_backward(
    scores: Tensor, dictionary: Tensor, diag: Tensor, initial: Tensor, rows: Tensor | None, cu: Tensor, index: Tensor,
    reverse: bool, row_form: bool, temperature: float, noise: Tensor | None, backend: str,
    states: Tensor, g_states: Tensor | None, g_final: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of scores, dictionary, diag, inputs and initial state."""
    count, heads, size = diag.shape
    channels = initial.shape[2]
    steps = _every_step(rows, count, diag.device)
    maps = index.view(count, heads, size), _plain(diag), _plain(initial), steps
    cotangents = _plain(states), _maybe_plain(g_states), _maybe_plain(g_final)
    # In row form the softmax runs over the columns: everything is the column form of the transposed matrices.
    oriented = dictionary.transpose(1, 2) if row_form else dictionary
    if backend == "associative":
        g_diag, g_inputs, g_initial, left, right = reference.pd_backward(
            *maps, cu.contiguous(), reverse, row_form, *cotangents
        )
        owner = (steps[:, None, None] * heads + torch.arange(heads, device=steps.device)[:, None]).expand(
            -1, -1, channels
        )
        g_scores, g_dictionary = reference.surrogate(
            scores, oriented, noise, temperature, _components(left), _components(right), owner.reshape(-1)
        )
        if rows is not None:
            g_diag, g_inputs = (reference.sum_rows(grad, steps, count) for grad in (g_diag, g_inputs))
    else:
        from pdssm.kernels import cpu

        place, offsets = (steps, torch.arange(count + 1)) if rows is None else cpu.sort_steps(steps, count)
        g_diag, g_inputs, g_initial, left, right = cpu.pd_backward(
            *maps, place, cu.contiguous(), reverse, row_form, backend == "chunked", *cotangents
        )
        users = cpu.steps_of_rows(offsets, heads, channels)
        g_scores, g_dictionary = cpu.surrogate(scores, oriented, index, noise, temperature, left, right, *users)
        if rows is not None:
            g_diag, g_inputs = (cpu.sum_rows(grad, offsets) for grad in (g_diag, g_inputs))
    if row_form:
        g_dictionary = g_dictionary.transpose(1, 2).contiguous()
    return g_scores, g_dictionary, g_diag, g_inputs, g_initial


def _components(factor: Tensor) -> Tensor:
    """(T, H, V, N) to (T H V, N, 1 or 2): real and imaginary parts."""
    flat = factor.reshape(-1, factor.shape[-1])
    return torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat[..., None]


@selected_recurrence_backward.register_fake
def _(
    scores: Tensor, dictionary: Tensor, diag: Tensor, initial: Tensor, rows: Any, cu: Any, index: Any, reverse: bool,
    row_form: bool, temperature: float, noise: Any, backend: str, states: Tensor, g_states: Any, g_final: Any,
) -> Any:  # fmt: skip
    g_inputs = initial.new_empty((diag.shape[0], *initial.shape[1:]))
    like = scores, dictionary, diag
    return *(tensor.new_empty(tensor.shape) for tensor in like), g_inputs, initial.new_empty(initial.shape)


def _save_selected(ctx: Any, inputs: Any, output: Any) -> None:
    scores, dictionary, diag, _, initial, rows, cu, index, reverse, row_form, temperature, noise, backend = inputs
    ctx.options = reverse, row_form, temperature
    ctx.backend = backend
    chosen = output[2] if index is None else index
    ctx.save_for_backward(scores, dictionary, diag, initial, rows, cu, chosen, noise, output[0])
    ctx.set_materialize_grads(False)


def _selected_gradients(ctx: Any, g_states: Tensor | None, g_final: Tensor | None, g_index: None) -> Any:
    *tensors, noise, states = ctx.saved_tensors
    grads = selected_recurrence_backward(*tensors, *ctx.options, noise, ctx.backend, states, g_states, g_final)
    return *grads, None, None, None, None, None, None, None, None


selected_recurrence.register_autograd(_selected_gradients, setup_context=_save_selected)


# ---------------------------------------------------------------------------------- no second derivatives


def _refuse(name: str) -> Any:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GradientError(f"pdssm::{name} has no second derivative: call backward() without create_graph=True")

    return backward


recurrence_backward.register_autograd(_refuse("recurrence"))
selected_recurrence_backward.register_autograd(_refuse("selected_recurrence"))
