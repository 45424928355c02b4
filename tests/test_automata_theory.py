"""What the structures of Table 1 can emulate, and Propositions 3 and 4: every verdict checked another way."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdssm import PD, Diagonal, scan
from pdssm.automata import (
    DFA,
    AutomatonError,
    Row,
    TransformationMonoid,
    emulation,
    group,
    scalar_ssm,
    simplex_layer,
    witness_automaton,
)
from pdssm.automata.congruences import Order
from pdssm.automata.diagonal import DiagonalWitness, separate
from pdssm.automata.emulation import ColumnWitness
from pdssm.automata.householder import HouseholderWitness, householder_witness, obstruction
from pdssm.automata.lattice import Lattice
from pdssm.automata.permutation_group import IntArray
from pdssm.automata.propositions import needs_affine_independence, primes, table_size
from pdssm.transitions import Householder

ROWS = ("real diagonal, non-negative", "real diagonal", "complex diagonal", "Householder products", "dense", "PD")
ORDERS: tuple[Order, ...] = (1, 2, None)
FLIP_FLOP = np.array([[0, 1, 0], [0, 1, 1]])  # set 0, set 1, stay
COUNTER_AND_REST = np.array([[1, 3, 0], [2, 3, 0], [0, 3, 0], [3, 3, 0]])  # three on a circle, one in its centre
TWO_PROJECTIONS = np.array([[0, 1, 2], [0, 1, 2], [2, 2, 0]])  # {0, 1} to 0, {0, 1} to 1


def machine(transitions: IntArray) -> DFA:
    return DFA(tuple("abcdefgh"[: transitions.shape[1]]), transitions, 0, tuple(range(len(transitions))))


def verdicts(dfa: DFA) -> dict[str, str]:
    return {row.structure: row.verdict for row in emulation(dfa)}


# ------------------------------------------------------------------------- the diagonal criterion, by brute force


def partitions(states: int) -> Iterator[IntArray]:
    """All of them, as numbers of classes in order of first appearance."""
    stack = [[0]]
    while stack:
        labels = stack.pop()
        if len(labels) == states:
            yield np.array(labels)
        else:
            stack += [[*labels, label] for label in range(max(labels) + 2)]


def is_admissible(transitions: IntArray, labels: IntArray, order: Order) -> bool:
    """Each letter constant, or a power of one rotation: its cycles of one length, but for one fixed centre."""
    size = labels.max() + 1
    letters = []
    for column in transitions.T:
        pairs = {(int(a), int(b)) for a, b in zip(labels, labels[column], strict=True)}
        if len(pairs) > size:
            return False  # no congruence
        image = [b for _, b in sorted(pairs)]
        if len(set(image)) == size:
            letters.append(tuple(image))
        elif len(set(image)) > 1:
            return False
    turns, identity = {tuple(range(size))}, tuple(range(size))
    while len(more := turns | {tuple(s[k] for k in t) for t in turns for s in letters}) > len(turns):
        turns = more
    fixed = [{k for k in range(size) if t[k] == k} for t in turns if t != identity]
    free = not fixed or (all(f == fixed[0] for f in fixed) and len(fixed[0]) <= 1)

    def length(turn: tuple[int, ...]) -> int:
        power, count = turn, 1
        while power != identity:
            power, count = tuple(turn[k] for k in power), count + 1
        return count

    cyclic = any(length(t) == len(turns) for t in turns)
    return free and cyclic and (order is None or len(turns) <= order)


def separated_by_brute_force(transitions: IntArray, order: Order) -> set[tuple[int, int]]:
    admissible = [p for p in partitions(len(transitions)) if is_admissible(transitions, p, order)]
    pairs = combinations(range(len(transitions)), 2)
    return {(p, q) for p, q in pairs if any(labels[p] != labels[q] for labels in admissible)}


def random_letters(rng: np.random.Generator, states: int, count: int) -> IntArray:
    """Letters of the kinds that matter: permutations, constants, resets of a part, and any."""
    columns = []
    for kind in rng.integers(5, size=count):
        any_map, stay = rng.integers(states, size=states), np.arange(states)
        rotated = np.roll(stay, 1)
        half = np.where(stay < states // 2, rng.integers(states), stay)
        columns.append([rng.permutation(states), np.full(states, rng.integers(states)), half, any_map, rotated][kind])
    return np.stack(columns, axis=1)


def check_diagonal(transitions: IntArray, order: Order) -> int:
    """The search's classes, checked; how many there are."""
    found = separate(transitions, order)
    assert found.complete
    pairs = combinations(range(len(transitions)), 2)
    assert {(p, q) for p, q in pairs if found.classes[p] != found.classes[q]} == separated_by_brute_force(
        transitions, order
    )
    check_witness(found.witness, transitions, found.classes)
    return int(found.classes.max()) + 1


