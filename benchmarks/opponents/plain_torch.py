"""A PD layer in plain torch, done well: a hand-written backward pass, and nothing of size tokens x N x N is kept.

- *Selection*, a few tokens at a time so that their logits stay in the cache: one matmul with the flattened
  dictionary, then the argmax over the rows.
- *Scan*, a python loop over time on the whole batch: ``x_t = b_t`` and a scatter-add of ``D_t x_{t-1}``.
- *Adjoint scan*: ``gx_t = gy_t + conj(D_{t+1}) gx_{t+1}[index_{t+1}]``, a gather.
- *Surrogate gradient*, again a few tokens at a time: the logits are recomputed, and with ``z_t = D_t x_{t-1}``

      dP_t[i, j] = Re(conj(gx_t[i]) z_t[j]),   pi = softmax_i(logits),   dlogits = pi (dP - sum_i pi dP)
      ds_t[k] = sum_ij dlogits_t[i, j] M[k, i, j],   dM[k] = sum_t s_t[k] dlogits_t

Axes: B batch, L length, T tokens, t tokens of one chunk, N state, K dictionary terms. The scan is time-major.
"""

from __future__ import annotations

from typing import Any

import torch

from . import Shape, Step
from .pd_layer import Recurrence, build_step

# Elements of a chunk's logits; measured: up to here they stay in the second-level cache of two cores.
CHUNK_ELEMENTS = 2**18
# Below this many tokens the matmuls with the dictionary are bound by reading it.
SMALLEST_CHUNK = 8


