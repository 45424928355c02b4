"""pdssm train: train a model on a task, in a folder of its own.

    pdssm train parity --steps 2000 --dim 64
    pdssm train A5:2 --preset group --threads 1
    pdssm train --regex "(ab)*" --mixer-options state_dim=32 phase=shrink
    pdssm train --dfa turnstile.json --task-options target=state
    pdssm train parity --preset paper_formal --seed 1 --out runs/parity-1
    pdssm train --config my.json --lr 1e-4
    pdssm train --resume runs/parity-1

A preset or a config file gives the values from which the other options depart; both show up as the defaults in --help.
Ctrl-C saves and ends; --resume goes on to the same bits as if nothing had happened.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from pdssm.cli.options import registry
from pdssm.errors import PDSSMError, check_choice
from pdssm.layers import mixer_options
from pdssm.training import PRESETS, Outcome, TrainConfig, read_config, resume, train
from pdssm.training.processes import is_main


@dataclass(frozen=True)
class RunOptions:
    """Where the run lies and what it shows."""

    preset: str | None = None
    """Begin with a whole protocol: paper_formal or group."""
    config: Path | None = None
    """Begin with a config file, such as a run's config.json."""
    regex: str | None = None
    """In place of TASK: is the word in the language of this expression?"""
    dfa: Path | None = None
    """In place of TASK: an automaton of your own, as a JSON file."""
    out: Path | None = None
    """The run's folder; runs/TASK-SEED unless given."""
    resume: Path | None = None
    """Go on with the run in this folder, with its own config; takes no other option but logger and quiet."""
    logger: str = "tensorboard"
    """Where metrics go beside metrics.jsonl: tensorboard, csv or none."""
    quiet: bool = False
    """Show nothing on the way."""


@dataclass(frozen=True)
class Train:
    """What is parsed: the two groups of options."""

    training: TrainConfig
    run: RunOptions = field(default_factory=RunOptions)


def main(arguments: list[str]) -> int:
    """The exit code."""
    before, _ = _scanner().parse_known_args(arguments)
    if before.resume is not None and not before.help:
        outcome = _resume(arguments, Path(before.resume))
    else:
        base = _base(before.preset, before.config, _task(before.regex, before.dfa))
        chosen = _parse(arguments, base)
        if (before.regex or before.dfa) and chosen.training.task != base.task:
            raise PDSSMError(f"both task {chosen.training.task!r} and {base.task!r} came; expected one of them")
        config = _merged(chosen.training, base)
        outcome = train(config, chosen.run.out or _new_folder(config), logger=chosen.run.logger, quiet=chosen.run.quiet)
    if is_main():
        report(outcome)
    return outcome.exit_code


def report(outcome: Outcome) -> None:
    """One line on how it ended."""
    best = "not evaluated" if outcome.best is None else f"best accuracy {outcome.best:.4%} at step {outcome.best_step}"
    print(f"{outcome.folder}: {outcome.reason} at step {outcome.step}, {best}, {outcome.seconds:.0f} s")
    if outcome.exit_code:
        print(f"pdssm: {outcome.message}", file=sys.stderr)


def _scanner() -> argparse.ArgumentParser:
    """Finds what decides on the defaults of everything else."""
    scanner = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("preset", "config", "resume", "regex", "dfa"):
        scanner.add_argument(f"--{name}")
    scanner.add_argument("-h", "--help", action="store_true")
    return scanner


def _task(regex: str | None, dfa: str | None) -> str | None:
    if regex is not None and dfa is not None:
        raise PDSSMError("both regex and dfa came; expected one of them")
    return f"regex:{regex}" if regex is not None else f"dfa:{dfa}" if dfa is not None else None


def _base(preset: str | None, config: str | None, task: str | None) -> TrainConfig:
    """The values from which the options depart."""
    if preset is not None and config is not None:
        raise PDSSMError("both preset and config came; expected one of them")
    if config is not None:
        base = read_config(Path(config))
        return base if task is None else dataclasses.replace(base, task=task, task_options={})
    make: Callable[[Any], TrainConfig] = TrainConfig
    if preset is not None:
        check_choice("preset", preset, PRESETS)
        make = PRESETS[preset]
    return make(tyro.MISSING if task is None else task)


def _parse(arguments: list[str], base: TrainConfig) -> Train:
    if arguments and not arguments[0].startswith("-"):  # TASK
        arguments = ["--task", *arguments]
    return tyro.cli(
        tyro.conf.OmitArgPrefixes[Train],
        prog="pdssm train",
        description=__doc__,
        args=arguments,
        default=Train(base),
        registry=registry,
    )


def _merged(config: TrainConfig, base: TrainConfig) -> TrainConfig:
    """The options given are added to those of the preset or file, as far as the mixer, or the task, knows those."""
    known = mixer_options(config.mixer)
    kept: Mapping[str, Any] = {name: value for name, value in base.mixer_options.items() if name in known}
    given = config.mixer_options if config.mixer_options != base.mixer_options else {}
    same = base.task_options if config.task == base.task else {}
    asked = config.task_options if config.task_options != base.task_options else {}
    return dataclasses.replace(config, mixer_options={**kept, **given}, task_options={**same, **asked})


def _new_folder(config: TrainConfig) -> Path:
    """``runs/TASK-SEED``, with a number where that is taken."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", config.task).strip("-") or "run"
    folder = first = Path("runs") / f"{name}-{config.seed}"
    number = 2
    while folder.exists():
        folder, number = first.with_name(f"{first.name}-{number}"), number + 1
    return folder


def _resume(arguments: list[str], folder: Path) -> Outcome:
    allowed = argparse.ArgumentParser(prog="pdssm train", add_help=False, allow_abbrev=False)
    allowed.add_argument("--resume")
    allowed.add_argument("--logger", default="tensorboard")
    allowed.add_argument("--quiet", action="store_true")
    given, rest = allowed.parse_known_args(arguments)
    if rest:
        raise PDSSMError(f"resume came with {' '.join(rest)}; expected no other options: the run has its own config")
    return resume(folder, logger=given.logger, quiet=given.quiet)
