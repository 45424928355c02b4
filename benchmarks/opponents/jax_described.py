"""*jax*: the PD layer as one writes it in JAX straight from the paper's description, with no tuning.

For all tokens at once, in the paper's layout (row i, column j): M = sum_k s_k M_k, its column softmax, and the index of
the one in each column, ``jnp.argmax`` of the softmax. The scan is ``jax.lax.associative_scan`` over (index, diagonal,
input), with plain indexing, under a ``custom_vjp`` whose backward pass is the same scan of the adjoint in reverse. The
gradient of P is materialised, (B, L, N, N), and handed straight through to the softmax, which autodiff pulls back.

JAX's gradient of a real loss is the conjugate of torch's: the cotangent of a complex x is dL/dRe(x) - i dL/dIm(x),
hence no ``conj`` here.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from . import Shape, Step
from .jax_layer import Element, Recurrence, Variant, build_step


def _compose(earlier: Element, later: Element) -> Element:
    """x -> A2 (A1 x + b1) + b2, where A e_j = diag[j] e_index[j]."""
    (index1, diag1, b1), (index2, diag2, b2) = earlier, later
    return index2[index1], diag2[index1] * diag1, b2.at[index2].add(diag2 * b1)


def _compose_adjoint(later: Element, earlier: Element) -> Element:
    """g -> A1^T (A2^T g + g2) + g1."""
    (index2, diag2, g2), (index1, diag1, g1) = later, earlier
    return index2[index1], diag1 * diag2[index1], diag1 * g2[index1] + g1


def _scan(index_LN: jax.Array, diag_LN: jax.Array, b_LN: jax.Array) -> jax.Array:
    """The states x_1 ... x_L of one sequence; what x_0 = e_1 adds goes into the first input."""
    b_LN = b_LN.at[0, index_LN[0, 0]].add(diag_LN[0, 0])
    states_LN: jax.Array = lax.associative_scan(jax.vmap(_compose), (index_LN, diag_LN, b_LN))[2]
    return states_LN


def _adjoint_scan(index_LN: jax.Array, diag_LN: jax.Array, gx_LN: jax.Array) -> jax.Array:
    """g_t = gx_t + A_{t+1}^T g_{t+1} of one sequence: step t uses the transition of t + 1."""
    elements = (jnp.roll(index_LN, -1, axis=0), jnp.roll(diag_LN, -1, axis=0), gx_LN)
    g_LN: jax.Array = lax.associative_scan(jax.vmap(_compose_adjoint), elements, reverse=True)[2]
    return g_LN


@jax.custom_vjp
def _scan_of_soft(soft_BLNN: jax.Array, diag_BLN: jax.Array, b_BLN: jax.Array) -> jax.Array:
    """The states with the hardmax of each column in the place of its softmax."""
    return _forward(soft_BLNN, diag_BLN, b_BLN)[0]


def _forward(soft_BLNN: jax.Array, diag_BLN: jax.Array, b_BLN: jax.Array) -> tuple[jax.Array, Any]:
    index_BLN = jnp.argmax(soft_BLNN, axis=-2)
    states_BLN = jax.vmap(_scan)(index_BLN, diag_BLN, b_BLN)
    return states_BLN, (index_BLN, diag_BLN, states_BLN)


def _backward(saved: Any, gx_BLN: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    index_BLN, diag_BLN, states_BLN = saved
    g_BLN = jax.vmap(_adjoint_scan)(index_BLN, diag_BLN, gx_BLN)
    start_BLN = jnp.zeros_like(states_BLN[:, :1]).at[..., 0].set(1)
    earlier_BLN = jnp.concatenate((start_BLN, states_BLN[:, :-1]), axis=1)
    d_p_BLNN = jnp.einsum("bli,blj->blij", g_BLN, diag_BLN * earlier_BLN).real
    return d_p_BLNN, jnp.take_along_axis(g_BLN, index_BLN, axis=-1) * earlier_BLN, g_BLN


_scan_of_soft.defvjp(_forward, _backward)


def _states(inputs: Recurrence) -> jax.Array:
    mixed_BLNN = jnp.einsum("blk,kij->blij", inputs.selector, inputs.dictionary)
    return _scan_of_soft(jax.nn.softmax(mixed_BLNN, axis=-2), inputs.diag, inputs.b)


DESCRIBED = Variant(_states, transposed=False)


def build(shape: Shape) -> Step:
    """The step of one layer as described."""
    return build_step(shape, DESCRIBED)
