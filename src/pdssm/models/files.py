"""A model on disk: ``config.json`` beside ``model.safetensors``, with a checksum, and no pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from pdssm.errors import FileError, PDSSMError
from pdssm.models.config import ModelConfig

FORMAT, VERSION = "pdssm.SequenceModel", 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def write_atomically(path: Path, content: bytes) -> None:
    """The whole file or none of it: written beside its place, flushed to the disk, then renamed."""
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:  # of a full disk the system does not say which file it was
        error.filename = error.filename or str(beside)
        raise


def save_model(folder: str | Path, config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """Weights first: a config without its weights would look like a model."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    described = {
        "format": FORMAT, "version": VERSION, "config": config.to_dict(), "sha256": hashlib.sha256(weights).hexdigest()
    }  # fmt: skip
    described["config_sha256"] = _fingerprint(described)
    write_atomically(folder / WEIGHTS, weights)
    write_atomically(folder / CONFIG, json.dumps(described, indent=1).encode())


def _fingerprint(described: Mapping[str, Any]) -> str:
    """Of everything the config file says but this."""
    entries = {name: value for name, value in described.items() if name != "config_sha256"}
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


def load_model(folder: str | Path) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Config and weights, or a ``FileError`` that says which file is wrong and how."""
    folder = Path(folder)
    described = _read_config(folder / CONFIG)
    path = folder / WEIGHTS
    weights = _read(path)
    if hashlib.sha256(weights).hexdigest() != described["sha256"]:
        raise FileError(
            f"{path} ({len(weights)} bytes) is not the file that {CONFIG} describes (its sha256 differs): "
            "it was cut short or altered"
        )
    try:
        tensors = load(weights)
    except SafetensorError as error:
        raise FileError(f"{path} is not a safetensors file: {error}") from None
    try:
        return ModelConfig.from_dict(described["config"]), tensors
    except (PDSSMError, TypeError) as error:
        raise FileError(f"{folder / CONFIG}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None


def _read_config(path: Path) -> dict[str, Any]:
    try:
        described = json.loads(_read(path))
    except ValueError as error:
        raise FileError(f"{path} is not JSON: {error}") from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        found = described.get("format") if isinstance(described, dict) else type(described).__name__
        raise FileError(f"{path} has format {found!r}; expected {FORMAT!r}")
    if described.get("version") != VERSION:
        raise FileError(f"{path} has version {described.get('version')!r}; expected {VERSION}")
    for name, kind in (("sha256", str), ("config", dict), ("config_sha256", str)):
        if not isinstance(described.get(name), kind):
            raise FileError(f"{path} has no {name!r}; expected one")
    if described["config_sha256"] != _fingerprint(described):
        raise FileError(f"{path} does not match its own config_sha256: it was altered")
    return described
