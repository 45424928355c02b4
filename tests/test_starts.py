"""The study of D's starts, at a size where it takes no time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks import sections, starts
from pdssm.models import SequenceModel
from pdssm.recipes import Recipe
from pdssm.recipes.job import result_path, run_path


def tiny() -> Recipe:
    plan = starts.recipe(
        4, (0,), batch=4, eval_every=2, eval_samples=4, eval_lengths=(5, 9), dim=4,
        mixer_options={"state_dim": 4, "dictionary_size": 2},
    )  # fmt: skip
    wanted = ("as published", "near_one, shrink")
    return dataclasses.replace(plan, lengths=(9, 20), cells=tuple(cell for cell in plan.cells if cell.row in wanted))


def test_variants_differ_in_nothing_but_d() -> None:
    configs = {cell.row: cell.config for cell in starts.recipe().cells}
    assert len({config.to_json() for config in configs.values()}) == len(starts.VARIANTS)
    for name, config in configs.items():
        own = {key: value for key, value in config.mixer_options.items() if key not in ("init", "magnitude", "phase")}
        assert own == {"state_dim": 128, "dictionary_size": 32}
        same = dataclasses.replace(config, mixer_options={})
        assert same == dataclasses.replace(configs["as published"], mixer_options={}), name
    options = configs["near_one, zero"].mixer_options
    assert (options["init"], options["magnitude"], options["phase"]) == ("long", "near_one", "zero")


def test_a_study_runs_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tiny()
    found = starts.study(plan, tmp_path)
    published, shrunk = found
    assert (published["phases_at_0"], shrunk["phases_at_0"]) == (0.0, 1.0)
    assert 0.2 < published["median_distance_from_1"] < 0.8
    assert 1e-5 < shrunk["median_distance_from_1"] < 1e-4
    model = SequenceModel.from_pretrained(run_path(tmp_path, plan, plan.cells[0], 0, False) / "best")
    diag = model.blocks[0].mixer.inspect(model.encoder.weight[None]).diag
    assert published["median_distance_from_1"] == pytest.approx(float((1 - diag.abs()).median()), rel=1e-3)
    assert "finished at step 4   9: " in capsys.readouterr().out

    monkeypatch.setattr(starts, "run_cell", None)  # nothing is run twice
    assert starts.study(plan, tmp_path) == found
    table = sections.starts_table({"runs": found})
    assert "| as published | not reached |" in table

    result_path(tmp_path, plan, plan.cells[0], 0, False).unlink()
    monkeypatch.setattr(starts, "run_cell", lambda *_: type("Outcome", (), {"exit_code": 130})())
    with pytest.raises(SystemExit, match="130"):  # told to stop: there is no result, and the same command goes on
        starts.study(plan, tmp_path)
