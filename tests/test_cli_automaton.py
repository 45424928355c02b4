"""``pdssm automaton``: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pdssm.automata import DFA, compile_dfa, isomorphic
from pdssm.automata.compile import layer_of
from pdssm.cli import main
from pdssm.models import ModelConfig, SequenceModel
from pdssm.tasks import make_task
from pdssm.tasks.targets import target_automaton, task_symbols
from pdssm.training import RunFolder, TrainConfig
from pdssm.training.subject import Subject

QUICK = ("--error", "0.02", "--length", "30")


def automaton(*arguments: str) -> int:
    return main(["automaton", *arguments])


def make_run(folder: Path, task_name: str, model: SequenceModel | None = None) -> Path:
    """A run's folder with a model in it: the exact one, unless another is given."""
    task = make_task(task_name)
    run = RunFolder(folder)
    run.begin(TrainConfig(task_name))
    if model is None:
        model = compile_dfa(target_automaton(task), vocabulary=task.tokens, classes=task.labels)
    run.save_best(1, model.config, model.state_dict())
    return folder


@pytest.mark.parametrize("name", ["parity", "even_pairs", "cycle_navigation", "S3:2", "regex:(a|b)*abb"])
def test_a_tasks_automaton_labels_its_words(name: str) -> None:
    """The target, run over words of the task, gives the task's own labels."""
    task = make_task(name)
    target = target_automaton(task)
    assert task_symbols(task) == target.alphabet
    batch = task.sample(50, (3, 30), np.random.default_rng(0))
    for number in range(len(batch)):
        tokens, labels = batch.sequence(number)
        word = [task.tokens[int(token)] for token in tokens]
        visited = target.run_many(target.encode(word)[None])[0]
        asked = visited if task.label_at == "every" else visited[-1:]
        assert [target.outputs[state] for state in asked] == [task.labels[int(label)] for label in labels]


# ------------------------------------------------------------------------------------------------ the actions


def test_show(capsys, tmp_path) -> None:
    assert automaton("show", "regex:(a|b)*abb", "--json", str(tmp_path / "abb.json")) == 0
    shown = capsys.readouterr().out
    assert "acceptor, 4 states (4 minimal), 2 symbols" in shown
    assert ">0     False  1  0" in shown
    assert "Monoid: 7 elements, aperiodic, solvable" in shown
    assert "PD                           yes" in shown
    assert DFA.from_json(tmp_path / "abb.json") == DFA.from_regex("(a|b)*abb")
    assert automaton("show", str(tmp_path / "abb.json")) == 0
    assert automaton("show", "A5:2") == 0
    shown = capsys.readouterr().out
    assert "60 elements, a group, not solvable" in shown
    assert "... and 36 more" in shown


@pytest.mark.parametrize("method", ["states", "phase"])
def test_compile_then_verify(capsys, tmp_path, method: str) -> None:
    assert automaton("compile", "cycle_navigation", "--out", str(tmp_path / "m"), "--method", method) == 0
    assert "5 states as a model" in capsys.readouterr().out
    assert automaton("verify", str(tmp_path / "m"), "--words", "20", "--longest", "500", *QUICK) == 0
    said = capsys.readouterr().out
    assert "equal: the same label after every word" in said
    assert "of 20 random words of up to 500 symbols, 100.0000% agree" in said
    assert automaton("verify", str(tmp_path / "m"), "cycle_navigation", "--words", "0", *QUICK) == 0
    assert "random words of up to" not in capsys.readouterr().out
    assert automaton("show", str(tmp_path / "m")) == 0


def test_extract_from_a_run(capsys, tmp_path) -> None:
    run = make_run(tmp_path / "run", "parity")
    assert automaton("extract", str(run), "--json", str(tmp_path / "parity.json")) == 0
    assert "2 states, from" in capsys.readouterr().out
    assert isomorphic(DFA.from_json(tmp_path / "parity.json"), target_automaton(make_task("parity")))
    assert automaton("verify", str(run), "--words", "10", "--longest", "100") == 0
    assert "against its own automaton: equal" in capsys.readouterr().out


def test_snap_a_run(capsys, tmp_path) -> None:
    run = make_run(tmp_path / "run", "parity")
    assert automaton("snap", str(run), "--out", str(tmp_path / "exact")) == 0
    subject = Subject.load(tmp_path / "exact")
    assert subject.vocabulary == ("<pad>", "a", "b")
    assert subject.alphabet == ("a", "b")
    assert automaton("verify", str(tmp_path / "exact"), "parity", "--words", "10", "--longest", "100") == 0
    assert "wrote" in capsys.readouterr().out


