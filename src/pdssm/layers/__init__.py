"""Layers: (batch, time, dim) to the same."""

from pdssm.layers.base import Layout, Mixer
from pdssm.layers.delta_rule import DeltaNet, DeltaNetNegative, GatedDeltaNet, GatedDeltaProduct
from pdssm.layers.diagonal import ComplexDiagonal, RealDiagonal
from pdssm.layers.lstm import LSTM, LSTMState
from pdssm.layers.pdssm import PDSSM, GivenPDSSM, Inspection
from pdssm.layers.recurrence import ConvState, LinearRecurrence
from pdssm.layers.registry import MIXERS, make_mixer, mixer_options
from pdssm.layers.sdssm import SDSSM
from pdssm.layers.slstm import SLSTM
from pdssm.layers.transformer import Transformer, TransformerState
from pdssm.layers.xlstm import XLSTM, XLSTMState

__all__ = [
    "LSTM",
    "MIXERS",
    "PDSSM",
    "SDSSM",
    "SLSTM",
    "XLSTM",
    "ComplexDiagonal",
    "ConvState",
    "DeltaNet",
    "DeltaNetNegative",
    "GatedDeltaNet",
    "GatedDeltaProduct",
    "GivenPDSSM",
    "Inspection",
    "LSTMState",
    "Layout",
    "LinearRecurrence",
    "Mixer",
    "RealDiagonal",
    "Transformer",
    "TransformerState",
    "XLSTMState",
    "make_mixer",
    "mixer_options",
]
