"""What the automata raise."""

from __future__ import annotations

from pdssm.errors import PDSSMError


class AutomatonError(PDSSMError):
    """An automaton, a word or a description of either that does not fit; state, symbol and file are named."""
