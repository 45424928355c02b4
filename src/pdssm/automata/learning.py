"""Active learning of an automaton: the observation table of Angluin's L*, in batches and from hidden states.

Nodes are words with pairwise different *signatures*: the labels on the way of every suffix of the table.  The edge
(node, symbol) leads to the node with the same signature; an edge whose signature is new becomes a node.  The machine
is asked about whole columns at once, each from the state it was left in, so no prefix is ever read twice.  A word on
which machine and table differ gives, by binary search (Rivest & Schapire), one more suffix that splits an edge off.

Labels belong to edges while learning: the empty word need not have one.  ``moore`` moves them to the states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.oracle import Oracle
from pdssm.automata.permutation_group import IntArray

COLUMNS = 64
"""Suffixes to begin with: all words of the greatest length that has no more."""


class TooManyStatesError(AutomatonError):
    """The machine has more states than were allowed for."""


class Table:
    """See above; ``limit`` is the largest number of nodes."""

    def __init__(self, oracle: Oracle, limit: int) -> None:
        self.oracle, self.limit = oracle, limit
        self.access: list[tuple[int, ...]] = [()]
        self.entered: list[int] = []
        """Of every node but the first, the edge that became it."""
        self.places: Any = oracle.start()
        self.suffixes: list[IntArray] = []
        self.labels = np.zeros((0, len(oracle.alphabet)), dtype=np.int64)
        """(nodes, symbols): the label after the edge."""
        self.edges = np.zeros((0, 0), dtype=np.int64)
        """(nodes * symbols, columns): the edges' signatures."""
        self.nodes = np.zeros((1, 0), dtype=np.int64)
        for word in _all_words(len(oracle.alphabet)):
            self._widen(word)
        self.close()

    def __len__(self) -> int:
        return len(self.access)

    def split(self, word: IntArray) -> None:
        """Learn from a word after whose last symbol the machine's label is not the table's."""
        suffix = self._distinguishing(word)
        self._widen(suffix)
        self.close()

    def transitions(self) -> IntArray:
        """(nodes, symbols)."""
        known = {row.tobytes(): number for number, row in enumerate(self.nodes)}
        leads = [known[row.tobytes()] for row in self.edges]
        return np.array(leads, dtype=np.int64).reshape(self.labels.shape)

    def machine(self) -> DFA:
        """As a Moore machine whose labels are numbers."""
        return moore(self.transitions(), self.labels, self.oracle.empty)

    # -------------------------------------------------------------------------------------------- filling in

    def close(self) -> None:
        """Make nodes until every edge leads to one."""
        while True:
            self._extend()
            known = {row.tobytes() for row in self.nodes}
            fresh: dict[bytes, int] = {}
            for edge, row in enumerate(self.edges):
                if (key := row.tobytes()) not in known:
                    fresh.setdefault(key, edge)
            if not fresh:
                return
            self._promote(np.array(list(fresh.values())))

    def _promote(self, edges: IntArray) -> None:
        if len(self) + len(edges) > self.limit:
            raise TooManyStatesError(f"more than {self.limit} states behave differently")
        before, symbols = np.divmod(edges, len(self.oracle.alphabet))
        _, places = self.oracle.follow(self.oracle.take(self.places, before), symbols[:, None])
        self.entered += edges.tolist()
        self.access += [(*self.access[node], symbol) for node, symbol in zip(before, symbols.tolist(), strict=True)]
        self.places = self.oracle.join([self.places, places])
        self.nodes = np.concatenate([self.nodes, self.edges[edges]])

    def _extend(self) -> None:
        """Fill in the edges of the nodes that have none yet."""
        new = np.arange(len(self.labels), len(self))
        if not len(new):
            return
        heads = self._heads(new)
        labels, _ = self.oracle.follow(self.oracle.take(self.places, heads[:, 0]), heads[:, 1:])
        columns = [self._column(heads, suffix) for suffix in self.suffixes]
        self.labels = np.concatenate([self.labels, labels.reshape(len(new), -1)])
        self.edges = np.concatenate([self.edges.reshape(-1, self.nodes.shape[1]), np.concatenate(columns, 1)])

    def _widen(self, suffix: IntArray) -> None:
        """One more suffix, for all edges."""
        self.suffixes.append(suffix)
        root, _ = self.oracle.follow(self.oracle.take(self.places, np.zeros(1, dtype=np.int64)), suffix[None])
        nodes = root
        if len(self.labels):
            column = self._column(self._heads(np.arange(len(self))), suffix)
            self.edges = np.concatenate([self.edges, column], 1)
            nodes = np.concatenate([root, column[self.entered]])
        self.nodes = np.concatenate([self.nodes, nodes], 1)

    def _heads(self, nodes: IntArray) -> IntArray:
        """(edges, 2): node and symbol."""
        symbols = len(self.oracle.alphabet)
        return np.stack([np.repeat(nodes, symbols), np.tile(np.arange(symbols), len(nodes))], 1)

    def _column(self, heads: IntArray, suffix: IntArray) -> IntArray:
        """The labels on the suffix's way behind these edges."""
        words = np.concatenate([heads[:, 1:], np.broadcast_to(suffix, (len(heads), len(suffix)))], 1)
        return self.oracle.follow(self.oracle.take(self.places, heads[:, 0]), words)[0][:, 1:]

    # ------------------------------------------------------------------------------------- counterexamples

    def _distinguishing(self, word: IntArray) -> IntArray:
        """A suffix after which an edge and the node it leads to go on differently."""
        transitions = self.transitions()
        nodes = [0]
        for symbol in word.tolist():
            nodes.append(int(transitions[nodes[-1], symbol]))

        def last(cut: int) -> int:
            """The label after the word, its first part replaced by the access word of the node there."""
            place = self.oracle.take(self.places, np.array([nodes[cut]]))
            return int(self.oracle.follow(place, word[None, cut:])[0][0, -1])

        right, low, high = last(0), 0, len(word) - 1
        if last(high) == right:
            raise AutomatonError(
                "the machine gave one word two labels; expected a deterministic one (near ties that rounding decides?)"
            )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if last(middle) == right else (low, middle)
        return word[high:]


