"""All states of a machine that can be looked into: hidden states equal to the bit cannot go on differently.

Where they are finitely many this needs no suffixes and no tests, and what comes out is the whole machine.  Compiled
models are of this kind; trained ones, whose states forget gradually, hardly ever.
"""

from __future__ import annotations

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.learning import moore
from pdssm.automata.oracle import Oracle
from pdssm.automata.permutation_group import IntArray

BLOCK = 1 << 14
"""Hidden states held at a time."""


def explore(oracle: Oracle, limit: int) -> DFA | None:
    """The machine, its labels as numbers; None where it has more hidden states than ``limit``, or none to look at."""
    places, symbols = oracle.start(), len(oracle.alphabet)
    keys = oracle.keys(places)
    if keys is None:
        return None
    known = {keys[0]: 0}
    transitions, labels = [], []
    frontier = [places]
    while frontier:
        following = []
        for part in frontier:
            count = len(oracle.keys(part) or ())
            for start in range(0, count, max(1, BLOCK // symbols)):
                rows = np.arange(start, min(count, start + max(1, BLOCK // symbols)))
                leads, label, fresh = _step(oracle, oracle.take(part, rows), len(rows), known)
                transitions.append(leads)
                labels.append(label)
                if len(known) > limit:
                    return None
                if fresh is not None:
                    following.append(fresh)
        frontier = following
    return moore(np.concatenate(transitions), np.concatenate(labels), oracle.empty)


def _step(oracle: Oracle, places: object, count: int, known: dict[bytes, int]) -> tuple[IntArray, IntArray, object]:
    """Where every symbol leads from these places, the labels there, and the places not known before."""
    symbols = len(oracle.alphabet)
    rows, words = np.repeat(np.arange(count), symbols), np.tile(np.arange(symbols), count)
    labels, reached = oracle.follow(oracle.take(places, rows), words[:, None])
    leads, fresh = np.empty(len(rows), dtype=np.int64), []
    for row, key in enumerate(oracle.keys(reached) or ()):
        if key not in known:
            known[key] = len(known)
            fresh.append(row)
        leads[row] = known[key]
    return (
        leads.reshape(count, symbols),
        labels.reshape(count, symbols),
        oracle.take(reached, np.array(fresh)) if fresh else None,
    )
