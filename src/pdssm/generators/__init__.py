"""Generators: u -> transition and input, the learnt part of a linear recurrence."""

from pdssm.generators.base import Generator
from pdssm.generators.diagonal import DiagonalGenerator
from pdssm.generators.entries import DiagonalEntries
from pdssm.generators.linoss import LinOSSGenerator
from pdssm.generators.lru import LRUGenerator
from pdssm.generators.pd import GivenPDGenerator, PDGenerator
from pdssm.generators.s5 import S5Generator
from pdssm.generators.s7 import S7Generator
from pdssm.generators.sd import SDGenerator
from pdssm.generators.slices import (
    BDSliceGenerator,
    DDESliceGenerator,
    DPLRSliceGenerator,
    DSliceGenerator,
    SliceGenerator,
    WHSliceGenerator,
)

__all__ = [
    "BDSliceGenerator",
    "DDESliceGenerator",
    "DPLRSliceGenerator",
    "DSliceGenerator",
    "DiagonalEntries",
    "DiagonalGenerator",
    "Generator",
    "GivenPDGenerator",
    "LRUGenerator",
    "LinOSSGenerator",
    "PDGenerator",
    "S5Generator",
    "S7Generator",
    "SDGenerator",
    "SliceGenerator",
    "WHSliceGenerator",
]
