"""Recipes: the published ones as they should be; a tiny one run, resumed, interrupted and reported."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from pdssm.cli import main
from pdssm.errors import ChoiceError, FileError
from pdssm.models import SequenceModel
from pdssm.recipes import RECIPES, Cell, find_recipe
from pdssm.recipes.job import main as job_main
from pdssm.recipes.job import result_path, run_cell, run_path
from pdssm.recipes.report import figure, markdown, read_results, spread, write_report
from pdssm.recipes.reproduce import Plan, reproduce
from pdssm.training import Outcome, RunFolder
from tests.runs import bits
from tests.test_training_resume import signalled
from tests.tiny_recipe import CELLS, LONG, RECIPE, SLOW, register

ROOT = Path(__file__).parent.parent
RUNS, RESULTS = Path("runs"), Path("results")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder of its own; the tiny recipes are known here and in the processes that run them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pdssm.recipes.RECIPES", RECIPES)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    before, threads = dict(RECIPES), torch.get_num_threads()
    register()
    own = Plan.command

    def command(plan: Plan, cell: Cell, seed: int) -> list[str]:
        return [word.replace("pdssm.recipes.job", "tests.tiny_recipe") for word in own(plan, cell, seed)]

    monkeypatch.setattr(Plan, "command", command)
    yield
    RECIPES.clear()
    RECIPES.update(before)
    torch.set_num_threads(threads)


def run_all() -> dict[tuple[str, int], Outcome]:
    """Here, without a process for each."""
    return {
        (cell.name, seed): run_cell(RECIPE, cell, seed, RUNS, RESULTS, full=False)
        for cell, seed in Plan(RECIPE).missing
    }


# ----------------------------------------------------------------------------------------- the published tables


def test_the_issues_cells_are_there() -> None:
    wanted = {(name, cell.row, cell.column): len(cell.seeds) for name in RECIPES for cell in RECIPES[name].cells}
    for task in ("parity", "even_pairs", "cycle_navigation"):
        assert wanted["table2", "PD-SSM", task] == 3
    assert wanted["table2", "PD-SSM", "modular_arithmetic"] == 1
    assert sum(key[:2] == ("table2", "C diagonal") for key in wanted) == 4
    for task in ("A5:2", "A5:6", "A5:8", "A5:12", "S5:4", "S5:8"):
        assert wanted["table2b", "PD-SSM", task] == 3
    assert sum(key[0] == "ablations" for key in wanted) == 8


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_published_config_builds(name: str) -> None:
    recipe = find_recipe(name)
    assert len({cell.name for cell in recipe.cells}) == len(recipe.cells)
    for cell in recipe.cells:
        config = cell.with_seed(3)
        assert (config.seed, config.threads) == (3, 1)
        SequenceModel(config.model_config(config.make_task()))
        assert recipe.find(cell.name) is cell
    assert find_recipe("table2b").lengths[-2:] == (1000, 10000)


def test_ablations_differ_in_the_ablated_only() -> None:
    corners = {(cell.row, cell.column): cell.config.mixer_options for cell in RECIPES["ablations"].cells}
    ablated = {"readout", "stochastic", "dense_inference"}
    assert len({tuple(options[name] for name in sorted(ablated)) for options in corners.values()}) == 8
    assert len({tuple((k, v) for k, v in options.items() if k not in ablated) for options in corners.values()}) == 1


def test_unknown_names() -> None:
    with pytest.raises(ChoiceError, match="did you mean 'table2'"):
        find_recipe("tabl2")
    with pytest.raises(ChoiceError, match="cell is 'pd-ssm'"):
        Plan(RECIPE, ["pd-ssm"]).missing  # noqa: B018


# ----------------------------------------------------------------------------------------------------- planning


def test_the_first_seeds_of_all_cells_come_first() -> None:
    names = [(cell.name, seed) for cell, seed in Plan(RECIPE).wanted]
    assert names == [("pd-ssm-parity", 0), ("pd-ssm-even-pairs", 0), ("c-diagonal-parity", 0), ("pd-ssm-parity", 1)]
    some = Plan(RECIPE, ["pd-ssm-parity"], [5, 3]).wanted
    assert [(cell.name, seed) for cell, seed in some] == [("pd-ssm-parity", 3), ("pd-ssm-parity", 5)]
    assert len(Plan(RECIPE, full=True).wanted) == 9


def test_only_what_has_no_result_is_missing() -> None:
    cell = CELLS[0]
    run_cell(RECIPE, cell, 1, RUNS, RESULTS)
    assert (cell, 1) not in Plan(RECIPE).missing
    assert len(Plan(RECIPE).missing) == 3


def test_the_full_budget_is_another_run() -> None:
    cell = RECIPE.find("pd-ssm-even-pairs")
    assert cell.with_seed(0, full=True).steps == 10
    run_cell(RECIPE, cell, 0, RUNS, RESULTS)
    assert (cell, 0) in Plan(RECIPE, full=True).missing
    run_cell(RECIPE, cell, 0, RUNS, RESULTS, full=True)
    assert (cell, 0) not in Plan(RECIPE, full=True).missing
    write_report(RECIPE, RESULTS, full=True)
    assert (RESULTS / "tiny-full.md").exists()
    parity = RECIPE.find("pd-ssm-parity")
    assert run_path(RUNS, RECIPE, parity, 0, True) == run_path(RUNS, RECIPE, parity, 0, False)


# --------------------------------------------------------------------------------------------------------- jobs


def test_a_result_says_everything() -> None:
    cell = CELLS[0]
    outcome = run_cell(RECIPE, cell, 1, RUNS, RESULTS)
    result = json.loads(result_path(RESULTS, RECIPE, cell, 1, False).read_text())
    assert result["config"] == cell.with_seed(1).to_dict() | {"lengths": [1, 6], "eval_lengths": [3, 9]} | {
        "betas": list(cell.config.betas)
    }
    assert (result["seed"], result["steps"], result["threads"], result["reason"]) == (1, 8, 1, "finished")
    assert result["seconds"] > 0
    assert result["best_accuracy"] == outcome.best
    assert result["commits"] == [str(RunFolder(outcome.folder).environment()[0]["commit"])]
    assert {"machine", "versions", "started", "sessions", "parameters", "paper"} <= result.keys()
    assert list(result["by_length"]) == ["2", "5", "10"]
    assert all(0 <= value["accuracy"] <= 1 for value in result["by_length"].values())


def test_a_job_goes_on_with_its_run() -> None:
    cell = CELLS[0]
    folder = run_path(RUNS, RECIPE, cell, 0, False)
    half = dataclasses.replace(cell, config=dataclasses.replace(cell.config, stop_above=0.0))
    RunFolder(folder).begin(cell.with_seed(0).self_contained())
    assert run_cell(RECIPE, cell, 0, RUNS, RESULTS).step == 8
    with pytest.raises(FileError, match=r"begun with stop_above None; the recipe has stop_above 0.0"):
        run_cell(RECIPE, half, 0, RUNS, RESULTS)


def test_an_interrupted_job_has_no_result() -> None:
    cell = CELLS[0]
    with signalled(3, signal.SIGTERM):
        assert run_cell(RECIPE, cell, 0, RUNS, RESULTS).reason == "interrupted"
    assert (cell, 0) in Plan(RECIPE).missing
    assert run_cell(RECIPE, cell, 0, RUNS, RESULTS).reason == "finished"
    run_cell(RECIPE, cell, 0, Path("other"), Path("others"))
    assert bits(run_path(RUNS, RECIPE, cell, 0, False)) == bits(run_path(Path("other"), RECIPE, cell, 0, False))


def test_a_run_that_never_was_measured_has_a_result_too() -> None:
    cell = dataclasses.replace(CELLS[0], config=dataclasses.replace(CELLS[0].config, lr=1e30, warmup=0.0))
    cell = dataclasses.replace(cell, config=dataclasses.replace(cell.config, eval_every=100))
    assert run_cell(RECIPE, cell, 0, RUNS, RESULTS).reason == "nan"
    write_report(RECIPE, RESULTS)
    assert "| no value | no value | 1 of 1 |" in (RESULTS / "tiny.md").read_text()
    ElementTree.parse(RESULTS / "tiny.svg")


def test_the_jobs_own_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["job", "tiny", "pd-ssm-parity", "0"])
    assert job_main() == 0
    assert result_path(RESULTS, RECIPE, CELLS[0], 0, False).exists()
    monkeypatch.setattr(sys, "argv", ["job", "tiny", "pd-ssm-party", "0"])
    assert job_main() == 2
    assert "did you mean 'pd-ssm-parity'" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------ reports


def test_the_table_and_the_figure() -> None:
    outcomes = run_all()
    write_report(RECIPE, RESULTS)
    text = (RESULTS / "tiny.md").read_text()
    best = [100 * float(outcomes["pd-ssm-parity", seed].best or 0) for seed in (0, 1)]
    line = next(line for line in text.splitlines() if line.startswith("| PD-SSM | parity |"))
    entries = [entry.strip() for entry in line.strip("|").split("|")]
    assert entries[2:6] == ["99.9 ± 0.1", spread(best), ", ".join(f"{value:.2f}" for value in best), "2 of 2"]
    assert "| model | task | 2 | 5 | 10 |" in text
    assert "Not run" not in text
    assert "4 runs on" in text
    drawing = (RESULTS / "tiny.svg").read_text()
    ElementTree.fromstring(drawing)
    assert drawing.count("<clipPath") >= 2  # a panel a task
    before = [(RESULTS / f"tiny.{suffix}").read_bytes() for suffix in ("md", "svg")]
    write_report(RECIPE, RESULTS)
    assert [(RESULTS / f"tiny.{suffix}").read_bytes() for suffix in ("md", "svg")] == before


def test_what_is_missing_is_said() -> None:
    write_report(RECIPE, RESULTS)
    assert not (RESULTS / "tiny.md").exists()
    run_cell(RECIPE, CELLS[2], 0, RUNS, RESULTS)
    write_report(RECIPE, RESULTS)
    text = (RESULTS / "tiny.md").read_text()
    assert "Not run: pd-ssm-parity, pd-ssm-even-pairs." in text
    assert "no number" in text


def test_means_and_deviations() -> None:
    assert spread([100.0]) == "100.0"
    assert spread([99.0, 100.0, 101.0]) == "100.0 ± 1.0"


def results(*accuracies: float | None) -> list[dict[str, Any]]:
    machine = {"processor": "abacus", "cores": 2, "device": "cpu"}
    shared = {"steps": 10, "seconds": 60.0, "machine": machine, "commits": ["abc"]}
    return [{**shared, "best_accuracy": value, "seed": seed} for seed, value in enumerate(accuracies)]


def test_failures_are_counted() -> None:
    """Below 99 %, or without a value: reported, and never left out of the mean's company."""
    found = {CELLS[0].name: results(1.0, 0.995, 0.5, None)}
    text = markdown(RECIPE, found, "tiny")
    assert "| 83.2 ± 28.7 | 100.00, 99.50, 50.00, no value | 2 of 4 | 10 | 1.0 |" in text
    assert "4 runs on abacus, 2 cores; commits abc." in text
    assert b"<svg" in figure(RECIPE, found)
    for result in found[CELLS[0].name]:
        result["machine"] |= {"device": "cuda", "accelerator": "sliderule"}
    assert "4 runs on sliderule beside abacus, 2 cores; commits abc." in markdown(RECIPE, found, "tiny")


