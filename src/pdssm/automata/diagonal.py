"""Which automata one diagonal layer emulates: the search over the letters' roles, and the layer that comes out.

A coordinate of a diagonal layer changes by z -> a z + b, one (a, b) a letter. With one vector for each state its
values are finitely many, so a letter is constant there (a = 0) or permutes the values; it then keeps their centroid,
so it is a rotation about it, by a root of unity. The states that a coordinate tells apart are thus those of a
congruence of ``congruences.py``, and conversely each of those is a coordinate. So: one layer emulates the automaton
exactly where these congruences together separate all states, and then |Q| - 1 coordinates are enough, since each one
needed splits a class.

Letters that permute the states rotate, constant letters are constant; any other can be either, and all choices are
tried: exponential in the number of such letters, cut off where a partial choice separates nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from pdssm.automata.congruences import Assignment, Order, assign, refined
from pdssm.automata.permutation_group import IntArray


@final
@dataclass(frozen=True)
class DiagonalWitness:
    """A diagonal layer whose state after a word is the code of the automaton's: x -> scale[s] x + offset[s]."""

    codes: NDArray[np.complex128]
    """(states, coordinates)."""
    scale: NDArray[np.complex128]
    """(symbols, coordinates)."""
    offset: NDArray[np.complex128]
    """(symbols, coordinates)."""
    turns: tuple[tuple[Fraction | None, ...], ...]
    """(symbols, coordinates): the exact angle of ``scale`` as a fraction of a turn; None where it is 0."""


@final
@dataclass(frozen=True)
class Separation:
    """What a diagonal layer can tell apart."""

    classes: IntArray
    """(states,): equal numbers cannot be told apart."""
    complete: bool
    """Whether the search came to its end; otherwise equal numbers mean "not yet"."""
    witness: DiagonalWitness
    """The coordinates that separate the classes."""

    @property
    def is_total(self) -> bool:
        """Whether all states are told apart."""
        return len(np.unique(self.classes)) == len(self.classes)


def separate(transitions: IntArray, order: Order, budget: int = 2_000) -> Separation:
    """Try all roles of the letters; ``budget`` is the number of (partial) choices looked at before giving up.

    ``transitions`` (states, symbols) are those of a reachable automaton.
    """
    search = _Search(transitions, order, budget)
    search.run()
    return Separation(search.classes, search.complete, search.witness())


@dataclass
class _Search:
    transitions: IntArray
    order: Order
    budget: int
    complete: bool = True
    leaves: list[Assignment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.classes = np.zeros(len(self.transitions), dtype=np.int64)
        self.letters, self.which = np.unique(self.transitions, axis=1, return_inverse=True)
        self.which = self.which.ravel()  # of each symbol, the letter that acts as it does
        ranks = [len(np.unique(column)) for column in self.letters.T]
        self.fixed = [rank in (1, len(self.transitions)) for rank in ranks]
        self.ranks = ranks

    def run(self) -> None:
        """Depth first, without recursion; the letters whose role is given come first."""
        rotating = [k for k, rank in enumerate(self.ranks) if rank == len(self.transitions)]
        constant = [k for k, rank in enumerate(self.ranks) if rank == 1 and k not in rotating]
        free = sorted((k for k, fixed in enumerate(self.fixed) if not fixed), key=lambda k: self.ranks[k])
        stack = [(rotating, constant, free)]
        while stack and self.classes.max() + 1 < len(self.classes):
            if self.budget == 0:
                self.complete = False
                return
            self.budget -= 1
            rotating, constant, free = stack.pop()
            found = assign(self.letters, rotating, constant, self.order)
            finer = refined(self.classes, found.classes)
            if finer.max() == self.classes.max():
                continue
            if free:
                stack += [(rotating, [*constant, free[0]], free[1:]), ([*rotating, free[0]], constant, free[1:])]
            else:
                self.classes = finer
                self.leaves.append(found)

    def witness(self) -> DiagonalWitness:
        """Of all the coordinates found, those that split a class that the ones before left whole."""
        classes, chosen = np.zeros(len(self.transitions), dtype=np.int64), list[_Coordinate]()
        for leaf in self.leaves:
            for coordinate in _coordinates(leaf, self.letters):
                finer = refined(classes, np.unique(coordinate.codes.round(9), return_inverse=True)[1])
                if finer.max() > classes.max():
                    classes = finer
                    chosen.append(coordinate)
        turns = tuple(tuple(coordinate.turns[k] for coordinate in chosen) for k in self.which.tolist())
        scale = np.array([[0 if t is None else _root(t) for t in row] for row in turns], dtype=np.complex128)
        codes = np.stack([c.codes for c in chosen], axis=1) if chosen else np.zeros((len(classes), 0), complex)
        # Where the scale is 0 the offset is the code that the letter leads to, the same from every state.
        offset = np.where(scale == 0, codes[self.transitions[0]], 0)
        return DiagonalWitness(codes, scale.reshape(len(turns), -1), offset.reshape(len(turns), -1), turns)


@dataclass(frozen=True)
class _Coordinate:
    codes: NDArray[np.complex128]
    turns: dict[int, Fraction | None]


def _root(turn: Fraction) -> Any:
    exact = {Fraction(0): 1, Fraction(1, 4): 1j, Fraction(1, 2): -1, Fraction(3, 4): -1j}
    return exact.get(turn, np.exp(2j * np.pi * float(turn)))


def _coordinates(leaf: Assignment, letters: IntArray) -> list[_Coordinate]:
    """First the line of components, which no rotating letter leaves; then the circles of each component."""
    constant: dict[int, Fraction | None] = dict.fromkeys(leaf.constant)
    still = constant | dict.fromkeys(leaf.rotating, Fraction(0))
    found = [_Coordinate(leaf.components.astype(np.complex128), still)]
    for circle in leaf.circles:
        for column in range(circle.turns.shape[1]):
            codes = np.zeros(len(letters), dtype=np.complex128)
            places = [Fraction(int(p), circle.parts) for p in circle.positions[:, column]]
            codes[circle.members] = [_root(place) for place in places]
            turns = [Fraction(int(turn), circle.parts) for turn in circle.turns[:, column]]
            found.append(_Coordinate(codes, constant | dict(zip(leaf.rotating, turns, strict=True))))
    return found
