"""The command line.

    pdssm demo                      from nothing to a proof, in minutes
    pdssm train parity              train a model, in a folder of its own
    pdssm evaluate runs/parity      its accuracy at other lengths
    pdssm report runs/parity        what became of it, as one HTML page
    pdssm reproduce table2          rebuild a table of the paper
    pdssm automaton verify RUN      automata: show, compile, extract, verify, snap
    pdssm tasks                     what can be learnt
    pdssm models                    what can learn it

Each has --help.

Exit codes: 0 done; 1 stopped for a reason that is said (a NaN loss, a full disk); 2 asked for something that cannot be
(an unknown name, a wrong option, a missing file); 130 interrupted.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence

from pdssm.errors import FULL, PDSSMError, check_choice

NAMES = ("demo", "train", "evaluate", "report", "reproduce", "automaton", "tasks", "models")
COMMANDS = {name: f"pdssm.cli.{name}" for name in NAMES}
STOPPED, USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """``arguments`` are those of the command line unless given; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(inspect.cleandoc(__doc__ or ""))
        return 0 if given else USAGE
    try:
        check_choice("command", given[0], COMMANDS)
        command: Callable[[list[str]], int] = importlib.import_module(COMMANDS[given[0]]).main
        return command(given[1:])
    except SystemExit as ended:  # tyro and argparse have said why
        return ended.code if isinstance(ended.code, int) else USAGE
    except PDSSMError as error:
        return _say(str(error), USAGE)
    except BrokenPipeError:  # whoever read what we print has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED
    except OSError as error:
        if error.errno in FULL:
            return _say(f"{error.filename or 'a file'} could not be written: {error.strerror}", STOPPED)
        if error.filename is None:
            raise
        return _say(f"{error.filename}: {error.strerror}", USAGE)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "pdssm":
            raise
        return _say(f"{error.name} is not installed; expected pip install 'pdssm[train]'", USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED


def _say(message: str, code: int) -> int:
    print(f"pdssm: {message}", file=sys.stderr)
    return code
