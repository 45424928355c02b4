"""The PD layer in JAX, tuned in two ways: *jax-tuned* and *jax-chunked*, so that *jax* is not the only opponent.

As in *jax* (``jax_described``), the scan is ``jax.lax.associative_scan`` over (index, diagonal, input) in PD form, and
the gradient of the scan is the reverse associative scan of the adjoint. What differs:

- *jax-tuned*: logits and softmax still exist for all tokens at once, (T, N, N), but with the rows of a column side by
  side in memory. The logits are kept for the backward pass, which takes their softmax (measured: faster than keeping
  the softmax), and the forward pass looks for the maxima in a few tokens at a time, in a way that XLA vectorises;
- *jax-chunked*: both passes work on a few tokens at a time and the backward pass computes the logits again. This needs
  one product more, yet is about twice as fast, since nothing leaves the cache.

JAX's gradient of a real loss is the conjugate of torch's: the cotangent of a complex x is dL/dRe(x) - i dL/dIm(x),
hence no ``conj`` on D here.

Axes: B batch, L length, T = B L tokens, t tokens of a chunk, N state, K dictionary terms.

``python -m benchmarks.opponents.jax_scan`` compares all gradients of the three with those of *published*, in float64.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import Shape, Step
from .jax_described import DESCRIBED
from .jax_layer import Element, Recurrence, Tree, Variant, build_step
from .pd_layer import Arrays

# Elements of a chunk's logits, and the fewest tokens of a chunk; measured on two cores that share 32 MiB of cache.
CHUNK_ELEMENTS = 2**20
SMALLEST_CHUNK = 8


def _take(values_N: jax.Array, index_N: jax.Array) -> jax.Array:
    return values_N.at[index_N].get(mode="promise_in_bounds")


def _compose(earlier: Element, later: Element) -> Element:
    """x -> A2 (A1 x + b1) + b2."""
    (index1, diag1, b1), (index2, diag2, b2) = earlier, later
    moved = b2.at[index2].add(diag2 * b1, mode="promise_in_bounds")
    return _take(index2, index1), _take(diag2, index1) * diag1, moved


def _compose_adjoint(later: Element, earlier: Element) -> Element:
    """g -> A1^T (A2^T g + g2) + g1: only gathers."""
    (index2, diag2, g2), (index1, diag1, g1) = later, earlier
    return _take(index2, index1), diag1 * _take(diag2, index1), diag1 * _take(g2, index1) + g1


def _scan_sequence(index_LN: jax.Array, diag_LN: jax.Array, b_LN: jax.Array) -> jax.Array:
    """The states x_0 ... x_L of one sequence; x_0 = e_1 goes into the first input."""
    start_N = jnp.zeros_like(b_LN[0]).at[0].set(1)
    first = b_LN[0].at[index_LN[0, 0]].add(diag_LN[0, 0])
    elements = (index_LN, diag_LN, b_LN.at[0].set(first))
    states_LN = lax.associative_scan(jax.vmap(_compose), elements)[2]
    return jnp.concatenate((start_N[None], states_LN))


def _adjoint_sequence(index_LN: jax.Array, diag_LN: jax.Array, gy_LN: jax.Array) -> jax.Array:
    """gx_t = gy_t + A_{t+1}^T gx_{t+1} of one sequence."""
    # step t uses the transition of t + 1; what follows the last step never matters
    elements = (jnp.roll(index_LN, -1, axis=0), jnp.roll(diag_LN, -1, axis=0), gy_LN)
    gx_LN: jax.Array = lax.associative_scan(jax.vmap(_compose_adjoint), elements, reverse=True)[2]
    return gx_LN


def _hardmax_index(logits_tNN: jax.Array) -> jax.Array:
    """The lowest row (last axis) at which each column is largest.

    XLA's argmax for CPU is a scalar loop; two maxima, the second of n - row where the first is, are vectorised.
    """
    n = logits_tNN.shape[-1]
    descending_N = jnp.arange(n, 0, -1, dtype=logits_tNN.dtype)
    largest = logits_tNN.max(axis=-1, keepdims=True)
    return n - jnp.where(logits_tNN == largest, descending_N, 0).max(axis=-1).astype(jnp.int32)


def _chunk_size(tokens: int, n: int) -> int:
    """The largest divisor of the number of tokens that keeps a chunk in the cache (of a prime number it is 1)."""
    wanted = max(SMALLEST_CHUNK, CHUNK_ELEMENTS // n**2)
    return max(size for size in range(1, min(wanted, tokens) + 1) if tokens % size == 0)


def _logits(selector_tK: jax.Array, dictionary_KNN: jax.Array) -> jax.Array:
    terms, n, _ = dictionary_KNN.shape
    return (selector_tK @ dictionary_KNN.reshape(terms, n * n)).reshape(-1, n, n)


def _softmax_gradient(soft_tNN: jax.Array, gx_tN: jax.Array, z_tN: jax.Array) -> jax.Array:
    """The gradient of the logits, (t, column, row), with dP[i, j] = Re(gx[i] z[j]) through the softmax."""
    d_p = z_tN.real[:, :, None] * gx_tN.real[:, None, :] - z_tN.imag[:, :, None] * gx_tN.imag[:, None, :]
    return soft_tNN * (d_p - (soft_tNN * d_p).sum(axis=-1, keepdims=True))


def _adjoint(
    index: jax.Array, diag: jax.Array, states: jax.Array, gy: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The gradient of every state, that of the diagonal, and z_t = D_t x_{t-1}; all (B, L, N)."""
    earlier = states[:, :-1]
    gx = jax.vmap(_adjoint_sequence)(index, diag, gy)
    d_diag = jnp.take_along_axis(gx, index, axis=-1, mode="promise_in_bounds") * earlier
    return gx, d_diag, diag * earlier


