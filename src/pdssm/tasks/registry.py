"""Every task by its name."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pdssm.errors import RangeError
from pdssm.tasks.automaton import AutomatonTask, dfa_task, regex_task
from pdssm.tasks.base import Task
from pdssm.tasks.formal import CycleNavigation, EvenPairs, ModularArithmetic, Parity
from pdssm.tasks.groups import GroupTask


@dataclass(frozen=True)
class Entry:
    """A task as the registry knows it: how to build it, and what to tell a reader.

    ``spelling`` is the shortest way to name one such task, as in ``A5:2`` for a group and its number of generators.
    """

    build: Callable[..., Task]
    summary: str
    spelling: str

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What ``make_task`` takes beside the name, in order."""
        return dict(inspect.signature(self.build).parameters)

    @property
    def description(self) -> str:
        """The full text, from the docstring."""
        return inspect.cleandoc(self.build.__doc__ or self.summary)


TASKS: dict[str, Entry] = {
    **{t.name: Entry(t, t.summary, t.name) for t in (Parity, EvenPairs, CycleNavigation, ModularArithmetic)},
    "group": Entry(GroupTask, GroupTask.summary, "A5:2"),
    "regex": Entry(regex_task, "is the word in the language of a regular expression?", "regex:(ab)*"),
    "dfa": Entry(dfa_task, AutomatonTask.summary, "dfa:FILE.json"),
}


def make_task(name: str, **options: Any) -> Task:
    """A task by name: ``parity``, ``A5:2`` (a group and its number of generators), ``regex:(ab)*``, ``dfa:FILE.json``.

    What follows the colon is short for options: ``make_task("group", group="A5", generators=2)`` is the first,
    ``make_task("regex", pattern="(ab)*")`` the second. Dashes and underscores are alike in a name.
    """
    known, short = _resolve(name)
    entry = TASKS[known]
    for option in options:
        if option in short:
            raise RangeError(f"task {name!r} already says {option}, which also came as an option; expected one of both")
        if option not in entry.options:
            raise RangeError(f"task {known!r} has no option {option!r}; expected {_listed(entry.options)}")
    given = {**short, **options}
    for option, parameter in entry.options.items():
        if parameter.default is inspect.Parameter.empty and option not in given:
            raise RangeError(f"task {known!r} needs {option}; expected {entry.spelling!r} or the option {option}=...")
    return entry.build(**given)


def _resolve(name: str) -> tuple[str, dict[str, Any]]:
    """The registered name, and the options that the short spelling stands for."""
    head, colon, rest = name.partition(":")
    if not colon:
        plain = name.strip().lower().replace("-", "_")
        if plain in TASKS:
            return plain, {}
    elif head in ("regex", "dfa"):
        return head, {"pattern" if head == "regex" else "dfa": rest}
    elif rest.isdecimal():
        return "group", {"group": head, "generators": int(rest)}
    hint = f"; did you mean {near!r}?" if (near := _nearest(name)) else ""
    expected = ", ".join(e.spelling for e in TASKS.values())
    raise RangeError(f"name is {name!r}, which is no task{hint} (expected one of, or one like: {expected})")


def _nearest(name: str) -> str | None:
    if re.fullmatch(r"[A-Z]\d+(x[A-Z]\d+)*", name):
        return f"{name}:2"
    spellings = {s.lower(): s for key, entry in TASKS.items() for s in (key, entry.spelling)}
    near = difflib.get_close_matches(name.lower().replace(" ", "_"), spellings, n=1, cutoff=0.5)
    return spellings[near[0]] if near else None


def _listed(options: dict[str, inspect.Parameter]) -> str:
    return ", ".join(options) if options else "none: it takes no options"
