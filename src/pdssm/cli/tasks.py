"""pdssm tasks: what can be learnt.

    pdssm tasks
    pdssm tasks parity

With a name: what it is exactly, and its options.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import tyro

from pdssm.errors import check_choice
from pdssm.tasks import TASKS


@dataclass(frozen=True)
class Tasks:
    """What is parsed."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    """One task, in full; all of them in short unless given."""


def main(arguments: list[str]) -> int:
    """The exit code."""
    name = tyro.cli(Tasks, prog="pdssm tasks", description=__doc__, args=arguments).name
    if name is None:
        width = max(len(entry.spelling) for entry in TASKS.values())
        for entry in TASKS.values():
            print(f"{entry.spelling:{width}}  {entry.summary}")
        print("\nTrain on one: pdssm train TASK. More on one: pdssm tasks NAME, with NAME one of " + ", ".join(TASKS))
        return 0
    name = name.replace("-", "_")
    check_choice("task", name, TASKS)
    entry = TASKS[name]
    print(f"{name}, for instance {entry.spelling}\n\n{entry.description}")
    if entry.options:
        print("\nOptions (--task-options NAME=VALUE ...):")
        for option, parameter in entry.options.items():
            default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
            print(f"  {option}{default}")
    return 0
