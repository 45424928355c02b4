"""The paper's generator: u -> P(u) D(u), with P selected from a dictionary, or given."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn

from pdssm.errors import DtypeError, PDSSMError, ShapeError, check_choice
from pdssm.generators.base import ComplexInputs, Generator, Init, check_positive, full_precision, state_precision
from pdssm.generators.entries import DiagonalEntries, Magnitude, Phase
from pdssm.generators.selector import Selector
from pdssm.kernels.checks import check_below
from pdssm.kernels.reference import noise_keys
from pdssm.transitions import PD, Dense, RowPD, SelectedPD, SelectedRowPD, Transition

if TYPE_CHECKING:
    from pdssm.kernels.frozen import FrozenDictionary

Orientation = Literal["column", "row"]


class _Frozen:
    """A frozen dictionary, and whether a tensor is still the one it was made from."""

    def __init__(self, candidates: FrozenDictionary, dictionary: Tensor) -> None:
        self.candidates, self.dictionary = candidates, dictionary
        self.at, self.version = dictionary.data_ptr(), dictionary._version

    def describes(self, dictionary: Tensor) -> bool:
        """Optimisers, ``load_state_dict`` and ``copy_`` raise the version; ``to`` and ``functional_call`` move it."""
        return (
            dictionary is self.dictionary and dictionary._version == self.version and dictionary.data_ptr() == self.at
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self | None:
        if not self.describes(self.dictionary):
            return None
        return type(self)(self.candidates, copy.deepcopy(self.dictionary, memo))


class PDGenerator(Generator):
    """s = softmax(S u) over K matrices; P(u) = column hardmax of sum_k s_k M_k; D(u) complex.

    ``orientation="row"`` makes P row one-hot and A = D P, as the published PyTorch code does.
    ``stochastic`` adds Gumbel noise to the logits, forward and backward, in training and in evaluation;
    ``dense_inference`` takes P = softmax(M) in evaluation.  They are the corners of the paper's ablation.
    """

    def __init__(
        self,
        dim: int,
        state_dim: int,
        dictionary_size: int = 6,
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
        orientation: Orientation = "column",
        temperature: float = 1.0,
        stochastic: bool = False,
        dense_inference: bool = False,
    ) -> None:
        super().__init__(dim, state_dim)
        check_choice("orientation", orientation, ("column", "row"))
        check_positive("temperature", temperature)
        self.orientation, self.temperature = orientation, temperature
        self.stochastic, self.dense_inference = stochastic, dense_inference
        self.entries = DiagonalEntries(dim, state_dim, hidden_dim, init, magnitude, phase)
        self.selector = Selector(dim, dictionary_size)
        # As published. Logits of unit size would make the surrogate's softmax peaked from the start, and the
        # selection slow to change: on (A5, 2) such a dictionary had a loss of 2 after 800 steps, this one of 0.1.
        self.dictionary = nn.Parameter(torch.randn(dictionary_size, state_dim, state_dim) * state_dim**-0.5)
        self.inputs = ComplexInputs(dim, state_dim, init)
        self._frozen: _Frozen | None = None

    @property
    def rowwise(self) -> bool:
        return not self.stochastic

    def forward(self, u: Tensor) -> tuple[Transition, Tensor]:
        return self.transition(u), self.inputs(u)

    def transition(self, u: Tensor) -> Transition:
        """P(u) D(u)."""
        return self.realised(self.select(u))

    def realised(self, selected: SelectedPD | SelectedRowPD) -> Transition:
        """The selection as it acts: hard, or soft at inference where that was asked for."""
        if self.dense_inference and not self.training:
            with full_precision(selected.device):
                return Dense(selected.soft_dense())
        return selected

    def select(self, u: Tensor) -> SelectedPD | SelectedRowPD:
        """The same with its way back to scores and dictionary."""
        scores, diag = self.selector(u), self.entries(u)
        family = SelectedPD if self.orientation == "column" else SelectedRowPD
        noise = known = None
        if self.stochastic:
            seed = torch.randint(1 << 62, (), device="cpu")
            noise = noise_keys(seed.to(scores.device), scores.shape[:-1].numel()).view(scores.shape[:-1])
        elif self._frozen is not None and not torch.compiler.is_compiling():
            # A graph cannot ask whether the dictionary has changed since: it searches all rows, to the same index.
            known = self._frozen_index(scores)
        return family(scores, state_precision(self.dictionary), diag, self.temperature, noise, known)

    # ------------------------------------------------------------------------------------ frozen selection

    def freeze(self) -> None:
        """List once, for each column, the rows that can win, and search only those from now on.

        The index stays the same to the bit.  The dictionary must not change afterwards; ``unfreeze`` before training.
        """
        from pdssm.kernels.frozen import freeze

        dictionary = state_precision(self.dictionary.detach())
        by_columns = dictionary if self.orientation == "column" else dictionary.transpose(1, 2)
        self._frozen = _Frozen(freeze(by_columns.contiguous()), self.dictionary)

    def unfreeze(self) -> None:
        """Search all rows again."""
        self._frozen = None

    def _frozen_index(self, scores: Tensor) -> Tensor:
        assert self._frozen is not None
        if not self._frozen.describes(self.dictionary):
            raise PDSSMError("dictionary has changed since freeze(); call freeze() again, or unfreeze() to train")
        index = self._frozen.candidates.select(scores.detach().reshape(-1, scores.shape[-1]))
        return index.view(*scores.shape[:-1], self.state_dim)


class GivenPDGenerator(Generator):
    """D(u) learnt, P given from outside: the paper's overhead study, and automata whose transitions are known.

    ``index`` is ``(N,)``, or has leading axes that broadcast against the input's, ``(time, N)`` for instance.
    """

    index: Tensor

    def __init__(
        self,
        dim: int,
        state_dim: int,
        index: Tensor,
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
        orientation: Orientation = "column",
    ) -> None:
        super().__init__(dim, state_dim)
        check_choice("orientation", orientation, ("column", "row"))
        _check_index(index, state_dim)
        self.orientation = orientation
        self.entries = DiagonalEntries(dim, state_dim, hidden_dim, init, magnitude, phase)
        self.inputs = ComplexInputs(dim, state_dim, init)
        self.register_buffer("index", index.clone(memory_format=torch.contiguous_format))

    @property
    def rowwise(self) -> bool:
        return self.index.ndim == 1

    def forward(self, u: Tensor) -> tuple[PD | RowPD, Tensor]:
        family = PD if self.orientation == "column" else RowPD
        return family(self.index, self.entries(u)), self.inputs(u)


def _check_index(index: Tensor, state_dim: int) -> None:
    if index.dtype not in (torch.int64, torch.int32):
        raise DtypeError(f"index is {index.dtype}; expected torch.int64 or torch.int32")
    if index.ndim < 1 or index.shape[-1] != state_dim:
        raise ShapeError(f"index has shape {tuple(index.shape)}; expected ({state_dim},) or (time, {state_dim})")
    check_below("index", index, state_dim, "state components")
