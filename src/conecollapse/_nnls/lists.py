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

from conecollapse._linalg import row_norms
from conecollapse._nnls.bound import OPTIMAL, STEP_LIMIT
from conecollapse._nnls.products import FREE, LOW, Problems, Solved, solve
from conecollapse._nnls.slots import price
from conecollapse._types import FloatArray, IntArray

LIST_LENGTH = 64  # points that may join a list in one round
HELPS = 1e-14  # prices below this share of the lengths are rounding
# a round that lowers the distance by less than this share of the lengths has no effect
STALLED = 1e-15
MOST_ROUNDS = 500
ENTRIES_AT_ONCE = 2**22  # entries of the lists' points that are held at once: 32 MiB


def nearest_in_hull(
    V: FloatArray, Y: FloatArray, start: FloatArray | None, limit: int | None
) -> Solved:
    """Shares of the rows of ``V``, shorter than 1, in the point of their hull nearest to each row
    of ``Y``; the steps are rounds."""
    k, n = len(Y), len(V)
    ints = np.zeros((2, k), np.int64)
    solved = Solved(np.zeros((k, n)), np.zeros((k, n), np.int8), *ints)
    most = min(n, V.shape[1] + 1) + LIST_LENGTH + 1
    step = max(1, ENTRIES_AT_ONCE // (most * max(most, V.shape[1])))
    for a in range(0, k, step):
        rows = slice(a, a + step)
        first = None if start is None else start[rows]
        solved.X[rows], solved.steps[rows], solved.ending[rows] = _nearest_block(
            V, Y[rows], first, limit or MOST_ROUNDS
        )
    solved.side[:] = np.where(solved.X > 0, FREE, LOW)
    return solved


def _nearest_block(
    V: FloatArray, Y: FloatArray, start: FloatArray | None, limit: int
) -> tuple[FloatArray, IntArray, IntArray]:
    k = len(Y)
    X, rounds, ending = np.zeros((k, len(V))), np.zeros(k, np.int64), np.full(k, OPTIMAL)
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
        ending[active[out_of_rounds]] = STEP_LIMIT
        if out_of_rounds.any():
            break
        rounds[active] += 1
        ids, shares = _lists(X[active], lists.ids[wants], lists.lengths[wants])
        P = V[ids] - Z[active][:, None, :]
        G = P @ P.transpose(0, 2, 1) + 1.0  # for the sum
        C = (P @ R[:, :, None])[:, :, 0]
        upper = np.where(ids >= 0, np.inf, 0.0)
        problems = Problems(G, np.arange(len(active)), C, upper, row_norms(R))
        solved = solve(problems, shares, total=1.0, capacity=V.shape[1] + 1)
        X[active] = 0.0
        row, place = np.nonzero(solved.X > 0)
        X[active[row], ids[row, place]] = solved.X[row, place]
        Z[active] += (solved.X[:, None, :] @ P)[:, 0, :]
        reached = row_norms(Y[active] - Z[active])
        moving = reached < distance[active] - STALLED * size[active]
        distance[active] = reached
        active = active[moving]
    return X, rounds, ending


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
