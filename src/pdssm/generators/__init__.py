"""Generators: u -> transition and input, the learnt part of a linear recurrence."""

from pdssm.generators.base import Generator
from pdssm.generators.diagonal import ComplexDiagonalGenerator
from pdssm.generators.pd import PDGenerator

__all__ = ["ComplexDiagonalGenerator", "Generator", "PDGenerator"]
