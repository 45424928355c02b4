"""How things are measured: in turns, in one process, on the machine that is described beside the result."""

from __future__ import annotations

import ctypes
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

Step = Callable[[], object]


def side_by_side(steps: dict[str, Step], seconds: float) -> dict[str, float]:
    """Median seconds a call of each, in turns until ``seconds`` are over (at least 3 rounds).

    Turns, because the machine is shared: what slows one slows the others in the same round.
    """
    for step in steps.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or min(map(len, times.values())) < 3:
        for name, step in steps.items():
            step()  # the turn's first call finds another's data in the caches
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(spent) for name, spent in times.items()}


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True, check=False
    )
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        # On a machine that a copy was sent to, git knows nothing or something else.
        "commit": os.environ.get("PDSSM_COMMIT", "")[:7] or commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
    } | gpu


def reset_peak_memory() -> int:
    """Make this process's peak its present resident memory, in bytes, after giving free memory back to the system.

    ``ru_maxrss`` would not do: it never falls, and the peak of compiling the kernels may hide that of the step.
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    """The most resident memory since the last reset, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def in_fresh_process(code: str, **environment: str) -> str:
    """The last line that ``code`` prints in a Python of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip().splitlines()[-1]
