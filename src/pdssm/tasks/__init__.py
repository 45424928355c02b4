"""Tasks: labelled languages to train on and to be measured by, drawn as packed batches."""

from pdssm.tasks.automaton import AutomatonTask, dfa_task, regex_task
from pdssm.tasks.base import Task
from pdssm.tasks.batch import Batch
from pdssm.tasks.formal import CycleNavigation, EvenPairs, ModularArithmetic, Parity
from pdssm.tasks.groups import GroupTask
from pdssm.tasks.registry import TASKS, Entry, make_task
from pdssm.tasks.streams import SPLITS, Split, sample_batch, stream_generator

__all__ = [
    "SPLITS",
    "TASKS",
    "AutomatonTask",
    "Batch",
    "CycleNavigation",
    "Entry",
    "EvenPairs",
    "GroupTask",
    "ModularArithmetic",
    "Parity",
    "Split",
    "Task",
    "dfa_task",
    "make_task",
    "regex_task",
    "sample_batch",
    "stream_generator",
]
