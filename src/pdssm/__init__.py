"""PD-SSM: state-space models that track state."""

from pdssm.errors import PDSSMError
from pdssm.layers import PDSSM, ComplexDiagonal
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
    "BlockDiagonal",
    "ComplexDiagonal",
    "Dense",
    "Diagonal",
    "DiagonalDense",
    "DiagonalPlusLowRank",
    "Householder",
    "PDSSMError",
    "RowPD",
    "SelectedPD",
    "SelectedRowPD",
    "Transition",
    "WalshHadamard",
    "scan",
    "scan_readout",
]
