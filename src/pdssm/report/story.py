"""What a report tells of one run: everything measured and found, and nothing of how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pdssm.automata import DFA
from pdssm.automata.affine import AffineModel
from pdssm.report.symbols import SymbolMatrices
from pdssm.training import Evaluation

Kind = Literal["learnt", "proved", "tested", "refuted", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One sentence, and how sure it is."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Story:
    """A run: how it learnt, how far it holds, what it is inside, and the automaton it became."""

    name: str
    task: str
    summary: str
    """What the task asks, in words."""
    symbols: tuple[tuple[int, str], ...]
    """The tokens that words are made of, and their names."""
    labels: tuple[str, ...]
    """The model's classes."""
    chance: float
    limit: int
    """The longest word in training."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Model, training, machine: whatever belongs under the title."""
    records: Sequence[Mapping[str, Any]] = ()
    """The lines of the run's metrics.jsonl."""
    by_length: Mapping[int, Evaluation] = field(default_factory=dict)
    snapped: Mapping[int, Evaluation] = field(default_factory=dict)
    """The same of the model with the exact layer in place of the learnt one."""
    matrices: tuple[SymbolMatrices, ...] = ()
    model: AffineModel | None = None
    """For the page to run it; None where the model has no such form."""
    target: DFA | None = None
    extracted: DFA | None = None
    counterexample: tuple[str, ...] | None = None
    """The shortest word after which target and extracted automaton differ."""
    error: tuple[str, ...] | None = None
    """A word on which the model itself was seen to be wrong."""
    findings: tuple[Finding, ...] = ()

    @property
    def automata(self) -> dict[str, DFA]:
        """Those there are, by what they are."""
        both = {"extracted": self.extracted, "target": self.target}
        return {name: dfa for name, dfa in both.items() if dfa is not None}
