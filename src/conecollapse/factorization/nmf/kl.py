r"""NMF with the Kullback-Leibler divergence by coordinate descent: all rows of W, then all columns
of H, and so on.

.. math:: \min_{W, H \ge 0}\ D(X \| WH) = \sum_{ij} x_{ij} \log \frac{x_{ij}}{(WH)_{ij}} - x_{ij} +
   (WH)_{ij} .

One coefficient is moved at a time, by a step in the direction of the multiplicative update
(`conecollapse.factorization.nmf.mu`) that is at least as long and never raises the divergence;
`conecollapse.tables.divergence` derives it. Only entries with x > 0 are looked at: the sum of all
of W H is a product of sums. With H fixed the problem is convex, and sweeps until nothing moves
solve it: `encode_divergence`.

*From a random start* most steps only find out which component is where. The squared error tells
that as well, in cheaper steps, so `kl_by_squares` begins with a few of them. On planted counts it
then needs a third of the steps on the divergence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._linalg import power_of_two
from conecollapse._types import AnyArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.hals import hals
from conecollapse.factorization.result import Factorization, rounding_of, squared_error
from conecollapse.tables import Table
from conecollapse.tables.divergence import Effort

# two sweeps save few steps and cost twice as much (TF-IDF of REUTERS, rank 20)
ONCE = Effort(sweeps=1, still=0.0)
UNSEEN = ONCE._replace(measures=False)
OPTIMUM = Effort(sweeps=2000, still=1e-9)  # until nothing moves
SQUARES_TOL, SQUARES = 1e-3, 20  # of the steps on the squared error
# of the mean of a factor: what is zero for the squared error may not be for the divergence
ALIVE = 1e-3


@dataclass(frozen=True)
class _State:
    W: AnyArray
    H: AnyArray
    objective: float


def kl(
    X: Table, W: AnyArray, H: AnyArray, *, fixed: Fixed | None = None, **stopping: Unpack[Stopping]
) -> Factorization:
    """``X ~ W H`` from the start (W, H), by coordinate descent on the divergence, which never
    rises."""
    rows = X.quotients()
    columns = rows.transposed()

    def divergence(logs: float, W: AnyArray, H: AnyArray) -> float:
        return max(logs - rows.total + rows.model_sum(W, H), 0.0) * rows.unit

    def step(s: _State) -> _State:
        W, _ = rows.improved(s.W, s.H, UNSEEN)
        totals = None if fixed is None else columns.totals(W.T) * fixed.free  # zero: does not move
        Ht, logs = columns.improved(s.H.T, W.T, ONCE, totals)
        return _State(W, Ht.T, divergence(logs, W, Ht.T))

    start = _State(W, H, divergence(rows.right(W, H)[1], W, H))
    total = rows.total * rows.unit
    trace = iterate(step, start, rounding=rounding_of(X, total), stage="KL", **stopping)
    state = trace.state
    H = np.ascontiguousarray(state.H)
    return Factorization.of(state.W, H, state.objective, trace, total, squared_error(X, state.W, H))


def kl_by_squares(
    X: Table, W: AnyArray, H: AnyArray, **stopping: Unpack[Stopping]
) -> Factorization:
    """`kl` from where a few steps on the squared error lead."""
    found = hals(X, W, H, tol=SQUARES_TOL, max_iter=SQUARES)
    W, H = (np.maximum(F, F.dtype.type(ALIVE * F.mean())) for F in (found.W, found.H))
    return kl(X, W, H, **stopping)


def encode_divergence(X: Table, H: AnyArray, penalties: AnyArray | float = 0.0) -> AnyArray:
    """Rows w >= 0 that minimise the divergence of each row of X from ``w H``, plus ``penalties``
    times the sums of ``w_k h_k``.

    Each row ends by its own rule, so that its result does not depend on the other rows of the
    batch. Rows of X and of H may have any scale: each is solved in a unit of its own. The rows of
    the start have the weighted sums of those of X.
    """
    units, unit = X.row_units, power_of_two(H.max(axis=1).astype(np.float64))
    X, H = X.row_scaled(1 / units), H / unit[:, None]
    quotients = X.quotients()
    totals = quotients.totals(H) + penalties / quotients.unit * H.sum(axis=1, dtype=np.float64)
    mass = np.asarray(X @ np.ones((X.shape[1], 1), X.dtype), np.float64) / quotients.unit
    start = (
        mass
        / np.maximum(totals.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        * np.ones((1, len(H)))
    )
    codes = quotients.improved(start.astype(X.dtype), H, OPTIMUM, totals)[0]
    with np.errstate(over="ignore"):  # what leaves the range is refused where it is asked for
        return np.asarray(codes * units[:, None] / unit, X.dtype)
