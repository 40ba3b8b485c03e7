r"""Least squares that large residuals do not rule, as in positive matrix factorization (Paatero
1997).

With uncertainties :math:`\sigma` and :math:`z_{ij} = (x_{ij} - (WH)_{ij}) / \sigma_{ij}` the
objective is Huber's,

.. math:: \sum_{ij} \rho(z_{ij}), \qquad \rho(z) = z^2 \ \text{ for } |z| \le \alpha, \quad 2 \alpha
   |z| - \alpha^2 \ \text{ beyond it.}

Penalties of the method and of the table (shrinkage) are added to it. Each round divides the weights
of the entries beyond :math:`\alpha` by :math:`|z| / \alpha` and takes a few steps of a weighted
method from where it is. The weighted squares lie above Huber's loss, up to a constant, and touch it
there, so the objective never rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

from conecollapse._iterate import Stopping, iterate
from conecollapse._types import AnyArray, FloatArray
from conecollapse.factorization.result import Factorization, rounding_of, squared_error
from conecollapse.tables import Table

STEPS = 5  # of the weighted method in each round
# for encodings: at most so many rounds, or until one changes the loss by this share
ROUNDS, SETTLED = 100, 1e-10

Penalty = Callable[[AnyArray, AnyArray], float]  # of W and H


@dataclass(frozen=True)
class _State:
    W: AnyArray
    H: AnyArray
    table: Table  # with the weights of this place
    objective: float


def no_penalty(W: AnyArray, H: AnyArray) -> float:  # noqa: ARG001
    """Of methods that only lower the loss."""
    return 0.0


def robust(
    run: Callable[..., Factorization],
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    limit: float | FloatArray,
    penalty: Penalty = no_penalty,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start (W, H), where ``run(X, W, H, tol=, max_iter=)`` is a weighted
    method.

    ``limit`` may differ from row to row. ``penalty`` is what ``run`` adds to the loss.
    """

    def state(W: AnyArray, H: AnyArray) -> _State:
        table, loss = X.downweighted(W, H, limit)
        return _State(W, H, table, loss + penalty(W, H))

    def step(s: _State) -> _State:
        result = run(s.table, s.W, s.H, tol=0.0, max_iter=STEPS)
        return state(result.W, result.H)

    norm2 = X.squared_norm
    trace = iterate(step, state(W, H), rounding=rounding_of(X, norm2), stage="robust", **stopping)
    s = trace.state
    return Factorization.of(s.W, s.H, s.objective, trace, norm2, squared_error(X, s.W, s.H))


def robust_codes(
    encode: Callable[[Table], AnyArray],
    X: Table,
    H: AnyArray,
    limit: float,
    penalty: Penalty = no_penalty,
) -> AnyArray:
    """Encodings of rows over H with the smallest Huber loss and penalty; ``encode`` gives those of
    a weighted table."""
    W = encode(X)
    before = float("inf")
    for _ in range(ROUNDS):
        table, loss = X.downweighted(W, H, limit)
        loss += penalty(W, H)
        if loss >= (1 - SETTLED) * before:
            break
        W, before = encode(table), loss
    return W
