r"""Multiplicative updates (Lee & Seung 2001) for the Frobenius norm and the Kullback-Leibler divergence.

For :math:`\|X - WH\|^2`

.. math:: W \leftarrow W \odot \frac{X H^T}{W H H^T}, \qquad H \leftarrow H \odot \frac{W^T X}{W^T W H}

and for :math:`D(X \| WH) = \sum x \log (x / wh) - x + wh`, with :math:`Q = X / (W H)` entry by entry,

.. math:: W \leftarrow W \odot \frac{Q H^T}{1 H^T}, \qquad H \leftarrow H \odot \frac{W^T Q}{W^T 1}.

Neither raises its objective. An entry that is zero stays zero, so starts should be positive. Q is needed only where x > 0
(`conecollapse.tables.protocol.Quotients`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._linalg import TINY, ratio
from conecollapse._types import AnyArray
from conecollapse.factorization.data import Factorization, rounding_of, squared_error, squared_error_from
from conecollapse.tables import Table, as_table


@dataclass(frozen=True)
class _State:
    W: AnyArray
    H: AnyArray
    XHt: AnyArray  # X H' or Q H', whichever the loss needs for the next W
    HHt: AnyArray
    objective: float


def mu(
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    loss: str = "frobenius",
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start (W, H) by multiplicative updates; ``loss`` is "frobenius" or "kullback-leibler"."""
    X = as_table(X)
    step, start, rounding, scale = _LOSSES[loss](X, W, H)
    trace = iterate(step, start, rounding=rounding, stage="MU", **stopping)
    state = trace.state
    error = None if loss == "frobenius" else squared_error(X, state.W, state.H)
    return Factorization.of(state.W, state.H, state.objective, trace, scale, error)


def positive_codes(X: Table, H: AnyArray, n_iter: int) -> AnyArray:
    """Rows w > 0 after so many updates for the divergence with H fixed: a start for multiplicative updates, which leave no zero."""
    X = as_table(X)
    quotients = X.quotients()
    total = H.sum(axis=1)
    mass = X @ np.ones((X.shape[1], 1), X.dtype)
    W = np.asarray(mass / max(float(total.sum()), TINY) * np.ones_like(total)[None, :], X.dtype)
    for _ in range(n_iter):
        W = W * ratio(quotients.right(W, H)[0], total[None, :])
    return W


_Prepared = tuple[Callable[[_State], _State], _State, float, float]  # step, start, rounding, scale


def _frobenius(X: Table, W: AnyArray, H: AnyArray) -> _Prepared:
    norm2 = X.squared_norm

    def step(s: _State) -> _State:
        W = s.W * ratio(s.XHt, s.W @ s.HHt)
        WtW, WtX = W.T @ W, (X.T @ W).T
        H = s.H * ratio(WtX, WtW @ s.H)
        HHt = H @ H.T
        return _State(W, H, X @ H.T, HHt, squared_error_from(norm2, WtX, H, WtW, HHt))

    XHt, HHt = X @ H.T, H @ H.T
    start = _State(W, H, XHt, HHt, squared_error_from(norm2, XHt, W, W.T @ W, HHt))
    return step, start, rounding_of(X, norm2), norm2


def _kullback_leibler(X: Table, W: AnyArray, H: AnyArray) -> _Prepared:
    quotients = X.quotients()

    def divergence(logs: float, W: AnyArray, H: AnyArray) -> float:
        model = float(W.sum(axis=0, dtype=np.float64) @ H.sum(axis=1, dtype=np.float64))
        return max(logs - quotients.total + model, 0.0)

    def step(s: _State) -> _State:
        W = s.W * ratio(s.XHt, s.H.sum(axis=1)[None, :])
        H = s.H * ratio(quotients.left(W, s.H), W.sum(axis=0)[:, None])
        QHt, logs = quotients.right(W, H)
        return _State(W, H, QHt, s.HHt, divergence(logs, W, H))

    QHt, logs = quotients.right(W, H)
    start = _State(W, H, QHt, np.zeros((0, 0)), divergence(logs, W, H))
    return step, start, rounding_of(X, quotients.total), quotients.total


_LOSSES: dict[str, Callable[[Table, AnyArray, AnyArray], _Prepared]] = {
    "frobenius": _frobenius,
    "kullback-leibler": _kullback_leibler,
}
LOSSES = tuple(_LOSSES)