def test_what_belongs_to_no_cell_is_left_alone() -> None:
    folder = RESULTS / "tiny"
    folder.mkdir(parents=True)
    (folder / "renamed-seed0.json").write_text(json.dumps({"cell": "renamed", "seed": 0}))
    assert read_results(RECIPE, folder) == {}
    write_report(RECIPE, RESULTS)
    (folder / "pd-ssm-parity-seed0.json").write_text("{")
    with pytest.raises(FileError, match=r"pd-ssm-parity-seed0.json is not the result of a run"):
        read_results(RECIPE, folder)


# ------------------------------------------------------------------------------------------- several processes


def scripted(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(
        Plan, "command", lambda plan, cell, seed: [sys.executable, "-S", "-c", code, cell.name, str(seed)]
    )


def test_exit_codes_of_jobs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(monkeypatch, "import sys; sys.exit(int(sys.argv[2]))")
    assert reproduce(Plan(RECIPE)) == 1
    said = capsys.readouterr().out
    assert "tiny: 0 of 4 runs are done" in said
    assert "tiny: pd-ssm-parity, seed 1: ended with exit code 1" in said
    scripted(monkeypatch, "import os; os.kill(os.getpid(), 9)")
    assert reproduce(Plan(RECIPE, seeds=[0])) == 9


def test_so_many_jobs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    most = {}
    for jobs in (1, 3):
        Path("log").unlink(missing_ok=True)
        wait = f"while open('log').read().count('+') < {jobs}: time.sleep(0.01)"
        scripted(monkeypatch, f"import time; open('log', 'a').write('+')\n{wait}\nopen('log', 'a').write('-')")
        assert reproduce(Plan(RECIPE, jobs=jobs)) == 0
        log = Path("log").read_text()
        assert (log.count("+"), log.count("-")) == (4, 4)
        most[jobs] = max(log[:end].count("+") - log[:end].count("-") for end in range(len(log) + 1))
    assert most == {1: 1, 3: 3}


def test_jobs_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, "import os, sys; sys.exit(os.environ['OMP_NUM_THREADS'] != '1')")
    assert reproduce(Plan(RECIPE)) == 0


