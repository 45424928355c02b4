"""How the states of an automaton are told apart, so that each part's states of the model lie close together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.enclosures import copied
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.token_maps import Complex, TokenMaps


class Cover(NamedTuple):
    """Parts of the automaton's states; number 0 is where it starts."""

    state: IntArray
    """(parts,): the automaton's state."""
    following: IntArray
    """(parts, symbols): where each symbol leads."""
    points: Complex | None = None
    """(parts, N): the one state of the model in each part, where that is known."""


def by_history(dfa: DFA, history: int, most: int) -> Cover | None:
    """By the last ``history`` symbols, those that words reach; None where there are more than ``most``."""
    nodes: dict[tuple[int, tuple[int, ...]], int] = {(dfa.initial, ()): 0}
    pending, following = list(nodes), []
    for state, last in pending:  # grows while we walk it
        row = []
        for symbol in range(len(dfa.alphabet)):
            node = (int(dfa.transitions[state, symbol]), ((*last, symbol))[-history:] if history else ())
            if node not in nodes:
                nodes[node] = len(nodes)
                pending.append(node)
            row.append(nodes[node])
        following.append(row)
        if len(nodes) > most:
            return None
    return Cover(np.array([state for state, _ in nodes]), np.array(following))


def by_point(dfa: DFA, maps: TokenMaps, initial: Complex, tokens: IntArray, most: int) -> Cover | None:
    """By the model's own state: all that it reaches, where nothing is ever rounded and they are finitely many.

    None where something is rounded, or where there are more than ``most``.
    """
    nodes = {(dfa.initial, initial.tobytes()): 0}
    states, points, level = [dfa.initial], [initial], [0]
    following: list[list[int]] = []
    while level:
        centre = np.stack([points[node] for node in level])
        images = [copied(maps, int(token), centre) for token in tokens]
        if not all(exact for _, exact in images):
            return None
        reached = []
        for row, node in enumerate(level):
            onto = []
            for symbol, (moved, _) in enumerate(images):
                point = moved[row] + 0.0  # -0.0 is 0.0
                key = (int(dfa.transitions[states[node], symbol]), point.tobytes())
                if key not in nodes:
                    nodes[key] = len(nodes)
                    states.append(key[0])
                    points.append(point)
                    reached.append(nodes[key])
                onto.append(nodes[key])
            following.append(onto)
        if len(nodes) > most:
            return None
        level = reached
    return Cover(np.array(states), np.array(following), np.stack(points))
