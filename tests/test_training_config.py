"""A run's description: it round-trips through JSON, and says what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdssm.automata import DFA
from pdssm.errors import FileError, PDSSMError
from pdssm.training import PRESETS, TrainConfig, read_config

fractions = st.floats(0, 1, exclude_max=True)
positive = st.floats(0, exclude_min=True, allow_infinity=False)
sizes = st.integers(1, 10**6)
lengths = st.tuples(sizes, sizes).map(lambda pair: (min(pair), max(pair)))
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "task_options": st.dictionaries(st.text(), values, max_size=3),
    "mixer_options": st.dictionaries(st.text(), values, max_size=3),
    "norm": st.sampled_from(["none", "pre", "post"]),
    "optimiser": st.sampled_from(["adamw", "adam"]),
    "schedule": st.sampled_from(["cosine", "constant"]),
    "precision": st.sampled_from(["float32", "bf16"]),
    "residual": st.booleans(),
    **dict.fromkeys(("steps", "batch", "dim", "layers"), sizes),
    **dict.fromkeys(("eval_every", "eval_samples", "eval_chunk", "log_every", "checkpoint_every"), sizes),
    **dict.fromkeys(("dropout", "ema"), fractions),
    "warmup": st.floats(0, 1),
    **dict.fromkeys(("lr", "final_lr"), positive),
    **dict.fromkeys(("clip", "curriculum"), st.none() | positive),
    **dict.fromkeys(("lengths", "eval_lengths"), lengths),
    "betas": st.tuples(fractions, fractions),
    "stop_above": st.none() | fractions,
    "seed": st.integers(0, 2**63),
    "threads": st.none() | sizes,
}
configs = st.fixed_dictionaries({"task": st.text()}, optional=FIELDS).map(lambda given: TrainConfig(**given))


@given(config=configs)
def test_round_trip(config: TrainConfig) -> None:
    again = TrainConfig.from_json(config.to_json())
    assert again == config
    assert again.to_json() == config.to_json()


@given(config=configs)
def test_a_written_config_is_strict_json(config: TrainConfig) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    content = json.loads(config.to_json(), parse_constant=refuse)
    assert content.keys() == {entry.name for entry in dataclasses.fields(TrainConfig)}


def test_every_field_is_drawn_or_plain() -> None:
    rest = {"task", "mixer", "ffn", "weight_decay", "device"}
    assert {entry.name for entry in dataclasses.fields(TrainConfig)} == FIELDS.keys() | rest


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"step": 5}, r"entry of the config is 'step'; .*did you mean 'steps'"),
    ({"steps": 0}, "steps is 0; expected a whole number of at least 1"),
    ({"steps": "many"}, "steps is 'many'"),
    ({"batch": 2.5}, "batch is 2.5"),
    ({"dim": True}, "dim is True"),
    ({"seed": -1}, "seed is -1"),
    ({"threads": 0}, "threads is 0"),
    ({"norm": "pots"}, "did you mean 'post'"),
    ({"optimiser": "sgd"}, "expected one of 'adam', 'adamw'"),
    ({"schedule": "linear"}, "schedule is 'linear'"),
    ({"precision": "fp16"}, "precision is 'fp16'"),
    ({"device": "tpu"}, "device is 'tpu'"),
    ({"dropout": 1.0}, r"dropout is 1.0; expected a number in \[0, 1\)"),
    ({"warmup": 1.5}, r"warmup is 1.5; expected a number in \[0, 1\]"),
    ({"ema": "0.9"}, "ema is '0.9'"),
    ({"lr": 0.0}, "lr is 0.0; expected a positive number"),
    ({"lr": math.nan}, "lr is nan"),
    ({"lr": math.inf}, "lr is inf"),
    ({"lr": "fast"}, "wrong type"),
    ({"weight_decay": -1.0}, "weight_decay is -1.0"),
    ({"clip": -1.0}, "clip is -1.0"),
    ({"curriculum": 0.0}, "curriculum is 0.0"),
    ({"stop_above": 99.95}, "stop_above is 99.95"),
    ({"lengths": 40}, "lengths is 40; expected two numbers"),
    ({"lengths": [3, 40, 5]}, "expected two numbers"),
    ({"lengths": [40, 3]}, r"lengths is \(40, 3\); expected \(low, high\) with low <= high"),
    ({"eval_lengths": [0, 3]}, "eval_lengths is 0"),
    ({"betas": [0.9, 1.0]}, "betas is 1.0"),
    ({"task_options": "target"}, "task_options is a str; expected a mapping"),
    ({"mixer_options": {"conv": [3]}}, "'conv' in mixer_options is a list"),
]


@pytest.mark.parametrize(("entries", "message"), WRONG, ids=[str(entries) for entries, _ in WRONG])
def test_what_is_wrong_is_named(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(PDSSMError, match=message):
        TrainConfig.from_dict({"task": "parity", **entries})


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_config(path)
    for content, message in (
        (b"{", "is not JSON"),
        (b"[]", "is a JSON list; expected an object"),
        (b"{}", "has no 'task'"),
        (b'{"task": "parity", "stpes": 5}', "did you mean 'steps'"),
        (b"\xff", "can't decode"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileError, match=message) as caught:
            read_config(path)
        assert str(path) in str(caught.value)
    path.write_text(TrainConfig("A5:2", seed=3).to_json())
    assert read_config(path) == TrainConfig("A5:2", seed=3)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_whole_protocols(name: str) -> None:
    config = PRESETS[name]("A5:2", seed=2, steps=7)
    assert (config.task, config.seed, config.steps) == ("A5:2", 2, 7)
    config.model_config(config.make_task())
    assert TrainConfig.from_json(config.to_json()) == config


def test_the_published_protocol() -> None:
    """notes/peers.md, line by line."""
    config = PRESETS["paper_formal"]("parity")
    expected = {
        "dim": 128, "layers": 1, "norm": "post", "residual": False, "dropout": 0.01,
        "steps": 100_001, "batch": 256, "lengths": (3, 40), "curriculum": None,
        "optimiser": "adamw", "lr": 2e-3, "weight_decay": 0.01, "schedule": "cosine", "warmup": 0.1, "final_lr": 1e-5,
        "clip": None, "eval_every": 5000, "eval_samples": 8192, "eval_lengths": (40, 256), "stop_above": 0.9995,
        "mixer_options": {"state_dim": 128, "dictionary_size": 8, "hidden_dim": 256, "init": "paper"},
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected


TURNSTILE = DFA.from_table(
    {"locked": {"coin": "open", "push": "locked"}, "open": {"coin": "open", "push": "locked"}}, "locked", {"open"}
)


def test_an_automaton_is_written_into_the_config(tmp_path: Path) -> None:
    """So that the run is the same whatever becomes of the file."""
    path = tmp_path / "turnstile.json"
    TURNSTILE.to_json(path)
    config = TrainConfig(f"dfa:{path}", {"target": "state"}).self_contained()
    path.unlink()
    again = TrainConfig.from_json(config.to_json())
    assert (again.task, again.task_options["target"]) == ("dfa", "state")
    task = again.make_task()
    assert (task.name, task.labels, task.tokens) == ("dfa", ("locked", "open"), ("coin", "push"))
    with pytest.raises(PDSSMError, match="No such file"):
        TrainConfig(f"dfa:{path}").self_contained()


def test_an_automaton_object_is_an_option() -> None:
    config = TrainConfig("dfa", {"dfa": TURNSTILE})
    assert TrainConfig.from_json(config.to_json()) == config
    assert config.make_task().input_size == 2
    assert config.self_contained().task_options == config.task_options


def test_threads_are_written_down() -> None:
    assert TrainConfig("parity").self_contained().threads == torch.get_num_threads()
    assert TrainConfig("parity", threads=3).self_contained().threads == 3
