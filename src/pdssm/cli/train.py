"""pdssm train: train a model on a task, in a folder of its own.

    pdssm train parity --steps 2000 --dim 64
    pdssm train A5:2 --preset group --threads 1
    pdssm train "regex:(ab)*" --mixer-options state_dim=32 phase=shrink
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from pdssm.cli.options import registry
from pdssm.errors import PDSSMError, check_choice
from pdssm.layers import mixer_options
from pdssm.training import PRESETS, Outcome, RunFolder, TrainConfig, resume, train


@dataclass(frozen=True)
class RunOptions:
    """Where the run lies and what it shows."""

    preset: str | None = None
    """Begin with a whole protocol: paper_formal or group."""
    config: Path | None = None
    """Begin with a config file, such as a run's config.json."""
    out: Path | None = None
    """The run's folder; runs/TASK-SEED unless given."""
    resume: Path | None = None
    """Go on with the run in this folder, with its own config; takes no other option but logger and quiet."""
    logger: Literal["tensorboard", "csv", "none"] = "tensorboard"
    """Where metrics go beside metrics.jsonl."""
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
    if before.resume is not None:
        outcome = _resume(arguments, Path(before.resume))
    else:
        base = _base(before.preset, before.config)
        chosen = _parse(arguments, base)
        config = _merged(chosen.training, base)
        config.model_config(config.make_task())  # whatever is wrong is said before a folder exists
        outcome = train(config, chosen.run.out or _new_folder(config), logger=chosen.run.logger, quiet=chosen.run.quiet)
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
    for name in ("preset", "config", "resume"):
        scanner.add_argument(f"--{name}")
    return scanner


def _base(preset: str | None, config: str | None) -> TrainConfig:
    if preset is not None and config is not None:
        raise PDSSMError("both preset and config came; expected one of them")
    if config is not None:
        try:
            return TrainConfig.from_json(Path(config).read_text())
        except OSError as error:
            raise PDSSMError(f"config {config} cannot be read: {error.strerror}") from None
    if preset is not None:
        check_choice("preset", preset, PRESETS)
        return PRESETS[preset](tyro.MISSING)
    return TrainConfig(tyro.MISSING)


def _parse(arguments: list[str], base: TrainConfig) -> Train:
    if arguments and not arguments[0].startswith("-"):
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
    """The mixer's options are added to those of the preset or file, as far as the mixer knows them."""
    known = mixer_options(config.mixer)
    kept: Mapping[str, Any] = {name: value for name, value in base.mixer_options.items() if name in known}
    given = config.mixer_options if config.mixer_options != base.mixer_options else {}
    return dataclasses.replace(config, mixer_options={**kept, **given})


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
    if not RunFolder(folder).exists:
        raise PDSSMError(f"resume is {folder}, which holds no run; expected a folder that pdssm train made")
    return resume(folder, logger=given.logger, quiet=given.quiet)
