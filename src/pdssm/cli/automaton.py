"""pdssm automaton: automata, and models as automata.

    pdssm automaton show "regex:(a|b)*abb"              what it is, and which structures can emulate it
    pdssm automaton compile A5:2 --out models/a5        as a model, exact
    pdssm automaton extract runs/A5-2-0 --json a5.json  out of a trained model
    pdssm automaton verify runs/A5-2-0                  is that the automaton of its task?
    pdssm automaton verify models/a5 A5:2               or of another?
    pdssm automaton snap runs/A5-2-0 --out models/a5    the exact model in place of the learnt one

An AUTOMATON is a JSON file, or a task that is one: regex:(ab)*, A5:2 (a group and its number of generators), parity,
cycle_navigation, even_pairs. A MODEL is the folder of a run or of a model. Each action has --help.

Exit codes of verify: 0 equal; 1 not equal, and a counterexample is shown; 2 asked for something that cannot be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from pdssm.automata import DFA, Extraction, compile_dfa, emulation, output_classes, verify
from pdssm.automata.compile import Method
from pdssm.automata.errors import AutomatonError
from pdssm.automata.extract import Test
from pdssm.automata.learning import TooManyStatesError
from pdssm.automata.verify import spelt
from pdssm.cli.machines import find_automaton, monoid_line, transitions_table
from pdssm.errors import check_choice, check_size
from pdssm.training.subject import Subject, named_as

USAGE = 2
SHOWN_SYMBOLS = 100


@dataclass(frozen=True)
class Show:
    """What an automaton is."""

    automaton: Annotated[str, tyro.conf.Positional]
    """A JSON file, or a task that is an automaton."""
    json: Path | None = None
    """Also write it into this file."""
    minimal: bool = False
    """The smallest automaton with the same labels."""


@dataclass(frozen=True)
class Compile:
    """An automaton as a model."""

    automaton: Annotated[str, tyro.conf.Positional]
    """A JSON file, or a task that is an automaton."""
    out: Path
    """The model's folder."""
    method: Method = "states"
    """A state component for each state, exact for every length; or phases, for modular counters."""
    length: int = 10_000
    """Refuse where the model would not be exact for words of so many symbols."""


@dataclass(frozen=True)
class Asking:
    """How a model is asked."""

    length: int = 64
    """Of the random words that what is learnt is tested with."""
    error: float = 1e-3
    """Tested until fewer of them than this differ, ..."""
    confidence: float = 0.99
    """... with this confidence."""
    test: Test = "random"
    """The W-method instead is a proof if the model has at most --extra-states more."""
    extra_states: int = 1
    """Of the W-method."""
    tolerance: float = 0.0
    """Be content where no more of the random words than this differ."""
    max_states: int = 1000
    """Give up where there are more."""
    seed: int = 0
    """Of the random words."""


@dataclass(frozen=True)
class Extract:
    """The automaton in a model."""

    model: Annotated[Path, tyro.conf.Positional]
    """The folder of a run or of a model."""
    asking: tyro.conf.OmitArgPrefixes[Asking]
    json: Path | None = None
    """Write the automaton into this file."""


@dataclass(frozen=True)
class Verify:
    """Is it the same automaton?"""

    model: Annotated[str, tyro.conf.Positional]
    """The folder of a run or of a model; or an automaton."""
    asking: tyro.conf.OmitArgPrefixes[Asking]
    target: Annotated[str | None, tyro.conf.Positional] = None
    """An automaton; the run's own task unless given."""
    words: int = 200
    """Random words, of up to --longest symbols, on which the model itself is compared; 0 for none."""
    longest: int = 10_000
    """Their greatest length."""


@dataclass(frozen=True)
class Snap:
    """The exact model in place of the learnt one."""

    model: Annotated[Path, tyro.conf.Positional]
    """The folder of a run or of a model."""
    out: Path
    """The exact model's folder."""
    asking: tyro.conf.OmitArgPrefixes[Asking]


