"""What a model is made of: one frozen, typed description that round-trips through JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pdssm.errors import DtypeError, FileError, PDSSMError, check_choice, check_fraction, check_size
from pdssm.layers import mixer_options

Inputs = Literal["tokens", "samples"]
Norm = Literal["none", "pre", "post"]
Head = Literal["every", "last", "mean"]


@dataclass(frozen=True)
class ModelConfig:
    """A ``SequenceModel``: encoder, ``layers`` blocks, head.

    The defaults are the paper's state-tracking architecture: one layer, its norm after it, no outer residual.
    """

    input_size: int
    """Size of the vocabulary, or number of channels."""
    output_size: int
    """Number of classes, or of regression targets."""
    inputs: Inputs = "tokens"
    """Token ids with an embedding, or samples with a linear encoder."""
    dim: int = 128
    """Width of the model."""
    layers: int = 1
    """Number of blocks."""
    mixer: str = "pdssm"
    """Name of the sequence mixer; ``pdssm.layers.MIXERS`` lists them."""
    mixer_options: Mapping[str, Any] = field(default_factory=dict)
    """The mixer's own options."""
    norm: Norm = "post"
    """LayerNorm before the mixer, after it, or none."""
    residual: bool = False
    """Whether a block adds its input to what its mixer makes of it."""
    ffn: int = 0
    """A feed-forward network after each mixer, with ``ffn * dim`` hidden units; 0 for none."""
    dropout: float = 0.0
    """On what a mixer or a feed-forward network puts out."""
    head: Head = "every"
    """Outputs at every position, at each sequence's last, or from the mean over each sequence."""

    def __post_init__(self) -> None:
        for name, least in (("input_size", 1), ("output_size", 1), ("dim", 1), ("layers", 1), ("ffn", 0)):
            check_size(name, getattr(self, name), least)
        check_choice("inputs", self.inputs, ("tokens", "samples"))
        check_choice("norm", self.norm, ("none", "pre", "post"))
        check_choice("head", self.head, ("every", "last", "mean"))
        check_fraction("dropout", self.dropout)
        if not isinstance(self.residual, bool):
            raise DtypeError(f"residual is {self.residual!r}; expected True or False")
        if not isinstance(self.mixer_options, Mapping):
            raise DtypeError(f"mixer_options is a {type(self.mixer_options).__name__}; expected a mapping")
        known = mixer_options(self.mixer)
        for option, value in self.mixer_options.items():
            check_choice(f"option of mixer {self.mixer!r}", option, known)
            if not (value is None or isinstance(value, bool | int | float | str)):
                raise DtypeError(
                    f"option {option!r} of mixer {self.mixer!r} is a {type(value).__name__}; expected a number, a "
                    "string, True, False or None, which a config file can hold"
                )
        object.__setattr__(self, "mixer_options", dict(self.mixer_options))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From what ``to_dict`` gave; an unknown or missing entry is refused by name."""
        known = {entry.name: entry for entry in dataclasses.fields(cls)}
        for name in values:
            check_choice("entry of the config", name, known)
        for name, entry in known.items():
            required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
            if required and name not in values:
                raise PDSSMError(f"the config has no {name!r}; expected one")
        return cls(**values)

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
