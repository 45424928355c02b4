"""Finite automata: built, checked, compared, and what each matrix structure can make of them.

Not imported by ``import pdssm``. What needs automata-lib imports it when called: ``pip install "pdssm[automata]"``.
"""

from pdssm.automata.compile import compile_dfa, output_classes
from pdssm.automata.dfa import DFA
from pdssm.automata.emulation import Row, emulation
from pdssm.automata.equivalence import counterexample, isomorphic
from pdssm.automata.errors import AutomatonError
from pdssm.automata.groups import PermutationGroup, group
from pdssm.automata.monoid import TransformationMonoid
from pdssm.automata.phase import exact_length
from pdssm.automata.propositions import ScalarSSM, scalar_ssm, simplex_layer, witness_automaton
from pdssm.automata.subgroups import Subgroup, factor_group, factor_orders

__all__ = [
    "DFA",
    "AutomatonError",
    "PermutationGroup",
    "Row",
    "ScalarSSM",
    "Subgroup",
    "TransformationMonoid",
    "compile_dfa",
    "counterexample",
    "emulation",
    "exact_length",
    "factor_group",
    "factor_orders",
    "group",
    "isomorphic",
    "output_classes",
    "scalar_ssm",
    "simplex_layer",
    "witness_automaton",
]
