"""Automata: what compiling, extracting and verifying reach: ``python -m benchmarks.automata [--quick] [--json FILE]``.

Compiled models against automata-lib, word by word, and their speed next to it and to Python's ``re``; a thousand states
for a million steps; extraction from compiled, broken and trained models; how far phases are exact.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count
from typing import Any

import numpy as np
import torch
from automata.fa import dfa as library_dfa
from automata.fa import nfa as library_nfa

from benchmarks.automata_speed import throughput
from benchmarks.automata_trained import trained
from benchmarks.command import Figure, Stored, command, shown
from pdssm.automata import DFA, compile_dfa, exact_length, extract_dfa, isomorphic, verify
from pdssm.automata.compile import layer_of
from pdssm.models import SequenceModel

CLASSES = (False, True)
LONGEST = 32
"""Of the words compared one by one."""
CHUNK = 2_000
"""Steps at once, of the million."""


def no_errors(what: str, at: str, errors: int, of: str, seconds: float) -> Figure:
    """A figure that must be 0."""
    return Figure(what, at, "0", "0", f"{errors:,} of {of}", errors, errors == 0, {"all": seconds})


def all_of(what: str, at: str, found: int, total: int, seconds: float) -> Figure:
    """A figure that must be all of them."""
    done = f"{found} of {total}"
    return Figure(what, at, f"{total} of {total}", f"{total} of {total}", done, found, found == total, {"all": seconds})


# -------------------------------------------------------------------------------------- right, word by word


def accepted(model: SequenceModel, words: list[np.ndarray]) -> np.ndarray:
    """The compiled model's answers, all words packed into one sequence."""
    ends = torch.tensor([len(word) for word in words]).cumsum(0)
    offsets = torch.cat((ends.new_zeros(1), ends))
    with torch.no_grad():
        logits = model(torch.from_numpy(np.concatenate(words))[None], cu_seqlens=offsets, positions=ends - 1)
    answers: np.ndarray = logits.argmax(-1).numpy().astype(bool)
    return answers


