r"""Multiplicative updates (Lee & Seung 2001) for the Frobenius norm and the Kullback-Leibler
divergence.

For :math:`\|X - WH\|^2`

.. math:: W \leftarrow W \odot \frac{X H^T}{W H H^T}, \qquad H \leftarrow H \odot \frac{W^T X}{W^T W
   H}

and for :math:`D(X \| WH) = \sum x \log (x / wh) - x + wh`, with :math:`Q = X / (W H)` entry by
entry,

.. math:: W \leftarrow W \odot \frac{Q H^T}{1 H^T}, \qquad H \leftarrow H \odot \frac{W^T Q}{W^T 1}.

Neither raises its objective. An entry that is zero stays zero, so starts should be positive. Q is
needed only where x > 0 (`conecollapse.tables.protocol.Quotients`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

from conecollapse._iterate import Stopping, iterate
from conecollapse._linalg import ratio
from conecollapse._types import AnyArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.result import Factorization, rounding_of, squared_error
from conecollapse.tables import Table


@dataclass(frozen=True)
class _State:
    W: AnyArray
    H: AnyArray
    of_rows: Any  # the normal equations of the next W, or Q H', whichever the loss needs
    objective: float


def mu(
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    loss: str = "frobenius",
    fixed: Fixed | None = None,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start (W, H) by multiplicative updates; ``loss`` is "frobenius" or
    "kullback-leibler"."""
    step, start, rounding, scale = _LOSSES[loss](X, W, H, fixed)
    trace = iterate(step, start, rounding=rounding, stage="MU", **stopping)
    state = trace.state
    error = None if loss == "frobenius" else squared_error(X, state.W, state.H)
    return Factorization.of(state.W, state.H, state.objective, trace, scale, error)


_Prepared = tuple[Callable[[_State], _State], _State, float, float]  # step, start, rounding, scale


def _frobenius(X: Table, W: AnyArray, H: AnyArray, fixed: Fixed | None) -> _Prepared:
    norm2 = X.squared_norm

    def step(s: _State) -> _State:
        W = s.W * ratio(s.of_rows.C, s.of_rows.applied(s.W))
        of_columns = X.column_equations(W)
        H = s.H * ratio(of_columns.C, of_columns.applied(s.H.T)).T
        H = H if fixed is None else fixed.put(H)
        return _State(W, H, X.row_equations(H), of_columns.error(norm2, H.T))

    of_rows = X.row_equations(H)
    start = _State(W, H, of_rows, of_rows.error(norm2, W))
    return step, start, rounding_of(X, norm2), norm2


def _kullback_leibler(X: Table, W: AnyArray, H: AnyArray, fixed: Fixed | None) -> _Prepared:
    quotients = X.quotients()
    columns = quotients.transposed()

    def divergence(logs: float, W: AnyArray, H: AnyArray) -> float:
        return max(logs - quotients.total + quotients.model_sum(W, H), 0.0) * quotients.unit

    def step(s: _State) -> _State:
        W = s.W * ratio(s.of_rows, quotients.totals(s.H).astype(s.W.dtype))
        H = s.H * ratio(quotients.left(W, s.H), columns.totals(W.T).T.astype(s.H.dtype))
        H = H if fixed is None else fixed.put(H)
        QHt, logs = quotients.right(W, H)
        return _State(W, H, QHt, divergence(logs, W, H))

    QHt, logs = quotients.right(W, H)
    start = _State(W, H, QHt, divergence(logs, W, H))
    total = quotients.total * quotients.unit
    return step, start, rounding_of(X, total), total


_LOSSES: dict[str, Callable[[Table, AnyArray, AnyArray, Fixed | None], _Prepared]] = {
    "frobenius": _frobenius,
    "kullback-leibler": _kullback_leibler,
}
LOSSES = tuple(_LOSSES)
