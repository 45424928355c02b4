"""Are two automata the same? Minimal forms, products, and the shortest word on which they differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.validation import Label


def minimised(dfa: DFA) -> DFA:
    """See ``DFA.minimised``: Moore's partition refinement, one pass over the whole table a round."""
    dfa = dfa.restricted(dfa.reachable())
    kinds = {label: kind for kind, label in enumerate(dict.fromkeys(_keys(dfa)))}
    classes = np.array([kinds[label] for label in _keys(dfa)], dtype=np.int64)
    while True:
        signatures = np.concatenate([classes[:, None], classes[dfa.transitions]], axis=1)
        rows = np.ascontiguousarray(signatures).view(np.dtype((np.void, signatures.shape[1] * 8))).ravel()
        finer = np.unique(rows, return_inverse=True)[1]
        if finer.max() == classes.max():
            break
        classes = finer
    first = np.sort(np.unique(classes, return_index=True)[1])  # of each class, the state reached first
    merged = np.empty(len(first), dtype=np.int64)
    merged[classes[first]] = first
    return DFA(
        dfa.alphabet, merged[classes[dfa.transitions]], int(merged[classes[dfa.initial]]), dfa.outputs, dfa.state_names
    ).restricted(first)


def _keys(dfa: DFA) -> list[tuple[bool, Label]]:
    """The labels so that True and 1, which Python takes for equal, differ."""
    return [(isinstance(label, bool), label) for label in dfa.outputs]


def aligned(a: DFA, b: DFA) -> DFA:
    """b with its symbols in the order of a's alphabet."""
    if set(a.alphabet) != set(b.alphabet):
        raise AutomatonError(f"the alphabets differ: {a.alphabet} and {b.alphabet}")
    columns = [b.alphabet.index(symbol) for symbol in a.alphabet]
    return DFA(a.alphabet, b.transitions[:, columns], b.initial, b.outputs, b.state_names)


def isomorphic(a: DFA, b: DFA) -> bool:
    """Whether the minimal forms are one automaton up to the names of the states: the same label after every word."""
    small, other = minimised(a), minimised(aligned(a, b))  # both numbered by their shortest words
    return bool(np.array_equal(small.transitions, other.transitions)) and _keys(small) == _keys(other)


def product(a: DFA, b: DFA, combine: Callable[[Label, Label], Label]) -> DFA:
    """See ``DFA.product``; only the reachable pairs are made."""
    b = aligned(a, b)
    pairs = _reachable_pairs(a, b)
    place = {pair: index for index, pair in enumerate(pairs)}
    states = np.array(pairs)
    after = np.stack([a.transitions[states[:, 0]], b.transitions[states[:, 1]]], axis=-1)
    transitions = [[place[x, y] for x, y in row] for row in after.tolist()]
    return DFA(
        a.alphabet,
        np.array(transitions),
        0,
        tuple(combine(a.outputs[x], b.outputs[y]) for x, y in pairs),
        tuple(f"({a.name(x)}, {b.name(y)})" for x, y in pairs),
    )


def _reachable_pairs(a: DFA, b: DFA) -> list[tuple[int, int]]:
    pairs = {(a.initial, b.initial): None}
    order = list(pairs)
    for x, y in order:  # grows while we walk it
        for pair in zip(a.transitions[x].tolist(), b.transitions[y].tolist(), strict=True):
            if pair not in pairs:
                pairs[pair] = None
                order.append(pair)
    return order


def counterexample(a: DFA, b: DFA) -> tuple[str, ...] | None:
    """The shortest word after which the labels differ, the first such in the order of a's alphabet; None if equal."""
    b = aligned(a, b)
    keys = {key: number for number, key in enumerate(dict.fromkeys(_keys(a) + _keys(b)))}
    label_a, label_b = (np.array([keys[key] for key in _keys(dfa)]) for dfa in (a, b))
    width, symbols = len(b), len(a.alphabet)
    start = a.initial * width + b.initial
    came_from = np.full(len(a) * width, -1)  # the edge, pair x symbol, by which a pair was first reached
    newest = np.array([start])
    came_from[start] = -2
    while newest.size:
        wrong = newest[label_a[newest // width] != label_b[newest % width]]
        if wrong.size:
            return a.decode(_walk_back(int(wrong[0]), came_from, symbols))
        after = (a.transitions[newest // width] * width + b.transitions[newest % width]).ravel()
        edges = (newest[:, None] * symbols + np.arange(symbols)).ravel()
        fresh = came_from[after] == -1
        reached, first = np.unique(after[fresh], return_index=True)
        newest = reached[np.argsort(first)]
        came_from[reached] = edges[fresh][first]
    return None


def _walk_back(pair: int, came_from: IntArray, symbols: int) -> list[int]:
    word = []
    while came_from[pair] >= 0:
        pair, symbol = divmod(int(came_from[pair]), symbols)
        word.append(symbol)
    return word[::-1]
