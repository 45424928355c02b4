"""Table 1's cost column, measured: time ~ L^a N^b of the scan alone, by least squares in logarithms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.measure import Step, side_by_side
from pdssm import PD, Dense, Diagonal, Transition, scan

EXPECTED = {"real diagonal": (1, 1), "complex diagonal": (1, 1), "PD": (1, 1), "dense": (1, 3)}
"""a, b of the paper's Theta(L N) and Theta(L N^3), dense's cost by associative scan; step by step it is N^2."""

# Long enough that the work outweighs the calls.
SIZES = {
    "cpu": {"diagonal": ((2048, 4096, 8192), (128, 256, 512)), "dense": ((16, 32, 64), (192, 384, 768))},
    "cuda": {"diagonal": ((16384, 32768, 65536), (1024, 2048, 4096)), "dense": ((64, 128, 256), (512, 1024, 2048))},
}
QUICK = {"diagonal": ((1024, 2048, 4096), (128, 256, 512)), "dense": ((8, 16, 32), (64, 128, 192))}


@dataclass(frozen=True)
class Exponents:
    """time = c L^a N^b."""

    family: str
    algorithm: str
    a: float
    b: float
    expected: tuple[int, int]
    r_squared: float
    seconds: dict[str, float]
    """Of each point."""


def transition(family: str, length: int, size: int, device: torch.device) -> Transition:
    """Random matrices of about unit norm: products that neither overflow nor vanish."""
    if family == "dense":
        return Dense(torch.randn(1, length, size, size, device=device) * size**-0.5)
    if family == "real diagonal":
        return Diagonal(torch.rand(1, length, size, device=device) * 0.02 + 0.98)
    phases = torch.rand(1, length, size, device=device) * 6.28
    diag = torch.polar(torch.full_like(phases, 0.99), phases)
    if family == "complex diagonal":
        return Diagonal(diag)
    return PD(torch.randint(0, size, (1, length, size), device=device), diag)


def scan_step(family: str, length: int, size: int, backend: str | None, device: torch.device) -> Step:
    """The scan alone."""
    maps = transition(family, length, size, device)
    inputs = torch.randn(1, length, size, dtype=maps.dtype, device=device)

    def step() -> object:
        with torch.no_grad():
            states = scan(maps, inputs, backend=backend)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return states

    return step


def fitted(times: dict[tuple[int, int], float]) -> tuple[float, float, float]:
    """a, b and the share of the variance that they explain."""
    design = np.array([[np.log(length), np.log(size), 1.0] for length, size in times])
    target = np.log(np.array(list(times.values())))
    solution, *_ = np.linalg.lstsq(design, target, rcond=None)
    left = target - design @ solution
    return float(solution[0]), float(solution[1]), float(1 - left.var() / target.var())


def exponents(family: str, algorithm: str, device: torch.device, seconds: float, quick: bool) -> Exponents:
    """Measured at nine points in turns; smaller products' tensors are freed before the next family's."""
    sizes = QUICK if quick else SIZES[device.type]
    lengths, widths = sizes["dense" if family == "dense" else "diagonal"]
    backend = "associative" if algorithm == "associative" else None
    if family == "dense" and algorithm == "best":
        backend = "cpu" if device.type == "cpu" else "reference"
    points = list(itertools.product(lengths, widths))
    steps = {f"L={length}, N={size}": scan_step(family, length, size, backend, device) for length, size in points}
    seconds_of = side_by_side(steps, seconds)
    a, b, r_squared = fitted(dict(zip(points, seconds_of.values(), strict=True)))
    expected = (1, 2) if family == "dense" and algorithm == "best" else EXPECTED[family]
    return Exponents(family, algorithm, a, b, expected, r_squared, seconds_of)


def all_exponents(device: torch.device, seconds: float, quick: bool) -> list[Exponents]:
    """Each family by each algorithm."""
    return [
        exponents(family, algorithm, device, seconds, quick)
        for family in EXPECTED
        for algorithm in ("associative", "best")
    ]
