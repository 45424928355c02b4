"""The paper's Propositions 3 and 4 as programs: how few dimensions are enough, and what one number costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from pdssm.automata.dfa import DFA, Word
from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.validation import Label

FloatArray = NDArray[np.float64]


def witness_automaton(states: int) -> DFA:
    """Proposition 3: symbol x moves state x, and only it, on to the next; no layer of less than N - 1 emulates it."""
    if states < 1:
        raise AutomatonError(f"states is {states}; expected at least 1")
    own = np.arange(states)
    transitions = np.where(own[:, None] == own[None, :], (own[:, None] + 1) % states, own[:, None])
    return DFA(tuple(f"s{k}" for k in range(states)), transitions, 0, tuple(range(states)))


def needs_affine_independence(dfa: DFA) -> bool:
    """Whether all codes of an emulating layer, of any structure, real or complex, are affinely independent.

    Enough: all reachable states but at most one are each moved by a symbol that moves no other. For let sum c_q v_q = 0
    with sum c_q = 0; apply the map that moves only p: c_p (v_p' - v_p) = 0, so c_p = 0. Then the dimension is at
    least N - 1.
    """
    transitions = dfa.restricted(dfa.reachable()).transitions
    moved = transitions != np.arange(len(transitions))[:, None]
    alone = moved[:, moved.sum(0) == 1].any(1)
    return int(alone.sum()) >= len(transitions) - 1


@final
@dataclass(frozen=True)
class SimplexLayer:
    """x -> matrices[s] x + offsets[s] on the corners of a simplex: N states in N - 1 dimensions."""

    codes: FloatArray
    """(states, states - 1): the origin and the unit vectors."""
    matrices: FloatArray
    """(symbols, states - 1, states - 1)."""
    offsets: FloatArray
    """(symbols, states - 1)."""


def simplex_layer(dfa: DFA) -> SimplexLayer:
    """A dense layer of size N - 1 for any automaton of N states, so Proposition 3's bound is tight."""
    codes = np.eye(len(dfa))[:, 1:]
    after = codes[dfa.transitions.T]  # (symbols, states, states - 1)
    return SimplexLayer(codes, np.swapaxes(after[:, 1:] - after[:, :1], 1, 2), after[:, 0])


@final
@dataclass(frozen=True)
class ScalarSSM:
    """Proposition 4: x_t = x_{t-1} + u_t sqrt(p_t) with the t-th prime, and a table from every x to the state.

    The square roots of primes are linearly independent over the rationals, so different words have different x, as long
    as the codes u are different and none is 0 (a word and the same one with a 0 behind it would collide). The numbers
    are kept to ``digits`` places, and that these suffice is checked when built.
    """

    dfa: DFA
    codes: tuple[Fraction, ...]
    """One rational a symbol."""
    digits: int
    table: dict[Decimal, int]
    """From x to the state, for every word of up to ``length`` symbols: exponentially many."""
    length: int
    gap: Decimal
    """The smallest distance between two entries: the readout needs at least this resolution."""

    def run(self, word: Word) -> int:
        """The state, read off the table."""
        x = Decimal(0)
        symbols = self.dfa.encode(word)
        if len(symbols) > self.length:
            raise AutomatonError(f"the word has {len(symbols)} symbols; the table ends at {self.length}")
        for step in _steps(self.codes, self.digits, symbols):
            x = _add(x, step, self.digits)
        return self.table[x]

    def label(self, word: Word) -> Label:
        """The output of that state."""
        return self.dfa.outputs[self.run(word)]


def scalar_ssm(
    dfa: DFA, length: int, codes: Sequence[int | Fraction] | None = None, digits: int = 50, limit: int = 500_000
) -> ScalarSSM:
    """The scalar layer and its table for words of up to ``length``; the codes are 1, 2, 3, ... where none are given."""
    chosen = tuple(map(Fraction, codes if codes is not None else range(1, len(dfa.alphabet) + 1)))
    if len(chosen) != len(dfa.alphabet) or len(set(chosen)) < len(chosen) or 0 in chosen:
        raise AutomatonError(f"codes are {codes}; expected {len(dfa.alphabet)} different rationals, none of them 0")
    entries = table_size(len(dfa.alphabet), length)
    if entries > limit:
        raise AutomatonError(f"the table for words of up to {length} has {entries:,} entries; expected {limit:,}")
    table, newest = {Decimal(0): dfa.initial}, {Decimal(0): dfa.initial}
    for time in range(length):
        steps = [_step(code, time, digits) for code in chosen]
        newest = {
            _add(x, step, digits): int(dfa.transitions[state, symbol])
            for x, state in newest.items()
            for symbol, step in enumerate(steps)
        }
        table.update(newest)
    keys = sorted(table)
    gap = min((after - before for before, after in pairwise(keys)), default=Decimal(1))
    largest = max(abs(keys[0]), abs(keys[-1]), Decimal(1))
    if len(table) < entries or gap < 4 * (length + 1) * largest * Decimal(10) ** (1 - digits):
        raise AutomatonError(f"digits is {digits}; expected more, to tell {entries:,} values apart")
    return ScalarSSM(dfa, chosen, digits, table, length, gap)


def table_size(symbols: int, length: int) -> int:
    """How many words of up to this length there are."""
    return sum(symbols**size for size in range(length + 1))


def primes(count: int) -> list[int]:
    """The first primes."""
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _steps(codes: tuple[Fraction, ...], digits: int, symbols: IntArray) -> list[Decimal]:
    return [_step(codes[symbol], time, digits) for time, symbol in enumerate(symbols.tolist())]


def _step(code: Fraction, time: int, digits: int) -> Decimal:
    with localcontext() as context:
        context.prec = digits
        return Decimal(code.numerator) / Decimal(code.denominator) * Decimal(primes(time + 1)[time]).sqrt()


def _add(x: Decimal, y: Decimal, digits: int) -> Decimal:
    with localcontext() as context:
        context.prec = digits
        return x + y
