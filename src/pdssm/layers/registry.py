"""Every mixer by its name: one line here, and ``SequenceModel(mixer=...)``, the command line and the tests know it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pdssm.errors import PDSSMError, check_choice
from pdssm.layers.base import Mixer
from pdssm.layers.delta_rule import DeltaNet, DeltaNetNegative, GatedDeltaNet, GatedDeltaProduct
from pdssm.layers.diagonal import ComplexDiagonal, RealDiagonal
from pdssm.layers.linoss import LinOSSIM, LinOSSIMEX
from pdssm.layers.lru import LRU
from pdssm.layers.lstm import LSTM
from pdssm.layers.mamba import Mamba
from pdssm.layers.mamba3 import Mamba3
from pdssm.layers.pdssm import PDSSM
from pdssm.layers.recurrence import LinearRecurrence
from pdssm.layers.rwkv7 import RWKV7
from pdssm.layers.s4d import S4D
from pdssm.layers.s5 import S5
from pdssm.layers.s7 import S7
from pdssm.layers.sdssm import SDSSM
from pdssm.layers.slices import BDSlice, DDESlice, DPLRSlice, DSlice, WHSlice
from pdssm.layers.slstm import SLSTM
from pdssm.layers.transformer import Transformer
from pdssm.layers.xlstm import XLSTM

MIXERS: dict[str, type[Mixer]] = {
    "pdssm": PDSSM,
    "complex_diagonal": ComplexDiagonal,
    "real_diagonal": RealDiagonal,
    "sdssm": SDSSM,
    "lru": LRU,
    "s5": S5,
    "s4d": S4D,
    "s7": S7,
    "linoss_im": LinOSSIM,
    "linoss_imex": LinOSSIMEX,
    "d_slice": DSlice,
    "bd_slice": BDSlice,
    "dplr_slice": DPLRSlice,
    "wh_slice": WHSlice,
    "d_de_slice": DDESlice,
    "deltanet": DeltaNet,
    "deltanet_neg": DeltaNetNegative,
    "gated_deltanet": GatedDeltaNet,
    "gated_deltaproduct": GatedDeltaProduct,
    "rwkv7": RWKV7,
    "mamba": Mamba,
    "mamba3": Mamba3,
    "lstm": LSTM,
    "slstm": SLSTM,
    "xlstm": XLSTM,
    "transformer": Transformer,
}


def mixer_options(name: str) -> dict[str, Any]:
    """The options of a mixer and their defaults."""
    check_choice("mixer", name, MIXERS)
    mixer = MIXERS[name]
    parameters = list(inspect.signature(mixer.__init__).parameters.values())[2:]
    own = {parameter.name: parameter.default for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD}
    return {**own, **mixer.defaults} if issubclass(mixer, LinearRecurrence) else own


def make_mixer(name: str, dim: int, options: Mapping[str, Any]) -> Mixer:
    """The mixer of that name, with its options by keyword."""
    known = mixer_options(name)
    for option in options:
        check_choice(f"option of mixer {name!r}", option, known)
    try:
        return MIXERS[name](dim, **options)
    except TypeError as error:
        raise PDSSMError(f"the options of mixer {name!r} are {dict(options)}: {error}") from error