def interrupt_when(condition: Any, times: int = 1) -> threading.Thread:
    """Send this process Ctrl-C as soon as it holds, and again half a second later."""

    def act() -> None:
        while not condition():
            time.sleep(0.02)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_ctrl_c_waits_for_jobs_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(0.5); open('saved-' + sys.argv[2], 'w'); sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "open('ready-' + sys.argv[2], 'w')\n"
        "time.sleep(60)\n"
    )
    scripted(monkeypatch, code)
    thread = interrupt_when(lambda: len(list(Path().glob("ready-*"))) == 2)
    assert reproduce(Plan(RECIPE, ["pd-ssm-parity"], jobs=2)) == 130
    thread.join()
    assert len(list(Path().glob("saved-*"))) == 2


def test_a_second_ctrl_c_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nopen('ready', 'w').write(str(os.getpid()))\n"
    scripted(monkeypatch, code + "time.sleep(60)")
    ready = Path("ready")
    thread = interrupt_when(lambda: ready.exists() and ready.read_text(), times=2)
    assert main(["reproduce", "tiny", "--seeds", "0", "--cells", "pd-ssm-parity"]) == 130
    thread.join()
    for _ in range(100):
        if not runs(ready.read_text()):
            return
        time.sleep(0.05)
    raise AssertionError("the job is still running")


