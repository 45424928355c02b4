"""Certificates: how often models are proved right for words of every length: ``python -m benchmarks.certify``.

Compiled and snapped models, of which all must certify; corrupted ones, of which none may; and trained ones, with the
reason for each that does not. ``--quick`` takes fewer of each; ``--json FILE`` stores what came out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.automata_trained import config
from benchmarks.command import Figure, Stored, command
from pdssm.automata import DFA, AutomatonError, Certificate, Unknown, certify, compile_dfa, hold_exact
from pdssm.models import SequenceModel
from pdssm.tasks import make_task
from pdssm.training import TrainConfig, train
from pdssm.training.presets import group
from pdssm.training.subject import Subject

LABELS = ("x", "y", "z")
GROUPS = {"parity": "Z2:1", "cycle navigation": "Z5:3", "S3": "S3:2"}
DEFINITE = ("(a|b)*ab", "(a|b)*a(a|b)(a|b)")
TRAINED = {
    "parity": config("parity", 0),
    "cycle navigation": config("cycle_navigation", 0),
    "S3": config("S3:2", 0),
    "A5": group("A5:2", steps=6000, threads=1),
    **{
        f"ends as {pattern}": replace(
            config(f"regex:{pattern}", 0), dim=32, steps=600, mixer_options={"state_dim": 16, "dictionary_size": 4}
        )
        for pattern in DEFINITE
    },
}


@dataclass(frozen=True)
class Answers:
    """What ``certify`` said of some models."""

    what: str
    models: int
    certified: int
    unknown: dict[str, int]
    """How many for each reason."""
    details: list[str]
    """An answer a model, for trained ones."""
    seconds: float
    """Of certifying, altogether."""


def asked(what: str, answers: Iterator[tuple[Certificate | Unknown, float]], detailed: bool = False) -> Answers:
    """Counted."""
    found = list(answers)
    reasons = Counter(answer.reason for answer, _ in found if isinstance(answer, Unknown))
    details = [told(answer) for answer, _ in found] if detailed else []
    certified = sum(isinstance(answer, Certificate) for answer, _ in found)
    result = Answers(what, len(found), certified, dict(reasons), details, sum(spent for _, spent in found))
    print(result, flush=True)
    return result


def told(answer: Certificate | Unknown) -> str:
    """In a line."""
    if isinstance(answer, Unknown):
        return str(answer)
    return f"certified: {len(answer)} sets, {'each a point' if answer.exact else 'discs'}"


def timed(model: SequenceModel, dfa: DFA, **options: object) -> tuple[Certificate | Unknown, float]:
    """Of one model."""
    start = time.perf_counter()
    answer = certify(model.eval(), dfa, **options)  # type: ignore[arg-type]
    return answer, time.perf_counter() - start


# ------------------------------------------------------------------------------------------------ compiled, corrupted


def compiled(count: int, rng: np.random.Generator) -> Iterator[tuple[Certificate | Unknown, float]]:
    """Models of random automata."""
    for _ in range(count):
        dfa = DFA.random(int(rng.integers(2, 101)), int(rng.integers(2, 11)), rng, LABELS)
        yield timed(compile_dfa(dfa, classes=LABELS), dfa, classes=LABELS)


def corrupted(count: int, rng: np.random.Generator) -> Iterator[tuple[Certificate | Unknown, float]]:
    """A transition or a weight changed so that some word is wrong; no words are tried before the search."""
    done = 0
    while done < count:
        dfa = DFA.random(int(rng.integers(2, 21)), int(rng.integers(2, 5)), rng, LABELS)
        model = (wrong_transition if done % 2 else wrong_weight)(dfa, rng)
        if model is not None:
            done += 1
            yield timed(model, dfa, classes=LABELS, words=0)


def wrong_transition(dfa: DFA, rng: np.random.Generator) -> SequenceModel | None:
    """The model of an automaton with another transition, if that makes a difference."""
    table = np.array(dfa.transitions)
    table[int(rng.integers(len(dfa))), int(rng.integers(len(dfa.alphabet)))] = int(rng.integers(len(dfa)))
    other = replace(dfa, transitions=table)
    return None if other.minimised() == dfa.minimised() else compile_dfa(other, classes=LABELS)


@torch.no_grad()
def wrong_weight(dfa: DFA, rng: np.random.Generator) -> SequenceModel | None:
    """A compiled model with one weight changed, if it then errs on one of some words."""
    model = compile_dfa(dfa, classes=LABELS).eval()
    named = [parameter for parameter in model.parameters() if parameter.numel()]
    weight = named[int(rng.integers(len(named)))]
    entry, size = int(rng.integers(weight.numel())), float(rng.choice([0.01, 0.3, 1.0, 3.0, 100.0]))
    weight.view(-1)[entry] += float(rng.choice([-1, 1])) * size
    words = rng.integers(len(dfa.alphabet), size=(128, 512))
    expected = np.array([LABELS.index(str(label)) for label in dfa.outputs])[dfa.run_many(words)]
    return model if bool((model(torch.from_numpy(words)).argmax(-1).numpy() != expected).any()) else None


# ----------------------------------------------------------------------------------------------------- trained


def trained(base: TrainConfig, seeds: int) -> Iterator[tuple[Subject, int]]:
    """With the library's training, and each subject's best accuracy reached."""
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            train(replace(base, seed=seed), Path(folder) / "run", logger="none", quiet=True)
            yield Subject.load(Path(folder) / "run"), seed


def of_subject(subject: Subject) -> tuple[Certificate | Unknown, float]:
    """Against the task's automaton."""
    assert subject.target is not None
    return timed(subject.model, subject.target, vocabulary=subject.vocabulary, classes=subject.labels)


