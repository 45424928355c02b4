"""Group word problems: the running product of a sequence of permutations."""

from __future__ import annotations

import numpy as np

from pdssm.automata import DFA, PermutationGroup
from pdssm.automata import group as named_group
from pdssm.tasks.base import LabelAt, Task, check_choice
from pdssm.tasks.batch import IntArray
from pdssm.tasks.walking import walk


class GroupTask(Task):
    """(G, n): the symbols are n distinct elements s of the group G, the answer at every step is g_t = g_(t-1) s_t.

    The n elements generate all of G: a generating set, filled up with distinct elements of G drawn by ``seed``, which
    is a part of the task (the same for training and validation). There is a class for every element of G, the identity
    is number 0; words are uniform.
    """

    summary = "the running product of permutations, at every step"

    def __init__(
        self, group: str | PermutationGroup = "A5", generators: int = 2, *, seed: int = 0, label_at: LabelAt = "every"
    ) -> None:
        check_choice("label_at", label_at, ("end", "every"))
        self.group = named_group(group) if isinstance(group, str) else group
        self.name = f"{self.group.name}:{generators}"
        self.label_at = label_at
        self.generators: IntArray = self.group.generating_set(generators, seed)
        self.dfa = DFA.from_group(self.group, self.generators)
        self.tokens = tuple(f"s{i}" for i in range(generators))
        self.labels = tuple(f"g{i}" for i in range(self.group.order))
        self.answers = tuple(range(self.group.order))

    def draw(self, lengths: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        tokens = rng.integers(0, self.input_size, size=int(lengths.sum()), dtype=np.int64)
        products = walk(self.dfa.transitions, self.dfa.initial, tokens, lengths)
        return tokens, products if self.label_at == "every" else products[np.cumsum(lengths) - 1]
