"""Table 1 of the paper, row by row, for one automaton: which structures emulate it in one layer of size |Q|.

To emulate is to give every reachable state a vector of its own, so that each symbol s moves all of them by one map
x -> A(s) x + b(s) with A(s) of the structure. A linear readout then tells the states apart: the arg max of
<v_q, x> - |v_q|^2 / 2 over q is the nearest vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np

from pdssm.automata.congruences import Order
from pdssm.automata.dfa import DFA
from pdssm.automata.diagonal import DiagonalWitness, Separation, separate
from pdssm.automata.householder import WITNESS_LIMIT, HouseholderWitness, householder_witness, obstruction, simple_codes
from pdssm.automata.monoid import idempotents_of, maps_of_words
from pdssm.automata.permutation_group import IntArray

Verdict = Literal["yes", "no", "unknown"]
IDEMPOTENTS = 1_000
"""So many, of the shortest words, are compared in pairs."""


@final
@dataclass(frozen=True)
class ColumnWitness:
    """A(s) e_q = e_{index[s, q]} and no offset: what ``PD(index, 1)`` is, and a dense matrix can be."""

    index: IntArray
    """(symbols, states)."""


@final
@dataclass(frozen=True)
class Row:
    """One row of the table."""

    structure: str
    verdict: Verdict
    reason: str
    witness: DiagonalWitness | HouseholderWitness | ColumnWitness | None = None
    """A layer that does it, where the verdict is yes; its states are those of ``reachable()``, in that order.

    None for Householder products of more than 128 states."""


def emulation(dfa: DFA, budget: int = 2_000, monoid_limit: int = 5_000) -> tuple[Row, ...]:
    """The rows of Table 1 for this automaton, all its reachable states to be told apart.

    Minimise first where only the outputs matter. ``budget`` bounds the diagonal rows' search, ``monoid_limit`` the
    elements of the monoid that the Householder row looks at; beyond them the verdict may be "unknown".
    """
    states = dfa.reachable()
    names = tuple(dfa.name(int(state)) for state in states)  # the reasons name the states as they were given
    dfa = replace(dfa.restricted(states), state_names=names)
    by_order: dict[Order, Separation] = {order: separate(dfa.transitions, order, budget) for order in (None, 2, 1)}
    columns = ColumnWitness(np.ascontiguousarray(dfa.transitions.T))
    return (
        _diagonal_row(dfa, "real diagonal, non-negative", "constant or the identity", by_order[1]),
        _diagonal_row(dfa, "real diagonal", "constant, the identity or a half turn", by_order[2]),
        _diagonal_row(dfa, "complex diagonal", "constant or a rotation about one centre", by_order[None]),
        _householder_row(dfa, columns, by_order[None], monoid_limit),
        Row("dense", "yes", "any map of |Q| unit vectors is a matrix", columns),
        Row("PD", "yes", "any map of |Q| unit vectors is a column one-hot matrix (Proposition 2)", columns),
    )


def _diagonal_row(dfa: DFA, structure: str, motion: str, found: Separation) -> Row:
    if found.is_total:
        size = found.witness.codes.shape[1]
        plural = "" if size == 1 else "s"
        reason = f"congruences on which each letter is {motion} separate all states: {size} coordinate{plural}"
        return Row(structure, "yes", reason, found.witness)
    numbers, first, counts = np.unique(found.classes, return_index=True, return_counts=True)
    number = int(np.flatnonzero(counts > 1)[0])
    p = int(first[number])
    q = int(np.flatnonzero(found.classes == numbers[number])[1])
    pair = f"states {dfa.name(p)} and {dfa.name(q)}"
    if not found.complete:
        return Row(structure, "unknown", f"the search ended at its budget with {pair} not yet told apart")
    reason = f"no congruence on which each letter is {motion} separates {pair}"
    return Row(structure, "no", f"{reason}; {len(numbers)} of {len(dfa)} classes are told apart")


def _householder_row(dfa: DFA, columns: ColumnWitness, diagonal: Separation, limit: int) -> Row:
    structure = "Householder products"
    codes, why = simple_codes(dfa.transitions), "with unit vectors (and 0 for a sink) each letter is a contraction"
    if codes is None and diagonal.is_total:
        complex_codes = diagonal.witness.codes
        codes = np.concatenate([complex_codes.real, complex_codes.imag], axis=1)
        why = "the rotations and constants of the complex diagonal layer are contractions"
    if codes is not None and len(dfa) > WITNESS_LIMIT:
        return Row(structure, "yes", f"{why}: products of at most 2 |Q| = {2 * len(dfa)} factors a symbol")
    if codes is not None:
        witness = householder_witness(codes, dfa.transitions)
        return Row(structure, "yes", f"{why}: products of up to {witness.factors} factors a symbol", witness)
    elements = maps_of_words(columns.index, limit + 1)
    idempotents = idempotents_of(elements)
    pair = obstruction(idempotents[:IDEMPOTENTS])
    if pair is None and (len(elements) > limit or len(idempotents) > IDEMPOTENTS):
        most = f"{limit} elements" if len(elements) > limit else f"{IDEMPOTENTS} idempotents"
        return Row(structure, "unknown", f"the automaton's monoid has more than {most}: not all looked into")
    if pair is None:
        reason = "its idempotents do not rule out contractions, and no sharp criterion is known"
        return Row(structure, "unknown", reason)
    e, f = (", ".join(f"{dfa.name(q)}->{dfa.name(int(image))}" for q, image in enumerate(map_)) for map_ in pair)
    reason = f"e then f and f then e agree on some states only, with e: {e} and f: {f}"
    return Row(structure, "no", f"{reason}; idempotent contractions in a finite monoid never do")