def runs(process: str) -> bool:
    """Whether it still runs: a zombie has no command line."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


def test_reproduce_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "tiny", "--cells", "pd-ssm-parity", "--seeds", "1"]) == 0
    assert "tiny: 0 of 1 runs are done" in capsys.readouterr().out
    assert main(["reproduce", "tiny", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "pd-ssm-parity  seed 1  done\n" in listed
    assert "c-diagonal-parity  seed 0  missing\n" in listed
    (RESULTS / "tiny.md").unlink()
    assert main(["reproduce", "tiny", "--report"]) == 0
    assert (RESULTS / "tiny.md").exists()
    assert main(["reproduce", "tiny", "--cells", "pd-ssm-parity", "--seeds", "1"]) == 0
    assert "tiny: 1 of 1 runs are done" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_reproduction_goes_on() -> None:
    """To the same bits as one that was not interrupted."""
    folders = [run_path(RUNS, SLOW, SLOW.cells[0], seed, False) for seed in (0, 1)]
    thread = interrupt_when(lambda: all(RunFolder(folder).records("train") for folder in folders))
    assert main(["reproduce", "slow", "--jobs", "2"]) == 130
    thread.join()
    for folder in folders:
        assert 0 < (RunFolder(folder).newest_step() or 0) < LONG
        assert RunFolder(folder).records("event")[-1]["event"] == "interrupted"
    assert main(["reproduce", "slow", "--jobs", "2"]) == 0
    assert main(["reproduce", "slow", "--seeds", "0", "--runs", "whole", "--results", "other"]) == 0
    assert bits(folders[0]) == bits(run_path(Path("whole"), SLOW, SLOW.cells[0], 0, False))
    assert (RESULTS / "slow.svg").exists()
