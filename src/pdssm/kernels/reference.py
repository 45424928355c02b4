"""The selection and the PD recurrence in plain torch, for any device: the compiled kernels' twins.

Same functions, same shapes as ``kernels.cpu``.  Nothing of size U x N x N is allocated here either: the
selection and its gradient go through the transitions a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from pdssm.kernels.associative import Elements, prefix
from pdssm.kernels.packing import Padded

# Elements of one tile of logits: 16 MiB in float32.
TILE = 1 << 22

# Steps a transition from which a matrix product over them pays.
_MANY_STEPS = 8

_MASK = 0xFFFFFFFF


def noise_keys(seed: Tensor | int, count: int, device: torch.device | None = None) -> Tensor:
    """The keys of ``count`` maps' Gumbel noise, a hash of (seed, map): 32-bit words in int64."""
    bits = torch.as_tensor(seed, dtype=torch.int64, device=device).reshape(())
    high = (bits >> 32) & _MASK
    h = (bits & _MASK) ^ ((torch.arange(count, device=bits.device) * 0x9E3779B9) & _MASK)
    for _ in range(2):
        h = ((h ^ (h >> 16)) * 0x7FEB352D) & _MASK
        h = ((h ^ (h >> 15)) * 0x846CA68B) & _MASK
        h = h ^ (h >> 16) ^ high
    return h


