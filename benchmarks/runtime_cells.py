"""What the runtime study measures: parties (a layer at its size, run by one algorithm) at each width and length.

A *cell* is a width D and a length L; all parties of a cell run in turns, in one process.  What a party needs is
known before it runs: memory from its sizes, time from its last measured cell, scaled by its operations.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.measure import Step
from benchmarks.runtime_paper import HALF, SETTINGS, TERMS, Setting, parameters
from pdssm import PDSSM, SDSSM, ComplexDiagonal, scan
from pdssm.layers import GivenPDSSM, LinearRecurrence

GIB = 2.0**30
# A step slower than this runs once: its caches and pages do not need a warm-up.
SLOW = 4.0
# A step faster than this runs once more in each turn, to find its own data in the caches.
FAST = 0.05
# The matrices that dense keeps at a time when it goes step by step: on a CPU they should stay in its caches.
PIECE = {"cpu": 1 << 25, "cuda": 1 << 30}


class Party(NamedTuple):
    """One line of a plot."""

    family: str
    """``pd``, ``frozen`` (pd with frozen selection), ``given`` (P precomputed), ``diagonal`` or ``dense``."""
    size: int
    """N."""
    algorithm: str
    """``associative`` as in the paper, or ``best``."""

    def __str__(self) -> str:
        return f"{self.family} N={self.size} {self.algorithm}"


@dataclass
class Cell:
    """What came out at one width and length."""

    dim: int
    length: int
    seconds: dict[Party, float] = field(default_factory=dict)
    calls: dict[Party, int] = field(default_factory=dict)
    skipped: dict[Party, str] = field(default_factory=dict)


def parties(dim: int, settings: Iterable[Setting] = SETTINGS, frozen: bool = False) -> list[Party]:
    """All parties at one width, the headline's setting first; a line that two settings share is one party."""
    names: dict[Party, None] = {}
    for setting in settings:
        for family, size in setting.sizes.items():
            for algorithm in ("best", "associative"):
                names[Party(family, size(dim), algorithm)] = None
    if frozen:
        names[Party("frozen", HALF.sizes["pd"](dim), "best")] = None
    return list(names)


# ------------------------------------------------------------------------------------------------ what runs


def build(family: str, dim: int, size: int, device: torch.device) -> LinearRecurrence:
    """A layer as the paper counts it: linear readout, no bias there, no skip."""
    with torch.device(device):
        if family in ("pd", "frozen"):
            return PDSSM(dim, size, TERMS, skip=False, bias=False)
        if family == "given":
            return GivenPDSSM(dim, size, torch.randint(0, size, (size,)), skip=False, bias=False)
        if family == "diagonal":
            return ComplexDiagonal(dim, size, skip=False, bias=False)
        return SDSSM(dim, size, TERMS, skip=False, bias=False)


def with_frozen_selection(layer: LinearRecurrence) -> LinearRecurrence:
    """A frozen layer on the same parameters."""
    shared = {id(parameter): parameter for parameter in layer.parameters()}
    frozen = copy.deepcopy(layer, shared)  # the memo holds the parameters, so they are not copied
    frozen.freeze()
    return frozen


def forward(layer: LinearRecurrence, x: Tensor, backend: str | None, piece: int) -> Tensor:
    """The layer by a scan of our choice, ``piece`` steps at a time: longer ones need more memory at once."""
    state = layer.initial_state(x.shape[0])
    outputs = []
    for part in x.split(piece, 1):
        transition, inputs = layer.generator(part)
        states, state = scan(transition, inputs, state, backend=backend)
        outputs.append(layer.readout(states))
    return torch.cat(outputs, 1)


def step_of(party: Party, layer: LinearRecurrence, x: Tensor) -> Step:
    """One forward pass, finished when it returns.

    The best algorithm is what ``scan`` takes by itself; dense on a GPU goes step by step, since its scan is
    closed under products there and would multiply matrices.
    """
    backend: str | None = "associative" if party.algorithm == "associative" else None
    piece = x.shape[1]
    if party.family == "dense" and party.algorithm == "best":
        backend = "cpu" if x.device.type == "cpu" else "reference"
        piece = dense_piece(party.size, x.shape[1], x.device.type)

    def step() -> object:
        with torch.no_grad():
            y = forward(layer, x, backend, piece)
        if x.device.type == "cuda":
            torch.cuda.synchronize()
        return y

    return step


def dense_piece(size: int, length: int, device: str) -> int:
    """How many dense transitions exist at a time in the best algorithm."""
    return max(1, min(length, PIECE[device] // (4 * size * size)))


def in_turns(steps: dict[Party, Step], seconds: float) -> tuple[dict[Party, float], dict[Party, int]]:
    """Median seconds a call of each and the number of calls behind it, in turns."""
    times = {party: [_timed(step)] for party, step in steps.items()}
    quick = {party: spent[0] for party, spent in times.items() if spent[0] < SLOW}
    for party in quick:
        times[party].clear()  # that was the warm-up
    until = time.perf_counter() + seconds
    while quick and (time.perf_counter() < until or len(times[next(iter(quick))]) < 3):
        for party, before in quick.items():
            if before < FAST:
                steps[party]()
            times[party].append(_timed(steps[party]))
    return {p: statistics.median(spent) for p, spent in times.items()}, {p: len(spent) for p, spent in times.items()}


def _timed(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


# ----------------------------------------------------------------------------------------- what it will need


def weight_bytes(family: str, dim: int, size: int) -> int:
    """Of the parameters; a frozen layer shares them and adds its candidates."""
    if family == "frozen":
        return TERMS * size * size
    return 4 * parameters(family, dim, size)


def working_bytes(party: Party, length: int, device: str) -> int:
    """At the peak of a forward pass, beside the parameters."""
    size = party.size
    if party.family == "dense":
        # The generator holds four such tensors at a time, the prefix scan as many.
        kept = length if party.algorithm == "associative" else dense_piece(size, length, device)
        return int(4.3 * 4 * kept * size * size)
    states = 24 * 8 * length * size
    packed = 2 * 4 * TERMS * size * size if party.family == "pd" else 0
    return states + packed


def operations(party: Party, dim: int, length: int) -> float:
    """Up to a factor that each family and algorithm has of its own."""
    size = party.size
    if party.family == "dense":
        return float(length * size * size * (2 * size if party.algorithm == "associative" else 1))
    mixing = TERMS * size * size if party.family in ("pd", "frozen") else 0
    return float(length * (6 * dim * size + 2 * size * size + mixing))


def predicted_seconds(party: Party, dim: int, length: int, measured: list[Cell]) -> float:
    """From the largest cell of the same family and algorithm so far; 0 where there is none."""
    rates = [
        (operations(other, cell.dim, cell.length), spent)
        for cell in measured
        for other, spent in cell.seconds.items()
        if (other.family, other.algorithm) == (party.family, party.algorithm)
    ]
    if not rates:
        return 0.0
    most, spent = max(rates)
    return spent * operations(party, dim, length) / most
