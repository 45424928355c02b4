"""What freezing the dictionary buys: ``python -m benchmarks.frozen [--quick] [--json FILE]``.

Selection of U transitions by the full search of all rows and by the frozen one, in turns, float32; both give the
same index, which is checked first.  And what freezing costs, and how many candidates it leaves.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from benchmarks.command import Stored, command
from benchmarks.measure import side_by_side
from pdssm.kernels import cpu
from pdssm.kernels.frozen import FrozenDictionary, freeze

TERMS = 6
MUST = {2048: 4.0, 128: 1.3}
AIM = {2048: 10.0, 128: 3.0}


@dataclass(frozen=True)
class Freezing:
    """One dictionary's freezing."""

    dictionary: str
    size: int
    terms: int
    seconds: float
    mean_candidates: float
    most_candidates: int


@dataclass(frozen=True)
class Selecting:
    """One selection, both ways."""

    dictionary: str
    size: int
    terms: int
    transitions: int
    seconds: dict[str, float]
    ratio: float
    must: float
    aim: float
    met: bool


def dictionaries(size: int) -> dict[str, Tensor]:
    """The two starts, and a stand-in for a trained one: a few large entries a column over the small start."""
    normal = torch.randn(TERMS, size, size)
    marked = torch.rand(TERMS, size, size) < 2 / size
    return {"normal": normal, "normal / sqrt(N)": normal / size**0.5, "marked": normal / size**0.5 + 3 * marked}


def measured_freeze(name: str, dictionary: Tensor) -> tuple[FrozenDictionary, Freezing]:
    """Freeze once, timed."""
    freeze(torch.randn(TERMS, 16, 16))  # compiled
    start = time.perf_counter()
    candidates = freeze(dictionary)
    seconds = time.perf_counter() - start
    counts = candidates.counts
    size = dictionary.shape[1]
    result = Freezing(name, size, TERMS, seconds, float(counts.float().mean()), int(counts.max()))
    print(
        f"freeze {name:16s} N={size:<5d} K={TERMS}  {seconds:7.2f} s    candidates a column: "
        f"mean {result.mean_candidates:.1f}, most {result.most_candidates} of {size}",
        flush=True,
    )
    return candidates, result


def compare(name: str, dictionary: Tensor, candidates: FrozenDictionary, count: int, seconds: float) -> Selecting:
    """The full and the frozen search of ``count`` transitions."""
    size = dictionary.shape[1]
    scores = torch.softmax(torch.randn(count, TERMS), -1)
    if not torch.equal(candidates.select(scores), cpu.select(scores, dictionary, None)):
        raise RuntimeError(f"the frozen selection differs from the full one at {name}, N={size}, U={count}")
    times = side_by_side(
        {"full": lambda: cpu.select(scores, dictionary, None), "frozen": lambda: candidates.select(scores)}, seconds
    )
    ratio = times["full"] / times["frozen"]
    met = ratio >= MUST[size]
    print(
        f"select {name:16s} N={size:<5d} U={count:<5d} full {times['full'] * 1e6:10.0f} us   frozen "
        f"{times['frozen'] * 1e6:8.0f} us   {ratio:7.1f}x faster   must: {MUST[size]:g}x, aim {AIM[size]:g}x   "
        f"{'met' if met else 'MISSED'}",
        flush=True,
    )
    return Selecting(name, size, TERMS, count, times, ratio, MUST[size], AIM[size], met)


def measure(arguments: argparse.Namespace) -> Stored:
    """Everything."""
    torch.manual_seed(0)
    freezing, selecting = [], []
    for size, counts in ((128, (1, 64, 4096)), (2048, (1, 64))):
        for name, dictionary in dictionaries(size).items():
            candidates, result = measured_freeze(name, dictionary)
            freezing.append(asdict(result))
            for count in counts:
                seconds = 1.0 if arguments.quick else 4.0
                selecting.append(asdict(compare(name, dictionary, candidates, count, seconds)))
    return {"freezing": freezing, "selecting": selecting}


def main() -> None:
    """Measure, print, store."""
    command(__doc__, measure, quick="a second for each figure instead of four")


if __name__ == "__main__":
    main()
