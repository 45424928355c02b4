"""PD-SSM: state-space models that track state."""

from pdssm.errors import PDSSMError
from pdssm.layers import PDSSM, SDSSM, ComplexDiagonal, RealDiagonal
from pdssm.models import ModelConfig, SequenceModel
from pdssm.scanning import scan, scan_readout
from pdssm.transitions import (
    PD,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DiagonalPlusLowRank,
    Householder,
    RowPD,
    SelectedPD,
    SelectedRowPD,
    Transition,
    WalshHadamard,
)

__all__ = [
    "PD",
    "PDSSM",
    "SDSSM",
    "BlockDiagonal",
    "ComplexDiagonal",
    "Dense",
    "Diagonal",
    "DiagonalDense",
    "DiagonalPlusLowRank",
    "Householder",
    "ModelConfig",
    "PDSSMError",
    "RealDiagonal",
    "RowPD",
    "SelectedPD",
    "SelectedRowPD",
    "SequenceModel",
    "Transition",
    "WalshHadamard",
    "scan",
    "scan_readout",
]
