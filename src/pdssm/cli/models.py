"""pdssm models: what can learn it, the sequence mixers.

    pdssm models
    pdssm models pdssm

With a name: what it is exactly, and its options.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import tyro

from pdssm.errors import check_choice
from pdssm.layers import MIXERS, mixer_options


@dataclass(frozen=True)
class Models:
    """What is parsed."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    """One mixer, in full; all of them in short unless given."""


def main(arguments: list[str]) -> int:
    """The exit code."""
    name = tyro.cli(Models, prog="pdssm models", description=__doc__, args=arguments).name
    if name is None:
        width = max(map(len, MIXERS))
        for known, mixer in MIXERS.items():
            print(f"{known:{width}}  {inspect.cleandoc(mixer.__doc__ or '').splitlines()[0]}")
        print("\nTrain one: pdssm train TASK --mixer NAME. Its options: pdssm models NAME")
        return 0
    name = name.replace("-", "_")
    check_choice("mixer", name, MIXERS)
    print(f"{name}\n\n{inspect.cleandoc(MIXERS[name].__doc__ or '')}\n\nOptions (--mixer-options NAME=VALUE ...):")
    for option, default in mixer_options(name).items():
        print(f"  {option}{'' if default is inspect.Parameter.empty else f' = {default!r}'}")
    return 0
