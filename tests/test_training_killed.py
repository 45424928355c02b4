"""kill -9 at any moment, and then --resume: the same bits as a run that was never cut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def killed_runs(folder: Path, first: int, step: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.killed_runs", str(folder), str(first), str(step)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_killed_before_some_file_operations(tmp_path: Path) -> None:
    found = killed_runs(tmp_path, 4, 11)
    assert found["wrong"] == []
    assert found["killed"] >= 3
    assert found["begun"] >= 3


@pytest.mark.slow
def test_killed_before_every_file_operation(tmp_path: Path) -> None:
    """Between a checkpoint's two files, with half-written parts, before and after the link to the best model moves."""
    found = killed_runs(tmp_path, 1, 1)
    assert found["wrong"] == []
    assert found["killed"] > 35
