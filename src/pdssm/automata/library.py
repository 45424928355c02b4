"""To and from automata-lib, which parses regular expressions and makes automata deterministic."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError

if TYPE_CHECKING:
    from automata.fa import dfa as library_dfa
    from automata.fa import nfa as library_nfa


def _require() -> None:
    try:
        import automata.fa.dfa  # noqa: F401
    except ImportError as error:
        raise ImportError('automata-lib is not installed; expected: pip install "pdssm[automata]"') from error


def from_regex(pattern: str, alphabet: Collection[str] | None = None) -> DFA:
    """See ``DFA.from_regex``."""
    _require()
    from automata.base.exceptions import AutomatonException, RegexException
    from automata.fa.nfa import NFA

    symbols = None if alphabet is None else set(alphabet)
    try:
        automaton = NFA.from_regex(pattern, input_symbols=symbols)
        counts = _only_counts(pattern)
        if symbols is None and counts & automaton.input_symbols:
            automaton = NFA.from_regex(pattern, input_symbols=set(automaton.input_symbols) - counts)
    except (AutomatonException, RegexException) as error:
        over = "" if alphabet is None else f" over the alphabet {sorted(alphabet)}"
        raise AutomatonError(f"pattern {pattern!r} is not a regular expression{over}: {error}") from error
    if not automaton.input_symbols:
        raise AutomatonError(f"pattern {pattern!r} names no symbol; expected an alphabet with it")
    return from_automata_lib(automaton)


def _only_counts(pattern: str) -> set[str]:
    """Characters that stand in repeats ``{2,3}`` only, which automata-lib takes for symbols."""
    without = re.sub(r"(?<!\\)\{\d*,?\d*\}", "", pattern)
    return set(pattern) - set(without)


def from_automata_lib(automaton: library_dfa.DFA | library_nfa.NFA) -> DFA:
    """See ``DFA.from_automata_lib``."""
    _require()
    from automata.fa import dfa as library_dfa
    from automata.fa import nfa as library_nfa

    if isinstance(automaton, library_nfa.NFA):
        return from_automata_lib(library_dfa.DFA.from_nfa(automaton)).minimised()
    if not isinstance(automaton, library_dfa.DFA):
        raise AutomatonError(f"automaton is {type(automaton).__name__}; expected automata-lib's DFA or NFA")
    states = [automaton.initial_state, *sorted(automaton.states - {automaton.initial_state}, key=str)]
    place = {state: index for index, state in enumerate(states)}
    alphabet = tuple(sorted(automaton.input_symbols))
    sink = len(states)
    rows = [[place.get(automaton.transitions[state].get(symbol), sink) for symbol in alphabet] for state in states]
    accepting = [state in automaton.final_states for state in states]
    if any(sink in row for row in rows):
        rows.append([sink] * len(alphabet))
        accepting.append(False)
    return DFA(alphabet, np.array(rows, dtype=np.int64), 0, tuple(accepting))


def to_automata_lib(dfa: DFA) -> library_dfa.DFA:
    """See ``DFA.to_automata_lib``."""
    _require()
    from automata.fa import dfa as library_dfa

    for state, label in enumerate(dfa.outputs):
        if not isinstance(label, bool):
            raise AutomatonError(f"the output of state {dfa.name(state)} is {label!r}; automata-lib has acceptors only")
    long = [symbol for symbol in dfa.alphabet if len(symbol) != 1]
    if long:
        raise AutomatonError(f"symbol {long[0]!r} is not one character, which is all that automata-lib reads")
    rows: list[list[Any]] = dfa.transitions.tolist()
    return library_dfa.DFA(
        states=set(range(len(dfa))),
        input_symbols=set(dfa.alphabet),
        transitions={state: dict(zip(dfa.alphabet, row, strict=True)) for state, row in enumerate(rows)},
        initial_state=dfa.initial,
        final_states={state for state, accepting in enumerate(dfa.outputs) if accepting},
    )
