r"""Alternating non-negative least squares with block principal pivoting (Kim & Park 2008), and its
sparse form (Kim & Park 2007).

Each half step solves its least-squares problem exactly, so the objective never rises and every
limit point is stationary:

.. math:: W \leftarrow \arg\min_{W \ge 0} \|X - W H\|^2, \qquad H \leftarrow \arg\min_{H \ge 0} \|X
   - W H\|^2.

*Sparse NMF* adds an L1 norm, squared, on the encoding of each sample and a ridge that keeps H from
growing instead:

.. math:: \min_{W, H \ge 0} \|X - W H\|^2 + \eta \|H\|^2 + \alpha \sum_i \|w_i\|_1^2.

Both penalties only change the Gram matrices: :math:`H H^T + \alpha 1 1^T` in the first problem,
:math:`W^T W + \eta I` in the second. With :math:`\eta \propto \max(X)^2` the factor W scales with
the data and H does not, so :math:`\alpha` means the same for data of any scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._nnls.products import solve_gram
from conecollapse._types import AnyArray, FloatArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.factorization.result import Factorization, rounding_of
from conecollapse.tables import Equations, Table


@dataclass(frozen=True)
class _State:
    W: AnyArray
    H: AnyArray
    error: float
    objective: float  # the error and the penalties


def anls(
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    alpha: float = 0.0,
    eta: float = 0.0,
    fixed: Fixed | None = None,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start H by exact alternating solves; ``alpha`` and ``eta`` are the
    penalties of sparse NMF.

    W only serves to choose the passive sets that the first solve begins with. With penalties,
    ``objective`` includes them.
    """
    norm2 = X.squared_norm
    if fixed is None:
        W, H = _balanced(W, H, alpha, eta)
    ridge = eta * np.eye(W.shape[1])

    def step(s: _State) -> _State:
        W = solve(X.row_equations(s.H).plus(alpha), s.W)
        of_columns = X.column_equations(W)
        H = solve(of_columns.plus(ridge), s.H.T, fixed).T
        return measure(W, H, of_columns)

    def measure(W: AnyArray, H: AnyArray, of_columns: Equations) -> _State:
        HHt = H @ H.T
        error = of_columns.error(norm2, H.T, HHt)
        return _State(W, H, error, error + penalties(W, H, alpha, eta))

    start = measure(W, H, X.column_equations(W))
    trace = iterate(step, start, rounding=rounding_of(X, norm2), stage="ANLS", **stopping)
    return Factorization.of(
        trace.state.W, trace.state.H, trace.state.objective, trace, norm2, trace.state.error
    )


def penalties(W: AnyArray, H: AnyArray, alpha: float, eta: float) -> float:
    """What sparse NMF adds to the squared error."""
    of_W = alpha * float(np.square(W.sum(axis=1, dtype=np.float64)).sum()) if alpha else 0.0
    return of_W + (eta * float(np.square(H, dtype=np.float64).sum()) if eta else 0.0)


def _balanced(W: AnyArray, H: AnyArray, alpha: float, eta: float) -> tuple[AnyArray, AnyArray]:
    """The start ``W c, H / c`` with the smallest penalties; else one that suits data of another
    scale can lose all components at once."""
    lengths, sums = (
        float(np.square(H, dtype=np.float64).sum()),
        float(np.square(W.sum(axis=1, dtype=np.float64)).sum()),
    )
    if not min(alpha, eta, lengths, sums) > 0:
        return W, H
    c = W.dtype.type((eta * lengths / (alpha * sums)) ** 0.25)
    return W * c, H / c


def solve_rows(G: AnyArray, C: AnyArray, start: AnyArray | None = None) -> AnyArray:
    """Rows x >= 0 that minimise ``x G x' - 2 c x'`` for each row c of ``C``, in the precision of
    ``C``."""
    exact: FloatArray = solve_gram(np.asarray(G, np.float64), np.asarray(C, np.float64), start)
    return exact.astype(C.dtype, copy=False)
