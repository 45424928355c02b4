"""Finite automata: built, checked, compared, and what each matrix structure can make of them.

Not imported by ``import pdssm``. What needs automata-lib imports it when called: ``pip install "pdssm[automata]"``.
"""

from pdssm.automata.certifiable import hold_exact
from pdssm.automata.certificate import Certificate, Unknown
from pdssm.automata.certify import certify
from pdssm.automata.checking import CertificateError, check
from pdssm.automata.compile import compile_dfa, output_classes
from pdssm.automata.dfa import DFA
from pdssm.automata.emulation import Row, emulation
from pdssm.automata.equivalence import counterexample, isomorphic
from pdssm.automata.errors import AutomatonError
from pdssm.automata.extract import Extraction, extract_dfa
from pdssm.automata.fast_forward import fast_forward
from pdssm.automata.groups import PermutationGroup, group
from pdssm.automata.monoid import TransformationMonoid
from pdssm.automata.phase import exact_length
from pdssm.automata.propositions import ScalarSSM, scalar_ssm, simplex_layer, witness_automaton
from pdssm.automata.snap import Snapped, snap
from pdssm.automata.subgroups import Subgroup, factor_group, factor_orders
from pdssm.automata.testing import Evidence
from pdssm.automata.verify import Agreement, Verdict, agreement, verify

__all__ = [
    "DFA",
    "Agreement",
    "AutomatonError",
    "Certificate",
    "CertificateError",
    "Evidence",
    "Extraction",
    "PermutationGroup",
    "Row",
    "ScalarSSM",
    "Snapped",
    "Subgroup",
    "TransformationMonoid",
    "Unknown",
    "Verdict",
    "agreement",
    "certify",
    "check",
    "compile_dfa",
    "counterexample",
    "emulation",
    "exact_length",
    "extract_dfa",
    "factor_group",
    "factor_orders",
    "fast_forward",
    "group",
    "hold_exact",
    "isomorphic",
    "output_classes",
    "scalar_ssm",
    "simplex_layer",
    "snap",
    "verify",
    "witness_automaton",
]
