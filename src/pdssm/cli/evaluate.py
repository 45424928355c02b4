"""pdssm evaluate: the accuracy of a run's model at other lengths.

    pdssm evaluate runs/parity-0 --lengths 40 256 1000 10000
    pdssm evaluate runs/parity-0 --lengths 1000 --samples 100 --json parity.json

Words come from the test stream, which neither training nor its evaluations have seen.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from pdssm.errors import FileError, check_size
from pdssm.models import SequenceModel
from pdssm.models.files import write_atomically
from pdssm.training import Evaluation, RunFolder, accuracy_by_length


@dataclass(frozen=True)
class Evaluate:
    """What is parsed."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
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
    for length in (*given.lengths, given.samples):
        check_size("lengths and samples", length)
    run = RunFolder(given.run)
    config = run.config()
    if not (given.run / "best").exists():
        raise FileError(f"{given.run} has no model yet; expected a run that was evaluated at least once")
    if given.threads is not None:
        check_size("threads", given.threads)
        torch.set_num_threads(given.threads)
    model, task = SequenceModel.from_pretrained(given.run / "best"), config.make_task()
    found = accuracy_by_length(model, task, given.lengths, given.samples, seed=given.seed, chunk=config.eval_chunk)
    print(f"{given.run}: {config.task}, {task.output_size} classes, chance {task.chance:.1%}")
    print(table(found, every=task.label_at == "every"))
    if given.json is not None:
        values = {str(length): dataclasses.asdict(value) for length, value in found.items()}
        content = {"run": str(given.run), "config": config.to_dict(), "seed": given.seed, "by_length": values}
        write_atomically(given.json, json.dumps(content, indent=1).encode())
    return 0


def table(found: dict[int, Evaluation], every: bool) -> str:
    """Plain columns."""
    extra = f"{'last step':>12}{'whole words':>13}" if every else ""
    lines = [f"{'length':>8}{'accuracy':>12}{extra}{'words':>8}"]
    for length, value in found.items():
        extra = f"{value.last:12.4%}{value.whole:13.4%}" if every else ""
        lines.append(f"{length:8}{value.accuracy:12.4%}{extra}{value.sequences:8}")
    return "\n".join(lines)
