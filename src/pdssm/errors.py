"""What the library raises when it is given something it cannot use.

Every one is a ``PDSSMError``, and that a ``ValueError``; each message names the argument, what came and what
was expected.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""An ``OSError``'s numbers: no room on the disk, none left to this user, none left to this file."""


class PDSSMError(ValueError):
    """The base of all of them."""


class ShapeError(PDSSMError):
    """A tensor's axes do not fit."""


class DtypeError(PDSSMError):
    """A tensor's element type does not fit."""


class DeviceError(PDSSMError):
    """Tensors lie on different devices, or on one that a kernel cannot read."""


class RangeError(PDSSMError):
    """A value is outside its range: an index, an offset, a NaN, a size of zero."""


class NotFiniteError(RangeError):
    """NaN or infinity among numbers that must be finite."""


class BackendError(PDSSMError):
    """An unknown backend, or one that cannot run this transition."""


class ClosureError(PDSSMError):
    """Two transitions whose product is not in the family."""


class GradientError(PDSSMError):
    """A derivative that does not exist here, such as a second one through the surrogate gradient."""


class FileError(PDSSMError):
    """A file that is missing, cut short, altered, or of another format or version."""


class ChoiceError(PDSSMError):
    """A name that is not one of those known."""


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """``value`` is one of the known names; where it is not, the nearest one is suggested."""
    known = sorted(known)
    if value not in known:
        near = difflib.get_close_matches(str(value), known, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ChoiceError(f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}{hint}")


def check_size(name: str, value: int, least: int = 1) -> None:
    """A whole number that is not too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RangeError(f"{name} is {value!r}; expected a whole number of at least {least}")


def check_fraction(name: str, value: float, whole: bool = False) -> None:
    """A number in [0, 1), or 1 as well where ``whole``."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not (0 <= value < 1 or (whole and value == 1)):
        raise RangeError(f"{name} is {value!r}; expected a number in [0, 1{']' if whole else ')'}")