def _chunk_size(n: int) -> int:
    return max(SMALLEST_CHUNK, CHUNK_ELEMENTS // n**2)


def select(selector_TK: torch.Tensor, dictionary_KNN: torch.Tensor) -> torch.Tensor:
    """The row of the one in each column, (T, N): argmax over the rows, ties to the lowest."""
    terms, n, _ = dictionary_KNN.shape
    flat_KE = dictionary_KNN.view(terms, n * n)
    logits_tE = selector_TK.new_empty(_chunk_size(n), n * n)
    best_TN = selector_TK.new_empty(len(selector_TK), n)
    descending_N = torch.arange(n, 0, -1, dtype=selector_TK.dtype)
    for chunk_tK, chunk_best_tN in zip(selector_TK.split(len(logits_tE)), best_TN.split(len(logits_tE)), strict=True):
        out_tE = logits_tE[: len(chunk_tK)]
        torch.mm(chunk_tK, flat_KE, out=out_tE)
        out_tNN = out_tE.view(-1, n, n)
        # torch's argmax is a scalar loop; four vectorised passes through the cache are three times as fast.
        # Where the maximum is, write n - row: the largest of these is the lowest of the tied rows.
        out_tNN.eq_(out_tNN.amax(dim=-1, keepdim=True)).mul_(descending_N)
        torch.amax(out_tNN, dim=-1, out=chunk_best_tN)
    return best_TN.neg_().add_(n).to(torch.int64)


def scan(index_LE: torch.Tensor, diag_LE: torch.Tensor, b_LE: torch.Tensor, start_E: torch.Tensor) -> torch.Tensor:
    """The states x_0 ... x_L, (L + 1, E), of all sequences side by side: E = B N, indices into E."""
    states = torch.cat((start_E[None], b_LE))
    moved_E = torch.empty_like(start_E)
    state_E, *later = states.unbind(0)
    for index_E, diag_E, next_E in zip(index_LE.unbind(0), diag_LE.unbind(0), later, strict=True):
        torch.mul(diag_E, state_E, out=moved_E)
        state_E = next_E.scatter_add_(0, index_E, moved_E)
    return states


def adjoint_scan(index_LE: torch.Tensor, diag_LE: torch.Tensor, gy_LE: torch.Tensor) -> torch.Tensor:
    """gx_t = gy_t + conj(D_{t+1}) gx_{t+1}[index_{t+1}], (L, E)."""
    gradients = gy_LE.clone(memory_format=torch.contiguous_format)
    moved_E = torch.empty_like(gradients[0])
    conjugate = diag_LE.conj().resolve_conj().unbind(0)
    indices, rows = index_LE.unbind(0), gradients.unbind(0)
    for t in range(len(rows) - 1, 0, -1):
        torch.gather(rows[t], 0, indices[t], out=moved_E)
        rows[t - 1].addcmul_(conjugate[t], moved_E)
    return gradients


def surrogate_gradient(
    selector_TK: torch.Tensor, dictionary_KNN: torch.Tensor, gx_TN: torch.Tensor, z_TN: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of the selector's weights and of the dictionary through softmax in the hardmax's place."""
    terms, n, _ = dictionary_KNN.shape
    flat_KE = dictionary_KNN.view(terms, n * n)
    d_selector_TK, d_dictionary_KE = torch.empty_like(selector_TK), torch.zeros_like(flat_KE)
    # Re(conj(gx) z) = z.re gx.re + z.im gx.im: the product of the (re, im) pairs
    gx_TN2, z_TN2 = torch.view_as_real(gx_TN), torch.view_as_real(z_TN)
    size = _chunk_size(n)
    logits_tE, d_p_tE = selector_TK.new_empty(size, n * n), selector_TK.new_empty(size, n * n)
    for start in range(0, len(selector_TK), size):
        chunk = slice(start, min(start + size, len(selector_TK)))
        count = chunk.stop - start
        soft_tE, d_logits_tE = logits_tE[:count], d_p_tE[:count]
        soft_tNN, d_logits_tNN = soft_tE.view(-1, n, n), d_logits_tE.view(-1, n, n)
        torch.mm(selector_TK[chunk], flat_KE, out=soft_tE)
        torch.softmax(soft_tNN, dim=-1, out=soft_tNN)
        torch.bmm(z_TN2[chunk], gx_TN2[chunk].transpose(1, 2), out=d_logits_tNN)
        torch._softmax_backward_data(d_logits_tNN, soft_tNN, -1, soft_tNN.dtype, grad_input=d_logits_tNN)
        torch.mm(d_logits_tE, flat_KE.t(), out=d_selector_TK[chunk])
        d_dictionary_KE.addmm_(selector_TK[chunk].t(), d_logits_tE)
    return d_selector_TK, d_dictionary_KE.view_as(dictionary_KNN)


class PDScan(torch.autograd.Function):
    """Selection and recurrence in one node; time-major: selector (L, B, K), diag and b (L, B, N), complex."""

    @staticmethod
    def forward(
        ctx: Any, selector: torch.Tensor, diag: torch.Tensor, b: torch.Tensor, dictionary: torch.Tensor
    ) -> torch.Tensor:
        """The states x_1 ... x_L, (L, B, N)."""
        length, batch, n = diag.shape
        index = select(selector.view(length * batch, -1), dictionary).view(length, batch, n)
        # where each sequence's N states begin among the E = B N of a time step
        index = (index + n * torch.arange(batch)[:, None]).view(length, batch * n)
        start = diag.new_zeros(batch, n)
        start[:, 0] = 1
        states = scan(index, diag.view(length, -1), b.view(length, -1), start.view(-1))
        ctx.save_for_backward(selector, diag, dictionary, index, states)
        return states[1:].view_as(diag)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The adjoint scan, then everything that is local to a token."""
        selector, diag, dictionary, index, states = ctx.saved_tensors
        length, batch, n = diag.shape
        diag_LE, earlier_LE = diag.view(length, -1), states[:-1]
        gx_LE = adjoint_scan(index, diag_LE, gradients[0].reshape(length, -1))
        d_diag = gx_LE.gather(1, index).mul_(earlier_LE.conj().resolve_conj())
        tokens = length * batch
        d_selector, d_dictionary = surrogate_gradient(
            selector.view(tokens, -1), dictionary, gx_LE.view(tokens, n), (diag_LE * earlier_LE).view(tokens, n)
        )
        return d_selector.view_as(selector), d_diag.view_as(diag), gx_LE.view_as(diag), d_dictionary


def states(inputs: Recurrence) -> torch.Tensor:
    """The states x_1 ... x_L, (B, L, N)."""
    time_major = (each.transpose(0, 1).contiguous() for each in inputs[:3])
    states_LBN: torch.Tensor = PDScan.apply(*time_major, inputs.dictionary)  # type: ignore[no-untyped-call]
    return states_LBN.transpose(0, 1)


def build(shape: Shape) -> Step:
    """The step of one PD layer in plain torch."""
    return build_step(shape, states)


def _check(shape: Shape) -> None:
    """Compare all gradients with those of the published way, in float64."""
    from .published import dense_states

    ours_loss, ours = build_step(shape, states, torch.float64)()
    loss, theirs = build_step(shape, dense_states, torch.float64)()
    worst = max(float((ours[name] - theirs[name]).abs().max() / theirs[name].abs().max()) for name in theirs)
    loss_error = float((ours_loss - loss).abs() / loss.abs())
    print(f"{shape}: largest relative difference of a gradient {worst:.1e}, of the loss {loss_error:.1e}")
    if not max(worst, loss_error) < 1e-10:
        raise SystemExit("the gradients differ")


if __name__ == "__main__":
    for checked in (Shape(3, 17, 8, 5), Shape(1, 9, 32, 6), Shape(4, 40, 128, 6)):
        _check(checked)
