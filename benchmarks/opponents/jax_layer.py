"""What the JAX opponents share: the layer around the recurrence, jit-compiled with its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import Shape
from .pd_layer import draw

Tree = dict[str, jax.Array]
Element = tuple[jax.Array, jax.Array, jax.Array]
"""Of one step, in PD form: index, diagonal, input."""


class Recurrence(NamedTuple):
    """What the generator hands to the recurrence x_t = P_t D_t x_{t-1} + b_t."""

    selector: jax.Array  # (B, L, K), on the simplex
    diag: jax.Array  # (B, L, N), complex
    b: jax.Array  # (B, L, N), complex
    dictionary: jax.Array  # (K, row, column), or transposed: as the variant stores its parameter


class Variant(NamedTuple):
    """One way to compute the states x_1 ... x_L, (B, L, N)."""

    states: Callable[[Recurrence], jax.Array]
    transposed: bool
    """Whether its dictionary is stored (K, column, row), as ``pd_layer.draw`` has it, or (K, row, column)."""


def _linear(x: jax.Array, weight: jax.Array) -> jax.Array:
    """As in torch: the weight is (outputs, inputs)."""
    return x @ weight.T


def _mlp(tree: Tree, name: str) -> jax.Array:
    hidden = _linear(tree["u"], tree[f"{name}_weight_in"]) + tree[f"{name}_bias_in"]
    hidden = jax.nn.gelu(hidden, approximate=False)
    return _linear(hidden, tree[f"{name}_weight_out"]) + tree[f"{name}_bias_out"]


def _generate(tree: Tree) -> Recurrence:
    magnitude = jax.nn.sigmoid(_mlp(tree, "magnitude"))
    phase = 2 * jnp.pi * jax.nn.sigmoid(_mlp(tree, "phase"))
    return Recurrence(
        selector=jax.nn.softmax(_linear(tree["u"], tree["selector"]), axis=-1),
        diag=magnitude * jnp.exp(1j * phase),
        b=jax.lax.complex(*jnp.split(_linear(tree["u"], tree["input"]), 2, axis=-1)),
        dictionary=tree["dictionary"],
    )


def build_step(shape: Shape, variant: Variant, dtype: Any = np.float32) -> Callable[[], tuple[jax.Array, Tree]]:
    """The step: the loss and its gradients by name; compiled at its first call."""
    arrays, constants = draw(shape)
    if not variant.transposed:
        arrays["dictionary"] = np.ascontiguousarray(arrays["dictionary"].transpose(0, 2, 1))
    tree: Tree = {name: jnp.asarray(array, dtype) for name, array in arrays.items()}
    w = jnp.asarray(constants["w"], dtype)

    def loss(tree: Tree, w: jax.Array) -> jax.Array:
        x = variant.states(_generate(tree))
        parts = jnp.concatenate((x.real, x.imag), axis=-1)
        return ((_linear(parts, tree["readout_weight"]) + tree["readout_bias"]) * w).sum()

    compiled = jax.jit(jax.value_and_grad(loss))

    def step() -> tuple[jax.Array, Tree]:
        gradients: tuple[jax.Array, Tree] = jax.block_until_ready(compiled(tree, w))  # type: ignore[no-untyped-call]
        return gradients

    return step