def gumbel(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Gumbel noise (U, N, N) of the hash of (key, a, b); see ``cpu.vector.gumbel``."""
    a = torch.arange(size, device=keys.device)
    h = (keys[:, None, None] + (a * 0x85EBCA6B)[:, None] + a * 0xC2B2AE35) & _MASK
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        h = ((h ^ (h >> shift)) * factor) & _MASK
    h = h ^ (h >> 16)
    uniform = ((h >> 9).to(dtype) + 0.5) * 2.0**-23
    return -torch.log(-torch.log(uniform))


def _tiles(
    scores: Tensor, dictionary: Tensor, noise: Tensor | None, product: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[tuple[int, int, Tensor]]:
    """(first, last, logits) of a few transitions at a time."""
    size = dictionary.shape[-1]
    step = max(1, TILE // (size * size))
    flat = dictionary.reshape(dictionary.shape[0], -1)
    for first in range(0, scores.shape[0], step):
        last = min(first + step, scores.shape[0])
        logits = product(scores[first:last], flat).view(-1, size, size)
        if noise is not None:
            logits = logits + gumbel(noise[first:last], size, scores.dtype)
        yield first, last, logits


def even_product(scores: Tensor, flat: Tensor) -> Tensor:
    """scores @ flat, with the same roundings in every column: rows of the dictionary that are equal must tie.

    A library's product rounds a column by where it stands, in a vector or behind the last one; so do, on a CPU, a
    product and a sum in one operation.
    """
    total = scores[:, :1] * flat[0]
    for k in range(1, flat.shape[0]):
        weight = scores[:, k : k + 1]
        total = total.add_(weight * flat[k]) if total.device.type == "cpu" else total.addcmul_(weight, flat[k])
    return total


def select(scores: Tensor, dictionary: Tensor, noise: Tensor | None) -> Tensor:
    """index[u, b] = argmax_a of the logits, ties to the lowest a; (U, N) int32."""
    index = [
        # max's index is not promised to be the first; the first of the largest is what argmax of a mask finds.
        (logits == logits.amax(1, keepdim=True)).to(torch.int8).argmax(1)
        for _, _, logits in _tiles(scores, dictionary, noise, even_product)
    ]
    return torch.cat(index).to(torch.int32)


def surrogate(
    scores: Tensor,
    dictionary: Tensor,
    noise: Tensor | None,
    temperature: float,
    left: Tensor,
    right: Tensor,
    owner: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of scores and dictionary; left, right (E, N, C), step e belongs to transition owner[e]."""
    order = torch.argsort(owner, stable=True)
    offsets = torch.cat((owner.new_zeros(1), torch.bincount(owner, minlength=scores.shape[0]).cumsum(0)))
    flat = dictionary.reshape(dictionary.shape[0], -1)
    g_scores, g_flat = torch.zeros_like(scores), torch.zeros_like(flat)
    outer = _outer_by_transition if owner.shape[0] >= _MANY_STEPS * scores.shape[0] else _outer_by_step
    for first, last, logits in _tiles(scores, dictionary, noise, torch.matmul):
        d_p = outer(left, right, owner, order, offsets[first : last + 1], first)
        pi = torch.softmax(logits / temperature, 1)
        d_m = pi * (d_p - (pi * d_p).sum(1, keepdim=True)) / temperature
        g_scores[first:last] = d_m.flatten(1) @ flat.T
        g_flat += scores[first:last].T @ d_m.flatten(1)
    return g_scores, g_flat.view_as(dictionary)


def _outer_by_transition(
    left: Tensor, right: Tensor, owner: Tensor, order: Tensor, offsets: Tensor, first: int
) -> Tensor:
    """dP of a few transitions that many steps share: one matrix product each."""
    products = []
    for start, stop in pairwise(offsets.tolist()):
        mine = order[start:stop]
        products.append(left[mine].transpose(1, 2).flatten(0, 1).T @ right[mine].transpose(1, 2).flatten(0, 1))
    return torch.stack(products)


def _outer_by_step(left: Tensor, right: Tensor, owner: Tensor, order: Tensor, offsets: Tensor, first: int) -> Tensor:
    """dP of transitions with few steps each: the steps' products, added."""
    size = left.shape[1]
    d_p = torch.zeros((offsets.shape[0] - 1, size, size), dtype=left.dtype, device=left.device)
    for some in order[int(offsets[0]) : int(offsets[-1])].split(max(1, TILE // (size * size))):
        d_p.index_add_(0, owner[some] - first, left[some] @ right[some].transpose(1, 2))
    return d_p


# --------------------------------------------------------------------------------------------- PD recurrence


def scatter(index: Tensor, diag: Tensor, h: Tensor) -> Tensor:
    """Column form: sum over j with index[j] = i of diag[j] h[j]."""
    values = diag * h
    return torch.zeros_like(values).scatter_add(-1, index.long().expand_as(values), values)


def gather(index: Tensor, diag: Tensor, h: Tensor) -> Tensor:
    """Row form: diag[i] h[index[i]]."""
    shape = torch.broadcast_shapes(index.shape, h.shape)
    return diag * torch.gather(h.expand(shape), -1, index.long().expand(shape))


def compose(row_form: bool, index2: Tensor, diag2: Tensor, index1: Tensor, diag1: Tensor) -> tuple[Tensor, Tensor]:
    """The product A2 A1: (index2[index1], diag2[index1] diag1), or (index1[index2], diag2 diag1[index2])."""
    if row_form:
        return torch.gather(index1, -1, index2.long()), diag2 * torch.gather(diag1, -1, index2.long())
    return torch.gather(index2, -1, index1.long()), torch.gather(diag2, -1, index1.long()) * diag1


def _pd_states(index: Tensor, diag: Tensor, inputs: Tensor, initial: Tensor, row_form: bool) -> Tensor:
    """All states, log-depth: index, diag (S, L, H, N), inputs (S, L, H, V, N), initial (S, H, V, N)."""
    act = gather if row_form else scatter

    def combine(later: Elements, earlier: Elements) -> Elements:
        (index2, diag2, b2), (index1, diag1, b1) = later, earlier
        moved = act(index2[..., None, :], diag2[..., None, :], b1) + b2
        return *compose(row_form, index2, diag2, index1, diag1), moved

    first = act(index[:, 0, :, None], diag[:, 0, :, None], initial) + inputs[:, 0]
    return prefix(combine, (index, diag, torch.cat((first[:, None], inputs[:, 1:]), 1)))[2]


def pd_forward(
    index: Tensor,
    diag: Tensor,
    inputs: Tensor,
    initial: Tensor,
    rows: Tensor,
    cu: Tensor,
    reverse: bool,
    row_form: bool,
) -> tuple[Tensor, Tensor]:
    """The states of every step, and the final ones of every sequence; ``cpu.scan_forward`` without a loop."""
    layout = Padded(cu, reverse)
    at = layout.pad(rows)
    states = _pd_states(index[at], diag[at], inputs[at], initial, row_form)
    return layout.unpad(states), layout.final(states, initial)


def pd_backward(
    index: Tensor, diag: Tensor, initial: Tensor, rows: Tensor, cu: Tensor, reverse: bool, row_form: bool,
    states: Tensor, g_states: Tensor | None, g_final: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Per step: diag's and the inputs' gradients and dP's factors (left, right); and the initial state's gradient.

    gx_t = gy_t + A_{t+1}^H gx_{t+1} is a scan from the end with each step's successor's adjoint.
    """
    layout = Padded(cu, reverse)
    at = layout.pad(rows)
    maps, scale = index[at], diag[at]
    g = torch.zeros_like(layout.pad(states)) if g_states is None else layout.pad(g_states)
    g = torch.where(layout.valid[..., None, None, None], g, 0)
    full = layout.lengths > 0
    if g_final is not None:
        g[full.nonzero()[:, 0], layout.lengths[full] - 1] += g_final[full]
    # The last step's successor meets a zero cotangent, so any will do.
    successor = torch.cat((maps[:, :1], maps.flip(1)[:, :-1]), 1), torch.cat((scale[:, :1], scale.flip(1)[:, :-1]), 1)
    gx = _pd_states(successor[0], successor[1].conj(), g.flip(1), torch.zeros_like(initial), not row_form).flip(1)
    x = torch.cat((initial[:, None], layout.pad(states)[:, :-1]), 1)
    maps, scale = maps[..., None, :], scale[..., None, :]
    ones = torch.ones_like(scale)
    pulled = (scatter if row_form else gather)(maps[:, 0], scale[:, 0].conj(), gx[:, 0])
    unmoved = torch.zeros_like(initial) if g_final is None else g_final
    g_initial = torch.where(full[:, None, None, None], pulled, unmoved)
    if row_form:
        g_diag, left, right = gx * gather(maps, ones, x).conj(), x, gx * scale.conj()
    else:
        g_diag, left, right = gather(maps, ones, gx) * x.conj(), gx, scale * x
    steps = (layout.unpad(part) for part in (g_diag.sum(-2), gx, left, right))
    g_diag, g_inputs, left, right = steps
    return g_diag, g_inputs, g_initial, left, right


def sum_rows(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """(T, ...) to (count, ...): the sum over the steps of each row."""
    return torch.zeros((count, *values.shape[1:]), dtype=values.dtype, device=values.device).index_add_(0, rows, values)
