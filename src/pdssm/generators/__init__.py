"""Generators: u -> transition and input, the learnt part of a linear recurrence."""

from pdssm.generators.base import Generator
from pdssm.generators.diagonal import DiagonalGenerator
from pdssm.generators.entries import DiagonalEntries
from pdssm.generators.pd import GivenPDGenerator, PDGenerator
from pdssm.generators.sd import SDGenerator

__all__ = ["DiagonalEntries", "DiagonalGenerator", "Generator", "GivenPDGenerator", "PDGenerator", "SDGenerator"]
