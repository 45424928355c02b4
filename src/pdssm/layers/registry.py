"""Every mixer by its name: one line here, and ``SequenceModel(mixer=...)``, the command line and the tests know it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pdssm.errors import PDSSMError, check_choice
from pdssm.layers.base import Mixer
from pdssm.layers.delta_rule import DeltaNet, DeltaNetNegative, GatedDeltaNet, GatedDeltaProduct
from pdssm.layers.diagonal import ComplexDiagonal, RealDiagonal
from pdssm.layers.lstm import LSTM
from pdssm.layers.pdssm import PDSSM
from pdssm.layers.recurrence import DEFAULTS, LinearRecurrence
from pdssm.layers.sdssm import SDSSM
from pdssm.layers.slstm import SLSTM
from pdssm.layers.transformer import Transformer
from pdssm.layers.xlstm import XLSTM

MIXERS: dict[str, type[Mixer]] = {
    "pdssm": PDSSM,
    "complex_diagonal": ComplexDiagonal,
    "real_diagonal": RealDiagonal,
    "sdssm": SDSSM,
    "deltanet": DeltaNet,
    "deltanet_neg": DeltaNetNegative,
    "gated_deltanet": GatedDeltaNet,
    "gated_deltaproduct": GatedDeltaProduct,
    "lstm": LSTM,
    "slstm": SLSTM,
    "xlstm": XLSTM,
    "transformer": Transformer,
}


def mixer_options(name: str) -> dict[str, Any]:
    """The options of a mixer and their defaults."""
    check_choice("mixer", name, MIXERS)
    parameters = list(inspect.signature(MIXERS[name].__init__).parameters.values())[2:]
    own = {parameter.name: parameter.default for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD}
    return {**own, **DEFAULTS} if issubclass(MIXERS[name], LinearRecurrence) else own


def make_mixer(name: str, dim: int, options: Mapping[str, Any]) -> Mixer:
    """The mixer of that name, with its options by keyword."""
    known = mixer_options(name)
    for option in options:
        check_choice(f"option of mixer {name!r}", option, known)
    try:
        return MIXERS[name](dim, **options)
    except TypeError as error:
        raise PDSSMError(f"the options of mixer {name!r} are {dict(options)}: {error}") from error
