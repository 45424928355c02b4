"""Table 1 of the paper, executed: ``python -m benchmarks.table1 [--json FILE]``.

For cyclic, solvable and non-solvable groups: can one layer of each structure track the running product? *Yes* comes
with the layer, which reads random words without a mistake, *no* with the reason; *unknown*: neither is known to us.

A layer is a representation of the group: a code for each element, and a map x -> A(s) x + b(s) for each generator s
that takes the code of g to that of g * s. A linear readout then finds the nearest code. What a structure can do is
what matrices A it has, so each takes the first representation whose matrices it has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.command import Stored, command
from pdssm.automata import DFA, PermutationGroup, emulation, group
from pdssm.automata.diagonal import DiagonalWitness
from pdssm.automata.householder import factors
from pdssm.scanning import scan
from pdssm.transitions import PD, BlockDiagonal, Dense, Diagonal, DiagonalPlusLowRank, Householder, Transition

GROUPS = {
    "cyclic": ("Z2", "Z5", "Z60"),
    "solvable": ("Z2xZ4", "S3", "D4", "A4", "S4"),
    "not solvable": ("A5", "S5"),
}
FACTORS, RANK, BLOCK, DENSE_BLOCK = 4, 4, 4, 16
"""The settings of the published comparisons: Householder factors a token, rank and block sizes of the SLiCEs."""
WORDS, LENGTH = 100, 1000


@dataclass(frozen=True)
class Layer:
    """What a structure is made of: x -> A(s) x + offset(s), and the code of each element."""

    transition: Transition
    """Batch (symbols,)."""
    codes: Tensor
    """(elements, N)."""
    offset: Tensor
    """(symbols, N)."""


@dataclass(frozen=True)
class Representation:
    """Matrices without offsets."""

    what: str
    matrices: Tensor
    """(symbols, N, N), orthogonal."""
    codes: Tensor
    """(elements, N)."""

    @property
    def size(self) -> int:
        return self.matrices.shape[-1]

    @property
    def rank(self) -> int:
        """The largest rank of A - I: so many reflections, or so low a rank beside the identity, are enough."""
        moved = self.matrices - torch.eye(self.size, dtype=torch.float64)
        return int(torch.linalg.matrix_rank(moved, atol=1e-9).max())

    def layer(self, transition: Transition) -> Layer:
        """Without offsets."""
        return Layer(transition, self.codes, torch.zeros(len(self.matrices), self.size, dtype=torch.float64))


@dataclass(frozen=True)
class Claim:
    """An entry of the table."""

    verdict: str
    reason: str
    layer: Layer | None = None


Row = Callable[[PermutationGroup, list[Representation]], Claim]


# -------------------------------------------------------------------------------------------- representations


def representations(g: PermutationGroup) -> list[Representation]:
    """The smaller ones first: rotations where the group is abelian, then the points, without and with their mean."""
    found = [points(g)]
    if g.degree > 2:
        found.insert(0, without_mean(found[0]))
    turning = diagonal(2)(g, found).layer
    if turning is not None and not bool(turning.offset.any()):
        codes = torch.view_as_real(turning.codes).flatten(-2)
        found.insert(0, Representation("rotations", turning.transition.to_real().to_dense(), codes))
    return found


def points(g: PermutationGroup) -> Representation:
    """The points' permutation matrices; an element's code is a vector of distinct numbers, permuted by it."""
    moved = torch.from_numpy(g.elements[list(g.generators)].copy())
    matrices = torch.nn.functional.one_hot(moved, g.degree).mT.double()
    numbers = torch.arange(1.0, g.degree + 1, dtype=torch.float64).expand(g.order, -1)
    codes = torch.zeros_like(numbers).scatter(1, torch.from_numpy(g.elements.copy()), numbers)
    return Representation(f"{g.degree} points", matrices, codes)


def without_mean(points: Representation) -> Representation:
    """The mean of the points never changes: one dimension less."""
    centred = torch.eye(points.size, dtype=torch.float64) - 1 / points.size
    basis = torch.linalg.svd(centred)[0][:, :-1]
    return Representation(f"{points.what} less their mean", basis.T @ points.matrices @ basis, points.codes @ basis)


# -------------------------------------------------------------------------------------------------- structures


def diagonal(row: int) -> Row:
    """A row of ``pdssm.automata.emulation``, which decides it exactly."""

    def claim(g: PermutationGroup, _: list[Representation]) -> Claim:
        dfa = DFA.from_group(g)
        found = emulation(dfa)[row]
        if not isinstance(found.witness, DiagonalWitness):
            return Claim(found.verdict, found.reason)
        of_element = np.argsort(dfa.reachable())  # the witness has the states in the order in which they are reached
        codes, scale = torch.from_numpy(found.witness.codes[of_element]), torch.from_numpy(found.witness.scale)
        return Claim("yes", found.reason, Layer(Diagonal(scale), codes, torch.from_numpy(found.witness.offset)))

    return claim


def one_matrix(g: PermutationGroup, _: list[Representation]) -> Claim:
    """A does not depend on the input, diagonal or not."""
    if len(g.generators) > 1:
        return Claim("no", "two letters with one A differ by a translation, and no translation has a finite order")
    claim = diagonal(2)(g, [])
    return Claim("yes", f"there is one letter: {claim.reason}", claim.layer)


def contracting_reflection(g: PermutationGroup, _: list[Representation]) -> Claim:
    """beta <= 1."""
    return Claim("no", "a factor with beta <= 1 has no negative eigenvalue: of finite order it is the identity")


def householder(count: int) -> Row:
    """Products of ``count`` factors with beta <= 2."""

    def claim(g: PermutationGroup, known: list[Representation]) -> Claim:
        own = list(g.generators)
        if count == 1 and bool((g.multiply(g.multiply(own, own), 0) != 0).any()):
            return Claim("no", "one factor is symmetric, so of order 2 at most; a generator has a higher one")
        chosen = next((each for each in known if each.rank <= count), None)
        if chosen is None:
            return Claim("unknown", f"none of the representations tried moves at most {count} dimensions a letter")
        parts = [factors(matrix.numpy()) for matrix in chosen.matrices]
        keys = torch.zeros(len(parts), count, chosen.size, dtype=torch.float64)
        beta = torch.zeros(len(parts), count, dtype=torch.float64)
        for s, (vectors, betas) in enumerate(parts):
            keys[s, : len(betas)], beta[s, : len(betas)] = torch.from_numpy(vectors), torch.from_numpy(betas)
        return Claim(
            "yes",
            f"{chosen.what}: {counted(chosen.rank, 'reflection')} a letter",
            chosen.layer(Householder(keys, beta)),
        )

    return claim


def counted(number: int, what: str) -> str:
    """``1 reflection``, ``2 reflections``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def low_rank(g: PermutationGroup, known: list[Representation]) -> Claim:
    """I + U V^T of rank 4 (the diagonal part stays the identity)."""
    chosen = next((each for each in known if each.rank <= RANK), None)
    if chosen is None:
        return Claim("unknown", f"none of the representations tried is the identity and a rank of {RANK}")
    moved = chosen.matrices - torch.eye(chosen.size, dtype=torch.float64)
    left, values, right = torch.linalg.svd(moved)
    kept = min(RANK, chosen.size)
    ones = torch.ones(len(moved), chosen.size, dtype=torch.float64)
    parts = (left * values[:, None])[..., :kept], right.mT[..., :kept]
    return Claim("yes", f"{chosen.what}: rank {chosen.rank}", chosen.layer(DiagonalPlusLowRank(ones, *parts)))


