"""The congruences of an automaton on which every letter is constant or a rotation: what one diagonal layer can see.

Fix which letters rotate and which are constant. Then states x and xs belong together for a rotating s, as do all
states of the image of a constant letter: the components K. On K the finest rotation angles are those of a finite
abelian group, Z^rotating / L, where L holds the sums of letters along the closed walks of K; every character of it is
one way to put K on a circle, with all other components in the centre. The map of K into that group is found by one
walk, the group by integer elimination, both exactly. Its order is at most |K|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from pdssm.automata.lattice import Lattice
from pdssm.automata.permutation_group import IntArray

Order = Literal[1, 2] | None
"""Which rotations: none but the identity, half turns (a real -1), or all."""


@final
@dataclass(frozen=True)
class Circle:
    """One component on circles, with all other states in the centre."""

    members: IntArray
    """The states of the component."""
    positions: IntArray
    """(members, circles): each one's place, in parts of a turn."""
    turns: IntArray
    """(rotating, circles): how far each rotating letter turns, in parts of a turn."""
    parts: int
    """How many parts a turn has."""


@final
@dataclass(frozen=True)
class Assignment:
    """What is separated when these letters rotate and those are constant; other letters are ignored."""

    rotating: tuple[int, ...]
    constant: tuple[int, ...]
    components: IntArray
    """(states,): numbers of components."""
    circles: tuple[Circle, ...]
    classes: IntArray
    """(states,): states with the same number cannot be told apart."""


def assign(transitions: IntArray, rotating: Sequence[int], constant: Sequence[int], order: Order) -> Assignment:
    """The finest admissible congruence for this choice of letters."""
    edges = _edges(transitions, rotating, constant)
    components, walks = _walk(len(transitions), len(rotating), edges)
    circles, classes = [], np.zeros(len(transitions), dtype=np.int64)
    for component in range(components.max() + 1):
        members = np.flatnonzero(components == component)
        circle = _circle(transitions, rotating, members, walks, edges[components[edges[:, 0]] == component], order)
        circles.append(circle)
        own = np.unique(circle.positions, axis=0, return_inverse=True)[1].ravel()
        classes[members] = own + classes.max() + 1
    return Assignment(tuple(rotating), tuple(constant), components, tuple(circles), classes)


def refined(classes: IntArray, finer: IntArray) -> IntArray:
    """States stay together where both put them together."""
    meet: IntArray = np.unique(np.stack([classes, finer]), axis=1, return_inverse=True)[1].ravel()
    return meet


def _edges(transitions: IntArray, rotating: Sequence[int], constant: Sequence[int]) -> IntArray:
    """(edges, 3): state, state, and the rotating letter between them, or -1 where they must be equal."""
    states = np.arange(len(transitions))
    blocks = [np.zeros((0, 3), dtype=np.int64)]
    for place, letter in enumerate(rotating):
        moved = states[transitions[:, letter] != states]  # where a letter stays, ``_circle`` sees it
        blocks.append(np.stack([moved, transitions[moved, letter], np.full_like(moved, place)], axis=1))
    for letter in constant:
        image = np.unique(transitions[:, letter])
        blocks.append(np.stack([np.full_like(image, image[0]), image, np.full_like(image, -1)], axis=1)[1:])
    return np.concatenate(blocks)


def _walk(states: int, letters: int, edges: IntArray) -> tuple[IntArray, IntArray]:
    """Components, and for each state the letters on the way to it from where its component's walk began."""
    neighbours: list[list[tuple[int, int, int]]] = [[] for _ in range(states)]
    for x, y, letter in edges.tolist():
        neighbours[x].append((y, letter, 1))
        neighbours[y].append((x, letter, -1))
    components = np.full(states, -1)
    walks = np.zeros((states, letters), dtype=np.int64)
    for root in range(states):
        if components[root] >= 0:
            continue
        components[root] = components.max() + 1
        queue = [root]
        for x in queue:  # grows while we walk it
            for y, letter, sign in neighbours[x]:
                if components[y] < 0:
                    components[y] = components[root]
                    walks[y] = walks[x]
                    if letter >= 0:
                        walks[y, letter] += sign
                    queue.append(y)
    return components, walks


def _circle(
    transitions: IntArray, rotating: Sequence[int], members: IntArray, walks: IntArray, edges: IntArray, order: Order
) -> Circle:
    if len(members) == 1:
        return Circle(members, np.zeros((1, 0), dtype=np.int64), np.zeros((len(rotating), 0), dtype=np.int64), 1)
    cycles = np.array([_cycle_length(transitions[:, letter], int(members[0])) for letter in rotating], dtype=np.int64)
    own = transitions[members][:, np.array(rotating, dtype=np.int64)]
    cycles[(own == members[:, None]).any(0)] = 1  # a letter that fixes a state turns nothing
    lattice = Lattice(cycles if order is None else np.gcd(cycles, order))
    steps = walks[edges[:, 0]] - walks[edges[:, 1]]
    lettered = np.flatnonzero(edges[:, 2] >= 0)
    steps[lettered, edges[lettered, 2]] += 1
    lattice.insert(steps)
    turns, parts = lattice.characters()
    return Circle(members, walks[members] @ turns % parts, turns, parts)


def _cycle_length(images: IntArray, state: int) -> int:
    """How long the cycle is that repeating one letter ends in."""
    seen: dict[int, int] = {}
    while state not in seen:
        seen[state] = len(seen)
        state = int(images[state])
    return len(seen) - seen[state]
