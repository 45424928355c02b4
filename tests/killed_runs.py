"""Runs killed with SIGKILL before their n-th file operation: ``python -m tests.killed_runs FOLDER FIRST STEP``.

The library is loaded once; every run is a process of its own, forked from here.  Prints a JSON object: how many runs
were killed, how many of them had begun, and before which operations a kill led to other bits, or to a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.runs import bits, run, tiny

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.symlink", "os.rmdir", "os.truncate", "shutil.rmtree")
CONFIG = tiny(ema=0.5, steps=6)


def changes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a file operation changes anything: reading does not."""
    return event in OPERATIONS and not (event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))


def watch(folder: Path, note: Callable[[str, tuple[Any, ...]], None]) -> None:
    """Call ``note`` before every file operation in the folder, from now on."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPERATIONS and changes(event, arguments) and str(arguments[0]).startswith(str(folder)):
            note(event, arguments)

    sys.addaudithook(hook)


def kill_at(number: int) -> Callable[[str, tuple[Any, ...]], None]:
    """Kill this process before an operation; what was to be renamed lies there cut in half, as after a power cut."""
    seen = 0

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            if event == "os.rename" and Path(arguments[0]).is_file():
                os.truncate(arguments[0], Path(arguments[0]).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    return note


def in_child(action: Callable[[], object]) -> int:
    """How the process that does it ends: its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(folder: Path, number: int) -> int:
    """Train until the operation comes."""

    def action() -> None:
        watch(folder, kill_at(number))
        run(CONFIG, folder)

    return in_child(action)


def main() -> None:
    """See above."""
    folder, first, step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)  # nothing runs in parallel, so that forking is safe
    run(CONFIG, folder / "whole")
    expected = bits(folder / "whole")
    number, wrong, begun = first, [], 0
    while True:
        cut = folder / "cut"
        shutil.rmtree(cut, ignore_errors=True)
        ended = killed(cut, number)
        if ended == 0:  # it came to its end before
            break
        assert ended == -signal.SIGKILL, ended
        begun += (cut / "config.json").exists()
        if in_child(partial(run, CONFIG, cut)) or bits(cut) != expected or list(cut.rglob("*.part")):
            wrong.append(number)
        number += step
    print(json.dumps({"killed": (number - first) // step, "begun": begun, "wrong": wrong}))


if __name__ == "__main__":
    main()
