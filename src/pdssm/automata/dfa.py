"""Deterministic automata with a label on every state: Moore machines, and acceptors where the labels are booleans."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product as tuples
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray, PermutationGroup
from pdssm.automata.validation import Label, check, default_alphabet, shown

if TYPE_CHECKING:
    from automata.fa import dfa as library_dfa
    from automata.fa import nfa as library_nfa

Word = str | Sequence[str] | Sequence[int] | NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class DFA:
    """States 0..n-1 and a total transition function; immutable, and validated when built."""

    alphabet: tuple[str, ...]
    transitions: IntArray
    """(states, symbols), read-only: where each symbol leads from each state."""
    initial: int
    outputs: tuple[Label, ...]
    """The label of each state; False and True for an acceptor."""
    state_names: tuple[str, ...] | None = None
    """None when they are called "0", "1", ..."""

    def __post_init__(self) -> None:
        set_once = object.__setattr__  # the way a frozen dataclass normalises its own fields
        transitions = np.asarray(self.transitions)
        if not np.issubdtype(transitions.dtype, np.integer):
            raise AutomatonError(f"transitions are {transitions.dtype}; expected integers")
        transitions = np.array(transitions, dtype=np.int64, order="C")
        transitions.flags.writeable = False
        set_once(self, "transitions", transitions)
        set_once(self, "alphabet", tuple(self.alphabet))
        set_once(self, "outputs", tuple(self.outputs))
        if self.state_names is not None:
            names = tuple(self.state_names)
            set_once(self, "state_names", None if names == tuple(map(str, range(len(names)))) else names)
        check(self)

    @classmethod
    def from_regex(cls, pattern: str, alphabet: Collection[str] | None = None) -> DFA:
        """The minimal acceptor of a regular expression (automata-lib's syntax) over single characters."""
        from pdssm.automata.library import from_regex

        return from_regex(pattern, alphabet)

    @classmethod
    def from_table(
        cls,
        table: Mapping[str, Mapping[str, str]] | Mapping[tuple[str, str], str],
        initial: str,
        outputs: Mapping[str, Label] | Collection[str],
    ) -> DFA:
        """From ``{state: {symbol: state}}`` or ``{(state, symbol): state}``, by names.

        ``outputs`` maps each state to its label, or is the collection of accepting states. Alphabet and states keep
        the order in which the table first names them.
        """
        from pdssm.automata.tables import from_table

        return from_table(table, initial, outputs)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> DFA:
        """From a JSON file, or from the text itself where it starts with a brace; the format is in ``tables.py``."""
        from pdssm.automata.tables import from_json

        return from_json(source)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The automaton as JSON text, written to the path too where one is given."""
        from pdssm.automata.tables import to_json

        text = to_json(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_group(cls, group: PermutationGroup, generators: Sequence[int] | IntArray | None = None) -> Self:
        """The Cayley graph: states are elements, symbol k is the element ``generators[k]``, outputs are the elements.

        Reading a word from the identity ends in its running product g_t = g_{t-1} * s_t.
        """
        chosen = np.array(group.generators if generators is None else generators, dtype=np.int64)
        alphabet = default_alphabet(len(chosen))
        return cls(alphabet, group.cayley(chosen), 0, tuple(range(group.order)))

    @classmethod
    def from_automata_lib(cls, automaton: library_dfa.DFA | library_nfa.NFA) -> DFA:
        """From automata-lib's DFA (a partial one gets a sink) or NFA (made deterministic, and minimal)."""
        from pdssm.automata.library import from_automata_lib

        return from_automata_lib(automaton)

    def to_automata_lib(self) -> library_dfa.DFA:
        """As automata-lib's DFA, for acceptors over single characters."""
        from pdssm.automata.library import to_automata_lib

        return to_automata_lib(self)

    @classmethod
    def random(
        cls,
        states: int,
        symbols: int | Sequence[str],
        rng: np.random.Generator,
        labels: Sequence[Label] = (False, True),
    ) -> Self:
        """A random automaton with every state reachable: a random tree from state 0, the rest uniform."""
        alphabet = default_alphabet(symbols) if isinstance(symbols, int) else tuple(symbols)
        if states < 1 or not alphabet:
            raise AutomatonError(f"states is {states} and symbols is {symbols!r}; expected at least one of each")
        transitions = rng.integers(states, size=(states, len(alphabet)))
        free = list(range(len(alphabet)))  # the edges of the states already in the tree
        for state in range(1, states):
            chosen = int(rng.integers(len(free)))
            free[chosen], free[-1] = free[-1], free[chosen]
            transitions.flat[free.pop()] = state
            free.extend(range(state * len(alphabet), (state + 1) * len(alphabet)))
        return cls(alphabet, transitions, 0, tuple(labels[int(k)] for k in rng.integers(len(labels), size=states)))

    def __len__(self) -> int:
        return len(self.outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DFA) and self._contents == other._contents

    def __hash__(self) -> int:
        return hash(self._contents)

    def __repr__(self) -> str:
        kind = "acceptor" if self.is_acceptor else "Moore machine"
        return f"DFA({kind}, {len(self)} states, {len(self.alphabet)} symbols)"

    @property
    def is_acceptor(self) -> bool:
        """Whether every label is a boolean."""
        return all(isinstance(label, bool) for label in self.outputs)

    def name(self, state: int) -> str:
        """What a state is called."""
        return str(state) if self.state_names is None else self.state_names[state]

    def encode(self, word: Word) -> IntArray:
        """A word as an array of symbol indices: a string of single characters, symbols, or indices."""
        if isinstance(word, np.ndarray) or (len(word) > 0 and not isinstance(word[0], str)):
            return self._check_indices(np.asarray(word))
        try:
            return np.array([self._places[symbol] for symbol in word], dtype=np.int64)  # type: ignore[index]
        except KeyError as error:
            raise AutomatonError(f"symbol {error.args[0]!r} of the word is not in {shown(self.alphabet)}") from None

    def decode(self, word: Sequence[int] | IntArray) -> tuple[str, ...]:
        """Indices as symbols."""
        return tuple(self.alphabet[int(index)] for index in self._check_indices(np.asarray(word)))

    def run(self, word: Word, start: int | None = None) -> int:
        """The state after the word."""
        state = self.initial if start is None else start
        for symbol in self.encode(word).tolist():
            state = int(self.transitions[state, symbol])
        return state

    def label(self, word: Word) -> Label:
        """The output of the state after the word."""
        return self.outputs[self.run(word)]

    def accepts(self, word: Word) -> bool:
        """Whether the word ends in a state labelled True, or otherwise truthy."""
        return bool(self.label(word))

    def run_many(self, words: NDArray[Any], start: IntArray | None = None) -> IntArray:
        """``(batch, time)`` symbol indices to the ``(batch, time)`` states after each step."""
        words = self._check_indices(np.asarray(words))
        if words.ndim != 2:
            raise AutomatonError(f"words have shape {words.shape}; expected (batch, time)")
        flat, symbols = self.transitions.ravel(), len(self.alphabet)
        state = np.full(len(words), self.initial) if start is None else np.asarray(start, dtype=np.int64)
        states = np.empty(words.shape[::-1], dtype=np.int64)
        for step, symbol in enumerate(np.ascontiguousarray(words.T)):
            state = states[step] = flat[state * symbols + symbol]
        return states.T

    def words(self, length: int) -> Iterator[tuple[str, ...]]:
        """All words of up to this length, the shortest first."""
        for size in range(length + 1):
            yield from tuples(self.alphabet, repeat=size)

    def reachable(self) -> IntArray:
        """The states that some word reaches, in the order of the shortest (then lexicographically first) word."""
        order, seen = [self.initial], {self.initial}
        for state in order:  # grows while we walk it
            new = [after for after in dict.fromkeys(self.transitions[state].tolist()) if after not in seen]
            order += new
            seen.update(new)
        return np.array(order)

    def restricted(self, states: IntArray) -> Self:
        """Only these states, renumbered in the order given; they must be closed, and hold the initial one."""
        place = np.full(len(self), -1)
        place[states] = np.arange(len(states))
        names = None if self.state_names is None else tuple(self.state_names[state] for state in states)
        labels = tuple(self.outputs[state] for state in states)
        return type(self)(self.alphabet, place[self.transitions[states]], int(place[self.initial]), labels, names)

    def minimised(self) -> DFA:
        """The smallest automaton with the same label after every word; states in the order of ``reachable``."""
        from pdssm.automata.equivalence import minimised

        return minimised(self)

    def product(self, other: DFA, combine: Callable[[Label, Label], Label] = lambda x, y: bool(x and y)) -> DFA:
        """Both read the same word, and ``combine`` joins their labels: by default both accept."""
        from pdssm.automata.equivalence import product

        return product(self, other, combine)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.alphabet)}

    @cached_property
    def _contents(self) -> tuple[object, ...]:
        types = tuple(type(label) for label in self.outputs)  # True is not the label 1
        return self.alphabet, self.transitions.tobytes(), self.initial, self.outputs, types, self.state_names

    def _check_indices(self, word: NDArray[Any]) -> IntArray:
        if word.size and not np.issubdtype(word.dtype, np.integer):
            raise AutomatonError(f"the word is an array of {word.dtype}; expected integers, or symbols")
        wrong = word[(word < 0) | (word >= len(self.alphabet))]
        if wrong.size:
            raise AutomatonError(f"symbol {wrong.flat[0]} of the word; expected an index 0..{len(self.alphabet) - 1}")
        return word.astype(np.int64)
