"""The model around the mixers: tokens or samples in, classes or targets out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pdssm.errors import DtypeError, FileError, PDSSMError, RangeError, ShapeError
from pdssm.generators.base import state_precision
from pdssm.kernels.checks import check_below, check_finite
from pdssm.kernels.linear import Linear
from pdssm.layers import Layout
from pdssm.layers.base import make_layout, packed_positions, readable
from pdssm.models.block import Block
from pdssm.models.config import ModelConfig
from pdssm.models.files import CONFIG, WEIGHTS, load_model, save_model


class SequenceModel(nn.Module):
    """Encoder, blocks and head, as ``config`` says.

    The first block of a token model works on a table of the distinct tokens wherever its mixer allows that, so its
    generator's cost does not grow with the batch.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder: nn.Module
        if config.inputs == "tokens":
            self.encoder = nn.Embedding(config.input_size, config.dim)
        else:
            self.encoder = Linear(config.input_size, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.head = Linear(config.dim, config.output_size)
        self.gradient_checkpointing = False

    # ---------------------------------------------------------------------------------------------- forward

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        return_state: bool = False,
    ) -> Any:
        """Outputs of x: ``(batch, time)`` tokens or ``(batch, time, channels)`` samples.

        The head decides: ``every`` gives ``(batch, time, output_size)``, ``last`` and ``mean`` give ``(sequences,
        output_size)``.  ``positions`` ``(P,)``, indices into the steps as ``(batch * time)``, asks the ``every``
        head for those steps only, ``(P, output_size)``: nothing after the last scan is computed elsewhere.
        ``state``, ``cu_seqlens``, ``mask`` and ``return_state`` are as for a mixer; the state is a tuple, one
        entry a block.
        """
        self._check_input(x)
        layout = make_layout(x.shape[0], x.shape[1], cu_seqlens, mask, x.device)
        at = self._positions(positions, layout)
        states = self.initial_state(layout.sequences) if state is None else state
        self._check_state(states)
        h, rows = self._encode(layout.pack(x))
        final = []
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            h, carried = self._run(block, h, states[number], layout, rows, at if last else None)
            rows = None
            final.append(carried)
        y = self._head(h, layout, every=at is None)
        return (y, tuple(final)) if return_state else y

    def _run(self, block: nn.Module, *arguments: Any) -> Any:
        if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
            return checkpoint(block, *arguments, use_reentrant=False)
        return block(*arguments)

    def _positions(self, positions: Tensor | None, layout: Layout) -> Tensor | None:
        """Where the last block's outputs are needed; None for everywhere."""
        if self.config.head == "every":
            return None if positions is None else packed_positions(positions, layout)
        if positions is not None:
            raise ShapeError(f"positions was given; expected none with head {self.config.head!r}")
        if not layout.even and readable(layout.cu_seqlens) and bool((layout.cu_seqlens.diff() == 0).any()):
            raise RangeError(f"cu_seqlens or mask has an empty sequence; head {self.config.head!r} expects none")
        return layout.cu_seqlens[1:] - 1 if self.config.head == "last" else None

    def _encode(self, packed: Tensor) -> tuple[Tensor, Tensor | None]:
        """Packed inputs ``(steps, dim)``, or a table and rows."""
        block = self.blocks[0]
        assert isinstance(block, Block)
        if self.config.inputs == "samples" or not block.mixer.rowwise:
            return self.encoder(packed), None
        assert isinstance(self.encoder, nn.Embedding)
        if self.config.input_size <= packed.shape[0]:
            return self.encoder.weight, packed
        if torch.compiler.is_compiling():  # how many tokens are distinct would be a size that depends on data
            return self.encoder(packed), None
        distinct, rows = torch.unique(packed, return_inverse=True)
        return self.encoder(distinct), rows

    def _head(self, h: Tensor, layout: Layout, every: bool) -> Tensor:
        if self.config.head == "mean":
            if layout.even:
                h = layout.unpack(h).mean(1)
            else:
                h = torch.segment_reduce(state_precision(h), "mean", offsets=layout.cu_seqlens, axis=0).to(h.dtype)
        y: Tensor = self.head(self.norm(h))
        return layout.unpack(y) if every and self.config.head == "every" else y

    # ------------------------------------------------------------------------------------------------- step

    def initial_state(self, sequences: int) -> tuple[Any, ...]:
        """The state before the first step of so many sequences."""
        return tuple(block.mixer.initial_state(sequences) for block in self._blocks())

    def step(self, x: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """One token ``(sequences,)`` or sample ``(sequences, channels)`` of each sequence to its outputs.

        Of a model with ``last`` or ``every`` head these are the outputs after this step.
        """
        if self.config.head == "mean":
            raise ShapeError("step has no outputs with head 'mean'; expected head 'every' or 'last'")
        self._check_input(x.unsqueeze(1) if x.ndim else x)
        self._check_state(state)
        h = self.encoder(x)
        following = []
        for block, own in zip(self._blocks(), state, strict=True):
            h, own = block.step(h, own)
            following.append(own)
        return self.head(self.norm(h)), tuple(following)

    # ----------------------------------------------------------------------------------------- housekeeping

    def freeze(self) -> Self:
        """Make inference faster with weights that no longer change; the results stay the same to the bit."""
        for block in self._blocks():
            block.mixer.freeze()
        return self

    def unfreeze(self) -> Self:
        """Undo ``freeze``, before training."""
        for block in self._blocks():
            block.mixer.unfreeze()
        return self

    def save_pretrained(self, folder: str | Path) -> None:
        """``config.json`` and ``model.safetensors``, each written whole or not at all."""
        save_model(folder, self.config, self.state_dict())

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """What ``save_pretrained`` wrote; a missing, truncated, altered or foreign file is refused."""
        config, tensors = load_model(folder)
        try:
            model = cls(config)
        except PDSSMError as error:
            raise FileError(f"{Path(folder) / CONFIG}: {error}") from error
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                raise ShapeError(
                    f"{Path(folder) / WEIGHTS}: tensor {name!r} has shape {found.get(name, 'none: it is missing')}; "
                    f"expected {expected.get(name, 'no such tensor')}"
                )
        # Assigned, so that the element types are those of the file.
        model.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
        return model

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def _check_state(self, state: Any) -> None:
        if not isinstance(state, tuple | list) or len(state) != len(self.blocks):
            found = f"has {len(state)} entries" if isinstance(state, tuple | list) else f"is a {type(state).__name__}"
            raise ShapeError(f"state {found}; expected a tuple of {len(self.blocks)}, one entry a block")

    def _check_input(self, x: Tensor) -> None:
        if self.config.inputs == "tokens":
            if x.ndim != 2:
                raise ShapeError(f"x has shape {tuple(x.shape)}; expected (batch, time), token ids")
            if x.dtype not in (torch.int64, torch.int32):
                raise DtypeError(f"x is {x.dtype}; expected torch.int64 or torch.int32, token ids")
            if not torch.compiler.is_compiling() and x.device.type == "cpu":
                check_below("x", x, self.config.input_size, "tokens in the vocabulary")
        else:
            if x.ndim != 3 or x.shape[-1] != self.config.input_size:
                expected = f"(batch, time, {self.config.input_size})"
                raise ShapeError(f"x has shape {tuple(x.shape)}; expected {expected}, samples")
            if not x.is_floating_point():
                raise DtypeError(f"x is {x.dtype}; expected a floating-point tensor, samples")
            if not torch.compiler.is_compiling() and x.device.type == "cpu":
                check_finite("x", x)
