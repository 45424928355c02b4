"""Layers: (batch, time, dim) to the same."""

from pdssm.layers.diagonal import ComplexDiagonal
from pdssm.layers.pdssm import PDSSM

__all__ = ["PDSSM", "ComplexDiagonal"]
