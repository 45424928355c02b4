"""``make demo``: five cups are moved a million times, and a short look at how fast a layer is.

Needs nothing but the library.  The cup game is the word problem of A5, sixty arrangements of five cups: the smallest
automaton that no state-space model with diagonal transitions can follow, however deep its stack.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.measure import side_by_side
from benchmarks.opponents import OPPONENTS, Shape
from benchmarks.ours import pd_step
from pdssm import PD, scan

STEPS = 1_000_000
CUPS = "ABCDE"
SHAPE = Shape(batch=8, length=40, dim=128, terms=8)
LAYERS = {
    "pdssm": "PD-SSM, this library",
    "lstm": "torch.nn.LSTM",
    "plain-torch": "PD-SSM in plain torch, done well",
    "published-tuned": "PD-SSM as published, with a better loop",
    "published": "PD-SSM as published",
}

Arrangement = tuple[int, ...]


def moves() -> list[Arrangement]:
    """The twenty ways to send three cups round in a circle: where each place's new cup comes from."""
    found = []
    for a, b, c in itertools.combinations(range(len(CUPS)), 3):
        for circle in ((a, b, c), (a, c, b)):
            move = list(range(len(CUPS)))
            for place, source in zip(circle, circle[1:] + circle[:1], strict=True):
                move[place] = source
            found.append(tuple(move))
    return found


def automaton() -> tuple[list[Arrangement], Tensor]:
    """All arrangements that the moves reach from ABCDE, and the table ``(moves, arrangements)`` of where each leads."""
    first = tuple(range(len(CUPS)))
    number = {first: 0}
    arrangements, targets = [first], []
    for arrangement in arrangements:  # grows while we go through it
        row = []
        for move in moves():
            reached = tuple(arrangement[source] for source in move)
            if reached not in number:
                number[reached] = len(arrangements)
                arrangements.append(reached)
            row.append(number[reached])
        targets.append(row)
    return arrangements, torch.tensor(targets).T.contiguous()


def scanned(table: Tensor, word: Tensor) -> Tensor:
    """The states after each step, ``(steps, arrangements)`` in float32: each move is a PD map, D = 1."""
    maps = PD(table, torch.ones(table.shape, dtype=torch.float32))
    inputs = torch.zeros(table.shape)
    start = torch.zeros(1, table.shape[1])
    start[0, 0] = 1
    states, _ = scan(maps, inputs, start, rows=word[None])
    return states[0]


def looked_up(table: Tensor, word: Tensor) -> Tensor:
    """The same by a plain python loop over the table: the number of the arrangement after each step."""
    rows = table.tolist()

    def path() -> Iterator[int]:
        state = 0
        for move in word.tolist():
            state = rows[move][state]
            yield state

    return torch.tensor(list(path()))


def exactly_equal(states: Tensor, path: Tensor) -> bool:
    """Every state is one at its arrangement and zero elsewhere: not nearly, but to the bit."""
    return bool((states.gather(1, path[:, None]) == 1).all()) and int(states.count_nonzero()) == len(path)


def play() -> bool:
    """The cup game."""
    arrangements, table = automaton()
    word = torch.randint(len(table), (STEPS,), generator=torch.Generator().manual_seed(1))
    print(f"Five cups, {len(table)} moves, {len(arrangements)} arrangements: an automaton, and {len(table)} PD maps.")
    scanned(table, word[:10])  # compiles the kernel, or loads it from the disk
    start = time.perf_counter()
    states = scanned(table, word)
    spent = time.perf_counter() - start
    print(f"Scanned {STEPS:,} moves in float32 in {spent:.2f} s ({spent / STEPS * 1e9:.0f} ns a move).\n")
    path = looked_up(table, word)
    print(f"{'moves':>9s}   cups by the scan   cups by the table")
    for step in (1, 10, 1_000, 100_000, STEPS):
        shown = (states[step - 1].argmax(), path[step - 1])
        scan_says, table_says = (" ".join(CUPS[cup] for cup in arrangements[int(number)]) for number in shown)
        print(f"{step:9,d}   {scan_says:16s}   {table_says}")
    return exactly_equal(states, path)


def speed() -> dict[str, float]:
    """Seconds of one layer step, ours and the peers' that need no extra package."""
    torch.manual_seed(0)
    steps = {name: pd_step(SHAPE) if name == "pdssm" else OPPONENTS[name](SHAPE) for name in LAYERS}
    times = side_by_side(steps, seconds=1)
    print("\nOne layer, forward and backward: batch 8, length 40, width and state 128, dictionary of 8\n")
    for name, spent in sorted(times.items(), key=lambda item: item[1]):
        print(f"{LAYERS[name]:40s} {spent * 1e3:8.1f} ms {spent / times['pdssm']:8.1f}x")
    return times


def main() -> None:
    """Both, and what came out."""
    exact = play()
    times = speed()
    print()
    if not exact:
        raise SystemExit("The scan and the table DISAGREE. That is a bug: please report it with this machine's name.")
    print(f"The scan knew where all five cups were after each of {STEPS:,} moves, without a single rounding error.")
    ratio = times["published"] / times["pdssm"]
    print(f"The layer that learns such maps ran {ratio:.0f} times as fast here as the recurrence as published.")


if __name__ == "__main__":
    main()
