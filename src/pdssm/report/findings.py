"""What follows from a story's numbers and automata, in sentences that claim no more than was done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pdssm.automata import Agreement, Certificate, Extraction, Unknown, Verdict
from pdssm.automata.verify import spelt
from pdssm.report.axes import share
from pdssm.report.story import Finding, Kind, Story
from pdssm.training import Evaluation

HOLDS = 0.99
SPELT = 40
"""Up to so many symbols a word is written out."""


@dataclass(frozen=True)
class Found:
    """What the automata tools said of a run's model."""

    extraction: Extraction | None = None
    verdict: Verdict | None = None
    agreement: Agreement | None = None
    certificate: Certificate | Unknown | None = None
    """Of the model."""
    exact: Certificate | Unknown | None = None
    """Of the snapped model."""

    @property
    def error(self) -> tuple[str, ...] | None:
        """A word on which the model is wrong, the shortest known."""
        said = (
            self.certificate.word if isinstance(self.certificate, Unknown) else None,
            self.agreement and self.agreement.counterexample,
        )
        return min((word for word in said if word), key=len, default=None)


def findings(story: Story, found: Found) -> tuple[Finding, ...]:
    """From what is surest to be understood, the accuracy, to what is surest."""
    return (*_accuracy(story), *_extracted(found), *_model(found), *_snapped(story.snapped, found.exact))


def _accuracy(story: Story) -> Iterator[Finding]:
    found = story.by_length
    if story.limit in found:
        value = found[story.limit]
        yield Finding(
            "learnt" if value.accuracy >= HOLDS else "tested",
            f"{share(value.accuracy)} of the answers are right on {value.sequences:,} new words of {story.limit} "
            f"symbols, the longest in training (chance {share(story.chance)}).",
        )
    longer = {length: value for length, value in sorted(found.items()) if length > story.limit}
    if longer:
        fades = [length for length, value in longer.items() if value.accuracy < HOLDS]
        last = max(longer)
        told = (
            f"below {HOLDS:.0%} from length {fades[0]:,} on" if fades else f"{HOLDS:.0%} or more at every length tried"
        )
        yield Finding("tested", f"On longer words: {told}; {share(longer[last].accuracy)} at length {last:,}.")


def _extracted(found: Found) -> Iterator[Finding]:
    if found.extraction is None:
        return
    dfa = found.extraction.dfa
    kind: Kind = "tested" if found.extraction.evidence.kind == "random" else "proved"
    size = f"{len(dfa)} state{'s' if len(dfa) > 1 else ''}"
    yield Finding(kind, f"The model is read as an automaton of {size}. {_sentence(str(found.extraction.evidence))}")
    if found.verdict is None:
        return
    if found.verdict.equal:
        yield Finding("proved", "This automaton is the target: the two give the same answer after every word.")
    else:
        word = _word(found.verdict.counterexample or ())
        yield Finding("refuted", f"This automaton is not the target. The shortest word that tells them apart: {word}.")


def _model(found: Found) -> Iterator[Finding]:
    if found.agreement is not None:
        yield Finding("tested", f"The model against its automaton: {found.agreement}.")
    if isinstance(found.certificate, Certificate):
        yield Finding(
            "proved",
            "The model itself answers as its automaton does after every word, however long: a certificate of "
            f"{len(found.certificate):,} enclosures.",
        )
    elif found.certificate is not None:
        yield _uncertified(found.certificate, found.error)


def _uncertified(found: Unknown, error: tuple[str, ...] | None) -> Finding:
    if error is None:
        return Finding("unknown", f"Whether the model itself is right on words of every length: {found}.")
    return Finding("refuted", f"The model itself is not exact: it is wrong after {_word(error)}.")


def _snapped(found: Mapping[int, Evaluation], proof: Certificate | Unknown | None) -> Iterator[Finding]:
    name = "The exact model compiled from this automaton, put in the learnt one's place (snapped),"
    length = max(found, default=0)
    seen = f"{share(found[length].accuracy)} of its answers are right at length {length:,}" if found else ""
    if isinstance(proof, Certificate):
        told = f"{name} answers as the automaton does after every word, however long."
        yield Finding("proved", f"{told} Measured: {seen}." if seen else told)
    elif proof is not None:
        yield Finding("unknown", f"{name} has no certificate: {proof}.")
    elif seen:
        yield Finding("tested", f"{name} was measured: {seen}.")


def _word(word: tuple[str, ...]) -> str:
    return spelt(word) if len(word) <= SPELT else f"a word of {len(word):,} symbols"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