def _all_words(symbols: int) -> list[IntArray]:
    """All words of one length, at least 1, no more than ``COLUMNS`` of them unless there are more symbols."""
    length = 1
    while symbols > 1 and symbols ** (length + 1) <= COLUMNS:
        length += 1
    return [np.array(word, dtype=np.int64) for word in np.ndindex(*(symbols,) * length)]


def moore(transitions: IntArray, labels: IntArray, empty: int | None) -> DFA:
    """The smallest Moore machine with these labels on the edges of (nodes, symbols), node 0 first; labels are numbers.

    A state is a node with the label it was entered by.  Where the empty word has no label (``empty`` None), it gets
    one with which the first node is entered anyway, the least, so that it costs no state.
    """
    alphabet = tuple(f"s{symbol}" for symbol in range(transitions.shape[1]))
    kinds, kind = np.unique(labels, axis=0, return_inverse=True)
    nodes = DFA(alphabet, transitions, 0, tuple(kind.ravel().tolist())).minimised()  # nodes that go on alike are one
    transitions, labels = nodes.transitions, kinds[np.array(nodes.outputs)]
    if empty is None:
        entering = labels[transitions == 0]
        empty = int(entering.min()) if entering.size else int(labels.min())
    pairs = [(0, empty)]
    place = {pairs[0]: 0}
    rows = []
    for node, _ in pairs:  # grows while we walk it
        edges = list(zip(transitions[node].tolist(), labels[node].tolist(), strict=True))
        for after in edges:
            if after not in place:
                place[after] = len(pairs)
                pairs.append(after)
        rows.append([place[after] for after in edges])
    return DFA(alphabet, np.array(rows), 0, tuple(label for _, label in pairs)).minimised()
