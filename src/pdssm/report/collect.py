"""From a run's folder to its story: what was written down in training, and what is measured and read off now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pdssm.automata import DFA, Agreement, AutomatonError, Certificate, Extraction, Unknown, Verdict, verify
from pdssm.automata.affine import AffineModel, read_model
from pdssm.models import SequenceModel
from pdssm.report.findings import Found, findings
from pdssm.report.story import Finding, Story
from pdssm.report.symbols import symbol_matrices
from pdssm.tasks import Task
from pdssm.training import Evaluation, RunFolder, TrainConfig, accuracy_by_length
from pdssm.training.subject import Subject

LENGTHS = (5, 10, 20, 40, 80, 160, 320, 640, 1_250, 2_500, 5_000, 10_000)
SAMPLES, STEPS = 256, 2**18
"""Words of each length, and fewer where they would have more symbols together than this."""


def collect(
    run: str | Path,
    *,
    extraction: Extraction | None = None,
    agreement: Agreement | None = None,
    certificate: Certificate | Unknown | None = None,
    lengths: Iterable[int] = LENGTHS,
    samples: int = SAMPLES,
    by_length: Mapping[int, Evaluation] | None = None,
    snapped: Mapping[int, Evaluation] | None = None,
    snapped_certificate: Certificate | Unknown | None = None,
    also: Iterable[Finding] = (),
) -> Story:
    """The story of a run, with what was found out about its model; ``examine`` finds all of it out.

    Parameters
    ----------
    extraction, agreement, certificate
        What ``extract_dfa``, ``agreement`` and ``certify`` said of the run's best model, over the task's tokens and
        labels by name.
    lengths, samples
        At which the model is measured now, unless ``by_length`` says what was measured already.
    snapped, snapped_certificate
        The accuracy of the snapped model, and what ``certify`` said of it.
    also
        More findings, to stand below those that follow from the rest.
    """
    folder, subject = RunFolder(run), Subject.from_run(run)
    config = folder.config()
    task = config.make_task()
    if by_length is None:
        by_length = measured(subject.model, task, [*lengths, config.lengths[1]], samples)
    found = Found(extraction, _verdict(extraction, subject.target), agreement, certificate, snapped_certificate)
    symbols = tuple((subject.vocabulary.index(symbol), symbol) for symbol in subject.alphabet)
    story = Story(
        name=folder.path.resolve().name,
        task=task.name,
        summary=task.summary,
        symbols=symbols,
        labels=task.labels,
        chance=task.chance,
        limit=config.lengths[1],
        facts=facts(config, subject.model, folder),
        records=folder.records(),
        by_length=by_length,
        snapped=snapped or {},
        matrices=symbol_matrices(subject.model, symbols),
        model=affine(subject.model),
        target=subject.target,
        extracted=None if extraction is None else extraction.dfa,
        counterexample=None if found.verdict is None else found.verdict.counterexample,
        error=found.error,
    )
    return replace(story, findings=(*findings(story, found), *also))


def measured(model: SequenceModel, task: Task, lengths: Iterable[int], samples: int) -> dict[int, Evaluation]:
    """The accuracy on words of one length each, from the test stream; few of long words, so that it takes seconds."""
    return accuracy_by_length(model.eval(), task, sorted(set(lengths)), samples, steps=STEPS)


def _verdict(extraction: Extraction | None, target: DFA | None) -> Verdict | None:
    """A model says nothing after the empty word."""
    return None if extraction is None or target is None else verify(extraction.dfa, target, empty=False)


def affine(model: SequenceModel) -> AffineModel | None:
    """The model as the page can run it: None for those that are more than an affine map a symbol and a readout."""
    try:
        return read_model(model)
    except AutomatonError:
        return None


def facts(config: TrainConfig, model: SequenceModel, folder: RunFolder) -> dict[str, str]:
    """What was trained, how long, and where."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    options = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in config.mixer_options.items())
    layers = f"{config.layers} layer{'s' if config.layers > 1 else ''}"
    low, high = config.lengths
    found = {
        "Model": f"{layers} of {config.mixer}, width {config.dim}{f', {options}' if options else ''}",
        "Parameters": f"{parameters:,}",
        "Words in training": f"{low} to {high} symbols, {config.batch} a step",
        "Seed": str(config.seed),
    }
    if records := folder.records():
        last = records[-1]
        found["Training"] = f"{last['step']:,} steps" + (f", {last['seconds']:.0f} s" if "seconds" in last else "")
    return found | _machine(folder)


def _machine(folder: RunFolder) -> dict[str, str]:
    try:
        start: Mapping[str, Any] = folder.environment()[-1]
        machine, versions = start["machine"], start["versions"]
        return {
            "Machine": f"{machine['processor']}, {machine['cores']} cores, {start['threads']} threads",
            "Versions": f"pdssm {versions['pdssm']}, torch {versions['torch']}",
        }
    except (OSError, ValueError, KeyError, IndexError):
        return {}  # a folder made by hand, or by another version
