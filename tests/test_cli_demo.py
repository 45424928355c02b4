"""The demo: to its proofs, and how it ends where a step fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdssm.automata import Certificate, check
from pdssm.cli import main
from pdssm.cli.demo import FAILED
from pdssm.training.subject import Subject


@pytest.mark.slow
def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it leaves can be loaded, and its certificate still holds."""
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "Proved, for words of every length" in told
    exact = Subject.load(out / "exact-model")
    assert exact.target is not None
    assert len(exact.target) == 60
    certificate = Certificate.load(out / "certificate.npz")
    check(certificate, exact.model, exact.target, vocabulary=exact.vocabulary, classes=exact.labels)
    assert "</html>" in (out / "report.html").read_text()


def test_a_demo_that_learns_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo"), "--steps", "1", "--threads", "1"]) == FAILED
    assert "FAILED: training ended" in capsys.readouterr().out
    assert not (tmp_path / "demo" / "report.html").exists()


def test_a_demo_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "expected a new folder" in capsys.readouterr().err
