r"""Steps of second order over cones: Levenberg and Marquardt's method for a function of r rays.

The rays are the rows of an (r, r) matrix B, in coordinates of the r-dimensional subspace of the
data, and sum to one over the features. A step mixes them, :math:`B \leftarrow (I + T) B`, so that
its :math:`r^2` numbers mean the same wherever the rays are. With the gradient g and a positive
semidefinite Hessian K in T,

.. math:: (K + \mu \operatorname{diag} K) \operatorname{vec} T = -g ,

:math:`\mu` falls after a step that lowers the objective and rises after one that does not; so the
objective never rises. Rows can be held: T is zero there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from conecollapse._types import BoolArray, FloatArray, IntArray

FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-9
EASED, STIFFENED = 0.2, 5.0  # factors of the damping after a good and a bad step
ATTEMPTS = 12  # dampings that are tried for one step
LONGEST = 0.5  # largest entry of a step: beyond it the second order says little
LEAST_CURVATURE = 1e-3  # of a direction, so that unknown ones are damped, too
SLOW = 3  # steps in a row that gain less than the tolerance end the run


class State(Protocol):
    """An objective at B."""

    @property
    def B(self) -> FloatArray: ...

    @property
    def value(self) -> float: ...


class Objective(Protocol):
    """What is minimized."""

    def evaluate(self, B: FloatArray, last: Any = None) -> Any:
        """The state at ``B``; ``last`` is a state nearby."""

    def expand(self, state: Any) -> tuple[FloatArray, FloatArray]:
        """Gradient (r, r) and Hessian (r * r, r * r) in T."""


def descend(
    objective: Objective,
    B: FloatArray,
    sums: FloatArray,
    *,
    max_iter: int,
    tol: float,
    free: BoolArray | None = None,
    told: Callable[[], object] | None = None,
) -> State:
    """The state that steps from ``B`` lead to; ``sums`` are the sums of the basis, and only the
    rows ``free`` move."""
    r = len(B)
    moving = np.arange(r * r) if free is None else np.flatnonzero(np.repeat(free, r))
    state, damping, slow = objective.evaluate(B), FIRST_DAMPING, 0
    for _ in range(max_iter if len(moving) else 0):
        if not np.isfinite(state.value):
            break
        g, K = objective.expand(state)
        g, K = g.ravel()[moving], K[np.ix_(moving, moving)]
        new, damping = _lower(objective, state, sums, (g, K, moving), damping)
        if new is None:
            break
        slow = slow + 1 if state.value - new.value < tol else 0
        state, damping = new, max(damping * EASED, LEAST_DAMPING)
        if told is not None:
            told()
        if slow >= SLOW:
            break
    return state  # type: ignore[no-any-return]


def _lower(
    objective: Objective,
    state: Any,
    sums: FloatArray,
    second_order: tuple[FloatArray, FloatArray, IntArray],
    damping: float,
) -> tuple[Any, float]:
    """A state that is lower, or None, and the damping that led to it."""
    g, K, moving = second_order
    r, curvature = len(state.B), np.maximum(np.diag(K), LEAST_CURVATURE)
    rows = np.unique(moving // r)  # the others stay as they are, to the last bit
    for _ in range(ATTEMPTS):
        T = np.zeros(r * r)
        try:
            added = damping * curvature + 0.01 * min(1.0, 100 * damping) + LEAST_DAMPING
            T[moving] = -cho_solve(cho_factor(K + np.diag(added)), g)
        except np.linalg.LinAlgError:
            damping *= STIFFENED
            continue
        T *= min(1.0, LONGEST / max(float(np.abs(T).max()), LONGEST))
        B = state.B.copy()
        B[rows] += T.reshape(r, r)[rows] @ state.B
        height = B[rows] @ sums
        if height.min() > 0:
            B[rows] /= height[:, None]
            new = objective.evaluate(B, state)
            if np.isfinite(new.value) and new.value < state.value:
                return new, damping
        damping *= STIFFENED
    return None, damping
