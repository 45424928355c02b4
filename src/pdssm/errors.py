"""What the library raises when it is given something it cannot use.

Every one is a ``PDSSMError``, and that a ``ValueError``; each message names the argument, what came and what
was expected.
"""

from __future__ import annotations


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


class BackendError(PDSSMError):
    """An unknown backend, or one that cannot run this transition."""


class ClosureError(PDSSMError):
    """Two transitions whose product is not in the family."""


class GradientError(PDSSMError):
    """A derivative that does not exist here, such as a second one through the surrogate gradient."""
