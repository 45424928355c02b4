"""The automaton behind a task, where there is one: what a model that has learnt it must be equal to.

Its symbols are those tokens of the task that words are made of, its outputs the names of the task's labels. The empty
word has an output too, though no task asks for it.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from pdssm.automata import DFA
from pdssm.errors import RangeError
from pdssm.tasks.automaton import AutomatonTask
from pdssm.tasks.base import Task
from pdssm.tasks.formal import CycleNavigation, EvenPairs, Parity
from pdssm.tasks.groups import GroupTask


@singledispatch
def target_automaton(task: Task) -> DFA:
    """The automaton, or an error where the task's words are not all words over its symbols."""
    raise RangeError(f"task {task.name!r} has no automaton over all words; expected a task that has one")


@target_automaton.register
def _(task: AutomatonTask) -> DFA:
    dfa = task.dfa
    names = task.labels if task.target == "state" else tuple(map(str, dfa.outputs))
    return DFA(dfa.alphabet, dfa.transitions, dfa.initial, names, dfa.state_names)


@target_automaton.register
def _(task: GroupTask) -> DFA:
    return DFA(task.tokens, task.dfa.transitions, task.dfa.initial, task.labels)


@target_automaton.register
def _(task: Parity) -> DFA:
    return DFA(("a", "b"), np.array([[0, 1], [1, 0]]), 0, ("a", "b"), ("even", "odd"))


@target_automaton.register
def _(task: EvenPairs) -> DFA:
    names = ("nothing", "a..a", "a..b", "b..b", "b..a")
    table = np.array([[1, 3], [1, 2], [1, 2], [4, 3], [4, 3]])
    return DFA(("a", "b"), table, 0, ("a", "a", "b", "a", "b"), names)


@target_automaton.register
def _(task: CycleNavigation) -> DFA:
    table = [[place, (place + 1) % 5, (place - 1) % 5] for place in range(5)]
    return DFA(("stay", "+1", "-1"), np.array(table), 0, ("0", "1", "2", "3", "4"))


def task_symbols(task: Task) -> tuple[str, ...]:
    """The tokens that the task's words are made of."""
    try:
        return target_automaton(task).alphabet
    except RangeError:
        words = task.sample(256, (task.shortest, 64), np.random.default_rng(0))
        return tuple(task.tokens[int(token)] for token in words.tokens.unique())
