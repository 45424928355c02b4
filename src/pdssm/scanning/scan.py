"""``scan``: the linear recurrence of every family, on any device."""

from __future__ import annotations

from torch import Tensor

from pdssm.scanning.backends import choose
from pdssm.scanning.problem import make_problem
from pdssm.transitions import Transition


def scan(
    transition: Transition,
    inputs: Tensor,
    initial_state: Tensor | None = None,
    *,
    cu_seqlens: Tensor | None = None,
    rows: Tensor | None = None,
    reverse: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """All states of x_t = A_t x_{t-1} + b_t, and the final ones.

    Parameters
    ----------
    transition
        The matrices, a batch of ``(batch, time, *heads)``.
    inputs
        ``b``: ``(batch, time, *heads, N)``, or ``(batch, time, *heads, V, N)`` for V channels that share a
        matrix; same element type as the transition.
    initial_state
        ``(sequences, *heads, [V,] N)``; zero by default.  Differentiable, like the final state.
    cu_seqlens
        ``(sequences + 1,)`` offsets of packed sequences that lie one after the other along time, with batch 1.
        A sequence may be empty: its final state is its initial state.
    rows
        ``(batch, time)``: step t uses transition and input ``rows[:, t]``; both then have batch axes
        ``(rows, *heads)``.  For inputs that take few distinct values.
    reverse
        x_t = A_t x_{t+1} + b_t; the final state is then the one at the start.
    backend
        ``"reference"`` (step by step, plain torch, the oracle), ``"associative"`` (log-depth, plain torch, for
        families closed under products), ``"cpu"`` (compiled kernels), ``"chunked"`` (the same, each sequence cut
        into pieces that are scanned side by side and joined through their products), or None: the best for the
        tensors' device.

    Returns
    -------
    states, final
        ``(batch, time, *heads, [V,] N)`` and ``(sequences, *heads, [V,] N)``.
    """
    problem = make_problem(transition, inputs, initial_state, cu_seqlens, rows, reverse)
    states, final = choose(problem, backend)(problem)
    return states.reshape(problem.states_shape), final.reshape(problem.final_shape)
