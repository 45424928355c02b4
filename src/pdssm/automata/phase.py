"""Modular counters as one complex number: every letter turns it by a fixed angle.

The places of a counter of n states are v_q = exp(2 pi i q / n).  Which one a number is at is read off by two layers
with the GELU as a steep step, whatever the labels: first on which side of each of the n boundaries between
neighbours it lies, then which sector that is.

How long that is right.  A step computes d x with d of modulus about 1: its relative error is at most
c = |d - w| + sqrt(5) 2^-24 for the exact root w (Brent, Percival & Zimmermann, "Error bounds on complex floating-point
multiplication", Math. Comp. 76, 2007), so after t steps the number is off by at most (1 + c)^t - 1.  It is read
correctly while that is below sin(pi / n), v_q's distance from its boundaries, less the width of the steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from pdssm.automata.compile import blank_model, layer_of, linear_in
from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.permutation_group import IntArray
from pdssm.errors import RangeError
from pdssm.models import ModelConfig, SequenceModel

PASSED = 16.0
"""gelu(16) = 16 in float32: what a hidden unit passes on unchanged."""
HALF_TURN = 32.0
"""tanh(32 - 1) = 1."""
STEEPNESS = 2.0**14
"""Of the steps at the boundaries."""
SECTOR = 16.0
"""A sector is gelu(16 (difference of two steps - 1/2)): 8 or 0."""
STEP_WIDTH = 8 / STEEPNESS
"""From a boundary, so far away a step is 0 or 1: gelu(-7) is -1e-11.  Rounded weights and dots are in it: 1e-6."""
PRODUCT_ERROR = math.sqrt(5) * 2.0**-24
ELSEWHERE = 2.0**-22
"""What another build's tanh, sine and cosine may differ by: two units in the last place of pi."""


@final
@dataclass(frozen=True)
class Counter:
    """A counter modulo ``size``: symbol s adds ``steps[s]``."""

    size: int
    positions: IntArray
    """(states,): the count of each state, 0 at the initial one; -1 where no word leads."""
    steps: IntArray
    """(symbols,)."""


def as_counter(dfa: DFA) -> Counter:
    """The automaton as a modular counter, or an error that names the letter that does not count."""
    order = dfa.reachable()
    walk = dfa.restricted(order).transitions  # initial state 0
    size = len(walk)
    for symbol, letter in zip(dfa.alphabet, walk.T, strict=True):
        if len(np.unique(letter)) < size:
            raise AutomatonError(
                f"symbol {symbol!r} merges states; expected a modular counter, all of whose symbols turn"
            )
    turn = _one_turn(walk)
    positions = np.empty(size, dtype=np.int64)
    state = 0
    for count in range(size):
        positions[state] = count
        state = int(turn[state])
    moves = (positions[walk] - positions[:, None]) % size
    for symbol, column in zip(dfa.alphabet, moves.T, strict=True):
        if (column != column[0]).any():
            raise AutomatonError(f"symbol {symbol!r} does not add the same everywhere; expected a modular counter")
    everywhere = np.full(len(dfa), -1)
    everywhere[order] = positions
    return Counter(size, everywhere, moves[0])


def _one_turn(walk: IntArray) -> IntArray:
    """A word's permutation that is one cycle through all states: in a cyclic group one of the states' words is."""
    maps = [np.arange(len(walk))]
    reached = {0: 0}
    for current in maps:  # grows while we walk it; maps[k] is a word that leads to state maps[k][0]
        if _cycle_length(current) == len(walk):
            return current
        for letter in walk.T:
            after = letter[current]
            if int(after[0]) not in reached:
                reached[int(after[0])] = len(maps)
                maps.append(after)
    raise AutomatonError(f"no word turns all {len(walk)} states in one cycle; expected a modular counter")


def _cycle_length(permutation: IntArray) -> int:
    state, length = int(permutation[0]), 1
    while state != 0:
        state, length = int(permutation[state]), length + 1
    return length


def exact_length(dfa: DFA) -> float:
    """Up to how many symbols ``compile_dfa(dfa, "phase")`` is exact; infinite where nothing turns."""
    counter = as_counter(dfa)
    narrow = _model(counter, counter.steps, 1, len(counter.steps))
    return _bound(counter, _turning(narrow, len(counter.steps)), counter.steps)


