"""Groups: their elements and convention against sympy, and the paper's worked examples."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.combinatorics import Permutation, PermutationGroup
from sympy.combinatorics.named_groups import AlternatingGroup, CyclicGroup, DihedralGroup, SymmetricGroup

from pdssm.automata import PermutationGroup as OurGroup
from pdssm.automata import Subgroup, factor_group, factor_orders, group
from pdssm.automata.subgroups import closure, normal_closure
from pdssm.errors import PDSSMError, RangeError

NAMED = {
    "A3": AlternatingGroup(3),
    "A4": AlternatingGroup(4),
    "A5": AlternatingGroup(5),
    "A6": AlternatingGroup(6),
    "S2": SymmetricGroup(2),
    "S3": SymmetricGroup(3),
    "S4": SymmetricGroup(4),
    "S5": SymmetricGroup(5),
    "Z2": CyclicGroup(2),
    "Z7": CyclicGroup(7),
    "D3": DihedralGroup(3),
    "D4": DihedralGroup(4),
    "D7": DihedralGroup(7),
}


def test_importing_the_library_does_not_import_the_automata() -> None:
    names = "('pdssm.automata', 'automata', 'aalpy')"
    code = f"import sys, pdssm; sys.exit(any(name in sys.modules for name in {names}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMED)
def test_named_groups_are_sympys(name: str) -> None:
    ours, theirs = group(name), NAMED[name]
    assert {tuple(row) for row in ours.elements.tolist()} == {tuple(p.array_form) for p in theirs.elements}
    assert ours.elements[0].tolist() == list(range(ours.degree))
    assert ours.is_abelian == theirs.is_abelian
    assert ours.is_solvable == theirs.is_solvable
    assert [g.order for g in ours.derived_series()] == [g.order() for g in theirs.derived_series()]


@pytest.mark.parametrize("name", ["Z2xZ4", "Z2xA5", "S3xD4xZ3"])
def test_products(name: str) -> None:
    whole, parts = group(name), [group(part) for part in name.split("x")]
    assert whole.order == np.prod([part.order for part in parts])
    assert whole.is_solvable == all(part.is_solvable for part in parts)
    assert whole.is_abelian == all(part.is_abelian for part in parts)
    assert PermutationGroup([Permutation(row) for row in whole.elements[list(whole.generators)].tolist()]).order() == (
        whole.order
    )


@pytest.mark.parametrize("name", ["A5", "D4", "Z2xZ4", "S7"])  # S7 has no table
def test_first_g_then_s(name: str) -> None:
    ours, rng = group(name), np.random.default_rng(0)
    i, j = rng.integers(ours.order, size=(2, 30))
    for a, b, c in zip(i.tolist(), j.tolist(), ours.multiply(i, j).tolist(), strict=True):
        first, then, both = (ours.elements[k] for k in (a, b, c))
        assert [int(then[first[point]]) for point in range(ours.degree)] == both.tolist()
        assert (Permutation(first.tolist()) * Permutation(then.tolist())).array_form == both.tolist()
        assert ours.index(both) == c
    assert (ours.multiply(i, ours.inverse(i)) == 0).all()
    assert ours.multiply(i[:, None], j[None]).shape == (30, 30)


def test_the_table_and_the_hashes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = group("S5")
    everything = np.arange(120)
    table = ours.multiply(everything[:, None], everything)
    monkeypatch.setattr("pdssm.automata.permutation_group.TABLE_LIMIT", 0)
    assert np.array_equal(table, ours.multiply(everything[:, None], everything))


@given(st.integers(2, 30), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_generating_sets_generate(n: int, seed: int) -> None:
    ours = group("A5")
    chosen = ours.generating_set(n, seed)
    assert len(set(chosen.tolist())) == n
    assert 0 not in chosen
    five, swaps = (ours.elements[chosen[k]].tolist() for k in range(2))
    assert Permutation(five).cycle_structure == {5: 1}
    assert swaps == [1, 0, 3, 2, 4]
    assert PermutationGroup([Permutation(row) for row in ours.elements[chosen].tolist()]).order() == 60
    assert ours.generates(chosen)
    assert np.array_equal(chosen, ours.generating_set(n, seed))


def test_too_few_generators_are_noticed() -> None:
    ours = group("A5")
    assert not ours.generates(ours.generators[:1])
    with pytest.raises(RangeError, match="generate a smaller group"):
        OurGroup("A5", ours.elements, ours.generators[:1])
    with pytest.raises(RangeError, match="expected the identity"):
        OurGroup("A5", ours.elements[::-1], ours.generators)
    with pytest.raises(RangeError, match="repeat"):
        OurGroup("two", np.array([[0, 1], [0, 1]]), ())
    assert not ours.elements.flags.writeable


def test_the_cayley_table_of_s6_in_a_second() -> None:
    start = time.perf_counter()
    s6 = OurGroup("S6", group("S6").elements, group("S6").generators)  # not the cached one
    table = s6.cayley(s6.generating_set(10, seed=1))
    assert time.perf_counter() - start < 1
    assert table.shape == (720, 10)
    assert (np.sort(table, axis=0) == np.arange(720)[:, None]).all()


@pytest.mark.parametrize("name", ["B5", "A2", "D2", "Z1", "S11", "S9999", "Z9999", "", "A5x", "A5y3"])
def test_unknown_groups(name: str) -> None:
    with pytest.raises(PDSSMError, match="expected"):
        group(name)


def test_bad_elements() -> None:
    ours = group("A5")
    for call, message in (
        (lambda: ours.index([1, 0, 2, 3, 4]), "is not in A5"),
        (lambda: ours.index([0, 1]), "is not in A5"),
        (lambda: ours.index([9, 9, 9, 9, 9]), "is not in A5"),
        (lambda: ours.multiply(60, 0), r"expected elements 0\.\.59"),
        (lambda: ours.generating_set(1, 0), "n is 1; expected 2 to 59"),
        (lambda: ours.generating_set(60, 0), "n is 60"),
        (lambda: OurGroup.from_generators("x", [[0, 0]]), "expected a permutation"),
        (lambda: OurGroup.from_generators("S5", [[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]], limit=60), "more than 60"),
    ):
        with pytest.raises(PDSSMError, match=message):
            call()


def conjugated(ours: OurGroup, n: Subgroup, g: int) -> set[int]:
    return set(ours.multiply(ours.multiply(g, n.members), ours.inverse(g)).tolist())


def test_z2_x_z4_as_the_paper_decomposes_it() -> None:
    ours = group("Z2xZ4")
    whole, trivial = Subgroup(ours, ours.generators), Subgroup(ours, ())
    ring = Subgroup(ours, ours.generators[1:])  # +[0, 1]: the outer ring
    assert ring.order == 4
    assert ring.is_normal_in(whole)
    assert factor_group(whole, ring).order == 2  # even and odd
    assert factor_orders((whole, ring, trivial)) == (2, 4)
    assert all(factor_group(a, b).is_abelian for a, b in ((whole, ring), (ring, trivial)))
    assert sorted(np.bincount(ring.cosets()).tolist()) == [4, 4]
    assert [step.order for step in ours.normal_series()] == [8, 1]  # commutative: {e} is enough


def test_d4_is_solvable_and_g_n_g_is_n_as_a_set_only() -> None:
    ours = group("D4")
    assert not ours.is_abelian
    assert [step.order for step in ours.normal_series()] == [8, 2, 1]
    assert factor_orders(ours.normal_series()) == (4, 2)
    whole, rotations = Subgroup(ours, ours.generators), Subgroup(ours, ours.generators[:1])
    assert rotations.is_normal_in(whole)
    assert factor_group(whole, rotations).order == 2
    flip = ours.generators[1]
    assert conjugated(ours, rotations, flip) == set(rotations.members.tolist())
    rotation = ours.generators[0]  # the paper's "g n g^-1 = n" fails for it
    assert ours.multiply(ours.multiply(flip, rotation), ours.inverse(flip)) != rotation
    reflection = Subgroup(ours, (flip,))
    assert not reflection.is_normal_in(whole)
    with pytest.raises(RangeError, match="not normal"):
        factor_group(whole, reflection)


def test_a5_has_no_normal_subgroup() -> None:
    ours = group("A5")
    whole = Subgroup(ours, ours.generators)
    assert not ours.is_solvable
    assert factor_orders(ours.normal_series()) == (60,)
    assert not factor_group(whole, ours.normal_series()[-1]).is_abelian
    for element in range(1, 60):  # the least normal subgroup with any element is everything
        assert normal_closure(whole, [element]).order == 60


@given(st.sampled_from(["S4", "D4", "Z2xZ4", "A4", "S3xZ2"]), st.data())
@settings(max_examples=40, deadline=None)
def test_subgroups_and_their_factors(name: str, data: st.DataObject) -> None:
    ours = group(name)
    chosen = data.draw(st.lists(st.integers(0, ours.order - 1), max_size=3))
    sub, whole = Subgroup(ours, tuple(chosen)), Subgroup(ours, ours.generators)
    theirs = PermutationGroup([Permutation(row) for row in ours.elements[chosen or [0]].tolist()])
    assert sub.order == len(closure(ours, chosen)) == theirs.order()
    normal = all(conjugated(ours, sub, g) == set(sub.members.tolist()) for g in range(ours.order))
    assert sub.is_normal_in(whole) == normal
    assert (np.bincount(sub.cosets()) == sub.order).all()
    if normal:
        assert factor_group(whole, sub).order * sub.order == ours.order
