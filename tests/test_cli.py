"""The command line, as ``pdssm.cli.main`` runs it: what it prints, what it leaves, and its exit codes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pdssm.automata import DFA
from pdssm.cli import COMMANDS, main
from pdssm.layers import MIXERS, mixer_options
from pdssm.tasks import TASKS
from pdssm.training import PRESETS, RunFolder, TrainConfig, train
from tests.runs import bits, run, tiny

Capture = pytest.CaptureFixture[str]
SMALL = [
    "--steps", "4", "--dim", "4", "--mixer-options", "state_dim=4", "dictionary_size=2", "--batch", "4",
    "--lengths", "1", "6", "--eval-every", "2", "--eval-samples", "8", "--eval-lengths", "3", "9",
    "--checkpoint-every", "2", "--threads", "1", "--quiet", "--logger", "none",
]  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder of its own, and with the threads it had before."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def refused(capsys: Capture, *arguments: str) -> str:
    """Exit code 2; what was said, in one line."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return " ".join((said.err + said.out).replace("│", " ").split())


# ----------------------------------------------------------------------------------------------------- help


def test_help(capsys: Capture) -> None:
    assert main([]) == 2
    assert main(["--help"]) == main(["-h"]) == 0
    said = capsys.readouterr().out
    assert all(f"pdssm {name}" in said for name in COMMANDS)
    assert "Exit codes: 0 done" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.count(f"    pdssm {name}") >= 2


def test_help_shows_the_values_of_a_preset(capsys: Capture) -> None:
    assert main(["train", "--preset", "paper_formal", "--help"]) == 0
    assert "(default: 100001)" in capsys.readouterr().out
    assert main(["train", "--resume", "anything", "--help"]) == 0
    assert "--resume" in capsys.readouterr().out


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "pdssm", "trian"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean 'train'?" in done.stderr


# -------------------------------------------------------------------------------------------- tasks and models


