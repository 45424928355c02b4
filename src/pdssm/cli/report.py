"""pdssm report: what runs became, as one HTML page.

    pdssm report runs/A5-2-0
    pdssm report runs/parity-0 runs/parity-1 --out parity.html
    pdssm report runs/A5-2-0 --svg figures --pdf figures

The page holds everything it needs and opens from the disk. It shows the accuracy at other lengths, the learning curve,
the automaton extracted from the model beside its target, what the layer does at each symbol, and walks a word of
yours through all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from pdssm.errors import PDSSMError, check_size
from pdssm.report import examine, write_figures, write_page
from pdssm.report.collect import LENGTHS, SAMPLES
from pdssm.report.examine import MOST_STATES
from pdssm.training import RunFolder


@dataclass(frozen=True)
class Report:
    """What is parsed."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """The folders of one or more runs."""
    out: Path = Path("report.html")
    """The page."""
    title: str | None = None
    """Its title."""
    lengths: tuple[int, ...] = LENGTHS
    """Lengths, each measured alone."""
    samples: int = SAMPLES
    """Words of each length, fewer of long ones."""
    max_states: int = MOST_STATES
    """Of the automaton that is looked for in the model."""
    svg: Path | None = None
    """Also write every figure as SVG into this folder."""
    png: Path | None = None
    """The same as PNG."""
    pdf: Path | None = None
    """The same as PDF."""
    threads: int | None = None
    """CPU threads; None leaves torch's own choice."""


def main(arguments: list[str]) -> int:
    """The exit code."""
    given = tyro.cli(Report, prog="pdssm report", description=__doc__, args=arguments)
    if not given.runs:
        raise PDSSMError("no runs came; expected the folders of at least one")
    for name, value in (*(("lengths", length) for length in given.lengths), ("samples", given.samples)):
        check_size(name, value)
    if given.threads is not None:
        check_size("threads", given.threads)
        torch.set_num_threads(given.threads)
    for run in given.runs:  # what is wrong with the last is said before the first is measured
        RunFolder(run).config()
    stories = []
    for run in given.runs:

        def say(step: str, run: Path = run) -> None:
            print(f"{run}: {step}", flush=True)

        stories.append(examine(run, lengths=given.lengths, samples=given.samples, max_states=given.max_states, say=say))
        for finding in stories[-1].findings:
            print(f"  {finding.kind}: {finding.text}")
    write_page(stories, given.out, given.title)
    print(f"{given.out}: {given.out.stat().st_size / 1024:,.0f} KiB")
    for kind, folder in (("svg", given.svg), ("png", given.png), ("pdf", given.pdf)):
        if folder is not None:
            print(f"{folder}: {len(write_figures(stories, folder, kind))} {kind.upper()} files")
    return 0
