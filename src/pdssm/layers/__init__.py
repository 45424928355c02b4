"""Layers: (batch, time, dim) to the same."""

from pdssm.layers.base import Layout, Mixer
from pdssm.layers.delta_rule import DeltaNet, DeltaNetNegative, GatedDeltaNet, GatedDeltaProduct
from pdssm.layers.diagonal import ComplexDiagonal, RealDiagonal
from pdssm.layers.linoss import LinOSSIM, LinOSSIMEX
from pdssm.layers.lru import LRU
from pdssm.layers.lstm import LSTM, LSTMState
from pdssm.layers.mamba import Mamba
from pdssm.layers.mamba3 import Mamba3, Mamba3State
from pdssm.layers.pdssm import PDSSM, GivenPDSSM, Inspection
from pdssm.layers.recurrence import ConvState, LinearRecurrence
from pdssm.layers.registry import MIXERS, make_mixer, mixer_options
from pdssm.layers.rwkv7 import RWKV7
from pdssm.layers.s4d import S4D
from pdssm.layers.s5 import S5
from pdssm.layers.s7 import S7
from pdssm.layers.sdssm import SDSSM
from pdssm.layers.slices import BDSlice, DDESlice, DPLRSlice, DSlice, WHSlice
from pdssm.layers.slstm import SLSTM
from pdssm.layers.transformer import Transformer, TransformerState
from pdssm.layers.xlstm import XLSTM, XLSTMState

__all__ = [
    "LRU",
    "LSTM",
    "MIXERS",
    "PDSSM",
    "RWKV7",
    "S4D",
    "S5",
    "S7",
    "SDSSM",
    "SLSTM",
    "XLSTM",
    "BDSlice",
    "ComplexDiagonal",
    "ConvState",
    "DDESlice",
    "DPLRSlice",
    "DSlice",
    "DeltaNet",
    "DeltaNetNegative",
    "GatedDeltaNet",
    "GatedDeltaProduct",
    "GivenPDSSM",
    "Inspection",
    "LSTMState",
    "Layout",
    "LinOSSIM",
    "LinOSSIMEX",
    "LinearRecurrence",
    "Mamba",
    "Mamba3",
    "Mamba3State",
    "Mixer",
    "RealDiagonal",
    "Transformer",
    "TransformerState",
    "WHSlice",
    "XLSTMState",
    "make_mixer",
    "mixer_options",
]
