"""The exact automaton in place of what was learnt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from pdssm.automata.compile import compile_dfa
from pdssm.automata.extract import Extraction, extract_dfa
from pdssm.automata.validation import Label
from pdssm.models import SequenceModel


class Snapped(NamedTuple):
    """A model that reads and answers as the old one, and the extraction it is compiled from."""

    model: SequenceModel
    extraction: Extraction


def snap(
    model: SequenceModel,
    alphabet: Sequence[str] | None = None,
    *,
    vocabulary: Sequence[str] | None = None,
    labels: Sequence[Label] | None = None,
    **options: Any,
) -> Snapped:
    """Extract, compile: a model with the same tokens, classes and head, exact for words of every length.

    Arguments as for ``extract_dfa``.  Tokens that are not in the alphabet leave the snapped model's state as it is.
    """
    extraction = extract_dfa(model, alphabet, vocabulary=vocabulary, labels=labels, **options)
    tokens = vocabulary if vocabulary is not None else alphabet
    config = model.config
    snapped = compile_dfa(
        extraction.dfa,
        vocabulary=[str(token) for token in range(config.input_size)] if tokens is None else tokens,
        classes=range(config.output_size) if labels is None else labels,
    )
    snapped.config = dataclasses.replace(snapped.config, head=config.head)
    return Snapped(snapped.to(next(model.parameters()).device), extraction)
