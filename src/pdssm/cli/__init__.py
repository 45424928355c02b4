"""The command line.

    pdssm train parity              train a model, in a folder of its own
    pdssm evaluate runs/parity      its accuracy at other lengths
    pdssm reproduce table2          rebuild a table of the paper
    pdssm tasks                     what can be learnt
    pdssm models                    what can learn it

Each has --help.

Exit codes: 0 done; 1 stopped for a reason that is said (a NaN loss, a full disk); 2 asked for something that is not
there (an unknown name, a wrong option, a missing file); 130 interrupted.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence

from pdssm.errors import PDSSMError, check_choice

COMMANDS = {name: f"pdssm.cli.{name}" for name in ("train", "evaluate", "reproduce", "tasks", "models")}
USAGE, INTERRUPTED = 2, 130


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
    except PDSSMError as error:
        print(f"pdssm: {error}", file=sys.stderr)
        return USAGE
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "pdssm":
            raise
        print(f"pdssm: {error.name} is not installed; expected pip install 'pdssm[train]'", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