def main(arguments: list[str]) -> int:
    """The exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(inspect.cleandoc(__doc__ or ""))
        return 0 if arguments else USAGE
    check_choice("action of pdssm automaton", arguments[0], ACTIONS)
    options, act = ACTIONS[arguments[0]]
    prog = f"pdssm automaton {arguments[0]}"
    return act(tyro.cli(options, prog=prog, description=options.__doc__, args=arguments[1:]))


# ------------------------------------------------------------------------------------------------- the actions


def _show(given: Show) -> int:
    dfa = find_automaton(given.automaton)
    smallest = dfa.minimised()
    dfa = smallest if given.minimal else dfa
    kind = "acceptor" if dfa.is_acceptor else "Moore machine"
    print(f"{given.automaton}: {kind}, {len(dfa)} states ({len(smallest)} minimal), {len(dfa.alphabet)} symbols")
    print(transitions_table(dfa))
    print(monoid_line(dfa))
    print("One layer of size |Q| that emulates it:")
    for row in emulation(dfa):
        print(f"  {row.structure:28} {row.verdict:8} {row.reason}")
    if given.json is not None:
        dfa.to_json(given.json)
        print(f"wrote {given.json}")
    return 0


def _compile(given: Compile) -> int:
    check_size("length", given.length)
    dfa = find_automaton(given.automaton)
    model = compile_dfa(dfa, given.method, length=given.length)
    Subject(model, dfa.alphabet, dfa.alphabet, output_classes(dfa), dfa).save(given.out)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"wrote {given.out}: {len(dfa)} states as a model of {size:,} parameters")
    return 0


def _extract(given: Extract) -> int:
    found = _asked(Subject.load(given.model), given.asking)
    print(f"{given.model}: {_summary(found)}")
    print(transitions_table(found.dfa))
    if given.json is not None:
        found.dfa.to_json(given.json)
        print(f"wrote {given.json}")
    return 0


def _asked(subject: Subject, asking: Asking) -> Extraction:
    return subject.extract(**vars(asking))


def _summary(found: Extraction) -> str:
    return f"{len(found.dfa)} states, from {found.words:,} words of {found.symbols:,} symbols; {found.evidence}"


def _verify(given: Verify) -> int:
    if Path(given.model).is_dir():
        subject = Subject.load(given.model)
        return _verify_model(given, subject, _target(given, subject))
    if given.target is None:
        raise AutomatonError(f"{given.model} came without a target; expected a second automaton, or a run's folder")
    first, second = find_automaton(given.model), find_automaton(given.target)
    verdict = verify(named_as(first, second.outputs), second)
    print(verdict)
    return 0 if verdict else 1


def _target(given: Verify, subject: Subject) -> DFA:
    """The automaton to compare with, its labels written as the model's."""
    found = subject.target if given.target is None else find_automaton(given.target)
    if found is None:
        raise AutomatonError(f"no automaton of {given.model} is known; expected a target")
    target = named_as(found, subject.labels)
    for label in target.outputs:
        if label not in subject.labels:
            raise AutomatonError(
                f"{given.target} has the label {label!r}; expected those of the model, {subject.labels}"
            )
    return target


def _verify_model(given: Verify, subject: Subject, target: DFA) -> int:
    """A model that has more states than the target is not equal to it either: then the words decide which differs."""
    equal = False
    try:
        found = _asked(subject, given.asking)
        verdict = verify(found.dfa, target, empty=False)
        equal = verdict.equal
        print(f"{given.model}: {_summary(found)}\nagainst {given.target or 'its own automaton'}: {verdict}")
    except TooManyStatesError as error:
        if len(target.minimised()) > given.asking.max_states:
            raise
        print(f"{given.model} is not the automaton, which has {len(target)} states: {error}")
    if given.words or not equal:
        agreement = subject.agreement(target, words=max(1, given.words), length=given.longest, seed=given.asking.seed)
        print(f"the model itself: {agreement}")
        if not equal and agreement.counterexample is not None:
            print(f"its labels differ from the automaton's after: {spelt(agreement.counterexample[:SHOWN_SYMBOLS])}")
    return 0 if equal else 1


def _snap(given: Snap) -> int:
    subject = Subject.load(given.model)
    model, found = subject.snap(**vars(given.asking))
    Subject(model, subject.alphabet, subject.vocabulary, subject.labels, found.dfa).save(given.out)
    print(f"{given.model}: {_summary(found)}\nwrote {given.out}, exact for words of every length")
    return 0


ACTIONS: dict[str, tuple[type, Callable[[Any], int]]] = {
    "show": (Show, _show),
    "compile": (Compile, _compile),
    "extract": (Extract, _extract),
    "verify": (Verify, _verify),
    "snap": (Snap, _snap),
}
