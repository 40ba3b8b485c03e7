"""The nearest points of a convex hull of very many points: shares over a few of them at a time.

An optimal combination needs at most one point more than there are dimensions, so a Gram matrix of
all points would be wasted. For each target a short list of points is kept. The problem over the
list is solved exactly (`products`); with the residual r of its solution z, a point v outside the
list can help only if ``r . v > r . z``. All points are priced for all targets by one product
(`slots.price`), the best join the lists, points without a share leave. Each round lowers the
distance, so that the same list does not return.

Since shares sum to one, the points of a list may be measured from z. The next solve is then exact
relative to the residual, and not only relative to the points.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import row_norms
from conecollapse._nnls.bound import (
    EPS,
    OPTIMAL,
    STEP_LIMIT,
    UNPROVEN,
    Measured,
    Record,
    is_optimal,
    lower_bounds,
)
from conecollapse._nnls.constrained import LIFT, Scaled
from conecollapse._nnls.products import Problems, solve
from conecollapse._nnls.slots import price
from conecollapse._types import BoolArray, FloatArray, IntArray

LIST_LENGTH = 64  # points that may join a list in one round
HELPS = 1e-14  # prices below this share of the lengths are rounding
# a round that lowers the distance by less than this share of the lengths has no effect
STALLED = 1e-15
MOST_ROUNDS = 500
ENTRIES_AT_ONCE = 2**22  # entries of the lists' points that are held at once: 32 MiB


def is_alone(scaled: Scaled) -> bool:
    """Whether the only constraint is a sum of one, over the columns of a dense matrix."""
    c = scaled.constraints
    others = c.ridge or c.upper is not None or c.allowed is not None or c.weights is not None
    return bool(c.simplex and not others and not sp.issparse(scaled.A))


def solve_lists(
    scaled: Scaled, Bt: FloatArray, start: FloatArray | None, maxiter: int | None
) -> tuple[Record, FloatArray]:
    """A record for the right-hand sides in rows, and their KKT residuals, as
    `constrained.solve_block`."""
    V = np.ascontiguousarray(scaled.A.T)
    B, units = scaled.right_hand_sides(Bt)
    X, rounds, finished = nearest_in_hull(V, B, start, maxiter or MOST_ROUNDS)
    return judge_shares(scaled, B, units, X, rounds, finished)


def judge_shares(
    scaled: Scaled,
    B: FloatArray,
    units: FloatArray,
    X: FloatArray,
    rounds: IntArray,
    finished: BoolArray,
) -> tuple[Record, FloatArray]:
    """What is known of shares ``X``, optimal or not: shares change by at most 2."""
    V, k = scaled.A.T, len(X)
    R = B - X @ V
    value, size, used = row_norms(R), 1.0 + row_norms(B), X > 0
    gradient = R @ scaled.A
    gradient -= np.einsum("ij,ij->i", X, gradient)[:, None]
    violation = np.where(used, np.abs(gradient), gradient)
    rounding = EPS * (4 + np.sqrt(used.sum(axis=1))) * size
    noise = rounding + EPS * (4 + np.sqrt(len(scaled.A))) * value
    record, sigma = Record.empty(*X.shape), np.zeros(k)
    measured = Measured(violation, X < 0, sigma, np.full(k, 2.0), value, noise, np.ones(k))
    lower_bounds(measured, False, record.least)
    rows = np.flatnonzero(~is_optimal(value + rounding, record.least - rounding, size))
    if len(rows):
        for i in rows[used[rows].sum(axis=1) <= len(scaled.A) + 1]:
            points = np.column_stack([V[used[i]], np.full(used[i].sum(), LIFT)])
            sigma[i] = np.linalg.svd(points, compute_uv=False)[-1]
        bound, parts = np.empty(len(rows)), (measured.reach, value, noise, measured.longest)
        some = Measured(violation[rows], used[rows], sigma[rows], *(v[rows] for v in parts))
        lower_bounds(some, False, bound)
        record.least[rows] = np.maximum(record.least[rows], bound)
    record.least[:] = np.maximum(record.least - rounding, 0.0)
    optimal = is_optimal(value + rounding, record.least, size)
    record.ending[:] = np.where(finished, np.where(optimal, OPTIMAL, UNPROVEN), STEP_LIMIT)
    record.X[:], record.rnorm[:], record.steps[:] = X, value * units, rounds
    record.least[:] *= units
    return record, np.maximum(violation.max(axis=1), 0.0) / size


def nearest_in_hull(
    V: FloatArray, Y: FloatArray, start: FloatArray | None, limit: int
) -> tuple[FloatArray, IntArray, BoolArray]:
    """Shares of the rows of ``V`` in the point of their hull nearest to each row of ``Y``, the
    rounds, and whether the limit was kept.

    Rows of ``V`` have length at most LIFT.
    """
    X, rounds, finished = (
        np.zeros((len(Y), len(V))),
        np.zeros(len(Y), np.int64),
        np.ones(len(Y), bool),
    )
    most = min(len(V), V.shape[1] + 1) + LIST_LENGTH + 1
    step = max(1, ENTRIES_AT_ONCE // (most * max(most, V.shape[1])))
    for a in range(0, len(Y), step):
        rows = slice(a, a + step)
        X[rows], rounds[rows], finished[rows] = _nearest_block(
            V, Y[rows], None if start is None else start[rows], limit
        )
    return X, rounds, finished


def _nearest_block(
    V: FloatArray, Y: FloatArray, start: FloatArray | None, limit: int
) -> tuple[FloatArray, IntArray, BoolArray]:
    k = len(Y)
    X, rounds, finished = np.zeros((k, len(V))), np.zeros(k, np.int64), np.ones(k, bool)
    totals = np.zeros(k) if start is None else start.sum(axis=1)
    given = np.flatnonzero(totals > 0)
    if start is not None:
        X[given] = start[given] / totals[given, None]
    cold = np.flatnonzero(totals <= 0)
    X[cold, np.argmax(Y[cold] @ V.T - 0.5 * np.einsum("ij,ij->i", V, V), axis=1)] = 1.0
    Z = X @ V
    size = 1.0 + row_norms(Y)
    distance = row_norms(Y - Z)
    active = np.arange(k)
    while len(active):
        R = Y[active] - Z[active]
        least = np.einsum("ij,ij->i", R, Z[active]) + HELPS * size[active]
        lists = price(R, V, np.arange(len(V)), least, LIST_LENGTH)
        # shares that were given may not be the best ones
        wants = (lists.lengths > 0) | ((rounds[active] == 0) & (totals[active] > 0))
        active, R = active[wants], R[wants]
        if not len(active):
            break
        out_of_rounds = rounds[active] >= limit
        finished[active[out_of_rounds]] = False
        if out_of_rounds.any():
            break
        rounds[active] += 1
        ids, shares = _lists(X[active], lists.ids[wants], lists.lengths[wants])
        P = V[ids] - Z[active][:, None, :]
        G = P @ P.transpose(0, 2, 1) + LIFT**2
        C = (P @ R[:, :, None])[:, :, 0]
        unbounded, which = np.full((1, ids.shape[1]), np.inf), np.arange(len(active))
        problems = Problems(G, which, C, unbounded, ids >= 0, row_norms(R))
        solved = solve(problems, shares, total=1.0, capacity=V.shape[1] + 1)
        X[active] = 0.0
        row, place = np.nonzero(solved.X > 0)
        X[active[row], ids[row, place]] = solved.X[row, place]
        Z[active] += (solved.X[:, None, :] @ P)[:, 0, :]
        reached = row_norms(Y[active] - Z[active])
        moving = reached < distance[active] - STALLED * size[active]
        distance[active] = reached
        active = active[moving]
    return X, rounds, finished


def _lists(X: FloatArray, joining: IntArray, lengths: IntArray) -> tuple[IntArray, FloatArray]:
    """The points with a share and those that join, padded by -1, and the shares."""
    rows = [
        np.union1d(np.flatnonzero(x), new[:count])
        for x, new, count in zip(X, joining, lengths, strict=True)
    ]
    ids = np.full((len(rows), max(map(len, rows))), -1, np.int64)
    shares = np.zeros(ids.shape)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        shares[i, : len(row)] = X[i, row]
    return ids, shares
