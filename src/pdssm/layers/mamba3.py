"""Mamba-3: heads that decay and rotate by what they read, a complex transition, with a trapezoidal rule for the input.

In complex numbers, N / 2 of them for each of a head's P channels (number n has the parts n and n + N / 2 of a key),

    X_t = a_t X_{t-1} + (1 - l_t) dt_t a_t v_{t-1} k_{t-1}^T + l_t dt_t v_t k_t^T,    y_t = Re(X_t conj(q_t)) + D v_t,
    a_t = exp(dt_t (A_t + i theta_t)).

dt, A < 0, l in (0, 1), all for each head, and theta, for each number, depend on the input.  l = 1 is Euler's rule.

Turning keys and queries back by the angle so far leaves the decay alone to the recurrence (as RoPE does); and a step
that is written twice, once by the next step, can be written once with both weights and read with the first alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu, softplus

from pdssm.errors import RangeError, check_size
from pdssm.generators.base import full_precision, state_precision
from pdssm.kernels.linear import Linear
from pdssm.kernels.packing import Padded, Uniform
from pdssm.layers.base import Layout, Mixer, make_layout
from pdssm.layers.mamba import FASTEST, SLOWEST, log_uniform, softplus_inverse
from pdssm.layers.states import check_state, check_tensor
from pdssm.scanning import decay_readout

HEAD = 64
SLOWEST_DECAY = 1e-4


class Mamba3State(NamedTuple):
    """Of each sequence."""

    recurrent: Tensor
    """(sequences, heads, P, N): X, real parts first."""
    values: Tensor
    """(sequences, heads, P): the last step's v."""
    keys: Tensor
    """(sequences, heads, N): the last step's k."""


class Inputs(NamedTuple):
    """What the recurrence is made of, each ``(steps, heads, ...)``, in float32 or float64."""

    dt: Tensor
    decay: Tensor
    angle: Tensor
    """(steps, heads, N / 2): dt theta."""
    share: Tensor
    """l."""
    values: Tensor
    keys: Tensor
    queries: Tensor