def snapped(subject: Subject) -> tuple[Certificate | Unknown, float] | None:
    """The snapped model against the automaton that was extracted; None where none was found."""
    try:
        snapped_model, extraction = subject.snap(length=40, tolerance=0.01, max_states=200)
    except AutomatonError as error:
        print(f"not extracted: {error}", flush=True)
        return None
    return timed(snapped_model, extraction.dfa, vocabulary=subject.vocabulary, classes=subject.labels)


def held_exact(name: str, seeds: int, steps: int = 2500) -> Iterator[tuple[Certificate | Unknown, float]]:
    """The same tasks as products of a group's generators, with nothing to learn but an automaton."""
    task = make_task(name)
    subject = Subject.of_task(SequenceModel(model_config(name)), task)
    assert subject.target is not None
    table = torch.from_numpy(np.array(task.dfa.transitions))  # type: ignore[attr-defined]
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = hold_exact(SequenceModel(model_config(name)))
        optimiser = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=1e-3)
        for step in range(steps):
            words = torch.randint(table.shape[1], (64, 1 + step % 40))
            state, answers = torch.zeros(64, dtype=torch.int64), []
            for symbols in words.T:
                state = table[state, symbols]
                answers.append(state)
            loss = cross_entropy(model(words).flatten(0, 1), torch.stack(answers, 1).flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        yield timed(model, subject.target, vocabulary=task.tokens, classes=task.labels)


def model_config(name: str) -> object:
    """Of 64 components."""
    options = {"state_dim": 64, "dictionary_size": 8, "phase": "zero"}
    return replace(config(name, 0), dim=64, mixer_options=options).model_config(make_task(name))


# -------------------------------------------------------------------------------------------------------- all of it


def figures(found: list[Answers]) -> list[Figure]:
    """What had to be reached."""
    result = []
    for each in found:
        wanted = {"compiled": each.models, "snapped": each.models, "corrupted": 0}.get(each.what)
        done, must = f"{each.certified} of {each.models}", "" if wanted is None else f"{wanted} of {each.models}"
        met = None if wanted is None else each.certified == wanted
        seconds = {"all": each.seconds}
        result.append(Figure("certified", each.what, must, must, done, each.certified, met, seconds))
    return result


def measure(quick: bool) -> list[Answers]:
    """Everything."""
    rng, seeds = np.random.default_rng(0), 1 if quick else 5
    found = [asked("compiled", compiled(10 if quick else 100, rng))]
    found.append(asked("corrupted", corrupted(20 if quick else 1000, rng)))
    exact = []
    for what, base in TRAINED.items():
        answers = []
        for subject, _ in trained(replace(base, steps=100) if quick else base, seeds):
            answers.append(of_subject(subject))
            exact.append(snapped(subject))
        found.append(asked(f"trained: {what}", iter(answers), detailed=True))
    found.append(asked("snapped", (answer for answer in exact if answer is not None)))
    for what, name in GROUPS.items():
        found.append(asked(f"trained, held exact: {what}", held_exact(name, seeds, 50 if quick else 2500), True))
    return found


def study(arguments: argparse.Namespace) -> Stored:
    """Everything."""
    found = measure(arguments.quick)
    return {"figures": [asdict(line) for line in figures(found)], "answers": [asdict(each) for each in found]}


def main() -> None:
    """Measure, show, store."""
    stored = command(__doc__, study, quick="fewer of each")
    if any(line["met"] is False for line in stored["figures"]):
        raise SystemExit("a model that had to certify did not, or one did that may not")


if __name__ == "__main__":
    main()
