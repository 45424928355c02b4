"""What time-invariant systems share: one transition for all inputs, and the step from continuous to discrete time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pdssm.errors import RangeError
from pdssm.generators.base import check_positive


def everywhere(tensor: Tensor, u: Tensor) -> Tensor:
    """The same tensor for each input ``(..., dim)``: a view, no copies."""
    return tensor.expand(*u.shape[:-1], *tensor.shape)


def zero_order_hold(poles: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
    """x' = poles x + u, with u constant for a time dt: x <- exp(dt poles) x + gain u.  Gives dt poles, and the gain."""
    exponent = dt * poles
    return exponent, torch.expm1(exponent) / poles


def random_log_dt(size: int, dt_min: float, dt_max: float) -> Tensor:
    """Logarithms of time steps, uniform between those of the two."""
    check_positive("dt_min", dt_min)
    check_positive("dt_max", dt_max)
    if dt_min > dt_max:
        raise RangeError(f"dt_min is {dt_min!r}; expected at most dt_max, {dt_max!r}")
    low, high = math.log(dt_min), math.log(dt_max)
    return low + (high - low) * torch.rand(size)
