"""An automaton as exact weights: an ordinary one-layer ``SequenceModel`` (the paper's Proposition 2).

State q is the unit vector e_q of R^|Q| and the symbol s the matrix P_s that sends e_q to e_delta(q, s), which the layer
selects from its dictionary.  Nothing is ever rounded, so the model is exact for words of every length:

    scores     softmax over logits 1024 apart: one exact 1, and zeros (exp(-1024) underflows)
    P          the dictionary's matrices are those of the letters themselves, 0s and 1s
    |D|        sigmoid(64) is 1 in float32 and in float64
    phase      0 (``phase="zero"``)
    B          0
    readout    the identity, |Q| x |Q|; the head adds up the states of each label

With its gates saturated, fine-tuning reaches dictionary, B, readout and head, but no longer |D| and the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.validation import Label
from pdssm.errors import check_choice
from pdssm.layers import PDSSM
from pdssm.models import ModelConfig, SequenceModel
from pdssm.models.block import Block

Method = Literal["states", "phase"]

SATURATED = 64.0
"""sigmoid(64) is 1, in float32 and in float64."""
CERTAIN = 1024.0
"""exp(-1024) is 0, in float64 too, so the softmax of logits so far apart is a unit vector."""
SHARP = 8.0
"""The right label's logit; the others are 0."""
LENGTH = 10_000
"""Up to which a compiled model is exact, unless more is asked for."""


def compile_dfa(
    dfa: DFA,
    method: Method = "states",
    *,
    vocabulary: Sequence[str] | None = None,
    classes: Sequence[Label] | None = None,
    length: int = LENGTH,
) -> SequenceModel:
    """The model whose output after every step is the automaton's label.

    Parameters
    ----------
    method
        ``"states"``: a state component for each state, exact for every length.  ``"phase"``: one complex number, for
        modular counters, exact up to ``exact_length`` symbols.
    vocabulary
        The tokens by their numbers, the automaton's alphabet unless given; those that are not in the alphabet leave
        the state as it is.
    classes
        The labels by their numbers, ``output_classes(dfa)`` unless given.
    length
        Refuse where the model would not be exact for words of so many symbols.
    """
    check_choice("method", method, ("states", "phase"))
    tokens = token_letters(dfa, dfa.alphabet if vocabulary is None else vocabulary)
    classes = output_classes(dfa) if classes is None else classes
    labels = label_numbers(dfa, classes)
    if method == "phase":
        from pdssm.automata.phase import compile_phase

        return compile_phase(dfa, tokens, labels, len(classes), length)
    return _compile_states(dfa, tokens, labels, len(classes))


def output_classes(dfa: DFA) -> tuple[Label, ...]:
    """The labels in the order of a task's classes: False, True for an acceptor, else as the states first have them."""
    first = [(bool, False), (bool, True)] if dfa.is_acceptor else []
    return tuple(label for _, label in dict.fromkeys([*first, *map(_key, dfa.outputs)]))


def _key(label: Label) -> tuple[type, Label]:
    """True is not the label 1."""
    return type(label), label


def label_numbers(dfa: DFA, classes: Sequence[Label]) -> IntArray:
    """(states,): the class of each state's label."""
    places = {_key(label): number for number, label in enumerate(classes)}
    if len(places) < len(classes):
        raise AutomatonError(f"classes is {tuple(classes)}; expected different labels")
    for state, label in enumerate(dfa.outputs):
        if _key(label) not in places:
            raise AutomatonError(
                f"the output of state {dfa.name(state)!r} is {label!r}, not in classes {tuple(classes)}"
            )
    return np.array([places[_key(label)] for label in dfa.outputs], dtype=np.int64)


def token_letters(dfa: DFA, vocabulary: Sequence[str]) -> IntArray:
    """(tokens,): each token's symbol, -1 for those that are not in the alphabet."""
    places = {token: number for number, token in enumerate(vocabulary)}
    if len(places) < len(vocabulary):
        raise AutomatonError(f"vocabulary is {tuple(vocabulary)}; expected different tokens")
    letters = np.full(len(vocabulary), -1)
    for number, symbol in enumerate(dfa.alphabet):
        if symbol not in places:
            raise AutomatonError(f"symbol {symbol!r} of the automaton is not in the vocabulary {tuple(vocabulary)}")
        letters[places[symbol]] = number
    return letters


def layer_of(model: SequenceModel) -> PDSSM:
    """The one PD-SSM layer of a compiled model."""
    block = model.blocks[0]
    assert isinstance(block, Block)
    assert isinstance(block.mixer, PDSSM)
    return block.mixer


def linear_in(network: nn.Module | None, place: int) -> nn.Linear:
    """One of a network's linear maps."""
    assert isinstance(network, nn.Sequential)
    layer = network[place]
    assert isinstance(layer, nn.Linear)
    return layer


@torch.no_grad()
def blank_model(config: ModelConfig, choices: IntArray) -> SequenceModel:
    """All weights zero but for the tokens' unit vectors, |D| = 1, and scores that choose matrix ``choices[token]``."""
    with torch.random.fork_rng(devices=()):
        model = SequenceModel(config)
    for parameter in model.parameters():
        parameter.zero_()
    encoder, generator = model.encoder.weight, layer_of(model).generator
    assert isinstance(encoder, Tensor)
    tokens = torch.arange(len(choices))
    encoder[tokens, tokens] = 1
    generator.selector.weight[torch.from_numpy(choices), tokens] = CERTAIN
    linear_in(generator.entries.magnitude, -1).bias.fill_(SATURATED)
    return model


@torch.no_grad()
def _compile_states(dfa: DFA, tokens: IntArray, labels: IntArray, classes: int) -> SequenceModel:
    still = np.arange(len(dfa))[:, None]
    acting = np.concatenate([dfa.transitions, still], axis=1)[:, tokens]
    letters, choices = np.unique(acting, axis=1, return_inverse=True)  # symbols that act alike share a matrix
    states, width = len(dfa), max(len(dfa), len(tokens))
    options = {
        "state_dim": states, "dictionary_size": letters.shape[1], "hidden_dim": 1, "phase": "zero", "readout": "real",
        "skip": False, "bias": False, "initial_state": "learned",
    }  # fmt: skip
    config = ModelConfig(len(tokens), classes, dim=width, norm="none", mixer_options=options)
    model = blank_model(config, choices.ravel())
    layer, at = layer_of(model), torch.arange(states)
    for matrix, letter in zip(layer.generator.dictionary, letters.T, strict=True):
        matrix[torch.from_numpy(letter), at] = 1
    layer.first[dfa.initial, 0] = 1
    readout = layer.readout.map.weight
    assert isinstance(readout, Tensor)
    readout[at, at] = 1
    model.head.weight[torch.from_numpy(labels), at] = SHARP
    return model