def compile_phase(dfa: DFA, tokens: IntArray, labels: IntArray, classes: int, length: int) -> SequenceModel:
    """See ``compile_dfa``."""
    counter = as_counter(dfa)
    steps = np.append(counter.steps, 0)[tokens]  # -1, a token that is no symbol, adds 0
    width = max(2 * counter.size, counter.size + classes, len(tokens))
    model = _model(counter, steps, classes, width)
    bound = _bound(counter, _turning(model, len(tokens)), steps)
    if length > bound:
        raise RangeError(
            f"length is {length}, but in float32 a phase counter modulo {counter.size} is exact for words of up to "
            f"{bound:.0f} symbols; expected at most that, or method='states'"
        )
    _set_readout(model, counter, labels)
    return model


@torch.no_grad()
def _model(counter: Counter, steps: IntArray, classes: int, width: int) -> SequenceModel:
    """The recurrence; token k turns by ``steps[k]`` parts."""
    options = {
        "state_dim": 1, "dictionary_size": 1, "hidden_dim": len(steps), "phase": "shrink", "readout": "mlp",
        "skip": False, "initial_state": "first",
    }  # fmt: skip
    config = ModelConfig(len(steps), classes, dim=width, norm="none", ffn=1, mixer_options=options)
    model = blank_model(config, np.zeros(len(steps), dtype=np.int64))
    phase = layer_of(model).generator.entries.phase
    unit = torch.arange(len(steps))
    linear_in(phase, 0).weight[unit, unit] = PASSED
    turns = np.array([step - counter.size if 2 * step > counter.size else step for step in steps.tolist()])
    linear_in(phase, -1).weight[0] = torch.from_numpy(_before_tanh(2 * turns / counter.size)) / PASSED
    return model


def _before_tanh(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """p with pi tanh(shrunk p) = pi parts, for parts in (-1, 1]."""
    inner = np.where(np.abs(parts) == 1, 0, parts)
    p = np.sign(parts) * (1 + np.abs(np.arctanh(inner)))
    return np.where(parts == 1, HALF_TURN, p)


@torch.no_grad()
def _turning(model: SequenceModel, tokens: int) -> NDArray[np.complex128]:
    """What each token multiplies by, as the model computes it."""
    diag = layer_of(model).generator.entries(model.encoder(torch.arange(tokens)))
    exact: NDArray[np.complex128] = diag[:, 0].to(torch.complex128).numpy()
    return exact


def _bound(counter: Counter, turning: NDArray[np.complex128], steps: IntArray) -> float:
    moving = turning != 1  # a product with exactly 1 is exact
    if not moving.any():
        return math.inf
    margin = math.sin(math.pi / counter.size) - STEP_WIDTH
    wanted = np.exp(2j * np.pi * steps / counter.size)
    error = float(np.abs(turning - wanted)[moving].max()) + ELSEWHERE + PRODUCT_ERROR
    return max(0, math.floor(math.log1p(max(margin, 0.0)) / error))


@torch.no_grad()
def _set_readout(model: SequenceModel, counter: Counter, labels: IntArray) -> None:
    """Step b is 1 on the half circle that begins at the boundary before v_b; sector q is step q without step q + 1."""
    size, b = counter.size, torch.arange(counter.size)
    steps, ffn = layer_of(model).readout.map, model.blocks[0].ffn
    assert isinstance(ffn, torch.nn.Module)
    begin = 2 * math.pi * (b.double() - 0.5) / size
    normal = torch.stack((-torch.sin(begin), torch.cos(begin)), 1)
    for half, shift in ((b, 0.5), (size + b, -0.5)):  # a step is gelu(z + 1/2) - gelu(z - 1/2)
        linear_in(steps, 0).weight[half] = (STEEPNESS * normal).float()
        linear_in(steps, 0).bias[half] = shift
        linear_in(steps, -1).weight[b, half] = 2 * shift
    linear_in(ffn, 0).weight[b, b] = SECTOR
    linear_in(ffn, 0).weight[b, (b + 1) % size] -= SECTOR
    linear_in(ffn, 0).bias[b] = SECTOR / 2 if size == 1 else -SECTOR / 2
    reached = np.flatnonzero(counter.positions >= 0)
    classes = torch.from_numpy(labels[reached])
    linear_in(ffn, -1).weight[size + classes, torch.from_numpy(counter.positions[reached])] = 1
    head = torch.arange(model.config.output_size)
    model.head.weight[head, size + head] = 1
