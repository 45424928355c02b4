"""What extraction asks: a machine that labels words, many of them at once, each from a state it was left in."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.validation import Label
from pdssm.models import SequenceModel

CHUNK = 1 << 16
"""Symbols read at once."""


class Oracle(ABC):
    """Labels are numbers here, symbols are indices into ``alphabet``; ``label`` gives a number's own label.

    States are a batch of places in the machine, in whatever form it has; only ``follow`` and ``take`` look inside.
    """

    alphabet: tuple[str, ...]
    empty: int | None = None
    """The number of the empty word's label; None where there is none, as in a model, which speaks after a symbol."""
    words = 0
    """Asked so far."""
    symbols = 0
    """Read so far."""

    @abstractmethod
    def start(self) -> Any:
        """One place: nothing has been read."""

    @abstractmethod
    def take(self, states: Any, rows: IntArray) -> Any:
        """Some of the places, as often as asked."""

    @abstractmethod
    def join(self, parts: Sequence[Any]) -> Any:
        """All the places of several batches."""

    @abstractmethod
    def label(self, number: int) -> Label:
        """What the number stands for."""

    @abstractmethod
    def number(self, label: Label) -> int:
        """The number of a label; an error where the machine has no such label."""

    def keys(self, states: Any) -> list[bytes] | None:
        """Equal only where the machine cannot go on differently; None where its inside is not known."""
        return None

    def follow(self, states: Any, words: IntArray) -> tuple[IntArray, Any]:
        """Read word r ``(R, T)`` from place r: the labels' numbers after each symbol, and the places reached."""
        self.words += len(words)
        self.symbols += words.size
        return self._follow(states, words)

    @abstractmethod
    def _follow(self, states: Any, words: IntArray) -> tuple[IntArray, Any]: ...

    def trace(self, words: IntArray) -> IntArray:
        """The labels' numbers after each symbol of whole words ``(R, T)``."""
        return self.follow(self.take(self.start(), np.zeros(len(words), dtype=np.int64)), words)[0]


