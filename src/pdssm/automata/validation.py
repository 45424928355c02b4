"""What every automaton must be: total, its labels and names complete and its symbols different."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pdssm.automata.errors import AutomatonError

if TYPE_CHECKING:
    from pdssm.automata.dfa import DFA

Label = str | bool | int


def default_alphabet(size: int) -> tuple[str, ...]:
    """a, b, c, ... up to 26 symbols, and s0, s1, ... beyond."""
    return tuple("abcdefghijklmnopqrstuvwxyz"[:size]) if size <= 26 else tuple(f"s{k}" for k in range(size))


def shown(alphabet: Sequence[str]) -> str:
    """An alphabet in an error message."""
    return f"the alphabet ({', '.join(map(repr, alphabet[:10]))}{', ...' if len(alphabet) > 10 else ''})"


def check(dfa: DFA) -> None:
    """Refuse what is no automaton, naming state and symbol."""
    states, symbols = len(dfa.outputs), len(dfa.alphabet)
    if not states or not symbols:
        raise AutomatonError(f"the automaton has {states} states and {symbols} symbols; expected at least one of each")
    if dfa.transitions.shape != (states, symbols):
        raise AutomatonError(f"transitions have shape {dfa.transitions.shape}; expected {(states, symbols)}")
    for what, entries in (("alphabet", dfa.alphabet), ("state_names", dfa.state_names or ())):
        if not all(isinstance(entry, str) and entry for entry in entries) or len(set(entries)) < len(entries):
            raise AutomatonError(f"{what} is {entries}; expected different strings, none empty")
    if dfa.state_names is not None and len(dfa.state_names) != states:
        raise AutomatonError(f"state_names has {len(dfa.state_names)} entries; expected {states}, one a state")
    for state, label in enumerate(dfa.outputs):
        if not isinstance(label, (str, bool, int)):
            raise AutomatonError(f"the output of state {dfa.name(state)} is {label!r}; expected str, bool or int")
    if not 0 <= dfa.initial < states:
        raise AutomatonError(f"initial is {dfa.initial}; expected a state 0..{states - 1}")
    wrong = np.argwhere((dfa.transitions < 0) | (dfa.transitions >= states))
    if wrong.size:
        state, symbol = wrong[0].tolist()
        raise AutomatonError(
            f"state {dfa.name(state)} has no transition for symbol {dfa.alphabet[symbol]!r}: it leads to "
            f"{dfa.transitions[state, symbol]}; expected a state 0..{states - 1}"
        )
