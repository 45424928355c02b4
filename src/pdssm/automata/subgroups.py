"""Subgroups: which are normal, the factor groups they leave, and the series that decide solvability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from pdssm.automata.permutation_group import IntArray, PermutationGroup
from pdssm.errors import RangeError


def closure(group: PermutationGroup, generators: ArrayLike) -> IntArray:
    """The elements, sorted, that the generators generate; in a finite group inverses come by themselves."""
    chosen = np.atleast_1d(np.asarray(generators, dtype=np.int64))
    member = np.zeros(group.order, dtype=bool)
    member[0] = True
    newest = np.zeros(1, dtype=np.int64)
    while newest.size and chosen.size:
        reached = np.unique(group.multiply(newest[:, None], chosen))
        newest = reached[~member[reached]]
        member[newest] = True
    return np.flatnonzero(member)


@final
@dataclass(frozen=True, eq=False)
class Subgroup:
    """The elements of a group that some of them generate."""

    group: PermutationGroup
    generators: tuple[int, ...]

    @cached_property
    def members(self) -> IntArray:
        """Indices in ``group``, sorted."""
        members = closure(self.group, self.generators)
        members.flags.writeable = False
        return members

    @property
    def order(self) -> int:
        """How many elements."""
        return len(self.members)

    @cached_property
    def is_abelian(self) -> bool:
        """Whether its elements commute."""
        return self.as_group().is_abelian

    def is_normal_in(self, other: Subgroup) -> bool:
        """Whether g N g^-1 = N, as sets, for every g of the other: enough to try generators of both."""
        if not np.isin(self.generators, other.members).all():
            return False
        inside = _conjugates(self.group, self.generators, other.generators)
        return bool(np.isin(inside, self.members).all())

    def cosets(self) -> IntArray:
        """``(order of the group,)``: elements with the same number share a coset N g; numbered as first met."""
        labels = np.full(self.group.order, -1)
        for g in range(self.group.order):
            if labels[g] < 0:
                labels[self.group.multiply(self.members, g)] = labels.max() + 1
        return labels

    def as_group(self) -> PermutationGroup:
        """A group of its own, on the same points."""
        own = tuple(int(place) for place in np.searchsorted(self.members, self.generators))
        return PermutationGroup(f"subgroup of {self.group.name}", self.group.elements[self.members], own)

    def derived(self) -> Subgroup:
        """The subgroup of its commutators a^-1 b^-1 a b: the least normal one with an abelian factor group."""
        own = np.array(self.generators, dtype=np.int64)
        ab = self.group.multiply(own[:, None], own[None, :])
        commutators = self.group.multiply(self.group.inverse(ab.T), ab).ravel()
        return normal_closure(self, commutators)


def _conjugates(group: PermutationGroup, inner: ArrayLike, outer: ArrayLike) -> IntArray:
    """g^-1 n g for all n of the inner and g of the outer ones."""
    n, g = np.asarray(inner, dtype=np.int64)[:, None], np.asarray(outer, dtype=np.int64)[None, :]
    return group.multiply(group.multiply(group.inverse(g), n), g).ravel()


def normal_closure(parent: Subgroup, elements: ArrayLike) -> Subgroup:
    """The least normal subgroup of the parent that contains the elements."""
    group, chosen = parent.group, list[int]()
    waiting = [int(element) for element in np.unique(np.asarray(elements, dtype=np.int64))]
    members = np.zeros(1, dtype=np.int64)
    while waiting:
        element = waiting.pop(0)
        if not np.isin(element, members):  # each one taken at least doubles the subgroup
            chosen.append(element)
            members = closure(group, chosen)
            waiting += _conjugates(group, [element], parent.generators).tolist()
    return Subgroup(group, tuple(chosen))


def derived_series(group: PermutationGroup) -> tuple[Subgroup, ...]:
    """G, G', G'', ... until it stands still: at {e} exactly where the group is solvable."""
    series = [Subgroup(group, group.generators)]
    while (finer := series[-1].derived()).order < series[-1].order:
        series.append(finer)
    return tuple(series)


def normal_series(group: PermutationGroup) -> tuple[Subgroup, ...]:
    """From G down to {e}, each normal in the one before."""
    series = derived_series(group)
    return series if series[-1].order == 1 else (*series, Subgroup(group, ()))


def factor_orders(series: tuple[Subgroup, ...]) -> tuple[int, ...]:
    """The orders of the factor groups of a series, from the top."""
    return tuple(upper.order // lower.order for upper, lower in pairwise(series))


def factor_group(upper: Subgroup, lower: Subgroup) -> PermutationGroup:
    """upper / lower: how the upper one permutes the cosets of the lower, by multiplication from the right."""
    if upper.group is not lower.group or not lower.is_normal_in(upper):
        raise RangeError(f"lower, of order {lower.order}, is not normal in upper, of order {upper.order}")
    group, labels = upper.group, lower.cosets()
    inside, first = np.unique(labels[upper.members], return_index=True)
    representatives = upper.members[first]
    generators = np.array(upper.generators or (0,), dtype=np.int64)
    moved = labels[group.multiply(representatives[None, :], generators[:, None])]
    return PermutationGroup.from_generators(f"factor group of {group.name}", np.searchsorted(inside, moved))
