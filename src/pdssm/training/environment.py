"""Where a run happened: machine, versions, commit."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("torch", "numpy", "numba", "safetensors", "accelerate")


def environment(device: str) -> dict[str, Any]:
    """Plain values, for JSON."""
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": platform.platform(),
            "device": device,
            "accelerator": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        },
        "versions": {"python": platform.python_version(), "pdssm": version("pdssm")}
        | {p: version(p) for p in PACKAGES},
        "commit": commit(),
        "threads": torch.get_num_threads(),
        "command": sys.argv,
    }


def processor() -> str:
    """As the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def version(package: str) -> str | None:
    """None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def commit() -> str | None:
    """Of the checkout this code was loaded from, with ``+changes`` where it differs from it; None outside of one.

    ``PDSSM_COMMIT`` has the first word: on a machine that a copy was sent to, git knows nothing or something else.
    """
    if told := os.environ.get("PDSSM_COMMIT"):
        return told
    here = Path(__file__).resolve().parent
    found = _git(here, "rev-parse", "HEAD")
    if found is None or _git(here, "ls-files", "--error-unmatch", "../errors.py") is None:
        return None
    return found + ("+changes" if _git(here, "status", "--porcelain", "--untracked-files=no", "--", "..") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
