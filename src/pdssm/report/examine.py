"""Everything that the automata tools can find out about a run's model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pdssm.automata import DFA, AutomatonError, Certificate, Unknown, certify, check, compile_dfa
from pdssm.models import SequenceModel
from pdssm.report.collect import LENGTHS, SAMPLES, collect, measured
from pdssm.report.story import Finding, Story
from pdssm.training import RunFolder
from pdssm.training.subject import Subject

MOST_STATES = 300
WORDS = 100
"""Of up to 10,000 symbols, on which model and automaton are compared."""


def examine(
    run: str | Path,
    *,
    lengths: Iterable[int] = LENGTHS,
    samples: int = SAMPLES,
    max_states: int = MOST_STATES,
    say: Callable[[str], None] = lambda step: None,
) -> Story:
    """Extract the automaton, compare it with the target and with the model, certify, snap, measure, and tell.

    A model that is no automaton of up to ``max_states`` states gets the rest of the story; ``say`` hears of each step.
    """
    subject, config = Subject.from_run(run), RunFolder(run).config()
    wanted = sorted({*lengths, config.lengths[1]})
    say("measuring the model")
    by_length = measured(subject.model, config.make_task(), wanted, samples)
    say("extracting its automaton")
    try:
        extraction = subject.extract(max_states=max_states)
    except AutomatonError as error:
        none = Finding("unknown", f"The model was not read as an automaton: {error}.")
        return collect(run, by_length=by_length, also=[none])
    say("comparing the two")
    compared = subject.agreement(extraction.dfa, words=WORDS)
    say("certifying")
    certificate = _certificate(subject.model, subject, extraction.dfa)
    say("measuring and certifying the exact model in its place")
    exact = compile_dfa(extraction.dfa, vocabulary=subject.vocabulary, classes=subject.labels)
    return collect(
        run,
        extraction=extraction,
        agreement=compared,
        certificate=certificate,
        by_length=by_length,
        snapped=measured(exact, config.make_task(), wanted, samples),
        snapped_certificate=_certificate(exact, subject, extraction.dfa),
    )


def _certificate(model: SequenceModel, subject: Subject, dfa: DFA) -> Certificate | Unknown | None:
    """Checked; None for a model of a kind about which nothing can be proved."""
    try:
        found = certify(model, dfa, vocabulary=subject.vocabulary, classes=subject.labels)
    except AutomatonError:
        return None
    if isinstance(found, Certificate):
        check(found, model, dfa, vocabulary=subject.vocabulary, classes=subject.labels)
    return found
