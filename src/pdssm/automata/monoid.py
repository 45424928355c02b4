"""The transformation monoid of an automaton: all that words can do to its states, and which groups live in there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np

from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray, PermutationGroup


@final
@dataclass(frozen=True, eq=False)
class TransformationMonoid:
    """The maps q -> state after the word from q, of the reachable states, for all words; element 0 is the empty one."""

    letters: IntArray
    """(symbols, states): what each symbol does."""
    elements: IntArray
    """(order, states), in the order of their shortest words."""

    @classmethod
    def of(cls, dfa: DFA, limit: int = 20_000) -> Self:
        """Refused beyond ``limit`` elements: n states can have up to n^n."""
        letters = np.ascontiguousarray(dfa.restricted(dfa.reachable()).transitions.T)
        elements = maps_of_words(letters, limit + 1)
        if len(elements) > limit:
            raise AutomatonError(f"the monoid of {dfa!r} has more than {limit} elements; raise limit")
        return cls(letters, elements)

    @property
    def order(self) -> int:
        """How many different maps."""
        return len(self.elements)

    @cached_property
    def is_group(self) -> bool:
        """Whether every symbol permutes the states."""
        return bool((np.sort(self.letters, axis=1) == np.arange(self.letters.shape[1])).all())

    @cached_property
    def is_aperiodic(self) -> bool:
        """Whether no word goes round a cycle of two states or more: m^(k+1) = m^k for every element, some k."""
        power, steps = self.elements, 1
        while steps < self.elements.shape[1]:
            power, steps = np.take_along_axis(power, power, axis=1), 2 * steps
        return bool((np.take_along_axis(self.elements, power, axis=1) == power).all())

    @cached_property
    def is_solvable(self) -> bool:
        """Whether all its subgroups are solvable; for a group, whether it is."""
        return all(group.is_solvable for group in self._subgroups())

    @cached_property
    def idempotents(self) -> IntArray:
        """(count, states): the elements with e e = e."""
        return idempotents_of(self.elements)

    def group(self) -> PermutationGroup:
        """The monoid as a group; refused where it is none."""
        if not self.is_group:
            raise AutomatonError("the transformation monoid is no group: some symbol merges states")
        return PermutationGroup.from_generators("the automaton's group", self.letters, limit=self.order)

    def subgroup_at(self, idempotent: IntArray) -> PermutationGroup:
        """The largest subgroup with this idempotent as its identity: how e m e permutes the states that e keeps."""
        image = np.unique(idempotent)
        place = np.zeros(len(idempotent), dtype=np.int64)
        place[image] = np.arange(len(image))
        maps = place[idempotent[self.elements[:, image]]]
        maps = np.unique(maps[(np.sort(maps, axis=1) == np.arange(len(image))).all(1)], axis=0)
        return _generated("a subgroup of the automaton's monoid", maps)

    def _subgroups(self) -> Iterator[PermutationGroup]:
        if self.is_group:
            yield self.group()
        elif not self.is_aperiodic:
            for idempotent in self.idempotents:
                if len(np.unique(idempotent)) >= 5:  # fewer than five points carry solvable groups only
                    yield self.subgroup_at(idempotent)


def maps_of_words(letters: IntArray, most: int) -> IntArray:
    """(count, states): what words do, the shortest first; all of it, or the first ``most`` maps."""
    elements = [np.arange(letters.shape[1])]
    found = {elements[0].tobytes()}
    for element in elements:  # grows while we walk it
        for product in letters[:, element]:
            if (key := product.tobytes()) not in found:
                found.add(key)
                elements.append(product)
        if len(elements) >= most:
            break
    return np.stack(elements[:most])


def idempotents_of(elements: IntArray) -> IntArray:
    """Those with e e = e."""
    idempotents: IntArray = elements[(np.take_along_axis(elements, elements, axis=1) == elements).all(1)]
    return idempotents


def _generated(name: str, elements: IntArray) -> PermutationGroup:
    """The group with exactly these elements, by a few generators: each one taken at least doubles it."""
    known, chosen = {np.arange(elements.shape[1]).tobytes()}, list[IntArray]()
    group = PermutationGroup(name, np.arange(elements.shape[1])[None], ())
    for element in elements:
        if element.tobytes() not in known:
            chosen.append(element)
            group = PermutationGroup.from_generators(name, np.stack(chosen), limit=len(elements))
            known = {row.tobytes() for row in group.elements}
    return group
