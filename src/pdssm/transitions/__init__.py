"""The matrix families: algebra, no parameters, no learning."""

from pdssm.transitions.base import Transition
from pdssm.transitions.block_diagonal import BlockDiagonal
from pdssm.transitions.dense import Dense
from pdssm.transitions.diagonal import Diagonal
from pdssm.transitions.diagonal_dense import DiagonalDense
from pdssm.transitions.hadamard import WalshHadamard
from pdssm.transitions.householder import Householder
from pdssm.transitions.low_rank import DiagonalPlusLowRank
from pdssm.transitions.pd import PD, RowPD
from pdssm.transitions.selected import SelectedPD, SelectedRowPD

__all__ = [
    "PD",
    "BlockDiagonal",
    "Dense",
    "Diagonal",
    "DiagonalDense",
    "DiagonalPlusLowRank",
    "Householder",
    "RowPD",
    "SelectedPD",
    "SelectedRowPD",
    "Transition",
    "WalshHadamard",
]
