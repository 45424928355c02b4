"""The paper's runtime study as data: its settings, its closed forms and the ratios it reports from its A100."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pdssm.layers.parameter_counts import (
    diagonal_parameters,
    equal_diagonal_state,
    equal_pdssm_state,
    pdssm_parameters,
    published_equal_pdssm_state,
    sdssm_parameters,
)

DIMS = (128, 256, 512, 1024, 2048, 4096, 5632)
LENGTHS = (64, 256, 512)
TERMS = 6


def half(dim: int) -> int:
    """N_c of a complex state with as many numbers as a real one of size ``dim``."""
    return dim // 2


def same(dim: int) -> int:
    """N = D."""
    return dim


paper_pd_size = published_equal_pdssm_state
"""For as many parameters as SD-SSM with N_r = D, K = 6, as the paper has it."""
matched_pd_size = equal_pdssm_state
"""The largest with no more parameters than SD-SSM."""
paper_diagonal_size = equal_diagonal_state
"""For as many parameters as SD-SSM."""


def parameters(family: str, dim: int, size: int) -> int:
    """As the paper counts: a linear readout, no bias, no skip."""
    if family == "dense":
        return sdssm_parameters(dim, size, TERMS)
    return pdssm_parameters(dim, size, TERMS) if family == "pd" else diagonal_parameters(dim, size)


@dataclass(frozen=True)
class Setting:
    """One comparison: the state size of each family at width D."""

    name: str
    sizes: dict[str, Callable[[int], int]]


HALF = Setting("real state twice as wide", {"pd": half, "diagonal": half, "dense": same})
SETTINGS = (
    HALF,
    Setting("equal state size", {"pd": same, "diagonal": same, "dense": same}),
    Setting("equal parameters, the paper's N_c", {"pd": paper_pd_size, "diagonal": paper_diagonal_size, "dense": same}),
    Setting("equal parameters, corrected N_c", {"pd": matched_pd_size, "diagonal": paper_diagonal_size, "dense": same}),
    Setting("precomputed P", {"pd": same, "diagonal": same, "given": same}),
)

COMPARED = (("dense", "pd"), ("pd", "diagonal"), ("given", "diagonal"), ("pd", "given"))
"""Of which pairs ratios are formed: the first one's time over the second one's."""

REPORTED: dict[tuple[str, int, int, tuple[str, str]], float] = {
    ("real state twice as wide", 5632, 64, ("dense", "pd")): 71.0,
    ("real state twice as wide", 5632, 64, ("pd", "diagonal")): 7.0,
    ("real state twice as wide", 2048, 64, ("dense", "pd")): 18.8,
    ("real state twice as wide", 2048, 256, ("dense", "pd")): 28.3,
    ("real state twice as wide", 2048, 512, ("dense", "pd")): 30.3,
    ("equal state size", 5632, 64, ("dense", "pd")): 16.6,
    ("equal state size", 5632, 64, ("pd", "diagonal")): 7.6,
    ("equal state size", 2048, 64, ("dense", "pd")): 6.8,
    ("equal state size", 2048, 256, ("dense", "pd")): 8.8,
    ("equal state size", 2048, 512, ("dense", "pd")): 9.7,
    ("equal parameters, the paper's N_c", 5632, 64, ("dense", "pd")): 21.7,
    ("equal parameters, the paper's N_c", 5632, 64, ("pd", "diagonal")): 6.0,
    ("equal parameters, the paper's N_c", 2048, 64, ("dense", "pd")): 10.6,
    ("equal parameters, the paper's N_c", 2048, 256, ("dense", "pd")): 13.9,
    ("equal parameters, the paper's N_c", 2048, 512, ("dense", "pd")): 15.5,
}
"""(setting, D, L, pair): the ratio that the paper prints, by associative scan on its A100."""
