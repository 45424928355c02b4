"""Automata written down by names: tables, and a JSON file that a person can write.

The format; each state has one transition for every symbol, and a label (a boolean, an integer or a string):

    {"alphabet": ["0", "1"],
     "initial": "even",
     "outputs": {"even": false, "odd": true},
     "transitions": {"even": {"0": "even", "1": "odd"}, "odd": {"0": "odd", "1": "even"}}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.validation import Label

_KEYS = ("alphabet", "initial", "outputs", "transitions")
Nested = Mapping[str, Mapping[str, str]]


def from_table(
    table: Nested | Mapping[tuple[str, str], str], initial: str, outputs: Mapping[str, Label] | Collection[str]
) -> DFA:
    """See ``DFA.from_table``."""
    nested = _nested(table)
    alphabet = list(dict.fromkeys(symbol for row in nested.values() for symbol in row))
    if not isinstance(outputs, Mapping):
        unknown = [state for state in outputs if state not in nested]
        if unknown:
            raise AutomatonError(f"outputs names state {unknown[0]!r}, which has no transitions")
        outputs = {state: state in outputs for state in nested}
    return _build(nested, alphabet, initial, outputs)


def _nested(table: Nested | Mapping[tuple[str, str], str]) -> Nested:
    if not table:
        raise AutomatonError("table is empty; expected at least one state")
    if all(isinstance(row, Mapping) for row in table.values()):
        return cast(Nested, table)
    nested: dict[str, dict[str, str]] = {}
    for key, after in table.items():
        if not isinstance(key, tuple) or len(key) != 2 or isinstance(after, Mapping):
            raise AutomatonError(f"table has {key!r}: {after!r}; expected (state, symbol): state, or nested mappings")
        nested.setdefault(key[0], {})[key[1]] = after
    return nested


def _build(nested: Nested, alphabet: list[str], initial: str, outputs: Mapping[str, Label]) -> DFA:
    place = {state: index for index, state in enumerate(nested)}
    for what, states in (("outputs", outputs), ("initial", [initial])):
        unknown = [state for state in states if state not in place]
        if unknown:
            raise AutomatonError(f"{what} names state {unknown[0]!r}, which has no transitions")
    transitions = np.empty((len(place), len(alphabet)), dtype=np.int64)
    for state, row in nested.items():
        extra = [symbol for symbol in row if symbol not in alphabet]
        if extra:
            raise AutomatonError(f"state {state!r} has a transition for symbol {extra[0]!r}, not in the alphabet")
        if state not in outputs:
            raise AutomatonError(f"state {state!r} has no output")
        for column, symbol in enumerate(alphabet):
            if symbol not in row:
                raise AutomatonError(f"state {state!r} has no transition for symbol {symbol!r}")
            if row[symbol] not in place:
                raise AutomatonError(f"state {state!r} goes by symbol {symbol!r} to {row[symbol]!r}, not a state")
            transitions[place[state], column] = place[row[symbol]]
    labels = tuple(outputs[state] for state in nested)
    return DFA(tuple(alphabet), transitions, place[initial], labels, tuple(nested))


def from_json(source: str | os.PathLike[str]) -> DFA:
    """See ``DFA.from_json``."""
    is_text = isinstance(source, str) and source.lstrip().startswith("{")
    where = "the JSON text" if is_text else str(source)
    try:
        text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_once)
        _check_shape(content)
        return _build(content["transitions"], content["alphabet"], content["initial"], content["outputs"])
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, AutomatonError) as error:
        raise AutomatonError(f"{where} is not an automaton: {error}") from error


def to_json(dfa: DFA) -> str:
    """See ``DFA.to_json``."""
    names = [dfa.name(state) for state in range(len(dfa))]
    transitions = {
        name: {symbol: names[after] for symbol, after in zip(dfa.alphabet, row, strict=True)}
        for name, row in zip(names, dfa.transitions.tolist(), strict=True)
    }
    outputs = dict(zip(names, dfa.outputs, strict=True))
    values = (list(dfa.alphabet), names[dfa.initial], outputs, transitions)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in zip(_KEYS, values, strict=True)]
    return "{" + ",\n ".join(lines) + "}\n"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise AutomatonError(f"{next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return content


def _check_shape(content: Any) -> None:
    if not isinstance(content, dict) or set(content) != set(_KEYS):
        found = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise AutomatonError(f"it has {found}; expected an object with {', '.join(_KEYS)}")
    rows = content["transitions"]
    shapes = (
        ("alphabet", isinstance(content["alphabet"], list), "a list of symbols"),
        ("initial", isinstance(content["initial"], str), "the name of a state"),
        ("outputs", isinstance(content["outputs"], dict), "an object, state to label"),
        ("transitions", isinstance(rows, dict), "an object, state to (symbol to state)"),
    )
    for key, right, expected in shapes:
        if not right:
            raise AutomatonError(f"{key} is {content[key]!r}; expected {expected}")
    for state, row in rows.items():
        if not isinstance(row, dict) or not all(isinstance(after, str) for after in row.values()):
            raise AutomatonError(f"the transitions of state {state!r} are {row!r}; expected symbol to state")
