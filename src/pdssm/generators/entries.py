"""D(u): how the magnitudes and phases of the diagonal come from a network's outputs.

Magnitudes, from any real m (s = sigmoid(-m)):

    sigmoid     |D| = 1 - s           the paper's
    near_one    |D| = 1 - s^2         the distance from 1 squared: m = 5 forgets half in 15,000 steps instead of in
                                      100, and the gradient of log(1 - |D|) is twice the sigmoid's, so the memory
                                      is learnt on a scale twice as long without m leaving the range where
                                      the gradient lives.  Both lie in (0, 1) and saturate to exactly 1 in float32.

Phases, from any real p:

    sigmoid     2 pi sigmoid(p)       the paper's; never exactly 0
    shrink      pi tanh(shrunk p)     shrunk p = p moved towards 0 by 1, and 0 within: rests at exactly 0, so
                                      nothing turns over long sequences; the gradient passes as if nothing
                                      were shrunk, so a steady pull frees it
    zero        0                     always: A = P |D|
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdssm.errors import check_choice, check_size
from pdssm.generators.base import Init, check_init, mlp, state_precision
from pdssm.kernels.buffers import by_tiles

Magnitude = Literal["sigmoid", "near_one"]
Phase = Literal["sigmoid", "shrink", "zero"]

# sigmoid(5) = 0.993: the signal of 100 steps ago has half its size, and the sigmoid still has a gradient.
LONG_BIAS = 5.0


class DiagonalEntries(nn.Module):
    """D(u) from two networks with one hidden layer each; without phases, |D(u)| from one."""

    def __init__(
        self,
        dim: int,
        state_dim: int,
        hidden_dim: int | None = None,
        init: Init = "long",
        magnitude: Magnitude = "sigmoid",
        phase: Phase = "sigmoid",
    ) -> None:
        super().__init__()
        check_init(init)
        check_choice("magnitude", magnitude, ("sigmoid", "near_one"))
        check_choice("phase", phase, ("sigmoid", "shrink", "zero"))
        hidden_dim = state_dim if hidden_dim is None else hidden_dim
        check_size("hidden_dim", hidden_dim)
        self.magnitude_kind, self.phase_kind = magnitude, phase
        self.magnitude = mlp(dim, hidden_dim, state_dim)
        self.phase = None if phase == "zero" else mlp(dim, hidden_dim, state_dim)
        if init == "long":
            nn.init.constant_(self.magnitude[-1].bias, LONG_BIAS)  # type: ignore[arg-type]
            if self.phase is not None:
                start = -LONG_BIAS if phase == "sigmoid" else 0.0
                nn.init.constant_(self.phase[-1].bias, start)  # type: ignore[arg-type]

    def forward(self, u: Tensor) -> Tensor:
        m = state_precision(self.magnitude(u))
        if self.phase is None:
            size = _magnitude(m, self.magnitude_kind)
            return torch.complex(size, torch.zeros_like(size))
        p = state_precision(self.phase(u))
        if not torch.is_grad_enabled():
            return torch.polar(_magnitude(m, self.magnitude_kind), _phase(p, self.phase_kind))
        entries: Tensor = _Disc.apply(m, p, self.magnitude_kind, self.phase_kind)  # type: ignore[no-untyped-call]
        return entries


def _magnitude(m: Tensor, kind: str) -> Tensor:
    if kind == "sigmoid":
        return torch.sigmoid(m)
    s = torch.sigmoid(-m)
    # Below m = 0 as (1 - s)(1 + s), so that small magnitudes keep their digits; above, that could round to more than 1.
    return torch.where(m > 0, 1 - s * s, torch.sigmoid(m) * (1 + s))


def _magnitude_factor(m: Tensor, r: Tensor, kind: str) -> Tensor:
    """f with dr = r f dm."""
    if kind == "sigmoid":
        return 1 - r
    s = torch.sigmoid(-m)
    return 2 * s * s / (1 + s)


def _phase(p: Tensor, kind: str) -> Tensor:
    if kind == "sigmoid":
        return 2 * math.pi * torch.sigmoid(p)
    return math.pi * torch.tanh(nn.functional.softshrink(p, 1.0))


def _phase_slope(angle: Tensor, kind: str) -> Tensor:
    """The derivative, for ``shrink`` as if the shrinking had slope 1."""
    if kind == "sigmoid":
        return angle * (1 - angle / (2 * math.pi))
    return math.pi - angle * angle / math.pi


class _Disc(torch.autograd.Function):
    """z = r(m) exp(i phi(p)), with a backward pass that is a third of autograd's.

    dz = z (f(m) dm + i phi'(p) dp), so g_m = Re(g conj(z)) f(m),  g_p = Im(g conj(z)) phi'(p).
    """

    @staticmethod
    def forward(ctx: Any, m: Tensor, p: Tensor, magnitude: str, phase: str) -> Tensor:
        def made(m: Tensor, p: Tensor) -> tuple[Tensor, ...]:
            r, angle = _magnitude(m, magnitude), _phase(p, phase)
            return torch.polar(r, angle), _magnitude_factor(m, r, magnitude), _phase_slope(angle, phase)

        z, factor, slope = by_tiles(made, m, p)
        ctx.save_for_backward(factor, slope, z)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        g_m, g_p = by_tiles(_pulled_back, grads[0], *ctx.saved_tensors)
        return g_m, g_p, None, None


def _pulled_back(g: Tensor, factor: Tensor, slope: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    turned = torch.view_as_real((g * z.conj()).resolve_conj())
    return turned[..., 0] * factor, turned[..., 1] * slope
