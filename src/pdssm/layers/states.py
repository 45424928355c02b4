"""Is this a state that such a mixer can go on from?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from pdssm.errors import ShapeError


def check_tensor(name: str, tensor: Any, shape: tuple[int, ...]) -> None:
    """A tensor of this shape."""
    if not isinstance(tensor, Tensor):
        raise ShapeError(f"{name} is a {type(tensor).__name__}; expected a tensor {shape}")
    if tensor.shape != shape:
        raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected {shape}")


def check_fields(name: str, state: Any, kind: Any) -> None:
    """As many entries as the named tuple ``kind`` has."""
    fields = kind._fields
    if not isinstance(state, tuple) or len(state) != len(fields):
        raise ShapeError(f"{name} is a {type(state).__name__}; expected {kind.__name__}({', '.join(fields)})")


def check_state(name: str, state: Any, kind: Any, shapes: Sequence[tuple[int, ...]]) -> None:
    """A named tuple ``kind`` of tensors of these shapes."""
    check_fields(name, state, kind)
    for field, tensor, shape in zip(kind._fields, state, shapes, strict=True):
        check_tensor(f"{name}.{field}", tensor, shape)
