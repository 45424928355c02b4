"""A time-invariant diagonal system with one input and one output a channel: a convolution by pieces, joined by a scan.

    x_t = a x_{t-1} + u_t,    y_t = Re sum_n c_n x_t[n]

Where a does not change, the outputs of a piece are a convolution of its inputs plus what its first state still adds,
two matrix products for all pieces at once; a scan over the pieces gives their first states.  With N states a channel
that is far less work, and far less memory, than all the states.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pdssm.scanning.scan import scan
from pdssm.transitions import Diagonal

PIECE = 64


class Pieces:
    """Packed sequences cut into pieces of ``size`` steps; the last one of each may be shorter."""

    def __init__(self, cu_seqlens: Tensor, size: int) -> None:
        lengths = cu_seqlens.diff()
        counts = (lengths + size - 1) // size
        self.offsets = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        self.sequence = torch.repeat_interleave(counts)
        number = torch.arange(len(self.sequence), device=cu_seqlens.device) - self.offsets[self.sequence]
        self.first = number == 0
        self.start = cu_seqlens[self.sequence] + number * size
        self.lengths = (lengths[self.sequence] - number * size).clamp(max=size)
        self.step = torch.arange(size, device=cu_seqlens.device)

    def padded(self, inputs: Tensor, at_end: bool) -> Tensor:
        """(T, H) to (pieces, size, H), each piece from the first place on, or up to the last one; zeros elsewhere."""
        shift = len(self.step) - self.lengths if at_end else torch.zeros_like(self.lengths)
        place = self.step - shift[:, None]
        real = (place >= 0) & (place < self.lengths[:, None])
        taken = inputs[torch.where(real, self.start[:, None] + place, 0)]
        return taken.masked_fill(~real[..., None], 0)

    def packed(self, outputs: Tensor) -> Tensor:
        """(pieces, size, H), each from the first place on, to (T, H)."""
        packed: Tensor = outputs[self.step < self.lengths[:, None]]
        return packed

    def before(self, states: Tensor, initial: Tensor) -> Tensor:
        """From the states after each piece, those before it."""
        first = self.first.view(-1, *[1] * (states.ndim - 1))
        return torch.where(first, initial[self.sequence], states.roll(1, 0))


def _toeplitz(kernel: Tensor) -> Tensor:
    """(size, H) to (H, size, size): entry (t, s) is kernel[t - s], zero above the diagonal."""
    step = torch.arange(len(kernel), device=kernel.device)
    lag = step[:, None] - step
    return kernel.t()[:, lag.clamp(min=0)].masked_fill(lag < 0, 0)


def _parts(tensor: Tensor) -> Tensor:
    """Complex (..., N) to real (..., 2N)."""
    return torch.view_as_real(tensor.resolve_conj()).flatten(-2)


def convolve(
    exponent: Tensor, weights: Tensor, inputs: Tensor, initial: Tensor, cu_seqlens: Tensor, piece: int = PIECE
) -> tuple[Tensor, Tensor]:
    """Outputs (T, H) and final states (S, H, N), for a = exp(exponent) and c = weights, both (H, N) and complex.

    ``inputs`` are (T, H) and real, packed along ``cu_seqlens``; ``initial`` states are (S, H, N).
    """
    size = min(piece, int(cu_seqlens.diff().max()))
    pieces = Pieces(cu_seqlens, size)
    powers = torch.exp(torch.arange(size + 1, device=inputs.device)[:, None, None] * exponent)
    early, late = (pieces.padded(inputs, at_end).permute(2, 1, 0) for at_end in (False, True))  # (H, size, pieces)

    # What a piece adds to the state, and by what it multiplies the state.
    sums = _parts(powers[:-1].flip(0)).permute(1, 2, 0) @ late
    added = torch.view_as_complex(sums.permute(2, 0, 1).unflatten(-1, (-1, 2)).contiguous())
    kept = Diagonal(powers[pieces.lengths].flatten(1)[None])
    states, final = scan(kept, added.flatten(1)[None], initial.flatten(1), cu_seqlens=pieces.offsets)
    before = pieces.before(states[0].view_as(added), initial)

    local = _toeplitz((weights * powers[:-1]).real.sum(-1)) @ early
    # Re(c x) = Re c Re x - Im c Im x.
    carried = _parts((weights * powers[1:]).conj()).permute(1, 0, 2) @ _parts(before).permute(1, 2, 0)
    return pieces.packed((local + carried).permute(2, 1, 0)), final.view_as(initial)