def check_witness(witness: DiagonalWitness, transitions: IntArray, classes: IntArray) -> None:
    codes = witness.codes
    moved = codes[:, None] * witness.scale + witness.offset
    assert np.abs(moved - codes[transitions]).max(initial=0) < 1e-12
    assert codes.shape[1] <= max(len(codes) - 1, 0)
    apart = np.abs(codes[:, None] - codes).max(-1, initial=0) > 1e-6
    assert np.array_equal(apart, classes[:, None] != classes)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("states", [2, 3, 4, 5])
def test_diagonal_layers_against_all_partitions(states: int, order: Order) -> None:
    rng = np.random.default_rng(states)
    counts = [check_diagonal(random_letters(rng, states, int(rng.integers(1, 4))), order) for _ in range(60)]
    assert max(counts) == states
    assert min(counts) == (1 if states > 2 or order == 1 else 2)  # two states can always be told apart by a real layer


@pytest.mark.parametrize("order", ORDERS)
def test_diagonal_layers_of_six_states(order: Order) -> None:
    twice_three = np.array([[1, 3, 0], [2, 3, 0], [0, 3, 0], [4, 3, 0], [5, 3, 0], [3, 3, 0]])
    assert check_diagonal(twice_three, order) == (6 if order is None else 2)  # two circles and two constants
    assert check_diagonal(np.concatenate([COUNTER_AND_REST, [[4, 3, 0]]]), order) == (5 if order is None else 3)


@pytest.mark.parametrize("name", ["Z2", "Z4", "Z7", "Z60", "Z2xZ4", "D4", "S3", "A4", "S4", "A5", "S5", "S3xZ4"])
def test_of_a_group_its_largest_abelian_quotient_is_seen(name: str) -> None:
    ours = group(name)
    found = separate(DFA.from_group(ours).transitions, None)
    derived = ours.derived_series()[1] if len(ours.derived_series()) > 1 else ours.derived_series()[0]
    assert found.classes.max() + 1 == ours.order // derived.order
    assert np.array_equal(found.classes[:, None] == found.classes, derived.cosets()[:, None] == derived.cosets())


def test_the_search_gives_up_honestly() -> None:
    rng = np.random.default_rng(0)
    transitions = np.stack([np.where(np.arange(12) < 6, k, np.arange(12)) for k in range(6)], axis=1)
    transitions = np.concatenate([transitions, rng.permutation(12)[:, None]], axis=1)
    transitions[:, -1] = np.roll(np.arange(12), 1)
    found = separate(transitions, None, budget=1)
    assert not found.complete
    row = emulation(machine(transitions), budget=1)[2]
    assert row.verdict == "unknown"
    assert "budget" in row.reason
    assert emulation(machine(transitions))[2].verdict == "no"


