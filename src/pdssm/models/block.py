"""One block: a mixer with its norm and residual, and perhaps a feed-forward network."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pdssm.generators.base import mlp
from pdssm.layers import Layout, make_mixer
from pdssm.models.config import ModelConfig


class Block(nn.Module):
    """``pre``: x + mixer(norm(x)); ``post``: norm(x + mixer(x)); without ``residual``, the same without x.

    Everything but the mixer acts on one step at a time, so a block can work on a table of distinct inputs.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind, self.residual = config.norm, config.residual
        self.mixer = make_mixer(config.mixer, config.dim, config.mixer_options)
        self.norm = nn.Identity() if config.norm == "none" else nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.ffn = mlp(config.dim, config.ffn * config.dim, config.dim) if config.ffn else None
        # Only where it is used: a parameter without a gradient stops DistributedDataParallel.
        normed = config.ffn and config.norm != "none"
        self.ffn_norm = nn.LayerNorm(config.dim) if normed else nn.Identity()

    def forward(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None = None, positions: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Packed inputs, or a table and rows, to packed outputs (at ``positions``), and the next state."""
        mixed, state = self.mixer.mix(self._before(x), state, layout, rows, positions)
        if self.residual:
            x = x if rows is None else x[rows]
            x = x if positions is None else x[positions]
        return self._after(x, mixed), state

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step of each sequence."""
        mixed, state = self.mixer.step(self._before(x), state)
        return self._after(x, mixed), state

    def _before(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x) if self.kind == "pre" else x
        return y

    def _after(self, x: Tensor, mixed: Tensor) -> Tensor:
        y = self.dropout(mixed)
        y = x + y if self.residual else y
        if self.kind == "post":
            y = self.norm(y)
        return y if self.ffn is None else self._feed_forward(y)

    def _feed_forward(self, x: Tensor) -> Tensor:
        assert self.ffn is not None
        if self.kind == "pre":
            y: Tensor = x + self.dropout(self.ffn(self.ffn_norm(x)))
        else:
            y = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return y
