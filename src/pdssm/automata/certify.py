"""A proof that a model computes an automaton, for words of every length; or where no proof was found.

Each state of the automaton, told apart by the last k symbols where that is needed, gets a set of the model's states.
Sets that every symbol maps into the next state's set, and on which the readout is right, are the proof: a
``Certificate``, which ``check`` accepts without knowing how it was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pdssm.automata.affine import fingerprint, read_model
from pdssm.automata.certificate import Certificate, Unknown
from pdssm.automata.checking import CertificateError, check
from pdssm.automata.compile import label_numbers, output_classes, token_letters
from pdssm.automata.covers import Cover, by_history, by_point
from pdssm.automata.dfa import DFA
from pdssm.automata.errors import AutomatonError
from pdssm.automata.refutation import WORDS, forgetful, wrong_word
from pdssm.automata.search import Problem, Search
from pdssm.automata.validation import Label
from pdssm.errors import check_size
from pdssm.models import SequenceModel

__all__ = ["Certificate", "CertificateError", "Unknown", "certify", "check"]

HISTORY = 8
ENCLOSURES = 4096


def certify(
    model: SequenceModel,
    dfa: DFA,
    *,
    vocabulary: Sequence[str] | None = None,
    classes: Sequence[Label] | None = None,
    history: int = HISTORY,
    enclosures: int = ENCLOSURES,
    words: int = WORDS,
) -> Certificate | Unknown:
    """Prove that the model's greatest output after every word is the automaton's label, or say where that failed.

    Parameters
    ----------
    vocabulary
        The model's tokens by their numbers, the automaton's alphabet unless given. Words with other tokens are not
        spoken of.
    classes
        The labels by the model's class numbers, ``output_classes(dfa)`` unless given.
    history
        Up to how many of the last symbols tell sets apart.
    enclosures
        How many sets there may be.
    words
        How many words are tried first: what is wrong on one of them needs no search.
    """
    check_size("history", history, 0)
    check_size("enclosures", enclosures)
    check_size("words", words, 0)
    problem = pose(model, dfa, vocabulary, classes)
    refuted = _without_search(model, dfa, problem, words)
    if refuted is not None:
        return refuted
    unknown: Unknown | None = None
    for cover in covers(problem, history, enclosures):
        search = Search(problem, cover)
        found = search.run()
        if isinstance(found, Unknown):
            unknown = found
            if search.hopeless:
                break
            continue
        certificate = Certificate(
            fingerprint(model), problem.tokens, problem.classes, cover.state, cover.following,
            found.centre, found.radius, found.sizes,
        )  # fmt: skip
        try:
            check(certificate, model, dfa, vocabulary=vocabulary, classes=classes)
        except CertificateError as error:
            unknown = Unknown("refused", dfa.name(dfa.initial), dfa.alphabet[0], str(error))
        else:
            return certificate
    if unknown is None:
        raise AutomatonError(f"enclosures is {enclosures}; expected at least {len(dfa.reachable())}, one a state")
    return unknown


def _without_search(model: SequenceModel, dfa: DFA, problem: Problem, words: int) -> Unknown | None:
    """Where no certificate can exist."""
    word = wrong_word(model, dfa, problem.tokens, problem.classes, words) if words else None
    if word is not None:
        state, symbol = dfa.run(word[:-1]), dfa.alphabet[word[-1]]
        detail = f"the model is wrong after a word of {len(word)} symbols"
        return Unknown("wrong", dfa.name(state), symbol, detail, dfa.decode(word))
    pair = forgetful(problem.model.maps, dfa, problem.tokens)
    if pair is None:
        return None
    (state, symbol_number), rate = pair
    detail = f"every map contracts by {rate:.7g}, so states kept apart for ever come together"
    return Unknown("forgets", dfa.name(state), dfa.alphabet[symbol_number], detail)


def covers(problem: Problem, history: int, most: int) -> Iterator[Cover]:
    """The model's own states where they are finitely many and exact; otherwise ever more of the last symbols."""
    affine = problem.model
    exact = by_point(problem.dfa, affine.maps, affine.initial, problem.tokens, most)
    if exact is not None:
        yield exact
        return
    for length in range(history + 1):
        cover = by_history(problem.dfa, length, most)
        if cover is None:
            return
        yield cover


def pose(model: SequenceModel, dfa: DFA, vocabulary: Sequence[str] | None, classes: Sequence[Label] | None) -> Problem:
    """What is to be proved; sizes that do not match are refused."""
    names = dfa.alphabet if vocabulary is None else tuple(vocabulary)
    labels = output_classes(dfa) if classes is None else tuple(classes)
    if len(names) != model.config.input_size:
        raise AutomatonError(
            f"vocabulary has {len(names)} tokens and the model {model.config.input_size}; expected equal"
        )
    if len(labels) != model.config.output_size:
        raise AutomatonError(
            f"classes has {len(labels)} labels and the model {model.config.output_size}; expected equal"
        )
    letters = token_letters(dfa, names)
    tokens = np.array([int(np.flatnonzero(letters == symbol)[0]) for symbol in range(len(dfa.alphabet))])
    return Problem(read_model(model), dfa, tokens, label_numbers(dfa, labels))
