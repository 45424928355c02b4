"""The fused selection on a GPU: index[u, b] = argmax_a sum_k scores[u, k] dictionary[k, a, b], no logit ever stored.

``kernels/reference.py`` writes the logits of a tile to memory, K times over, and reads them again; here they live in
registers.  Every logit is the same chain of K fused multiply-adds wherever it stands, so equal rows tie, and the
lowest one wins.  Imported at the first call with tensors on a GPU: Triton is not there on every machine.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TRANSITIONS, COLUMNS = 16, 64


@triton.jit  # type: ignore[untyped-decorator]
def _select(
    scores: tl.tensor, dictionary: tl.tensor, index: tl.tensor, count: tl.tensor, size: tl.tensor,
    terms: tl.constexpr, rows_of: tl.constexpr, columns_of: tl.constexpr,
) -> None:  # fmt: skip
    u = tl.program_id(0).to(tl.int64) * rows_of + tl.arange(0, rows_of)
    b = tl.program_id(1) * columns_of + tl.arange(0, columns_of)
    best = tl.full((rows_of, columns_of), float("-inf"), dictionary.dtype.element_ty)
    at = tl.zeros((rows_of, columns_of), tl.int32)
    for a in range(size):
        logit = tl.zeros((rows_of, columns_of), dictionary.dtype.element_ty)
        for k in range(terms):
            weight = tl.load(scores + u * terms + k, mask=u < count, other=0.0)
            entry = tl.load(dictionary + (k * size + a).to(tl.int64) * size + b, mask=b < size, other=0.0)
            logit = tl.fma(weight[:, None] + tl.zeros_like(logit), entry[None, :] + tl.zeros_like(logit), logit)
        above = logit > best
        at = tl.where(above, a, at)
        best = tl.where(above, logit, best)
    inside = (u < count)[:, None] & (b < size)[None, :]
    tl.store(index + u[:, None] * size + b[None, :], at, mask=inside)


def select(scores: Tensor, dictionary: Tensor) -> Tensor:
    """(U, K) and (K, N, N) to (U, N) int32; ``reference.select`` without noise."""
    count, size = scores.shape[0], dictionary.shape[-1]
    index = torch.empty((count, size), dtype=torch.int32, device=scores.device)
    grid = (triton.cdiv(count, TRANSITIONS), triton.cdiv(size, COLUMNS))
    with torch.cuda.device(scores.device):
        _select[grid](
            scores.contiguous(), dictionary.contiguous(), index, count, size, scores.shape[1], TRANSITIONS, COLUMNS
        )
    return index