class Mamba3(Mixer):
    """Mamba-3's recurrence: decays times rotations, and the trapezoidal rule.

    y = W_out (y_t silu(z_t)), where z and all that the recurrence needs are linear in the input.
    Keys and queries have one norm for all heads and a bias for each; theta = pi tanh(.), shared by the heads.  A head
    has ``head_dim`` of ``expand`` * dim channels (64, or as many as divide them) of ``state_dim`` real numbers.
    The state is ``Mamba3State``; without the ``trapezoid``, its recurrent part alone.
    """

    def __init__(
        self, dim: int, state_dim: int = 128, *, expand: int = 2, head_dim: int | None = None, trapezoid: bool = True
    ) -> None:
        super().__init__(dim)
        check_size("expand", expand)
        check_size("state_dim", state_dim, 2)
        inner = expand * dim
        head_dim = math.gcd(HEAD, inner) if head_dim is None else head_dim
        check_size("head_dim", head_dim)
        if inner % head_dim:
            raise RangeError(f"head_dim is {head_dim}; expected a divisor of expand * dim, {inner}")
        if state_dim % 2:
            raise RangeError(f"state_dim is {state_dim}; expected an even number, two for a complex one")
        heads = inner // head_dim
        self.state_dim, self.heads, self.head_dim, self.trapezoid = state_dim, heads, head_dim, trapezoid
        scalars = 3 if trapezoid else 2
        self.widths = [inner, inner, state_dim, state_dim, state_dim // 2, scalars * heads]
        self.inputs = Linear(dim, sum(self.widths), bias=False)
        self.step_bias = nn.Parameter(softplus_inverse(log_uniform(heads, SLOWEST, FASTEST)))
        self.norms = nn.Parameter(torch.ones(2, state_dim))
        self.biases = nn.Parameter(torch.ones(2, heads, state_dim))
        self.skip = nn.Parameter(torch.ones(heads))
        self.output = Linear(inner, dim, bias=False)

    def initial_state(self, sequences: int) -> Any:
        check_size("sequences", sequences)
        like, shape = state_precision(self.skip), (sequences, self.heads)
        recurrent = like.new_zeros(*shape, self.head_dim, self.state_dim)
        if not self.trapezoid:
            return recurrent
        return Mamba3State(recurrent, like.new_zeros(*shape, self.head_dim), like.new_zeros(*shape, self.state_dim))

    def mix(
        self, x: Tensor, state: Any, layout: Layout, rows: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Any]:
        self._check_state("initial_state", state, layout.sequences)
        projected = self.inputs(x if rows is None else x[rows])
        z = projected[..., : self.widths[0]]
        with full_precision(x.device):
            inputs = self._inputs(state_precision(projected))
            read, final = (
                trapezoidal(inputs, state, layout)
                if self.trapezoid
                else rotating_readout(inputs, inputs.dt, state, layout)
            )
            read = read + state_precision(self.skip)[:, None] * inputs.values
        if positions is not None:
            read, z = read[positions], z[positions]
        y: Tensor = self.output(read.flatten(1).to(z.dtype) * silu(z))
        return y, final

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        self._check_step(x)
        return self.mix(x, state, make_layout(x.shape[0], 1, None, None, x.device), None, None)

    def _check_state(self, name: str, state: Any, sequences: int) -> None:
        heads, values, keys = (sequences, self.heads), self.head_dim, self.state_dim
        if self.trapezoid:
            check_state(name, state, Mamba3State, ((*heads, values, keys), (*heads, values), (*heads, keys)))
        else:
            check_tensor(name, state, (*heads, values, keys))

    def _inputs(self, projected: Tensor) -> Inputs:
        _, v, k, q, theta, scalars = projected.split(self.widths, -1)
        raw_dt, raw_decay, *raw_share = scalars.split(self.heads, -1)
        dt = softplus(raw_dt + state_precision(self.step_bias))
        norms, biases = state_precision(self.norms), state_precision(self.biases)
        keys, queries = (
            rms_norm(part, (self.state_dim,), norm, 1e-5)[:, None] + bias
            for part, norm, bias in zip((k, q), norms, biases, strict=True)
        )
        return Inputs(
            dt=dt,
            decay=-dt * softplus(raw_decay).clamp(min=SLOWEST_DECAY),
            angle=dt[..., None] * math.pi * torch.tanh(theta)[:, None],
            share=torch.sigmoid(raw_share[0]) if raw_share else torch.ones_like(dt),
            values=v.unflatten(-1, (self.heads, self.head_dim)),
            keys=keys,
            queries=queries,
        )


def trapezoidal(inputs: Inputs, state: Mamba3State, layout: Layout) -> tuple[Tensor, Mamba3State]:
    """X_t + (1 - l_{t+1}) dt_{t+1} v_t k_t^T decays and turns as a whole; to read X_t, what is added is taken off."""
    cu, steps = layout.cu_seqlens, len(inputs.dt)
    late = (1 - inputs.share) * inputs.dt
    # Of the next step; nothing follows a sequence's last one.
    last = torch.zeros(steps + 1, dtype=torch.bool, device=cu.device).index_fill(0, cu[1:], True)[1:]
    following = torch.where(last[:, None], 0, late.roll(-1, 0))
    full = cu[1:] > cu[:-1]
    first = torch.where(full[:, None], late[cu[:-1].clamp(max=steps - 1)], 0)
    before = state.recurrent + first[..., None, None] * state.values[..., None] * state.keys[..., None, :]
    read, recurrent = rotating_readout(inputs, inputs.share * inputs.dt + following, before, layout)
    overlap = (inputs.queries * inputs.keys).sum(-1)
    read = read - (following * overlap)[..., None] * inputs.values

    def latest(values: Tensor, initial: Tensor) -> Tensor:
        return torch.where(full.view(-1, 1, 1), values[(cu[1:] - 1).clamp(min=0)], initial)

    return read, Mamba3State(recurrent, latest(inputs.values, state.values), latest(inputs.keys, state.keys))


def rotating_readout(inputs: Inputs, weights: Tensor, initial: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """y_t = Re(X_t conj(q_t)) of X_t = a_t X_{t-1} + w_t v_t k_t^T, and the final states."""
    sequences = Uniform(layout.sequences, False) if layout.even else Padded(layout.cu_seqlens, False)
    padded = sequences.pad(inputs.angle).cumsum(1)
    angle = sequences.unpad(padded)
    shape = (layout.batch, layout.time) if layout.even else (1, -1)
    read, turned = decay_readout(
        inputs.decay.unflatten(0, shape),
        (weights[..., None] * inputs.values).unflatten(0, shape),
        turn(inputs.keys, -angle).unflatten(0, shape),
        turn(inputs.queries, -angle).unflatten(0, shape),
        initial,
        cu_seqlens=None if layout.even else layout.cu_seqlens,
    )
    end = sequences.final(padded, torch.zeros_like(padded[:, 0]))
    return read.flatten(0, 1), turn(turned, end[:, :, None])


def turn(x: Tensor, angle: Tensor) -> Tensor:
    """exp(i angle) x, for x (..., N) whose second half are the imaginary parts, and angles (..., N / 2)."""
    re, im = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((re * cos - im * sin, re * sin + im * cos), -1)
