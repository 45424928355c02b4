"""Causal softmax attention with rotary positions: the mixer of a Transformer, whose feed-forward part is the block's.

Its state is a window of what it has seen, so that it streams at a bounded cost: a step attends to itself and to the
``window - 1`` steps before it, and to all of them where a sequence is no longer than that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from pdssm.errors import RangeError, check_size
from pdssm.generators.base import check_positive, state_precision
from pdssm.kernels.linear import Linear
from pdssm.kernels.packing import Padded, Uniform
from pdssm.layers.base import Layout, Mixer, readable
from pdssm.layers.states import check_state

HEADS = 16
NARROW = 16
"""Heads of less are filled up with zeros where torch is slow with them."""
QUERIES = 256
"""How many queries share a mask, where one is needed: none has the size of a sequence squared."""


class TransformerState(NamedTuple):
    """The last ``window`` steps of each sequence, the latest one last."""

    keys: Tensor
    """(sequences, window, dim), not rotated: only differences of positions count."""
    values: Tensor
    """(sequences, window, dim)."""
    steps: Tensor
    """(sequences,): how many steps there were; of a float type, as all states are."""


class Transformer(Mixer):
    """Causal attention with rotary positions: softmax(q k^T / sqrt(d)) v over the last ``window`` steps.

    ``heads`` are 16 by default, or, where ``dim`` is small, as many powers of two as leave a head an even size;
    RoPE turns pair i of a head of size d by position * ``base``^(-2 i / d).
    """

    def __init__(self, dim: int, *, heads: int | None = None, window: int = 1024, base: float = 10_000.0) -> None:
        super().__init__(dim)
        heads = math.gcd(HEADS, max(1, dim // 2)) if heads is None else heads
        check_size("heads", heads)
        check_size("window", window)
        check_positive("base", base)
        if dim % (2 * heads):
            raise RangeError(f"heads is {heads} with dim {dim}; expected heads of an even size that fill dim")
        self.heads, self.window, self.base = heads, window, base
        self.inputs = Linear(dim, 3 * dim, bias=False)
        self.output = Linear(dim, dim, bias=False)

    def initial_state(self, sequences: int) -> TransformerState:
        check_size("sequences", sequences)
        like = state_precision(self.output.weight)
        keys, values = (like.new_zeros(sequences, self.window, self.dim) for _ in range(2))
        return TransformerState(keys, values, like.new_zeros(sequences))

    def mix(
        self, x: Tensor, state: TransformerState, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, TransformerState]:
        self._check_state("initial_state", state, layout.sequences)
        projected = self.inputs(x) if rows is None else self.inputs(x)[rows]
        sequences = Uniform(layout.sequences, False) if layout.even else Padded(layout.cu_seqlens, False)
        y, keys, values = self._attend(sequences.pad(projected), state)
        mixed = sequences.unpad(y)
        lengths = None if layout.even else layout.cu_seqlens.diff()
        final = TransformerState(
            _last(state.keys, keys, lengths),
            _last(state.values, values, lengths),
            state.steps + (layout.time if lengths is None else lengths),
        )
        return self.output(mixed if positions is None else mixed[positions]), final

    def step(self, x: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        self._check_step(x)
        self._check_state("state", state, x.shape[0])
        y, keys, values = self._attend(self.inputs(x)[:, None], state)
        final = TransformerState(_last(state.keys, keys), _last(state.values, values), state.steps + 1)
        return self.output(y[:, 0]), final

    # ------------------------------------------------------------------------------------------------ attention

    def _attend(self, projected: Tensor, state: TransformerState) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (S, L, 3 dim) to outputs (S, L, dim), and the keys and values by themselves."""
        queries, keys, values = (state_precision(part) for part in projected.chunk(3, -1))
        reach = self._reach(state.steps)
        all_keys = self._by_head(torch.cat((state.keys[:, self.window - reach :], keys), 1))
        all_values = self._by_head(torch.cat((state.values[:, self.window - reach :], values), 1))
        place = torch.arange(all_keys.shape[2], device=keys.device)
        turned = self._rotate(self._by_head(queries), place[reach:]), self._rotate(all_keys, place)
        y = self._softmax(*turned, all_values, state.steps, reach)
        return y.transpose(1, 2).flatten(2).to(self.output.weight.dtype), keys, values

    def _reach(self, steps: Tensor) -> int:
        """How many places of the windows any sequence has filled."""
        return min(self.window, int(steps.max())) if readable(steps) else self.window

    def _softmax(self, queries: Tensor, keys: Tensor, values: Tensor, steps: Tensor, reach: int) -> Tensor:
        """Query t, of L, at place reach + t among the keys: all (S, heads, places, size)."""
        time = queries.shape[2]
        if reach == 0 and time <= self.window:
            return attention(queries, keys, values)
        parts = []
        for first in range(0, time, QUERIES):
            part = queries[:, :, first : first + QUERIES]
            stop = reach + first + part.shape[2]
            start = max(0, reach + first - self.window + 1)
            seen = self._seen(part.shape[2], start, stop, steps, reach)
            parts.append(attention(part, keys[:, :, start:stop], values[:, :, start:stop], seen))
        return torch.cat(parts, 2)

    def _seen(self, count: int, start: int, stop: int, steps: Tensor, reach: int) -> Tensor:
        """Which of the places start..stop the last ``count`` of them attend to, (S or 1, 1, count, stop - start)."""
        place = torch.arange(start, stop, device=steps.device)
        back = place[-count:, None] - place
        near = (back >= 0) & (back < self.window)
        if start >= reach:
            return near[None, None]
        filled = place >= reach - steps[:, None]
        return filled[:, None, None] & near

    def _by_head(self, x: Tensor) -> Tensor:
        """(S, L, dim) to (S, heads, L, size)."""
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def _rotate(self, x: Tensor, place: Tensor) -> Tensor:
        """Pairs (i, i + size / 2) of (..., L, size), turned by their places."""
        half = x.shape[-1] // 2
        speed = self.base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
        angle = place[:, None] * speed
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def _check_state(self, name: str, state: TransformerState, sequences: int) -> None:
        window = (sequences, self.window, self.dim)
        check_state(name, state, TransformerState, (window, window, (sequences,)))


def attention(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor | None = None) -> Tensor:
    """torch's, causal where no mask is given; on a CPU it takes 3/4 of the time for heads of 8 with 8 zeros more."""
    size = queries.shape[-1]
    if queries.device.type == "cpu" and size < NARROW:
        queries, keys, values = (pad(part, (0, NARROW - size)) for part in (queries, keys, values))
    read = scaled_dot_product_attention(queries, keys, values, seen, is_causal=seen is None, scale=size**-0.5)
    return read[..., :size]


def _last(window: Tensor, new: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The last steps of ``window`` and then ``new`` (S, L, dim), or ``lengths`` of it, as many as fill the window."""
    width = window.shape[1]
    if lengths is None:
        return new[:, -width:].clone() if new.shape[1] >= width else torch.cat((window[:, new.shape[1] :], new), 1)
    index = lengths[:, None] + torch.arange(width, device=window.device)
    sequence = torch.arange(len(window), device=window.device)[:, None]
    return torch.cat((window, new), 1)[sequence, index]
