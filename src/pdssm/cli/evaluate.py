"""pdssm evaluate: the accuracy of runs' models at other lengths.

    pdssm evaluate runs/parity-0 --lengths 40 256 1000 10000
    pdssm evaluate runs/parity-0 runs/parity-1 --lengths 1000
    pdssm evaluate runs/parity-0 --samples 100 --json parity.json

Several runs stand side by side. Words come from the test stream, which neither training nor its evaluations have seen.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from pdssm.errors import FileError, PDSSMError, check_size
from pdssm.models import SequenceModel
from pdssm.models.files import write_atomically
from pdssm.training import Evaluation, RunFolder, TrainConfig, accuracy_by_length
from pdssm.training.processes import Processes

Found = dict[int, Evaluation]


@dataclass(frozen=True)
class Evaluate:
    """What is parsed."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """The folders of one or more runs."""
    lengths: tuple[int, ...] = (40, 64, 128, 256, 512, 1000)
    """Lengths, each measured alone."""
    samples: int = 1024
    """Words of each length; fewer where they are so long that they would have two million symbols together."""
    seed: int = 0
    """Of the words."""
    threads: int | None = None
    """CPU threads; None leaves torch's own choice."""
    json: Path | None = None
    """Also write everything into this file."""


def main(arguments: list[str]) -> int:
    """The exit code."""
    given = tyro.cli(Evaluate, prog="pdssm evaluate", description=__doc__, args=arguments)
    if not given.runs or not given.lengths:
        raise PDSSMError(f"{len(given.runs)} runs and {len(given.lengths)} lengths came; expected at least one of each")
    for name, value in (*(("lengths", length) for length in given.lengths), ("samples", given.samples)):
        check_size(name, value)
    if given.threads is not None:
        check_size("threads", given.threads)
        torch.set_num_threads(given.threads)
    if given.json is not None and not given.json.parent.is_dir():
        raise FileError(f"json is {given.json}, but {given.json.parent} is no folder")
    models = {run: load(run) for run in given.runs}  # what is wrong with the last is said before the first is measured
    measured = {run: measure(run, config, model, given) for run, (config, model) in models.items()}
    if len(measured) > 1:
        print(comparison(measured))
    if given.json is not None:
        entries = [described(run, models[run][0], given.seed, found) for run, found in measured.items()]
        content = entries[0] if len(entries) == 1 else entries
        write_atomically(given.json, json.dumps(content, indent=1).encode())
    return 0


def load(run: Path) -> tuple[TrainConfig, SequenceModel]:
    """Its config and its best model."""
    config = RunFolder(run).config()
    if not (run / "best").exists():
        raise FileError(f"{run} has no model yet; expected a run that was evaluated at least once")
    return config, SequenceModel.from_pretrained(run / "best").to(Processes(config.device).device)


def measure(run: Path, config: TrainConfig, model: SequenceModel, given: Evaluate) -> Found:
    """By length; a table is printed."""
    task = config.make_task()
    found = accuracy_by_length(model, task, given.lengths, given.samples, seed=given.seed, chunk=config.eval_chunk)
    print(f"{run}: {task.name}, {task.output_size} classes, chance {task.chance:.1%}")
    print(table(found, every=task.label_at == "every"), end="\n\n")
    return found


def table(found: Found, every: bool) -> str:
    """Plain columns."""
    extra = f"{'last step':>12}{'whole words':>13}" if every else ""
    lines = [f"{'length':>8}{'accuracy':>12}{extra}{'words':>8}"]
    for length, value in found.items():
        extra = f"{value.last:12.4%}{value.whole:13.4%}" if every else ""
        lines.append(f"{length:8}{value.accuracy:12.4%}{extra}{value.sequences:8}")
    return "\n".join(lines)


def comparison(measured: dict[Path, Found]) -> str:
    """Accuracies side by side, a run a column."""
    names = list(map(str, measured))
    width = max(12, 2 + max(map(len, names)))
    lines = [f"{'length':>8}" + "".join(f"{name:>{width}}" for name in names)]
    lengths = next(iter(measured.values()))
    rows = ([f"{found[length].accuracy:{width}.4%}" for found in measured.values()] for length in lengths)
    return "\n".join([*lines, *(f"{length:8}" + "".join(row) for length, row in zip(lengths, rows, strict=True))])


def described(run: Path, config: TrainConfig, seed: int, found: Found) -> dict[str, Any]:
    """For the JSON file."""
    values = {str(length): dataclasses.asdict(value) for length, value in found.items()}
    return {"run": str(run), "config": config.to_dict(), "seed": seed, "by_length": values}
