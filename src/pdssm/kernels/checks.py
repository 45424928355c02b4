"""Checks of values, which need to read the data: made inside the ops, where ``torch.compile`` does not look."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pdssm.errors import NotFiniteError, RangeError


def check_below(name: str, values: Tensor, bound: int, of_what: str) -> None:
    """Every value in 0..bound."""
    if values.numel() == 0:
        return
    low, high = (int(v) for v in torch.aminmax(values))
    if low < 0 or high >= bound:
        wrong = low if low < 0 else high
        raise RangeError(f"{name} holds {wrong}; expected values in 0..{bound - 1} ({bound} {of_what})")


def check_offsets(cu_seqlens: Tensor, steps: int) -> None:
    """Starts at 0, never falls, ends at the number of steps."""
    first, last = int(cu_seqlens[0]), int(cu_seqlens[-1])
    if first != 0 or last != steps:
        raise RangeError(
            f"cu_seqlens runs from {first} to {last}; expected it to run from 0 to {steps}, the number of steps"
        )
    lengths = cu_seqlens.diff()
    if lengths.numel() and int(lengths.min()) < 0:
        at = int(lengths.argmin())
        raise RangeError(
            f"cu_seqlens falls from {int(cu_seqlens[at])} to {int(cu_seqlens[at + 1])} at entry {at + 1}; "
            "expected it never to fall (an empty sequence repeats an offset)"
        )


def check_finite(name: str, values: Tensor) -> None:
    """No NaN, no infinity."""
    if values.numel() == 0:
        return
    low, high = (float(v) for v in torch.aminmax(values))
    if not (math.isfinite(low) and math.isfinite(high)):
        bad = int((~torch.isfinite(values)).sum())
        raise NotFiniteError(
            f"{name} {tuple(values.shape)} holds {bad} NaN or infinite values; expected finite numbers"
        )
