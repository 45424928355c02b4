"""What makes a model that learns an automaton one that can be certified."""

from __future__ import annotations

import torch

from pdssm.automata.affine import parts_of
from pdssm.generators import GivenPDGenerator, PDGenerator
from pdssm.models import SequenceModel

SATURATED = 64.0
VANISHED = -128.0


@torch.no_grad()
def hold_exact(model: SequenceModel) -> SequenceModel:
    """Hold b = 0, |D| = 1 and phases of 0, before or after training: these weights no longer learn.

    From the first unit vector the states are then unit vectors, nothing is ever rounded, and what is left to learn
    (embedding, scores, dictionary, readout) is an automaton of at most N states. Whatever it is, ``certify`` decides.
    """
    generator = parts_of(model)[0].generator
    assert isinstance(generator, PDGenerator | GivenPDGenerator)
    entries = generator.entries
    rest = {"sigmoid": VANISHED, "shrink": 0.0, "zero": 0.0}[entries.phase_kind]
    for network, bias in ((entries.magnitude, SATURATED), (entries.phase, rest)):
        if network is not None:
            last = network[-1]
            assert isinstance(last, torch.nn.Linear)
            last.weight.zero_()
            last.bias.fill_(bias)
            network.requires_grad_(False)
    generator.inputs.linear.weight.zero_()
    generator.inputs.requires_grad_(False)
    return model