def test_two_automata(capsys) -> None:
    assert automaton("verify", "regex:(a|b)*abb", "regex:[ab]*abb") == 0
    assert automaton("verify", "regex:(a|b)*abb", "regex:(a|b)*bb") == 1
    assert "not equal: after b b the label is False; expected True" in capsys.readouterr().out


def test_a_broken_model_is_not_equal(capsys, tmp_path) -> None:
    task = make_task("S3:2")
    model = compile_dfa(target_automaton(task))
    with torch.no_grad():
        dictionary = layer_of(model).generator.dictionary
        dictionary[0, :, 3] = dictionary[0, :, 3].roll(1)
    run = make_run(tmp_path / "run", "S3:2", model)
    assert automaton("verify", str(run), "--words", "5", "--longest", "50") == 1
    said = capsys.readouterr().out
    assert "not equal: after s" in said
    assert "the shortest difference found is after" in said


def test_a_model_that_learnt_nothing_is_not_equal(capsys, tmp_path) -> None:
    """More states than allowed for, so not the target: the words that differ are shown."""
    torch.manual_seed(0)
    options = {"state_dim": 16, "dictionary_size": 2}
    model = SequenceModel(ModelConfig(2, 6, dim=16, mixer_options=options))
    with torch.no_grad():
        model.head.weight.mul_(10)
    run = make_run(tmp_path / "run", "S3:2", model)
    code = automaton("verify", str(run), "--max-states", "8", "--words", "5", "--longest", "50", *QUICK)
    said = capsys.readouterr().out
    assert code == 1
    assert "its labels differ from the automaton's after: s" in said


# ---------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sow",), "did you mean 'show'"),
        (("show", "missing.json"), "missing.json is not an automaton"),
        (("show", "pariti"), "did you mean 'parity'"),
        (("show", "regex:(a"), "pattern '(a' is not a regular expression"),
        (("show", "modular_arithmetic"), "task 'modular_arithmetic' has no automaton over all words"),
        (("compile", "A5:2", "--out", "x", "--method", "phase"), "expected a modular counter"),
        (("compile", "parity", "--out", "x", "--method", "phase", "--length", "9999999"), "expected at most that"),
        (("compile", "parity", "--out", "x", "--length", "0"), "length is 0; expected a whole number"),
        (("verify", "parity"), "parity came without a target"),
        (("verify", "parity", "S3:2"), "the alphabets differ"),
        (("extract", "nowhere"), "nowhere holds neither a run nor a model"),
    ],
)
def test_bad_input_is_usage(capsys, tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    assert automaton(*arguments) == 2
    assert message in capsys.readouterr().err


def test_bad_folders_are_usage(capsys, tmp_path) -> None:
    automaton("compile", "parity", "--out", str(tmp_path / "m"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert automaton("show", str(empty)) == 2
    assert "has no automaton.json" in capsys.readouterr().err
    assert automaton("verify", str(tmp_path / "m"), "even_pairs", "--words", "0") == 1
    assert automaton("verify", str(tmp_path / "m"), "regex:(a|b)*") == 2
    assert "has the label True; expected those of the model, ('a', 'b')" in capsys.readouterr().err
    (tmp_path / "m" / "automaton.json").unlink()
    assert automaton("verify", str(tmp_path / "m")) == 2
    assert "no automaton of" in capsys.readouterr().err
    names = tmp_path / "m" / "names.json"
    content = json.loads(names.read_text())
    names.write_text(json.dumps({**content, "vocabulary": ["a", "b", "c"]}))
    assert automaton("extract", str(tmp_path / "m")) == 2
    assert "names.json has 3 vocabulary; expected 2, the model's input_size" in capsys.readouterr().err
    names.write_text("[]")
    assert automaton("extract", str(tmp_path / "m")) == 2
    assert "is not a file of names" in capsys.readouterr().err
    names.unlink()
    assert automaton("extract", str(tmp_path / "m")) == 0
    assert ">0     0      0  1" in capsys.readouterr().out


def test_a_run_of_another_vocabulary_is_usage(capsys, tmp_path) -> None:
    run = make_run(tmp_path / "run", "parity", compile_dfa(DFA.from_regex("(a|b)*abb")))
    assert automaton("extract", str(run)) == 2
    assert "the model's input_size is 2; expected 3, as task 'parity' has it" in capsys.readouterr().err


def test_a_run_without_a_model_is_usage(capsys, tmp_path) -> None:
    RunFolder(tmp_path / "run").begin(TrainConfig("parity"))
    assert automaton("extract", str(tmp_path / "run")) == 2
    assert "has no model yet" in capsys.readouterr().err


def test_help(capsys) -> None:
    assert automaton("--help") == 0
    assert "pdssm automaton verify" in capsys.readouterr().out
    assert automaton() == 2
    for action in ("show", "compile", "extract", "verify", "snap"):
        assert automaton(action, "--help") == 0