@jax.custom_vjp
def materialised_states(logits_TNN: jax.Array, diag: jax.Array, b: jax.Array) -> jax.Array:
    """The states x_1 ... x_L, (B, L, N), from the logits of all tokens."""
    return _materialised_forward(logits_TNN, diag, b)[0]


def _materialised_forward(logits_TNN: jax.Array, diag: jax.Array, b: jax.Array) -> tuple[jax.Array, Any]:
    tokens, n, _ = logits_TNN.shape
    index = lax.map(_hardmax_index, logits_TNN.reshape(-1, _chunk_size(tokens, n), n, n)).reshape(diag.shape)
    states = jax.vmap(_scan_sequence)(index, diag, b)
    return states[:, 1:], (logits_TNN, index, diag, states)


def _materialised_backward(saved: Any, gy: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    logits_TNN, index, diag, states = saved
    gx, d_diag, z = _adjoint(index, diag, states, gy)
    n, soft_TNN = diag.shape[-1], jax.nn.softmax(logits_TNN, axis=-1)
    return _softmax_gradient(soft_TNN, gx.reshape(-1, n), z.reshape(-1, n)), d_diag, gx


materialised_states.defvjp(_materialised_forward, _materialised_backward)


@jax.custom_vjp
def chunked_states(selector_TK: jax.Array, dictionary_KNN: jax.Array, diag: jax.Array, b: jax.Array) -> jax.Array:
    """The states x_1 ... x_L, (B, L, N), with logits of a few tokens at a time."""
    return _chunked_forward(selector_TK, dictionary_KNN, diag, b)[0]


def _chunked_forward(
    selector_TK: jax.Array, dictionary_KNN: jax.Array, diag: jax.Array, b: jax.Array
) -> tuple[jax.Array, Any]:
    tokens, terms = selector_TK.shape
    chunks = selector_TK.reshape(-1, _chunk_size(tokens, diag.shape[-1]), terms)
    index = lax.map(lambda selector_tK: _hardmax_index(_logits(selector_tK, dictionary_KNN)), chunks)
    index = index.reshape(diag.shape)
    states = jax.vmap(_scan_sequence)(index, diag, b)
    return states[:, 1:], (selector_TK, dictionary_KNN, index, diag, states)


def _chunked_backward(saved: Any, gy: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    selector_TK, dictionary_KNN, index, diag, states = saved
    gx, d_diag, z = _adjoint(index, diag, states, gy)
    (tokens, terms), n = selector_TK.shape, diag.shape[-1]
    size = _chunk_size(tokens, n)
    flat_KE = dictionary_KNN.reshape(terms, n * n)

    def chunk(d_dictionary_KE: jax.Array, inputs: Element) -> tuple[jax.Array, jax.Array]:
        selector_tK, gx_tN, z_tN = inputs
        soft_tNN = jax.nn.softmax(_logits(selector_tK, dictionary_KNN), axis=-1)
        d_logits_tE = _softmax_gradient(soft_tNN, gx_tN, z_tN).reshape(size, n * n)
        return d_dictionary_KE + selector_tK.T @ d_logits_tE, d_logits_tE @ flat_KE.T

    inputs = (selector_TK.reshape(-1, size, terms), gx.reshape(-1, size, n), z.reshape(-1, size, n))
    d_dictionary_KE, d_selector = lax.scan(chunk, jnp.zeros_like(flat_KE), inputs)
    return d_selector.reshape(selector_TK.shape), d_dictionary_KE.reshape(dictionary_KNN.shape), d_diag, gx


chunked_states.defvjp(_chunked_forward, _chunked_backward)


def _tuned(inputs: Recurrence) -> jax.Array:
    selector_TK = inputs.selector.reshape(-1, inputs.selector.shape[-1])
    return materialised_states(_logits(selector_TK, inputs.dictionary), inputs.diag, inputs.b)


def _chunked(inputs: Recurrence) -> jax.Array:
    selector_TK = inputs.selector.reshape(-1, inputs.selector.shape[-1])
    return chunked_states(selector_TK, inputs.dictionary, inputs.diag, inputs.b)


TUNED, CHUNKED = Variant(_tuned, transposed=True), Variant(_chunked, transposed=True)


def build_tuned(shape: Shape) -> Step:
    """The step with logits and softmax of all tokens, in the layout and with the argmax that suit XLA."""
    return build_step(shape, TUNED)


def build_chunked(shape: Shape) -> Step:
    """The step with logits and softmax of a few tokens at a time."""
    return build_step(shape, CHUNKED)


def _difference(ours: Tree, theirs: Arrays) -> float:
    return max(float(abs(np.asarray(ours[name]) - theirs[name]).max() / abs(theirs[name]).max()) for name in theirs)


def _check(shape: Shape) -> None:
    """Compare all gradients with those of the published way in torch, in float64."""
    import torch

    from . import pd_layer
    from .published import dense_states

    _, theirs = pd_layer.build_step(shape, dense_states, torch.float64)()
    expected = {name: tensor.numpy() for name, tensor in theirs.items()}
    for name, variant in (("jax", DESCRIBED), ("jax-tuned", TUNED), ("jax-chunked", CHUNKED)):
        _, ours = build_step(shape, variant, np.float64)()
        if not variant.transposed:
            ours["dictionary"] = ours["dictionary"].transpose(0, 2, 1)
        worst = _difference(ours, expected)
        print(f"{shape}, {name}: largest relative difference of a gradient {worst:.1e}")
        if not worst < 1e-10:
            raise SystemExit("the gradients differ")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    for checked in (Shape(3, 17, 8, 5), Shape(1, 9, 32, 6), Shape(4, 40, 128, 6)):
        _check(checked)
