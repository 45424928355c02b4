"""What the PD opponents share: the parameters and data of a layer, and its parts on either side of the recurrence.

The arrays are drawn once, in numpy and in float64, so that the same layer can be built in torch and in JAX and their
gradients compared. Axes: B batch, L length, T = B L tokens, N state (= width of the input), K dictionary terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from . import Shape

Arrays = dict[str, np.ndarray[Any, Any]]
Tensors = dict[str, torch.Tensor]


class Recurrence(NamedTuple):
    """What the generator hands to the recurrence x_t = P_t D_t x_{t-1} + b_t."""

    selector: torch.Tensor  # (B, L, K), on the simplex
    diag: torch.Tensor  # (B, L, N), complex
    b: torch.Tensor  # (B, L, N), complex
    dictionary: torch.Tensor  # (K, column, row)


States = Callable[[Recurrence], torch.Tensor]
"""The part in which the torch opponents differ: it returns the complex states x_1 ... x_L, (B, L, N)."""


def draw(shape: Shape, seed: int = 0) -> tuple[Arrays, Arrays]:
    """Draw a layer: what is differentiated (the parameters and the input ``u``), and the loss's fixed weight ``w``.

    ``dictionary`` is (K, column, row): an argmax or a softmax over the rows of a column then runs over contiguous
    memory. A layer is free to store its parameter so.
    """
    random = np.random.default_rng(seed)
    n = shape.dim

    def normal(*sizes: int, std: float) -> np.ndarray[Any, Any]:
        return random.standard_normal(sizes) * std

    arrays: Arrays = {"u": normal(shape.batch, shape.length, n, std=1.0)}
    for name in ("magnitude", "phase"):
        arrays[f"{name}_weight_in"] = normal(2 * n, n, std=n**-0.5)
        arrays[f"{name}_bias_in"] = normal(2 * n, std=0.1)
        arrays[f"{name}_weight_out"] = normal(n, 2 * n, std=(2 * n) ** -0.5)
        arrays[f"{name}_bias_out"] = normal(n, std=0.1)
    arrays["selector"] = normal(shape.terms, n, std=n**-0.5)
    arrays["input"] = normal(2 * n, n, std=n**-0.5)
    arrays["dictionary"] = normal(shape.terms, n, n, std=1.0)
    arrays["readout_weight"] = normal(n, 2 * n, std=(2 * n) ** -0.5)
    arrays["readout_bias"] = normal(n, std=0.1)
    return arrays, {"w": normal(shape.batch, shape.length, n, std=1.0)}


def _mlp(tensors: Tensors, name: str) -> torch.Tensor:
    hidden = functional.linear(tensors["u"], tensors[f"{name}_weight_in"], tensors[f"{name}_bias_in"])
    return functional.linear(functional.gelu(hidden), tensors[f"{name}_weight_out"], tensors[f"{name}_bias_out"])


def generate(tensors: Tensors) -> Recurrence:
    """The generator: selector weights, complex diagonal and complex input of every token."""
    magnitude = torch.sigmoid(_mlp(tensors, "magnitude"))
    phase = 2 * math.pi * torch.sigmoid(_mlp(tensors, "phase"))
    real, imaginary = functional.linear(tensors["u"], tensors["input"]).chunk(2, dim=-1)
    return Recurrence(
        selector=torch.softmax(functional.linear(tensors["u"], tensors["selector"]), dim=-1),
        # not torch.polar: its backward pass goes through the complex phase again and is slower
        diag=torch.complex(magnitude * torch.cos(phase), magnitude * torch.sin(phase)),
        b=torch.complex(real, imaginary),
        dictionary=tensors["dictionary"],
    )


def build_step(
    shape: Shape, states: States, dtype: torch.dtype = torch.float32
) -> Callable[[], tuple[torch.Tensor, Tensors]]:
    """A layer step in torch around the given recurrence; it returns the loss and the gradients by name."""
    arrays, constants = draw(shape)
    tensors = {name: torch.from_numpy(array).to(dtype).requires_grad_() for name, array in arrays.items()}
    w = torch.from_numpy(constants["w"]).to(dtype)

    def step() -> tuple[torch.Tensor, Tensors]:
        x_BLN = states(generate(tensors))
        parts = torch.cat((x_BLN.real, x_BLN.imag), dim=-1)
        y = functional.linear(parts, tensors["readout_weight"], tensors["readout_bias"])
        loss = (y * w).sum()
        gradients = torch.autograd.grad(loss, list(tensors.values()))
        return loss.detach(), dict(zip(tensors, gradients, strict=True))

    return step