def test_tasks(capsys: Capture) -> None:
    assert main(["tasks"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{entry.spelling} " in f"\n{said}" for entry in TASKS.values())
    for name, entry in TASKS.items():
        assert main(["tasks", name.replace("_", "-")]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{name}, for instance {entry.spelling}")
        assert all(f"\n  {option}" in said for option in entry.options)


def test_models(capsys: Capture) -> None:
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{said}" for name in MIXERS)
    for name in MIXERS:
        assert main(["models", name.replace("_", "-")]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{name}\n")
        assert all(f"\n  {option}" in said for option in mixer_options(name))


# ----------------------------------------------------------------------------------------------------- refusals

REFUSED: list[tuple[str, str]] = [
    ("trian", "did you mean 'train'?"),
    ("tasks parit", "did you mean 'parity'?"),
    ("models pdsm", "did you mean 'pdssm'?"),
    ("reproduce tabel2", "did you mean 'table2'?"),
    ("reproduce table2 --cells pd-ssm-party", "did you mean 'pd-ssm-parity'?"),
    ("reproduce table2 --jobs 0", "jobs is 0"),
    ("train", "--task"),
    ("train pairty", "did you mean 'parity'?"),
    ("train A5", "did you mean 'A5:2'?"),
    ("train parity --mixer pdsm", "did you mean 'pdssm'?"),
    ("train parity --preset grup", "did you mean 'group'?"),
    ("train parity --logger tensorbord", "did you mean 'tensorboard'?"),
    ("train parity --stpes 5", "--steps"),
    ("train parity --steps 0", "steps is 0; expected a whole number of at least 1"),
    ("train parity --steps abc", "invalid literal"),
    ("train parity --norm pots", "pots"),
    ("train parity --mixer-options state_dim", "has no '='; expected NAME=VALUE"),
    ("train parity --mixer-options sate_dim=3", "did you mean 'state_dim'?"),
    ("train parity --task-options target=state", "has no option 'target'"),
    ("train parity --lengths 40 3", "expected (low, high)"),
    ("train parity --preset group --config x.json", "both preset and config came"),
    ("train parity --config nothing.json", "nothing.json cannot be read"),
    ("train parity --regex a*", "both task 'parity' and 'regex:a*' came"),
    ("train --regex a* --dfa a.json", "both regex and dfa came"),
    ("train --regex (a", "is not a regular expression"),
    ("train --dfa nothing.json", "No such file"),
    ("train parity --resume nothing", "resume came with parity"),
    ("train --resume nothing", "nothing holds no run"),
    ("train parity --out file", "file cannot be a folder"),
    ("evaluate", "0 runs"),
    ("evaluate nothing", "nothing holds no run"),
    ("evaluate nothing --lengths 0", "lengths is 0"),
    ("evaluate nothing --samples 0", "samples is 0"),
    ("evaluate nothing --threads 0", "threads is 0"),
    ("evaluate nothing --json no/such/folder.json", "no/such is no folder"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_cannot_be_is_refused(command: str, message: str, capsys: Capture) -> None:
    Path("file").touch()
    assert message in refused(capsys, *command.split())
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_files_that_cannot_be_written(capsys: Capture) -> None:
    assert "/proc/nowhere: No such file" in refused(capsys, "train", "parity", "--out", "/proc/nowhere", *SMALL)


def raising(error: BaseException) -> Callable[[list[str]], int]:
    def command(arguments: list[str]) -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "a file could not be written: No space left on device"),
        (OSError(errno.EACCES, "Permission denied", "runs"), 2, "runs: Permission denied"),
        (ModuleNotFoundError("no rich", name="rich.progress"), 2, "rich.progress is not installed; expected pip"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=str,
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("pdssm.cli.tasks.main", raising(error))
    assert main(["tasks"]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("error", [RuntimeError("a fault of ours"), OSError(5, "no file"), ImportError("pdssm.x")])
def test_our_own_faults_are_not_hidden(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdssm.cli.tasks.main", raising(error))
    with pytest.raises(type(error)):
        main(["tasks"])


# ----------------------------------------------------------------------------------------------------- training


def test_train_resume_evaluate(capsys: Capture) -> None:
    assert main(["train", "parity", *SMALL]) == 0
    assert "runs/parity-0: finished at step 4, best accuracy" in capsys.readouterr().out
    assert main(["train", "parity", *SMALL]) == 0
    assert "runs/parity-0-2: finished" in capsys.readouterr().out
    assert bits(Path("runs/parity-0")) == bits(Path("runs/parity-0-2"))
    assert main(["train", "--resume", "runs/parity-0", "--quiet", "--logger", "none"]) == 0
    capsys.readouterr()
    both = ["runs/parity-0", "runs/parity-0-2"]
    assert main(["evaluate", *both, "--lengths", "5", "9", "--samples", "16", "--json", "found.json"]) == 0
    said = capsys.readouterr().out
    assert "parity, 3 classes, chance 50.0%" in said
    content = json.loads(Path("found.json").read_text())
    assert [entry["run"] for entry in content] == both
    assert content[0]["by_length"] == content[1]["by_length"]
    accuracy = content[0]["by_length"]["9"]["accuracy"]
    assert said.splitlines()[-1].split() == ["9", f"{accuracy:.4%}", f"{accuracy:.4%}"]


def test_labels_at_every_step_have_more_columns(capsys: Capture) -> None:
    assert main(["train", "S3:2", *SMALL]) == 0
    capsys.readouterr()
    assert (
        main(["evaluate", "runs/S3-2-0", "--lengths", "5", "--samples", "16", "--threads", "1", "--json", "one.json"])
        == 0
    )
    assert "whole words" in capsys.readouterr().out
    assert json.loads(Path("one.json").read_text())["config"]["task"] == "S3:2"


def test_a_run_without_a_model_cannot_be_evaluated(capsys: Capture) -> None:
    RunFolder("begun").begin(tiny())
    assert "has no model yet" in refused(capsys, "evaluate", "begun")


@pytest.mark.parametrize("base", [["parity"], ["A5:2", "--preset", "group"], ["parity", "--preset", "paper_formal"]])
def test_a_config_file_round_trips(base: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """config.json of a run, given back as --config, is the same run; other options depart from it."""
    begun: list[TrainConfig] = []

    def begin(config: TrainConfig, *_: Any, **__: Any) -> Any:
        begun.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("pdssm.cli.train.train", begin)
    given = ["--task-options", "seed=3"] if "group" in base else ["--mixer-options", "readout=mlp", "skip=false"]
    assert main(["train", *base, *given, "--seed", "7", "--lengths", "2", "9"]) == 130
    Path("config.json").write_text(begun[0].to_json())
    assert main(["train", "--config", "config.json"]) == 130
    assert begun[1] == begun[0]
    assert main(["train", "--config", "config.json", "--lr", "0.5", "--mixer-options", "conv=4"]) == 130
    assert begun[2].lr == 0.5
    assert begun[2].mixer_options == {**begun[0].mixer_options, "conv": 4}
    assert (begun[2].seed, begun[2].lengths) == (7, (2, 9))
    assert main(["train", "even_pairs", "--config", "config.json", "--mixer", "lstm"]) == 130
    assert (begun[3].task, begun[3].task_options, begun[3].mixer_options) == ("even_pairs", {}, {})


def test_a_preset_is_where_options_depart_from(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[TrainConfig] = []
    monkeypatch.setattr("pdssm.cli.train.train", lambda config, *_, **__: begun.append(config) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["train", "parity", "--preset", "paper_formal", "--seed", "1"])
    assert begun == [PRESETS["paper_formal"]("parity", seed=1)]


@pytest.mark.parametrize("given", [["--regex", "(ab)*"], ["regex:(ab)*"], ["--task", "regex:(ab)*"]])
def test_an_expression_of_the_users_own(given: list[str]) -> None:
    assert main(["train", *given, *SMALL, "--out", "run"]) == 0
    assert RunFolder("run").config().task == "regex:(ab)*"


@pytest.mark.parametrize("given", [["--dfa", "own.json"], ["dfa:own.json"]])
def test_an_automaton_of_the_users_own(given: list[str], capsys: Capture) -> None:
    """It is a part of the run: the file may go."""
    table = {"q": {"x": "r", "y": "q"}, "r": {"x": "q", "y": "r"}}
    DFA.from_table(table, "q", {"r"}).to_json("own.json")
    assert main(["train", *given, *SMALL, "--task-options", "target=state", "--out", "run"]) == 0
    Path("own.json").unlink()
    assert main(["evaluate", "run", "--lengths", "5", "--samples", "8"]) == 0
    assert main(["train", "--config", "run/config.json", "--out", "again", "--quiet", "--logger", "none"]) == 0
    assert bits(Path("again")) == bits(Path("run"))


def test_a_nan_loss_is_exit_code_1(capsys: Capture) -> None:
    assert main(["train", "parity", *SMALL, "--lr", "1e30", "--warmup", "0", "--eval-every", "50"]) == 1
    said = capsys.readouterr()
    assert "nan at step 1, not evaluated" in said.out
    assert "pdssm: the loss of step 2 is nan; no checkpoint was due before" in said.err


# ----------------------------------------------------------------------------------------------- real processes


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pdssm", "train", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(folder: Path, step: int) -> None:
    """Until the run has measured a step."""
    for _ in range(1200):
        if any(line["step"] >= step for line in RunFolder(folder).records("train")):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no step {step} in {folder}")


def test_ctrl_c_saves_and_says_so(tmp_path: Path) -> None:
    config = tiny(steps=10**6, checkpoint_every=10**6, eval_every=10**6)
    Path("config.json").write_text(config.to_json())
    process = started("--config", "config.json", "--out", "run", "--logger", "none")
    wait_for(Path("run"), 3)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    step = RunFolder("run").newest_step()
    assert f"run: interrupted at step {step}" in said
    assert f"told to stop by a signal; the checkpoint of step {step} is kept" in complaint
    assert "Traceback" not in complaint


@pytest.mark.slow
def test_killed_again_and_again() -> None:
    """At whatever moment it comes, and with several runs of the command line until it is done."""
    config = tiny(steps=600, ema=0.9, dropout=0.1, eval_every=50, checkpoint_every=7)
    train(config, "whole", logger="none", quiet=True)
    Path("config.json").write_text(config.to_json())
    arguments, kills = ["--config", "config.json", "--out", "run"], 0
    while True:
        process = started(*arguments, "--quiet", "--logger", "csv")
        try:
            wait_for(Path("run"), min(60 + 140 * kills, 560))
            os.kill(process.pid, [signal.SIGKILL, signal.SIGTERM][kills % 2])
        except TimeoutError:
            process.kill()
            raise
        process.communicate(timeout=60)
        kills += 1
        if process.returncode == 0 or kills == 4:
            break
        assert process.returncode in (-signal.SIGKILL, 130)
        arguments = ["--resume", "run"]
    assert run(config, Path("run")).reason == "finished"
    assert kills >= 3
    assert bits(Path("run")) == bits(Path("whole"))
