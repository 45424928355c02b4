"""Any automaton as a task: which label does the word end in, or which state is the automaton in."""

from __future__ import annotations

from os import PathLike
from typing import Literal

import numpy as np

from pdssm.automata import DFA
from pdssm.errors import RangeError
from pdssm.tasks.base import LabelAt, Task, check_choice
from pdssm.tasks.batch import IntArray
from pdssm.tasks.walking import walk
from pdssm.tasks.words import BalancedWords

Target = Literal["output", "state"]


class AutomatonTask(Task):
    """Words of an automaton's alphabet, and its output or its state.

    ``target="output"`` asks for the label of the state reached (for an acceptor: is the word in the language?), at the
    end of the word unless ``label_at="every"``; ``target="state"`` asks for the state itself, at every step
    unless ``label_at="end"``.

    ``balanced=True``, which is how outputs are drawn unless you say otherwise, draws for every word first the output
    it ends in, uniformly among those its length allows, then the word uniformly among those that do: membership is
    then an even question, even if one word in a billion belongs. Lengths at which only one output occurs are refused,
    unless they are a single length (low = high), as in an evaluation. ``balanced=False`` draws every symbol uniformly.
    """

    summary = "the label, or the state, of a finite automaton of your own"

    def __init__(
        self,
        dfa: DFA,
        target: Target = "output",
        *,
        label_at: LabelAt | None = None,
        balanced: bool | None = None,
        name: str = "automaton",
    ) -> None:
        check_choice("target", target, ("output", "state"))
        check_choice("label_at", label_at, ("end", "every", None))
        self.dfa, self.target, self.name = dfa, target, name
        self.label_at = label_at or ("end" if target == "output" else "every")
        self.balanced = balanced if balanced is not None else target == "output"
        if self.balanced and target == "state":
            raise RangeError('balanced=True with target="state"; expected target="output": words are balanced by label')
        self._classes, self.labels = self._outputs() if target == "output" else self._states()
        self.tokens = dfa.alphabet
        self.answers = tuple(np.unique(self._classes[self._ends()]).tolist())
        if len(self.answers) < 2:
            raise RangeError(
                f"every word has the same {target}, {self.labels[self.answers[0]]}; expected an automaton with at "
                "least two that its words reach"
            )
        self._words = BalancedWords(dfa.transitions, dfa.initial, self._classes) if self.balanced else None

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        if self._words is None:
            tokens = rng.integers(0, self.input_size, size=int(lengths.sum()), dtype=np.int64)
            states = walk(self.dfa.transitions, self.dfa.initial, tokens, lengths)
        else:
            tokens, states = self._words.draw(lengths, rng)
        asked = states if self.label_at == "every" else states[np.cumsum(lengths) - 1]
        return tokens, self._classes[asked]

    def _interval(self, lengths: tuple[int, int]) -> tuple[int, int]:
        low, high = super()._interval(lengths)
        if self._words is not None:
            occurring = self._words.possible(np.arange(low, high + 1)).any(axis=0)
            if self.label_at == "end" and low < high and occurring.sum() < 2:
                label = self.labels[int(np.argmax(occurring))]
                raise RangeError(
                    f"lengths is {lengths}, but every word of these lengths is labelled {label}; expected lengths at "
                    "which two labels occur, or balanced=False"
                )
        return low, high

    def _outputs(self) -> tuple[IntArray, tuple[str, ...]]:
        """The number of every state's output, by first appearance; an acceptor's False is 0 and its True is 1."""
        keys = [(type(label), label) for label in self.dfa.outputs]  # True is not the label 1
        first = [(bool, False), (bool, True)] if self.dfa.is_acceptor else []
        numbers = {key: number for number, key in enumerate(dict.fromkeys([*first, *keys]))}
        return np.array([numbers[key] for key in keys], dtype=np.int64), tuple(str(label) for _, label in numbers)

    def _states(self) -> tuple[IntArray, tuple[str, ...]]:
        return np.arange(len(self.dfa)), tuple(self.dfa.name(state) for state in range(len(self.dfa)))

    def _ends(self) -> IntArray:
        """The states in which a word of at least one symbol can end."""
        return np.unique(self.dfa.transitions[self.dfa.reachable()])


def regex_task(
    pattern: str,
    alphabet: str | None = None,
    *,
    label_at: LabelAt = "end",
    balanced: bool = True,
) -> AutomatonTask:
    """Is the word in the language of a regular expression?"""
    return AutomatonTask(
        DFA.from_regex(pattern, alphabet), label_at=label_at, balanced=balanced, name=f"regex:{pattern}"
    )


def dfa_task(
    dfa: DFA | str | PathLike[str],
    target: Target = "output",
    *,
    label_at: LabelAt | None = None,
    balanced: bool | None = None,
) -> AutomatonTask:
    """An automaton from a JSON file, or the JSON text, or the object itself."""
    in_file = not isinstance(dfa, DFA) and not str(dfa).lstrip().startswith("{")
    name = f"dfa:{dfa}" if in_file else "dfa"
    machine = dfa if isinstance(dfa, DFA) else DFA.from_json(dfa)
    return AutomatonTask(machine, target, label_at=label_at, balanced=balanced, name=name)
