"""Checkpoints: ``step-000001000.safetensors`` with everything in it, and beside it a JSON file with its checksum.

Each file appears whole or not at all, the JSON file last: without it there is no checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from pdssm.errors import FileError
from pdssm.models.files import write_atomically

FORMAT, VERSION = "pdssm.checkpoint", 1
KEPT = 2


class CheckpointWarning(UserWarning):
    """A checkpoint that cannot be used was passed over."""


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
    """The newest checkpoint, and the one before it, stay; older ones go."""
    folder.mkdir(parents=True, exist_ok=True)
    described, weights = _paths(folder, counters["step"])
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(held, metadata={"counters": json.dumps(counters)})
    header = {"format": FORMAT, "version": VERSION, "step": counters["step"]}
    write_atomically(weights, content)
    write_atomically(
        described,
        json.dumps({**header, "sha256": hashlib.sha256(content).hexdigest(), "counters": counters}, indent=1).encode(),
    )
    kept = {path for step in checkpoint_steps(folder)[-KEPT:] for path in _paths(folder, step)}
    # The JSON files go first, like they come last; weights without one are what a kill between the two has left.
    for path in (*folder.glob("step-*.json"), *folder.glob("step-*.safetensors")):
        if path not in kept:
            path.unlink()


def load_newest(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and counters of the newest sound checkpoint; None where there is none.

    Damaged ones are renamed to ``*.damaged``, with a warning.
    """
    steps = checkpoint_steps(folder)
    while steps:
        step = steps.pop()
        try:
            return load_checkpoint(folder, step)
        except FileError as error:
            back = f"going back to the checkpoint of step {steps[-1]}" if steps else "there is none before it"
            warnings.warn(f"{error}; {back}", CheckpointWarning, stacklevel=2)
            for path in _paths(folder, step):
                if path.exists():
                    path.rename(path.with_name(path.name + ".damaged"))
    return None


def checkpoint_steps(folder: Path) -> list[int]:
    """In order."""
    numbers = (path.stem.removeprefix("step-") for path in folder.glob("step-*.json"))
    return sorted(int(number) for number in numbers if number.isdecimal())


def load_checkpoint(folder: Path, step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and counters, or a ``FileError`` that says what is wrong."""
    described, weights = _paths(folder, step)
    try:
        header = json.loads(described.read_bytes())
        content = weights.read_bytes()
    except OSError as error:
        raise FileError(f"{error.filename} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FileError(f"{described} is not JSON: {error}") from None
    if not isinstance(header, dict) or (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        raise FileError(f"{described} is no checkpoint; expected format {FORMAT!r}, version {VERSION}")
    if hashlib.sha256(content).hexdigest() != header.get("sha256"):
        raise FileError(f"{weights} ({len(content)} bytes) is cut short or altered: its sha256 differs")
    try:
        with safe_open(weights, "pt") as file:
            counters = json.loads(file.metadata()["counters"])
        return load(content), counters
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{weights} is no checkpoint: {error}") from None


def _paths(folder: Path, step: int) -> tuple[Path, Path]:
    name = f"step-{step:09d}"
    return folder / f"{name}.json", folder / f"{name}.safetensors"
