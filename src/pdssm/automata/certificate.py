"""What ``certify`` answers: a certificate, sets of states that a model never leaves; or why there is none."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Self, final

import numpy as np

from pdssm.automata.permutation_group import IntArray
from pdssm.automata.rounding import Floats
from pdssm.automata.token_maps import Complex
from pdssm.errors import FileError
from pdssm.models.files import write_atomically

FORMAT, VERSION = "pdssm.Certificate", 1

Reason = Literal["wrong", "forgets", "readout", "grows", "refused"]


@final
@dataclass(frozen=True)
class Certificate:
    """For every enclosure: which state of the automaton it belongs to, where each symbol leads, and its discs.

    What it claims, and ``check`` verifies: x_0 lies in enclosure 0; symbol s takes enclosure p into ``following[p,
    s]``; there the model's greatest logit is the class of the automaton's state. So the model's answer is right after
    every word of at least one symbol, however long.
    """

    model: str
    """The fingerprint of the model's configuration and weights."""
    tokens: IntArray
    """(symbols,): the model's token of each of the automaton's symbols."""
    classes: IntArray
    """(states,): the model's class of each of the automaton's states."""
    state: IntArray
    """(enclosures,)."""
    following: IntArray
    """(enclosures, symbols)."""
    centre: Complex
    """(enclosures, N)."""
    radius: Floats
    """(enclosures, N)."""
    sizes: Floats
    """(enclosures, N): bounds of the sums of the sizes of all that a component is added up from."""

    def __len__(self) -> int:
        return len(self.state)

    def __bool__(self) -> bool:
        return True

    @property
    def exact(self) -> bool:
        """Whether every enclosure is a single point, so that nothing is ever rounded, in any order of evaluation."""
        return not self.radius.any()

    def save(self, path: str | Path) -> None:
        """As a NumPy archive without pickled objects."""
        content = io.BytesIO()
        arrays = {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}
        np.savez_compressed(content, format=FORMAT, version=VERSION, allow_pickle=False, **arrays)
        write_atomically(Path(path), content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """What ``save`` wrote. Nothing in it is believed: that is what ``check`` is for."""
        try:
            with np.load(Path(path), allow_pickle=False) as archive:
                if str(archive["format"]) != FORMAT or int(archive["version"]) != VERSION:
                    raise FileError(f"{path} has format {archive['format']} {archive['version']}; expected {FORMAT} 1")
                arrays = {field.name: archive[field.name] for field in fields(cls)}
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path} is not a certificate: {error}") from None
        return cls(**{**arrays, "model": str(arrays["model"])})


@final
@dataclass(frozen=True)
class Unknown:
    """No proof was found, and why; falsy, where a certificate is truthy."""

    reason: Reason
    """``wrong``: the model errs on ``word``. ``forgets``: all its maps contract, and the automaton asks for memory
    without end. ``readout``: two classes are too near each other. ``grows``: the sets do not close.
    ``refused``: the checker did not accept what was found."""
    state: str
    symbol: str
    detail: str
    word: tuple[str, ...] | None = None
    """A word on which the model is wrong, where one was met."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"unknown ({self.reason}): state {self.state!r}, symbol {self.symbol!r}: {self.detail}"
