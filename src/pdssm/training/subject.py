"""A model with the names of what it reads and says, and the automaton it should be: what extraction needs to know.

A run's folder has them from its task; a compiled or snapped model's folder holds them beside the model:

    names.json       {"alphabet": [...], "vocabulary": [...], "classes": [...]}
    automaton.json   the automaton that it is
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from pdssm.automata import DFA, Agreement, Extraction, Snapped, agreement, extract_dfa, snap
from pdssm.automata.validation import Label
from pdssm.errors import FileError, RangeError
from pdssm.models import SequenceModel
from pdssm.models.files import CONFIG, WEIGHTS, write_atomically
from pdssm.tasks import Task
from pdssm.tasks.targets import target_automaton, task_symbols
from pdssm.training.run_folder import RunFolder

NAMES, AUTOMATON = "names.json", "automaton.json"


@final
@dataclass(frozen=True)
class Subject:
    """See above; the functions are those of ``pdssm.automata`` with the names filled in."""

    model: SequenceModel
    alphabet: tuple[str, ...]
    """The symbols that words are made of."""
    vocabulary: tuple[str, ...]
    """All tokens, in the order of their numbers."""
    labels: tuple[Label, ...]
    """All classes, in the order of their numbers."""
    target: DFA | None
    """What the model should be, if that is known."""

    @classmethod
    def of_task(cls, model: SequenceModel, task: Task) -> Self:
        """A model for a task; its vocabulary must be the task's."""
        for name, found, wanted in (
            ("input_size", model.config.input_size, task.input_size),
            ("output_size", model.config.output_size, task.output_size),
        ):
            if found != wanted:
                raise RangeError(f"the model's {name} is {found}; expected {wanted}, as task {task.name!r} has it")
        try:
            target = target_automaton(task)
        except RangeError:
            target = None
        return cls(model, task_symbols(task), task.tokens, task.labels, target)

    @classmethod
    def from_run(cls, folder: str | Path) -> Self:
        """The best model of a training run."""
        run = RunFolder(folder)
        task = run.config().make_task()
        if not (run.path / "best").exists():
            raise FileError(f"{run.path} has no model yet; expected a run that was evaluated at least once")
        return cls.of_task(SequenceModel.from_pretrained(run.path / "best"), task)

    @classmethod
    def from_model(cls, folder: str | Path) -> Self:
        """A model's folder; without names there, numbers are the names."""
        folder = Path(folder)
        model = SequenceModel.from_pretrained(folder)
        if not (folder / NAMES).exists():
            tokens = tuple(map(str, range(model.config.input_size)))
            return cls(model, tokens, tokens, tuple(range(model.config.output_size)), None)
        names = _names(folder / NAMES)
        for name, key, size in (
            ("vocabulary", "input_size", model.config.input_size),
            ("classes", "output_size", model.config.output_size),
        ):
            if len(names[name]) != size:
                raise FileError(f"{folder / NAMES} has {len(names[name])} {name}; expected {size}, the model's {key}")
        target = DFA.from_json(folder / AUTOMATON) if (folder / AUTOMATON).exists() else None
        return cls(model, names["alphabet"], names["vocabulary"], names["classes"], target)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A run's folder or a model's."""
        folder = Path(folder)
        if (folder / WEIGHTS).exists():
            return cls.from_model(folder)
        if (folder / CONFIG).exists():
            return cls.from_run(folder)
        raise FileError(f"{folder} holds neither a run nor a model; expected {CONFIG} there")

    def save(self, folder: str | Path) -> None:
        """The model with its names, and its automaton where that is known."""
        self.model.save_pretrained(folder)
        names = {"alphabet": self.alphabet, "vocabulary": self.vocabulary, "classes": self.labels}
        write_atomically(Path(folder) / NAMES, json.dumps(names, indent=1).encode())
        if self.target is not None:
            write_atomically(Path(folder) / AUTOMATON, self.target.to_json().encode())

    def extract(self, **options: Any) -> Extraction:
        """``extract_dfa`` of the model."""
        return extract_dfa(self.model, self.alphabet, vocabulary=self.vocabulary, labels=self.labels, **options)

    def agreement(self, dfa: DFA, **options: Any) -> Agreement:
        """How far the model agrees with an automaton over its symbols and labels."""
        return agreement(self.model, dfa, vocabulary=self.vocabulary, labels=self.labels, **options)

    def snap(self, **options: Any) -> Snapped:
        """The exact model in place of this one."""
        return snap(self.model, self.alphabet, vocabulary=self.vocabulary, labels=self.labels, **options)


def _names(path: Path) -> dict[str, tuple[Any, ...]]:
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {error}") from None
    wanted = ("alphabet", "vocabulary", "classes")
    if not isinstance(names, dict) or not all(isinstance(names.get(name), list) for name in wanted):
        raise FileError(f"{path} is not a file of names; expected an object with lists {', '.join(wanted)}")
    return {name: tuple(names[name]) for name in wanted}


def named_as(dfa: DFA, labels: Sequence[Label]) -> DFA:
    """With each output replaced by the label that is written alike: an acceptor's True by a task's "True"."""
    by_text = {str(label): label for label in labels}
    return DFA(
        dfa.alphabet,
        dfa.transitions,
        dfa.initial,
        tuple(by_text.get(str(output), output) for output in dfa.outputs),
        dfa.state_names,
    )