@final
class ModelOracle(Oracle):
    """A ``SequenceModel``, streamed: a place is its state, a label the class with the largest output.

    ``vocabulary`` names the model's tokens, ``labels`` its classes (their numbers, unless given).
    """

    def __init__(
        self,
        model: SequenceModel,
        alphabet: Sequence[str] | None = None,
        vocabulary: Sequence[str] | None = None,
        labels: Sequence[Label] | None = None,
    ) -> None:
        config = model.config
        if config.inputs != "tokens" or config.head == "mean":
            raise AutomatonError(
                f"the model reads {config.inputs} and has head {config.head!r}; expected tokens, and head 'every' or "
                "'last', for a label after every symbol"
            )
        if config.mixer_options.get("stochastic"):
            raise AutomatonError("the model draws its transitions at random (stochastic); expected a deterministic one")
        self.alphabet, self.tokens = _symbols(config.input_size, alphabet, vocabulary)
        self.labels = tuple(range(config.output_size)) if labels is None else tuple(labels)
        if len(self.labels) != config.output_size:
            raise AutomatonError(
                f"labels has {len(self.labels)} entries; expected {config.output_size}, one for each class of the model"
            )
        self.model = copy.copy(model)  # the same weights, another config and mode
        self.model.config = dataclasses.replace(config, head="every")
        self.device = next(model.parameters()).device

    def start(self) -> Any:
        return self.model.initial_state(1)

    def take(self, states: Any, rows: IntArray) -> Any:
        index = torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(self.device)
        return _mapped(lambda tensor: tensor[index], states)

    def join(self, parts: Sequence[Any]) -> Any:
        return _mapped(lambda *tensors: torch.cat(tensors), *parts)

    def label(self, number: int) -> Label:
        return self.labels[number]

    def number(self, label: Label) -> int:
        for number, own in enumerate(self.labels):
            if (type(own), own) == (type(label), label):  # True is not the label 1
                return number
        raise AutomatonError(f"the automaton has label {label!r}; expected one of the model's {self.labels}")

    def keys(self, states: Any) -> list[bytes]:
        """A fingerprint of the bits of all that is carried; -0 is 0."""
        flat = torch.cat([_bytes(tensor) for tensor in _tensors(states)], 1).numpy()
        return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in flat]

    @torch.no_grad()
    def _follow(self, states: Any, words: IntArray) -> tuple[IntArray, Any]:
        training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            rows = max(1, CHUNK // max(1, words.shape[1]))
            parts = [
                self._read(_mapped(lambda tensor, s=start: tensor[s : s + rows], states), words[start : start + rows])
                for start in range(0, len(words), rows)
            ]
        finally:
            for module in training:
                module.training = True
        return np.concatenate([part[0] for part in parts]), self.join([part[1] for part in parts])

    def _read(self, states: Any, words: IntArray) -> tuple[IntArray, Any]:
        tokens = torch.from_numpy(self.tokens[words]).to(self.device)
        labels = []
        for piece in tokens.split(max(1, CHUNK // len(words)), 1):
            logits, states = self.model(piece, states, return_state=True)
            labels.append(logits.argmax(-1).cpu().numpy())
        return np.concatenate(labels, 1), states


@final
class FunctionOracle(Oracle):
    """Any function from a word, a tuple of symbols, to its label; a place is the word read so far."""

    def __init__(self, function: Callable[[tuple[str, ...]], Label], alphabet: Sequence[str]) -> None:
        if not alphabet:
            raise AutomatonError("alphabet is empty; expected the symbols that the function's words are made of")
        self.function, self.alphabet = function, tuple(alphabet)
        self.numbers: dict[tuple[type, Label], int] = {}
        self.known: dict[tuple[int, ...], int] = {}
        self.empty = self._ask(())

    def start(self) -> list[tuple[int, ...]]:
        return [()]

    def take(self, states: Any, rows: IntArray) -> list[tuple[int, ...]]:
        return [states[row] for row in rows.tolist()]

    def join(self, parts: Sequence[Any]) -> list[tuple[int, ...]]:
        return [word for part in parts for word in part]

    def label(self, number: int) -> Label:
        return list(self.numbers)[number][1]

    def number(self, label: Label) -> int:
        return self.numbers.setdefault((type(label), label), len(self.numbers))

    def _follow(self, states: Any, words: IntArray) -> tuple[IntArray, Any]:
        whole = [(*before, *word) for before, word in zip(states, words.tolist(), strict=True)]
        labels = [[self._ask(word[: len(word) - rest]) for rest in range(words.shape[1] - 1, -1, -1)] for word in whole]
        return np.array(labels, dtype=np.int64).reshape(words.shape), whole

    def _ask(self, word: tuple[int, ...]) -> int:
        if word not in self.known:
            label = self.function(tuple(self.alphabet[symbol] for symbol in word))
            if not isinstance(label, str | bool | int):
                raise AutomatonError(f"the function's label is {label!r}; expected str, bool or int")
            self.known[word] = self.number(label)
        return self.known[word]


def _symbols(
    size: int, alphabet: Sequence[str] | None, vocabulary: Sequence[str] | None
) -> tuple[tuple[str, ...], IntArray]:
    """The alphabet, and the token of each of its symbols."""
    if vocabulary is None:
        vocabulary = tuple(map(str, range(size))) if alphabet is None else alphabet
    if len(vocabulary) != size:
        which = "vocabulary" if alphabet is None or vocabulary is not alphabet else "alphabet, without a vocabulary,"
        raise AutomatonError(f"{which} has {len(vocabulary)} tokens; expected {size}, the model's input_size")
    chosen = tuple(vocabulary if alphabet is None else alphabet)
    places = {token: number for number, token in enumerate(vocabulary)}
    for symbol in chosen:
        if symbol not in places:
            raise AutomatonError(f"symbol {symbol!r} of the alphabet is not in the vocabulary {tuple(vocabulary)}")
    return chosen, np.array([places[symbol] for symbol in chosen], dtype=np.int64)


def _mapped(function: Callable[..., Tensor], *states: Any) -> Any:
    """The function of corresponding tensors; a state is a tensor or a (named) tuple of states."""
    first = states[0]
    if isinstance(first, Tensor):
        return function(*states)
    parts = [_mapped(function, *parts) for parts in zip(*states, strict=True)]
    return tuple(parts) if type(first) is tuple else type(first)(*parts)


def _tensors(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in _tensors(part)]


def _bytes(tensor: Tensor) -> Tensor:
    """(sequences, bytes)."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = (real.flatten(1) + 0 if real.ndim > 1 else real[:, None] + 0).cpu().contiguous()
    return flat.view(torch.uint8)
