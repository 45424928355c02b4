"""Cheap signs that no proof can exist: a word on which the model is wrong, and memory that fades."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from pdssm.automata.dfa import DFA
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.token_maps import TokenMaps
from pdssm.models import SequenceModel

WORDS, LENGTH = 32, 256


@torch.no_grad()
def wrong_word(
    model: SequenceModel, dfa: DFA, tokens: IntArray, classes: IntArray, words: int = WORDS, length: int = LENGTH
) -> IntArray | None:
    """The shortest of some words, each symbol repeated and others at random, on which the model errs, if any."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(dfa.alphabet), size=(words, length))
    repeated = np.arange(min(len(dfa.alphabet), words))
    drawn[: len(repeated)] = repeated[:, None]
    expected = torch.from_numpy(classes[dfa.run_many(drawn)])
    top = _outputs(model, torch.from_numpy(tokens[drawn])).topk(min(2, model.config.output_size), -1)
    # Equal logits are no answer, and NaN is none either.
    right = top.indices[..., 0].eq(expected) & top.values[..., 0].isfinite()
    if top.values.shape[-1] == 2:
        right &= top.values[..., 0] > top.values[..., 1]
    word, step = np.nonzero(~right.numpy())
    if not len(word):
        return None
    first = int(step.argmin())
    return np.asarray(drawn[word[first], : step[first] + 1])


def _outputs(model: SequenceModel, words: Tensor) -> Tensor:
    """After every step, whatever the model's head is."""
    seen, training = copy.copy(model), model.training
    seen.config = replace(model.config, head="every")
    seen.eval()
    try:
        outputs: Tensor = seen(words.to(next(model.parameters()).device)).cpu()
    finally:
        model.train(training)
    return outputs


def forgetful(maps: TokenMaps, dfa: DFA, tokens: IntArray) -> tuple[tuple[int, int], float] | None:
    """A state and symbol whose memory the model must lose, and the rate, or None.

    Where every map contracts, the states after u w and v w come together as w grows. Where words w without end keep
    two states of the automaton apart, no sets with a margin between them can hold both.
    """
    column = np.array_equal(maps.source, np.broadcast_to(np.arange(maps.diag.shape[1]), maps.diag.shape))
    rate = float((np.abs(maps.diag[tokens]) + maps.diag_error[tokens]).max())
    if rate >= 1 or not column:
        return None
    minimal = dfa.minimised()
    apart = ~np.eye(len(minimal), dtype=bool)
    while True:
        remaining = np.zeros_like(apart)
        for onto in minimal.transitions.T:
            remaining |= apart[np.ix_(onto, onto)]
        remaining &= apart
        if not remaining.any():
            return None
        if (remaining == apart).all():
            break
        apart = remaining
    state, other = np.argwhere(apart)[0]
    symbol = next(s for s, onto in enumerate(minimal.transitions.T) if apart[onto[state], onto[other]])
    return (dfa.run(_access(minimal, int(state))), symbol), rate


def _access(dfa: DFA, state: int) -> IntArray:
    """A shortest word that leads to the state."""
    words: dict[int, list[int]] = {dfa.initial: []}
    for at in dfa.reachable().tolist():
        for symbol, onto in enumerate(dfa.transitions[at].tolist()):
            words.setdefault(onto, [*words[at], symbol])
    return np.array(words[state], dtype=np.int64)
