"""What a run writes down and shows while it goes on: metrics, loggers, progress."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from pathlib import Path

import pytest

from pdssm import SequenceModel
from pdssm.errors import ChoiceError, FileError
from pdssm.training import RunFolder, loggers, progress, train
from pdssm.training.loggers import make_logger
from pdssm.training.state import TrainState
from tests.runs import tiny


def test_a_run_forgets_what_it_will_measure_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3):
        folder.record("train", step, loss=1.0 / step)
    folder.rewind(2)
    assert [line["step"] for line in folder.records()] == [1, 2]
    assert folder.records("evaluation") == []
    assert folder.newest_step() is None


def test_csv(tmp_path: Path) -> None:
    logger = make_logger("csv", tmp_path)
    for step in (1, 2, 3):
        logger.log(step, "train", {"loss": 1.0 / step, "lr": 0.1})
    logger.close()
    make_logger("csv", tmp_path, 2).log(3, "train", {"loss": 7.0})
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["step", "kind", "name", "value"]
    assert [row[0] for row in rows[1:]] == ["1", "1", "2", "2", "3"]
    assert rows[-1] == ["3", "train", "loss", "7.0"]


def test_tensorboard_is_the_default(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tiny(), tmp_path / "run", quiet=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [point.step for point in events.Scalars("train/loss")] == list(range(1, 9))
    assert [point.step for point in events.Scalars("evaluation/accuracy")] == [2, 4, 6, 8]


def test_unknown_loggers(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="did you mean 'tensorboard'"):
        make_logger("tensorbord", tmp_path)
    assert set(loggers.LOGGERS) == {"tensorboard", "csv", "none"}


def measured(step: int) -> TrainState:
    config = tiny()
    state = TrainState(config, SequenceModel(config.model_config(config.make_task())))
    state.step, state.loss, state.accuracy, state.best = step, 0.25, 0.5, 0.75
    return state


def test_plain_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0, 140.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    lines = progress.Lines("run", 1000, 5000)
    lines.update(measured(1100))  # too early to say anything
    lines.update(measured(1400))
    said = capsys.readouterr().err
    assert said == "run: step 1400/5000  loss 0.2500  accuracy 50.00% (best 75.00%)  10.0 steps/s  0:06:00 left\n"


def test_the_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.stderr", screen)
    bar = progress.Bar("run", 4, 8)
    state = measured(8)
    state.curriculum.longest = 3
    bar.update(state)
    bar.say("a word")
    bar.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "8/8" in plain
    assert "loss 0.2500  accuracy 50.00% (best 75.00%)  lengths to 3" in plain
    assert "run: a word" in plain


def test_the_place_decides_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(progress.make_progress("run", 0, 8, quiet=True), progress.Quiet)
    assert isinstance(progress.make_progress("run", 0, 8, quiet=False), progress.Lines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = progress.make_progress("run", 0, 8, quiet=False)
    assert isinstance(shown, progress.Bar)
    shown.close()
    assert progress.remaining(10, 0.0) == ""


def test_environments_add_up(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.record_environment({"threads": 1})
    folder.record_environment({"threads": 2})
    assert [start["threads"] for start in folder.environment()] == [1, 2]
    (tmp_path / "environment.json").write_text("{")
    folder.record_environment({"threads": 3})
    assert json.loads((tmp_path / "environment.json").read_text()) == {"starts": [{"threads": 3}]}
    with pytest.raises(FileError, match="holds no run"):
        folder.config()