def random_words(symbols: int, number: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Of 1 to ``LONGEST`` symbols."""
    lengths = rng.integers(1, LONGEST + 1, size=number)
    return np.split(rng.integers(symbols, size=int(lengths.sum())), np.cumsum(lengths)[:-1])


def compiled_automata(number: int, words: int, rng: np.random.Generator) -> Figure:
    """Random automata: the model's answers against automata-lib's own simulation."""
    start, errors = time.perf_counter(), 0
    for _ in range(number):
        dfa = DFA.random(int(rng.integers(2, 201)), int(rng.integers(2, 21)), rng)
        library, drawn = dfa.to_automata_lib(), random_words(len(dfa.alphabet), words, rng)
        expected = [library.accepts_input("".join(dfa.decode(word))) for word in drawn]
        errors += int((accepted(compile_dfa(dfa).eval(), drawn) != np.array(expected)).sum())
    at = f"{number} random automata of 2 to 200 states, 2 to 20 symbols"
    seconds = time.perf_counter() - start
    return no_errors("compiled: errors against automata-lib", at, errors, f"{number * words:,} words", seconds)


def random_pattern(depth: int, rng: np.random.Generator) -> str:
    """A regular expression over a and b, read alike by automata-lib and by ``re``."""
    if depth == 0:
        return str(rng.choice(["a", "b"]))
    kind = rng.integers(6)
    if kind < 2:
        return random_pattern(depth - 1, rng) + random_pattern(depth - 1, rng)
    if kind < 4:
        return f"({random_pattern(depth - 1, rng)}|{random_pattern(depth - 1, rng)})"
    return f"({random_pattern(depth - 1, rng)}){rng.choice(['*', '+', '?'])}"


def compiled_patterns(number: int, words: int, rng: np.random.Generator) -> Figure:
    """Random regular expressions: against automata-lib's automaton of the pattern, and ``re`` on all short words.

    Half of the words are random; the others walk where the automaton still may accept, so that both answers occur.
    """
    start, errors = time.perf_counter(), 0
    for _ in range(number):
        pattern = random_pattern(5, rng)
        dfa = DFA.from_regex(pattern, "ab")
        library = library_dfa.DFA.from_nfa(library_nfa.NFA.from_regex(pattern, input_symbols={"a", "b"}))
        drawn = random_words(2, words // 2, rng) + list(_alive(dfa, words - words // 2, rng))
        expected = [library.accepts_input("".join(dfa.decode(word))) for word in drawn]
        errors += int((accepted(compile_dfa(dfa).eval(), drawn) != np.array(expected)).sum())
        short = [np.array(word) for size in range(1, 5) for word in np.ndindex(*(2,) * size)]  # for re backtracks
        by_re = [re.fullmatch(pattern, "".join(dfa.decode(word))) is not None for word in short]
        errors += int((accepted(compile_dfa(dfa).eval(), short) != np.array(by_re)).sum())
    seconds = time.perf_counter() - start
    return no_errors(
        "compiled: errors against automata-lib and re", f"{number} random regular expressions of depth 5", errors,
        f"{number * words:,} words", seconds,
    )  # fmt: skip


def _alive(dfa: DFA, number: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Words that stay out of sinks, where they can."""
    leads = dfa.transitions.tolist()
    sinks = {state for state, row in enumerate(leads) if set(row) == {state}}
    moves = [[s for s, after in enumerate(row) if after not in sinks] or list(range(len(row))) for row in leads]
    for length in rng.integers(1, LONGEST + 1, size=number).tolist():
        state, word = dfa.initial, []
        for draw in rng.random(length).tolist():
            word.append(moves[state][int(draw * len(moves[state]))])
            state = leads[state][word[-1]]
        yield np.array(word)


def a_million_steps(states: int, symbols: int, steps: int, rng: np.random.Generator) -> Figure:
    """The state itself is the label, at every step; in chunks, with the state carried."""
    dfa = DFA.random(states, symbols, rng, range(states))
    labels = np.array(dfa.outputs)
    start = time.perf_counter()
    model, errors, carried, at = compile_dfa(dfa, classes=range(states)).eval().freeze(), 0, None, np.array([0])
    for first in range(0, steps, CHUNK):
        word = rng.integers(symbols, size=(1, min(CHUNK, steps - first)))
        with torch.no_grad():
            logits, carried = model(torch.from_numpy(word), carried, return_state=True)
        visited = dfa.run_many(word, at)
        errors += int((logits.argmax(-1).numpy() != labels[visited]).sum())
        at = visited[:, -1]
    where = f"{states:,} states, {symbols} symbols, carried in chunks of {CHUNK:,}"
    return no_errors("compiled: wrong states", where, errors, f"{steps:,} steps", time.perf_counter() - start)


# ---------------------------------------------------------------------------------------------- and back again


def extracted(number: int, rng: np.random.Generator) -> Iterator[Figure]:
    """From compiled random automata: by their hidden states, and by asking alone."""
    machines = [DFA.random(int(rng.integers(2, 201)), int(rng.integers(2, 21)), rng) for _ in range(number)]
    for how, hidden in (("hidden states", True), ("asking alone", False)):
        start, equal = time.perf_counter(), 0
        for dfa in machines:
            model = compile_dfa(dfa)
            found = extract_dfa(
                model, dfa.alphabet, labels=CLASSES, empty=dfa.outputs[dfa.initial], hidden=hidden, length=40
            )
            equal += isomorphic(found.dfa, dfa)
        at = f"random automata of 2 to 200 states, by {how}"
        yield all_of("extracted and equal", at, equal, number, time.perf_counter() - start)


def broken(number: int, rng: np.random.Generator) -> Figure:
    """One transition of the compiled model changed, so that some word is wrong: a shortest counterexample."""
    start, found = time.perf_counter(), 0
    for _ in range(number):
        dfa, model = _one_changed(rng)
        extraction = extract_dfa(model, dfa.alphabet, labels=CLASSES, empty=dfa.outputs[dfa.initial])
        word = verify(extraction.dfa, dfa).counterexample
        found += word is not None and len(word) == _shortest_difference(model, dfa)
    seconds = time.perf_counter() - start
    return all_of(
        "broken: a shortest counterexample", "compiled models, one transition changed", found, number, seconds
    )


def _one_changed(rng: np.random.Generator) -> tuple[DFA, SequenceModel]:
    while True:
        dfa = DFA.random(int(rng.integers(2, 201)), 2, rng).minimised()
        if len(dfa) < 2 or (dfa.transitions[:, 0] == dfa.transitions[:, 1]).all():
            continue
        model, state = compile_dfa(dfa), int(rng.integers(len(dfa)))
        generator = layer_of(model).generator
        letter = int(generator.selector.weight[:, 0].argmax())  # the matrix of the first symbol
        to = (int(dfa.transitions[state, 0]) + int(rng.integers(1, len(dfa)))) % len(dfa)
        with torch.no_grad():
            generator.dictionary[letter, :, state] = 0
            generator.dictionary[letter, to, state] = 1
        table = dfa.transitions.copy()
        table[state, 0] = to
        if not isomorphic(dfa, DFA(dfa.alphabet, table, 0, dfa.outputs)):
            return dfa, model


def _shortest_difference(model: SequenceModel, dfa: DFA) -> int:
    """By running the model on all words, length by length."""
    numbers = np.array(dfa.outputs, dtype=int)
    for length in count(1):
        words = np.stack(np.unravel_index(np.arange(2**length), (2,) * length), 1)
        with torch.no_grad():
            answers = model.eval()(torch.from_numpy(words))[:, -1].argmax(-1).numpy()
        if (answers != numbers[dfa.run_many(words)[:, -1]]).any():
            return length
    raise AssertionError


def phase_lengths(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Up to how many symbols one complex number counts exactly."""
    found = []
    for size in sizes:
        table = (np.arange(size)[:, None] + [0, 1, -1]) % size
        length = exact_length(DFA(("stay", "up", "down"), table, 0, tuple(range(size))))
        found.append({"modulo": size, "exact_length": int(length)})
    return found


def figures(quick: bool) -> Iterator[Figure]:
    """All of them."""
    rng = np.random.default_rng(0)
    part = 10 if quick else 1
    words = 10_000 // part
    yield compiled_automata(200 // part, words, rng)
    yield compiled_patterns(100 // part, words, rng)
    yield a_million_steps(1000, 50, 1_000_000 // part**2, rng)
    yield from throughput(2.0 if quick else 20.0, rng)
    yield from extracted(100 // part, rng)
    yield broken(100 // part, rng)


def measure(arguments: argparse.Namespace) -> Stored:
    """Everything."""
    stored: Stored = {"figures": shown(figures(arguments.quick)), "trained": []}
    for result in trained(1 if arguments.quick else 3):
        print(result, flush=True)
        stored["trained"].append(asdict(result))
    return stored | {"phases": phase_lengths((2, 5, 10, 60, 100, 1000))}


def main() -> None:
    """Measure, print, store."""
    command(__doc__, measure, quick="a tenth of everything, one trained model a task")


if __name__ == "__main__":
    main()
