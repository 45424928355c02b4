"""How fast a compiled automaton reads, next to automata-lib's own simulation and to Python's ``re``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.command import Figure
from benchmarks.measure import side_by_side
from pdssm.automata import DFA, compile_dfa
from pdssm.automata.fast_forward import fast_forward

BATCH, LENGTH = 256, 1000
"""Words and their symbols."""


def throughput(seconds: float, rng: np.random.Generator) -> Iterator[Figure]:
    """Symbols a second, the answer at the end of each word, next to automata-lib's simulation and Python's ``re``."""
    pattern = "((a|b){100})*"
    yield _race("a random automaton, 100 states, 2 symbols", DFA.random(100, 2, rng), None, seconds, rng, 2.0)
    yield _race(f"{pattern}, 100 states", DFA.from_regex(pattern, "ab"), pattern, seconds, rng, 2.0)
    yield _race("a random automaton, 100 states, 20 symbols", DFA.random(100, 20, rng), None, seconds, rng, None)


def _race(
    name: str, dfa: DFA, pattern: str | None, seconds: float, rng: np.random.Generator, must: float | None
) -> Figure:
    library, model = dfa.to_automata_lib(), compile_dfa(dfa).eval().freeze()
    words = rng.integers(len(dfa.alphabet), size=(BATCH, LENGTH))
    tokens, texts = torch.from_numpy(words), ["".join(dfa.decode(word)) for word in words]
    ends = torch.arange(1, BATCH + 1) * LENGTH - 1

    def step_by_step() -> torch.Tensor:
        with torch.inference_mode():
            answers: torch.Tensor = model(tokens, positions=ends)
        return answers

    if not torch.equal(step_by_step(), fast_forward(model, tokens)[0]):
        raise RuntimeError("fast_forward gives other outputs than the model")
    parties: dict[str, Any] = {
        "pdssm": lambda: fast_forward(model, tokens),
        "pdssm, symbol by symbol": step_by_step,
        "automata-lib": lambda: [library.accepts_input(text) for text in texts],
    }
    if pattern is not None:
        parties["re"] = lambda: [re.fullmatch(pattern, text) for text in texts]
    spent = side_by_side(parties, seconds)
    speed = {party: BATCH * LENGTH / time_ for party, time_ in spent.items()}
    ratio = speed["pdssm"] / speed["automata-lib"]
    beside = ", ".join(f"{party} {value / 1e6:.1f} M/s" for party, value in speed.items())
    at = f"{name}, {BATCH} words of {LENGTH:,} symbols"
    least = "reported" if must is None else f"at least {must:g}x"
    met = None if must is None else ratio >= must
    return Figure(
        "throughput / automata-lib's",
        at,
        least,
        "" if must is None else "5x",
        f"{ratio:.1f}x ({beside})",
        ratio,
        met,
        spent,
    )