def blocks(g: PermutationGroup, known: list[Representation]) -> Claim:
    """Blocks of 4."""
    for each in known:
        if each.what == "rotations":
            cut = each.matrices.unfold(1, 2, 2).unfold(2, 2, 2)
            planes = BlockDiagonal(cut.diagonal(dim1=1, dim2=2).movedim(-1, 1))
            return Claim("yes", f"rotations of {counted(each.size // 2, 'plane')}", each.layer(planes))
        if each.size <= BLOCK:
            return Claim("yes", f"{each.what}: one block", each.layer(BlockDiagonal(each.matrices[:, None])))
    return Claim("unknown", f"none of the representations tried has blocks of {BLOCK}")


def dense(limit: int | None) -> Row:
    """Any matrix, of limited size or not."""

    def claim(g: PermutationGroup, known: list[Representation]) -> Claim:
        for each in known:
            if limit is None or each.size <= limit:
                return Claim("yes", each.what, each.layer(Dense(each.matrices)))
        return Claim("unknown", f"none of the representations tried has {limit} dimensions or fewer")

    return claim


def pd(g: PermutationGroup, known: list[Representation]) -> Claim:
    """A permutation is a column one-hot matrix, and so is the identity, beside which D turns."""
    turning = diagonal(2)(g, known).layer
    if turning is not None and turning.codes.shape[1] < g.degree:
        assert isinstance(turning.transition, Diagonal)
        scale = turning.transition.diag
        transition = PD(torch.arange(scale.shape[1]).expand(scale.shape), scale)
        return Claim("yes", "P = I, rotations in D", Layer(transition, turning.codes, turning.offset))
    chosen = points(g)
    index = torch.from_numpy(g.elements[list(g.generators)].copy())
    ones = torch.ones(index.shape, dtype=torch.float64)
    return Claim("yes", f"{chosen.what}; any automaton with its states as points", chosen.layer(PD(index, ones)))


