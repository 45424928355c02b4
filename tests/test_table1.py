"""Table 1, executed: its representations are homomorphisms, its layers run, and a wrong layer is seen."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from benchmarks.table1 import GROUPS, STRUCTURES, Layer, mistakes, representations, study
from pdssm.automata import group
from pdssm.layers import MIXERS

NOT_LINEAR = {"lstm", "slstm", "xlstm", "transformer"}
NAMES = [name for names in GROUPS.values() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_representations_are_faithful_homomorphisms(name: str) -> None:
    g = group(name)
    following = torch.from_numpy(g.cayley())
    for each in representations(g):
        moved = torch.einsum("sij,gj->gsi", each.matrices, each.codes)
        assert (moved - each.codes[following]).abs().max() < 1e-9, each.what
        apart = torch.cdist(each.codes, each.codes) + torch.eye(g.order, dtype=torch.float64)
        assert apart.min() > 1e-3, each.what
        assert 0 < each.rank <= each.size


def test_every_yes_runs_and_the_others_say_why() -> None:
    entries = list(study(words=4, length=200))
    assert len(entries) == len(NAMES) * len(STRUCTURES)
    for entry in entries:
        assert entry["reason"]
        assert ("mistakes" in entry) == (entry["verdict"] == "yes")
        assert entry.get("mistakes", 0) == 0, entry
    verdicts = {(entry["structure"], entry["group"]): entry["verdict"] for entry in entries}
    assert {verdicts["PD", name] for name in NAMES} == {"yes"}
    assert verdicts["complex diagonal", "Z60"] == "yes"
    assert verdicts["complex diagonal", "S3"] == "no"
    assert verdicts["Householder, beta <= 2", "Z2"] == "yes"
    assert verdicts["Householder, beta <= 2", "A5"] == "no"
    assert verdicts["4 Householder factors, beta <= 2", "S5"] == "yes"


def test_a_wrong_layer_makes_mistakes() -> None:
    g = group("A5")
    right = STRUCTURES["PD"][1](g, representations(g)).layer
    assert isinstance(right, Layer)
    assert mistakes(right, g, 4, 50) == 0
    swapped = dataclasses.replace(right, transition=right.transition[torch.tensor([1, 0])])
    assert mistakes(swapped, g, 4, 50) > 100
    shifted = dataclasses.replace(right, codes=right.codes.roll(1, 0))
    assert mistakes(shifted, g, 4, 50) > 100


def test_every_linear_mixer_has_its_row() -> None:
    named = [mixer for mixers, _ in STRUCTURES.values() for mixer in mixers]
    assert len(set(named)) == len(named)
    assert set(MIXERS) - NOT_LINEAR == set(named)
