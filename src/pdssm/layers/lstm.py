"""torch's LSTM as a mixer: the classic that tracks states, one step after the other."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from pdssm.layers.base import Layout, Mixer


class LSTMState(NamedTuple):
    """Of each sequence."""

    hidden: Tensor
    """(sequences, dim)."""
    cell: Tensor
    """(sequences, dim)."""


class LSTM(Mixer):
    """torch's LSTM, one layer: its state is not linear in the one before, so nothing runs in parallel along time."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)

    def initial_state(self, sequences: int) -> LSTMState:
        weight = next(self.lstm.parameters())
        return LSTMState(weight.new_zeros(sequences, self.dim), weight.new_zeros(sequences, self.dim))

    def mix(
        self, x: Tensor, state: LSTMState, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, LSTMState]:
        x = x if rows is None else x[rows]
        y, final = self._even(x, state, layout) if layout.even else self._packed(x, state, layout)
        return (y if positions is None else y[positions]), final

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        self._check_step(x)
        y, (hidden, cell) = self.lstm(x[:, None], (state.hidden[None], state.cell[None]))
        return y[:, 0], LSTMState(hidden[0], cell[0])

    def _even(self, x: Tensor, state: LSTMState, layout: Layout) -> tuple[Tensor, LSTMState]:
        batch = x.unflatten(0, (layout.batch, layout.time))
        y, (hidden, cell) = self.lstm(batch, (state.hidden[None], state.cell[None]))
        return y.flatten(0, 1), LSTMState(hidden[0], cell[0])

    def _packed(self, x: Tensor, state: LSTMState, layout: Layout) -> tuple[Tensor, LSTMState]:
        """torch's packs run through time first, the longest sequence foremost; they know no empty ones."""
        lengths = layout.cu_seqlens.diff()
        order = torch.argsort(lengths, descending=True, stable=True)
        rank = torch.argsort(order)
        sequence = torch.repeat_interleave(lengths)
        time = torch.arange(len(x), device=x.device) - layout.cu_seqlens[sequence]
        by_time = torch.argsort(time * len(lengths) + rank[sequence])
        sizes = torch.bincount(time).cpu()
        running = order[: int(sizes[0])]
        start = (state.hidden[running][None], state.cell[running][None])
        y, (hidden, cell) = self.lstm(PackedSequence(x[by_time], sizes), start)
        final = LSTMState(state.hidden.index_copy(0, running, hidden[0]), state.cell.index_copy(0, running, cell[0]))
        return y.data[torch.argsort(by_time)], final