def no_construction(g: PermutationGroup, _: list[Representation]) -> Claim:
    """Nobody has told us."""
    return Claim("unknown", "no construction known to us, and no proof that there is none")


STRUCTURES: dict[str, tuple[tuple[str, ...], Row]] = {
    "one A for all inputs": (("s4d", "s5", "lru", "linoss_im", "linoss_imex"), one_matrix),
    "real diagonal, non-negative": (("mamba", "real_diagonal", "s7"), diagonal(0)),
    "real diagonal": (("d_slice",), diagonal(1)),
    "complex diagonal": (("complex_diagonal", "mamba3"), diagonal(2)),
    "Householder, beta <= 1": (("deltanet", "gated_deltanet"), contracting_reflection),
    "Householder, beta <= 2": (("deltanet_neg",), householder(1)),
    f"{FACTORS} Householder factors, beta <= 2": (("gated_deltaproduct",), householder(FACTORS)),
    "diagonal + rank 1 (RWKV-7)": (("rwkv7",), no_construction),
    f"diagonal + rank {RANK}": (("dplr_slice",), low_rank),
    "Walsh-Hadamard": (("wh_slice",), no_construction),
    f"blocks of {BLOCK}": (("bd_slice",), blocks),
    f"diagonal + a block of {DENSE_BLOCK}": (("d_de_slice",), dense(DENSE_BLOCK)),
    "dense": (("sdssm",), dense(None)),
    "PD": (("pdssm",), pd),
}
"""The mixers that have the structure, and what is known of it."""


# ------------------------------------------------------------------------------------------------------ running


def mistakes(layer: Layer, g: PermutationGroup, words: int = WORDS, length: int = LENGTH, seed: int = 0) -> int:
    """Steps of random words whose nearest code is not the running product's."""
    drawn = torch.randint(len(g.generators), (words, length), generator=torch.Generator().manual_seed(seed))
    start = layer.codes[:1].expand(words, -1).contiguous()
    states, _ = scan(layer.transition, layer.offset, start, rows=drawn)
    scores = (states @ layer.codes.mH).real - layer.codes.abs().square().sum(-1) / 2
    expected = torch.from_numpy(DFA.from_group(g).run_many(drawn.numpy()))
    return int((scores.argmax(-1) != expected).sum())


def study(words: int = WORDS, length: int = LENGTH) -> Iterator[dict[str, Any]]:
    """An entry of each structure and group."""
    for kind, names in GROUPS.items():
        for name in names:
            g = group(name)
            known = representations(g)
            for structure, (mixers, row) in STRUCTURES.items():
                claim = row(g, known)
                entry = {"group": name, "kind": kind, "order": g.order, "structure": structure, "mixers": mixers,
                         "verdict": claim.verdict, "reason": claim.reason}  # fmt: skip
                if claim.layer is not None:
                    wrong = mistakes(claim.layer, g, words, length)
                    entry |= {"size": claim.layer.codes.shape[1], "steps": words * length, "mistakes": wrong}
                yield entry


def measure(_: argparse.Namespace) -> Stored:
    """Everything, printed as it comes."""
    entries = []
    for entry in study():
        ran = f"N = {entry['size']}, {entry['mistakes']} mistakes" if "size" in entry else ""
        print(f"{entry['group']:6s} {entry['structure']:34s} {entry['verdict']:8s} {ran:24s} {entry['reason']}")
        entries.append(entry)
    return {"words": WORDS, "length": LENGTH, "entries": entries}


def main() -> None:
    """Decide, run, print, store."""
    command(__doc__, measure)


if __name__ == "__main__":
    main()
