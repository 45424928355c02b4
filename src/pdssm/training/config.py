"""What a training run is: one frozen, flat description that round-trips through JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import torch

from pdssm.automata import DFA
from pdssm.errors import DtypeError, FileError, PDSSMError, RangeError, check_choice, check_fraction, check_size
from pdssm.models import ModelConfig
from pdssm.models.config import Norm
from pdssm.tasks import Task, make_task

Optimiser = Literal["adamw", "adam"]
Schedule = Literal["cosine", "constant"]
Precision = Literal["float32", "bf16"]
Device = Literal["auto", "cpu"]
Lengths = tuple[int, int]

POSITIVE = (
    "steps",
    "batch",
    "dim",
    "layers",
    "eval_every",
    "eval_samples",
    "eval_chunk",
    "log_every",
    "checkpoint_every",
)
CHOICES = {
    "norm": ("none", "pre", "post"),
    "optimiser": ("adamw", "adam"),
    "schedule": ("cosine", "constant"),
    "precision": ("float32", "bf16"),
    "device": ("auto", "cpu"),
}
FRACTIONS = ("dropout", "ema")


@dataclass(frozen=True)
class TrainConfig:
    """A run: the task, the model, how it is trained, how it is measured."""

    task: str
    """What to learn, as ``make_task`` spells it: parity, A5:2, regex:(ab)*, dfa:FILE.json."""
    task_options: Mapping[str, Any] = field(default_factory=dict)
    """The task's own options."""

    mixer: str = "pdssm"
    """The sequence mixer."""
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    """The mixer's own options, dictionary_size=32 for instance."""
    dim: int = 128
    """Width of the model."""
    layers: int = 1
    """Number of blocks."""
    norm: Norm = "post"
    """LayerNorm before each mixer, after it, or none."""
    residual: bool = False
    """Whether a block adds its input to what its mixer makes of it."""
    ffn: int = 0
    """A feed-forward network after each mixer, with ffn * dim hidden units; 0 for none."""
    dropout: float = 0.0
    """On what a mixer puts out."""

    steps: int = 10_000
    """Training steps, at most."""
    batch: int = 256
    """Fresh sequences a step; with several processes, in each of them."""
    lengths: Lengths = (3, 40)
    """Lengths in training, uniform between the two, both included."""
    curriculum: float | None = None
    """Begin with the shortest words; the longest grows by a quarter whenever the loss of 25 steps is under this."""

    optimiser: Optimiser = "adamw"
    """AdamW (decoupled weight decay) or Adam."""
    lr: float = 1e-3
    """The peak of the learning rate."""
    weight_decay: float = 0.0
    """Not applied to embeddings."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Of both optimisers."""
    schedule: Schedule = "cosine"
    """What follows the warm-up: a cosine down to final_lr, or a constant lr."""
    warmup: float = 0.1
    """The fraction of the steps in which lr rises linearly to its peak."""
    final_lr: float = 1e-5
    """Where the cosine ends."""
    clip: float | None = None
    """Largest norm of the gradient; None for no clipping."""
    ema: float = 0.0
    """Evaluate an exponential moving average of the weights with this decay; 0 for the weights themselves."""

    eval_every: int = 1000
    """Steps between evaluations."""
    eval_samples: int = 2048
    """Sequences of an evaluation: always the same ones, never seen in training."""
    eval_lengths: Lengths = (40, 256)
    """Their lengths."""
    eval_chunk: int = 2**16
    """Steps evaluated at once; the states of a layer with N = 128 then take 64 MiB."""
    stop_above: float | None = 0.9995
    """Stop at an accuracy above this; None to go on to the end."""

    seed: int = 0
    """Of everything random: first weights, data, dropout."""
    threads: int | None = None
    """CPU threads; None takes torch's own choice. The run keeps them: another number gives other bits."""
    precision: Precision = "float32"
    """bf16 runs the networks in half precision; the recurrence stays in float32."""
    device: Device = "auto"
    """auto takes a GPU where there is one."""
    log_every: int = 100
    """Steps between two lines of training metrics."""
    checkpoint_every: int = 1000
    """Steps between checkpoints; a run cut short loses no more than these."""

    def __post_init__(self) -> None:
        for name in POSITIVE:
            check_size(name, getattr(self, name))
        for name, known in CHOICES.items():
            check_choice(name, getattr(self, name), known)
        for name in FRACTIONS:
            check_fraction(name, getattr(self, name))
        check_fraction("warmup", self.warmup, whole=True)  # the first part of a longer run is nothing but warm-up
        for name in ("lr", "final_lr", "clip", "curriculum"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise RangeError(f"{name} is {value}; expected a positive number")
        if not 0 <= self.weight_decay < math.inf:
            raise RangeError(f"weight_decay is {self.weight_decay}; expected a number of at least 0")
        check_size("seed", self.seed, 0)
        if self.threads is not None:
            check_size("threads", self.threads)
        if self.stop_above is not None:
            check_fraction("stop_above", self.stop_above)
        for name in ("lengths", "eval_lengths", "betas"):  # JSON has lists
            object.__setattr__(self, name, _pair(name, getattr(self, name)))
        for name in ("lengths", "eval_lengths"):
            _check_lengths(name, getattr(self, name))
        for beta in self.betas:
            check_fraction("betas", beta)
        for name in ("task_options", "mixer_options"):
            object.__setattr__(self, name, _options(name, getattr(self, name)))

    def self_contained(self) -> Self:
        """The same run, with everything written down that may be different when it goes on.

        That is an automaton in a file, which may change or go, and the number of threads.
        """
        changes: dict[str, Any] = {"threads": self.threads or torch.get_num_threads()}
        kind, _, file = self.task.partition(":")
        if kind == "dfa" and file:
            changes |= {"task": "dfa", "task_options": {**self.task_options, "dfa": DFA.from_json(file)}}
        return dataclasses.replace(self, **changes)

    def make_task(self) -> Task:
        """The task."""
        return make_task(self.task, **self.task_options)

    def model_config(self, task: Task) -> ModelConfig:
        """The model, with the task's vocabulary and classes."""
        shared = ("mixer", "mixer_options", "dim", "layers", "norm", "residual", "ffn", "dropout")
        return ModelConfig(task.input_size, task.output_size, **{name: getattr(self, name) for name in shared})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From what ``to_dict`` gave; an unknown entry is refused by name."""
        known = [entry.name for entry in dataclasses.fields(cls)]
        for name in values:
            check_choice("entry of the config", name, known)
        if "task" not in values:
            raise PDSSMError("the config has no 'task'; expected one")
        try:
            return cls(**values)
        except TypeError as error:
            raise PDSSMError(f"the config holds a value of the wrong type: {error}") from error

    def to_json(self) -> str:
        """As text."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From text."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise FileError(f"the config is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise FileError(f"the config is a JSON {type(values).__name__}; expected an object")
        return cls.from_dict(values)


def read_config(path: Path) -> TrainConfig:
    """From a JSON file."""
    try:
        return TrainConfig.from_json(path.read_text())
    except OSError as error:
        raise FileError(f"config {path} cannot be read: {error.strerror}") from None
    except (PDSSMError, UnicodeDecodeError) as error:
        raise FileError(f"config {path}: {error}") from error


def _options(name: str, values: Any) -> dict[str, Any]:
    """As JSON can hold them, an automaton as its text."""
    if not isinstance(values, Mapping):
        raise DtypeError(f"{name} is a {type(values).__name__}; expected a mapping, option to value")
    options = {option: value.to_json() if isinstance(value, DFA) else value for option, value in values.items()}
    for option, value in options.items():
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise DtypeError(
                f"{option!r} in {name} is a {type(value).__name__}; expected a number, a string, True, False or None, "
                "which a config file can hold"
            )
    return options


def _check_lengths(name: str, value: tuple[Any, Any]) -> None:
    for length in value:
        check_size(name, length)
    if value[0] > value[1]:
        raise RangeError(f"{name} is {value}; expected (low, high) with low <= high, both included")


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    try:
        first, second = value
    except (TypeError, ValueError):
        raise RangeError(f"{name} is {value!r}; expected two numbers") from None
    return first, second
