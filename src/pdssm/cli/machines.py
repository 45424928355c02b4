"""Automata as the command line reads and prints them."""

from __future__ import annotations

from pathlib import Path

from pdssm.automata import DFA, AutomatonError, TransformationMonoid
from pdssm.errors import FileError
from pdssm.tasks import AutomatonTask, make_task
from pdssm.tasks.targets import target_automaton
from pdssm.training.subject import AUTOMATON

REGEX = "regex:"
SHOWN_STATES = 24


def find_automaton(source: str) -> DFA:
    """A JSON file's automaton, or a task's."""
    path = Path(source)
    if path.suffix == ".json" or path.is_file():
        return DFA.from_json(path)
    if path.is_dir():
        if not (path / AUTOMATON).exists():
            raise FileError(f"{path} has no {AUTOMATON}; expected the folder of a compiled model, or an automaton")
        return DFA.from_json(path / AUTOMATON)
    if source.startswith(REGEX):
        return DFA.from_regex(source.removeprefix(REGEX))
    task = make_task(source)
    return task.dfa if isinstance(task, AutomatonTask) else target_automaton(task)


def transitions_table(dfa: DFA) -> str:
    """State, label and where each symbol leads; the initial state is marked."""
    header = ["state", "label", *dfa.alphabet]
    rows = [
        [f"{'>' if state == dfa.initial else ' '}{dfa.name(state)}", str(dfa.outputs[state]), *map(dfa.name, leads)]
        for state, leads in enumerate(dfa.transitions[:SHOWN_STATES].tolist())
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    more = f"\n... and {len(dfa) - SHOWN_STATES} more" if len(dfa) > SHOWN_STATES else ""
    return "\n".join(line.rstrip() for line in lines) + more


def monoid_line(dfa: DFA) -> str:
    """Its monoid, in a line."""
    try:
        monoid = TransformationMonoid.of(dfa)
    except AutomatonError as error:
        return str(error)
    kind = "a group" if monoid.is_group else "aperiodic" if monoid.is_aperiodic else "neither a group nor aperiodic"
    return f"Monoid: {monoid.order} elements, {kind}, {'solvable' if monoid.is_solvable else 'not solvable'}"
