"""The paper's parameter counts, and the state sizes at which two layers have equally many.

Counted as the paper counts: a linear readout with no bias, no skip term, networks with N hidden units.  D is the
width, N the size of the state, K that of the dictionary.
"""

from __future__ import annotations

from math import isqrt


def sdssm_parameters(dim: int, state_dim: int, dictionary_size: int = 6) -> int:
    """Count N (2 D + K N) + K D."""
    return state_dim * (2 * dim + dictionary_size * state_dim) + dictionary_size * dim


def pdssm_parameters(dim: int, state_dim: int, dictionary_size: int = 6) -> int:
    """Count N (6 D + 2 N + K N + 4) + K D."""
    own = 6 * dim + 2 * state_dim + dictionary_size * state_dim + 4
    return state_dim * own + dictionary_size * dim


def diagonal_parameters(dim: int, state_dim: int) -> int:
    """Count N (6 D + 2 N + 4)."""
    return state_dim * (6 * dim + 2 * state_dim + 4)


def published_equal_pdssm_state(sdssm_state: int, dictionary_size: int = 6) -> int:
    """The paper's N_c, which leaves out PD-SSM's 2 N^2: 1552 for N_r = D = 2048, 14 % more parameters than SD-SSM.

    The root of K N^2 + (6 N_r + 4) N = (K + 2) N_r^2.
    """
    n, k, linear = sdssm_state, dictionary_size, 6 * sdssm_state + 4
    return (isqrt(linear**2 + 4 * k * (k + 2) * n**2) - linear) // (2 * k)


def equal_pdssm_state(sdssm_state: int, dictionary_size: int = 6) -> int:
    """The largest state with which PD-SSM has no more parameters than SD-SSM with D = N_r: 1419 for N_r = 2048.

    The root of (K + 2) N^2 + (6 N_r + 4) N = (K + 2) N_r^2.
    """
    n, k, linear = sdssm_state, dictionary_size, 6 * sdssm_state + 4
    return (isqrt(linear**2 + (2 * (k + 2) * n) ** 2) - linear) // (2 * (k + 2))


def equal_diagonal_state(sdssm_state: int, dictionary_size: int = 6) -> int:
    """The same for the diagonal SSM, the paper's N_d: 2048 for N_r = D = 2048.

    The root of 2 N^2 + (6 N_r + 4) N = (K + 2) N_r^2 + K N_r.
    """
    n, k, linear = sdssm_state, dictionary_size, 6 * sdssm_state + 4
    return (isqrt(linear**2 + 8 * (k + 2) * n**2 + 8 * k * n) - linear) // 4
