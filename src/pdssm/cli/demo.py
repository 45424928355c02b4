"""pdssm demo: train a layer on five cups, read the automaton off it, and prove that it is the right one.

    pdssm demo
    pdssm demo --out my-demo --seed 3

Five cups stand in a row; one move sends three of them round, another all five. Where is which cup after a thousand
moves? This is the word problem of A5, sixty arrangements under two moves: the smallest group that is not solvable,
which diagonal state-space models and Transformers of a fixed depth cannot follow. One PD-SSM layer learns it from
words of up to 40 moves; the rest of the demo is about all the other words.

Leaves a report to look at, the trained run, the automaton, the exact model and its certificate. Exits with 1 where a
step fails.
"""

from __future__ import annotations

import dataclasses
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pdssm.automata import Certificate, certify, check, compile_dfa, verify
from pdssm.errors import PDSSMError, check_size
from pdssm.report import Story, examine, write_page
from pdssm.training import PRESETS, Outcome, TrainConfig, train
from pdssm.training.subject import Subject

TASK = "A5:2"
LEARNT = 0.99
"""Accuracy on words of 40 to 256 moves from which the rest of the demo makes sense."""
FAILED = 1
MEANING = {
    "learnt": "Learnt",
    "proved": "Proved, for words of every length",
    "tested": "Only tested",
    "refuted": "Not true of the learnt model",
    "unknown": "Not known",
}


@dataclass(frozen=True)
class Demo:
    """What is parsed."""

    out: Path = Path("demo")
    """A new folder for everything."""
    seed: int = 1
    """Of the training."""
    steps: int = 3000
    """Of the training, at most."""
    threads: int | None = None
    """CPU threads; None leaves torch's own choice."""


class StepFailed(Exception):  # noqa: N818 - it ends the demo and is no error of the library
    """What was to be shown did not come out."""


def main(arguments: list[str]) -> int:
    """The exit code."""
    given = tyro.cli(Demo, prog="pdssm demo", description=__doc__, args=arguments)
    check_size("steps", given.steps)
    if given.out.exists():
        raise PDSSMError(f"out is {given.out}, which exists; expected a new folder")
    start = time.perf_counter()
    try:
        _show(given)
    except StepFailed as failure:
        print(f"\npdssm demo: FAILED: {failure}")
        return FAILED
    print(f"\n{time.perf_counter() - start:.0f} seconds. Now open {(given.out / 'report.html').resolve()}")
    return 0


def _show(given: Demo) -> None:
    print(f"{textwrap.fill(_story(), 100)}\n")
    run = _train(given).folder
    story = examine(run, say=lambda step: print(f"  {step} ...", flush=True))
    write_page([story], given.out / "report.html", "Five cups: from a trained layer to a proof")
    _prove(story, Subject.from_run(run), given.out)
    _tell(story)


def _story() -> str:
    return " ".join((__doc__ or "").split("\n\n")[2].split())


def _config(given: Demo) -> TrainConfig:
    """The group preset, with a learning rate that comes to rest: its constant one makes accuracy jump."""
    base = PRESETS["group"](TASK, seed=given.seed, threads=given.threads)
    return dataclasses.replace(base, steps=given.steps, lr=2e-3, schedule="cosine", warmup=0.05, eval_every=250)


def _train(given: Demo) -> Outcome:
    config = _config(given)
    print(f"1. Training one PD-SSM layer on words of up to {config.lengths[1]} moves", flush=True)
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    outcome = train(config, given.out / "run", logger="none")
    if outcome.best is None or outcome.best < LEARNT:
        raise StepFailed(f"training ended ({outcome.message}) with {outcome.best or 0:.2%} on words of 40 to 256 moves")
    print(f"   {outcome.best:.2%} right on words of 40 to 256 moves after {outcome.step:,} steps")
    print("2. What is it, inside and beyond?", flush=True)
    return outcome


def _prove(story: Story, subject: Subject, out: Path) -> None:
    """The extracted automaton is the group's; the exact model made from it is certified against the group itself."""
    print("3. Proofs", flush=True)
    if story.extracted is None or subject.target is None:
        raise StepFailed("no automaton was found in the model")
    verdict = verify(story.extracted, subject.target, empty=False)
    if not verdict:
        raise StepFailed(f"the extracted automaton is not the target: {verdict}")
    vocabulary, classes = subject.vocabulary, subject.labels
    exact = compile_dfa(story.extracted, vocabulary=vocabulary, classes=classes)
    certificate = certify(exact, subject.target, vocabulary=vocabulary, classes=classes)
    if not isinstance(certificate, Certificate):
        raise StepFailed(f"the exact model could not be certified: {certificate}")
    check(certificate, exact, subject.target, vocabulary=vocabulary, classes=classes)
    dataclasses.replace(subject, model=exact).save(out / "exact-model")
    certificate.save(out / "certificate.npz")
    story.extracted.to_json(out / "automaton.json")
    print(f"   {len(story.extracted)} states, equal to A5's own; the exact model is certified against A5")


def _tell(story: Story) -> None:
    """In plain words, by how sure it is."""
    print()
    for kind, meaning in MEANING.items():
        told = [finding.text for finding in story.findings if finding.kind == kind]
        if told:
            print(f"{meaning}:")
            for text in told:
                print(textwrap.fill(text, 100, initial_indent="  - ", subsequent_indent="    "))