@given(arrays(np.int64, (6, 3), elements=st.integers(-9, 9)), st.lists(st.integers(1, 8), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_lattices(rows: IntArray, orders: list[int]) -> None:
    lattice = Lattice(np.array(orders))
    lattice.insert(rows)
    assert not lattice.reduce(rows).any()
    assert not lattice.reduce(np.diag(orders)).any()
    characters, parts = lattice.characters()
    assert not (rows @ characters % parts).any()
    assert not (np.diag(orders) @ characters % parts).any()
    everything = np.stack(np.meshgrid(*map(np.arange, orders), indexing="ij"), axis=-1).reshape(-1, 3)
    inside = ~lattice.reduce(everything).any(1)
    assert np.array_equal(inside, ~(everything @ characters % parts).any(1))  # the characters see all that is left
    assert len(everything) == inside.sum() * len(np.unique(lattice.reduce(everything), axis=0))


# -------------------------------------------------------------------------------------------------- the rows


def test_the_rows_of_the_papers_examples() -> None:
    always = {"Householder products": "yes", "dense": "yes", "PD": "yes"}
    expected = {
        "Z2": ("no", "yes", "yes"),
        "Z2xZ4": ("no", "no", "yes"),
        "Z2xZ2": ("no", "yes", "yes"),
        "D4": ("no", "no", "no"),
        "A5": ("no", "no", "no"),
    }
    for name, diagonal in expected.items():
        assert verdicts(DFA.from_group(group(name))) == dict(zip(ROWS, diagonal, strict=False)) | always


def test_other_rows() -> None:
    assert set(verdicts(machine(FLIP_FLOP)).values()) == {"yes"}
    assert [row.verdict for row in emulation(machine(COUNTER_AND_REST))][:4] == ["no", "no", "yes", "yes"]
    assert [row.verdict for row in emulation(machine(TWO_PROJECTIONS))] == ["no", "no", "no", "no", "yes", "yes"]
    rows = emulation(DFA.from_table({"p": {"a": "q"}, "q": {"a": "p"}}, "p", ["q"]))
    assert "states p and q" in rows[0].reason
    rows = emulation(machine(np.array([[2], [1], [3], [0]])))  # 1 is not reachable; 0, 2, 3 go round
    assert "states 0 and 2" in rows[1].reason
    rows = emulation(machine(np.array([[3], [1], [0], [0]])))
    assert "states 0 and 3" in rows[0].reason
    rows = emulation(machine(np.random.default_rng(1).integers(9, size=(9, 3))), monoid_limit=10)
    assert rows[3].verdict == "unknown"
    assert "more than 10" in rows[3].reason


def run_diagonal(witness: DiagonalWitness, words: torch.Tensor, start: int) -> torch.Tensor:
    initial = torch.from_numpy(witness.codes[start]).expand(len(words), -1)
    transition, inputs = Diagonal(torch.from_numpy(witness.scale)), torch.from_numpy(witness.offset)
    return scan(transition, inputs, initial.contiguous(), rows=words)[0]


@pytest.mark.parametrize("name", ["Z2xZ4", "Z7", "flip-flop", "counter and rest"])
def test_a_diagonal_layer_runs(name: str) -> None:
    tables = {"flip-flop": FLIP_FLOP, "counter and rest": COUNTER_AND_REST}
    dfa = machine(tables[name]) if name in tables else DFA.from_group(group(name))
    dfa = dfa.restricted(dfa.reachable())
    witness = emulation(dfa)[2].witness
    assert isinstance(witness, DiagonalWitness)
    words = torch.randint(len(dfa.alphabet), (4, 1000), generator=torch.Generator().manual_seed(0))
    states = run_diagonal(witness, words, dfa.initial)
    codes = torch.from_numpy(witness.codes)
    nearest = (states[..., None, :] - codes).abs().sum(-1).argmin(-1)
    assert np.array_equal(nearest.numpy(), dfa.run_many(words.numpy()))
    assert (states - codes[nearest]).abs().max() < 1e-10


def test_one_complex_number_counts() -> None:
    witness = emulation(DFA.from_group(group("Z7")))[2].witness
    assert isinstance(witness, DiagonalWitness)
    assert witness.codes.shape == (7, 1)
    assert witness.turns[0][0] in {Fraction(k, 7) for k in range(1, 7)}


def test_a_column_layer_runs() -> None:
    dfa = DFA.random(30, 4, np.random.default_rng(0))
    dfa = dfa.restricted(dfa.reachable())
    witness = emulation(dfa)[5].witness
    assert isinstance(witness, ColumnWitness)
    index = torch.from_numpy(witness.index.copy())
    words = torch.randint(4, (3, 500), generator=torch.Generator().manual_seed(0))
    initial = torch.eye(30, dtype=torch.complex64)[dfa.initial].expand(3, -1).contiguous()
    transition = PD(index, torch.ones(4, 30, dtype=torch.complex64))
    states, _ = scan(transition, torch.zeros(4, 30, dtype=torch.complex64), initial, rows=words)
    assert np.array_equal(states.real.argmax(-1).numpy(), dfa.run_many(words.numpy()))


def check_householder(witness: HouseholderWitness, transitions: IntArray) -> None:
    """With the library's own Householder products; all factors have 0 <= beta <= 2 and unit vectors."""
    codes = torch.from_numpy(witness.codes)
    assert codes.shape[1] <= len(transitions)
    assert (torch.cdist(codes, codes) + torch.eye(len(codes))).min() > 1e-6
    for s, (vectors, betas) in enumerate(zip(witness.vectors, witness.betas, strict=True)):
        assert ((betas > 0) & (betas <= 2)).all()
        assert np.allclose((vectors**2).sum(1), 1)
        moved = codes
        if len(betas):
            transition = Householder(torch.from_numpy(vectors), torch.from_numpy(betas))
            moved = torch.stack([transition.apply(code) for code in codes])
        assert torch.allclose(moved + torch.from_numpy(witness.offset[s]), codes[transitions[:, s].copy()], atol=1e-8)


@pytest.mark.parametrize("seed", range(40))
def test_householder_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dfa = machine(random_letters(rng, int(rng.integers(2, 7)), int(rng.integers(1, 4))))
    row, small = emulation(dfa)[3], dfa.restricted(dfa.reachable())
    if row.verdict == "yes":
        assert isinstance(row.witness, HouseholderWitness)
        check_householder(row.witness, small.transitions)
        assert (
            obstruction(TransformationMonoid.of(dfa).idempotents) is None
        )  # the two criteria never contradict each other
    assert not (row.verdict != "yes" and emulation(dfa)[2].verdict == "yes")


def test_the_two_householder_verdicts_occur() -> None:
    rng = np.random.default_rng(0)
    found = [emulation(machine(random_letters(rng, 4, 2)))[3].verdict for _ in range(60)]
    assert set(found) == {"yes", "no", "unknown"}


def test_rotations_become_householder_products() -> None:
    z5 = separate(DFA.from_group(group("Z5")).transitions, None).witness.codes
    witness = householder_witness(np.concatenate([z5.real, z5.imag], axis=1), DFA.from_group(group("Z5")).transitions)
    check_householder(witness, DFA.from_group(group("Z5")).transitions)
    assert witness.factors == 2  # a plane rotation is two reflections
    a5 = DFA.from_group(group("A5"))
    a5 = a5.restricted(a5.reachable())
    row = emulation(a5)[3]
    assert isinstance(row.witness, HouseholderWitness)
    check_householder(row.witness, a5.transitions)
    assert row.witness.factors == 60 - 12  # |Q| less the number of cycles: twelve 5-cycles
    assert emulation(DFA.from_group(group("S5xZ2")))[3].witness is None


# --------------------------------------------------------------------------------------------------- monoids


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_monoids_hold_what_words_do(states: int, symbols: int, seed: int) -> None:
    dfa = DFA.random(states, symbols, np.random.default_rng(seed))
    dfa = dfa.restricted(dfa.reachable())
    monoid = TransformationMonoid.of(dfa)
    elements = {tuple(row) for row in monoid.elements.tolist()}
    assert len(elements) == monoid.order
    for word in dfa.words(4):
        assert tuple(dfa.run(word, start=q) for q in range(states)) in elements
    closed = {tuple(letter[k] for k in row) for row in elements for letter in monoid.letters.tolist()}
    assert closed <= elements
    assert monoid.is_group == all(len(set(row)) == states for row in elements)
    periods = [next(k for k in range(1, 99) if power(row, 99 + k) == power(row, 99)) for row in elements]
    assert monoid.is_aperiodic == (max(periods) == 1)
    assert monoid.is_solvable  # fewer than five states


def power(row: tuple[int, ...], exponent: int) -> tuple[int, ...]:
    result = tuple(range(len(row)))
    for _ in range(exponent):
        result = tuple(row[k] for k in result)
    return result


def test_what_kind_of_monoid() -> None:
    a5 = TransformationMonoid.of(DFA.from_group(group("A5")))
    assert (a5.order, a5.is_group, a5.is_solvable, a5.is_aperiodic) == (60, True, False, False)
    assert TransformationMonoid.of(DFA.from_group(group("S4"))).is_solvable
    assert TransformationMonoid.of(DFA.from_regex("(ab)*")).is_aperiodic
    assert not TransformationMonoid.of(DFA.from_regex("(aa)*")).is_aperiodic
    full = {n: np.array([[*range(1, n), 0], [1, 0, *range(2, n)], [0, 0, *range(2, n)]]).T for n in (4, 5)}
    four, five = (TransformationMonoid.of(machine(full[n])) for n in (4, 5))
    assert (four.order, five.order) == (4**4, 5**5)
    assert four.is_solvable
    assert not five.is_solvable
    assert five.subgroup_at(np.arange(5)).order == 120
    assert four.subgroup_at(np.array([0, 0, 2, 3])).order == 6
    assert len(four.idempotents) == 41
    with pytest.raises(AutomatonError, match="more than 100 elements"):
        TransformationMonoid.of(machine(full[4]), limit=100)
    with pytest.raises(AutomatonError, match="no group"):
        four.group()
    assert a5.group().order == 60


# ------------------------------------------------------------------------------------------- Propositions 3, 4


@pytest.mark.parametrize("states", [3, 4, 7])
def test_proposition_3(states: int) -> None:
    dfa, rng = witness_automaton(states), np.random.default_rng(states)
    assert needs_affine_independence(dfa)
    assert len(dfa.minimised()) == states

    def misfit(codes: np.ndarray) -> float:
        """How far the best affine maps are from emulating, worst letter."""
        ones = np.concatenate([codes, np.ones((states, 1))], axis=1)
        return max(
            float(np.abs(ones @ np.linalg.lstsq(ones, codes[column], rcond=None)[0] - codes[column]).max())
            for column in dfa.transitions.T
        )

    for _ in range(20):
        assert misfit(rng.normal(size=(states, states - 2))) > 1e-3  # too few dimensions, whatever the codes
        assert misfit(rng.normal(size=(states, states - 2)) + 1j * rng.normal(size=(states, states - 2))) > 1e-3
        assert misfit(rng.normal(size=(states, states - 1))) < 1e-8
    assert verdicts(dfa)["PD"] == "yes"


def test_the_witness_is_every_size() -> None:
    assert [len(witness_automaton(n)) for n in (1, 2, 50)] == [1, 2, 50]
    assert witness_automaton(3).transitions.tolist() == [[1, 0, 0], [1, 2, 1], [2, 2, 0]]
    with pytest.raises(AutomatonError, match="states is 0"):
        witness_automaton(0)
    assert not needs_affine_independence(DFA.from_group(group("Z7")))  # one complex number does


@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_simplex_is_enough(states: int, symbols: int, seed: int) -> None:
    dfa = DFA.random(states, symbols, np.random.default_rng(seed))
    layer = simplex_layer(dfa)
    assert layer.codes.shape == (states, states - 1)
    for s in range(symbols):
        moved = layer.codes @ layer.matrices[s].T + layer.offsets[s]
        assert np.array_equal(moved, layer.codes[dfa.transitions[:, s]])


def test_proposition_4() -> None:
    dfa = DFA.from_group(group("A5"))
    layer = scalar_ssm(dfa, length=9)
    assert all(layer.label(word) == dfa.label(word) for word in dfa.words(9))
    assert len(layer.table) == table_size(2, 9) == 2**10 - 1
    sizes, gaps = zip(*[(len(x.table), x.gap) for x in (scalar_ssm(dfa, n) for n in (3, 6, 9))], strict=True)
    assert sizes == (15, 127, 1023)
    assert gaps[0] > gaps[1] > gaps[2] > 0
    other = scalar_ssm(dfa, 5, codes=[Fraction(-1, 3), Fraction(2, 7)])
    assert all(other.run(word) == dfa.run(word) for word in dfa.words(5))
    assert primes(6) == [2, 3, 5, 7, 11, 13]
    assert min(abs(x - Decimal(2).sqrt()) for x in layer.table) < Decimal("1e-25")  # "a", with code 1


def test_the_codes_of_proposition_4() -> None:
    dfa = DFA.from_regex("(ab)*")
    for codes in ([0, 1], [1, 1], [1]):  # with 0, "a" and "aa" would be one number
        with pytest.raises(AutomatonError, match="2 different rationals, none of them 0"):
            scalar_ssm(dfa, 3, codes=codes)
    with pytest.raises(AutomatonError, match="digits is 3"):
        scalar_ssm(dfa, 10, digits=3)
    with pytest.raises(AutomatonError, match="2,097,151 entries"):
        scalar_ssm(dfa, 20)
    with pytest.raises(AutomatonError, match="4 symbols; the table ends at 3"):
        scalar_ssm(dfa, 3).run("abab")


def test_rows_are_complete() -> None:
    rows = emulation(DFA.from_regex("(a|b)*abb"))
    assert tuple(row.structure for row in rows) == ROWS
    for row in rows:
        assert isinstance(row, Row)
        assert row.reason
        assert (row.witness is not None) == (row.verdict == "yes")
