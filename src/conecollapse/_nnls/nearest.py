"""The nearest points of a convex hull of very many points: shares over a few of them at a time.

An optimal combination needs at most one point more than there are dimensions, so a Gram matrix of
all points would be wasted. For each target a short list of points is kept. The problem over the
list is solved exactly (`quadratic`); with the residual r of its solution z, a point v outside the
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
from conecollapse._nnls.problem import Answers
from conecollapse._nnls.proof import EPS, SAFETY, is_optimal
from conecollapse._nnls.quadratic import Quadratic, solve_quadratic
from conecollapse._nnls.scaled import LIFT, Scaled
from conecollapse._nnls.slots import price
from conecollapse._types import BoolArray, FloatArray, IntArray

# columns, and columns for each row, from which lists beat a Gram matrix of all columns
MANY_COLUMNS, WIDE = 600, 4
LIST_LENGTH = 64  # points that may join a list in one round
HELPS = 1e-14  # prices below this share of the lengths are rounding
# a round that lowers the distance by less than this share of the lengths has no effect
STALLED = 1e-15
MOST_ROUNDS = 500
ENTRIES_AT_ONCE = 2**22  # entries of the lists' points that are held at once: 32 MiB


def is_for_lists(scaled: Scaled) -> bool:
    """Whether the only constraint is a sum of one, over the columns of a wide dense matrix."""
    c, (m, n) = scaled.constraints, scaled.A.shape
    alone = (
        c.simplex and not c.ridge and c.upper is None and c.allowed is None and c.weights is None
    )
    return bool(alone and not sp.issparse(scaled.A) and n > MANY_COLUMNS and n > WIDE * m)


def solve_lists(
    scaled: Scaled, Bt: FloatArray, start: FloatArray | None, maxiter: int | None
) -> tuple[FloatArray, Answers]:
    """Solutions in rows for the right-hand sides in rows, and what is known about them, as
    `constrained.solve_block`."""
    V = np.ascontiguousarray(scaled.A.T)
    B, units = scaled.right_hand_sides(Bt)
    X, rounds, finished = nearest_in_hull(V, B, start, maxiter or MOST_ROUNDS)
    R = B - X @ V
    value, size = row_norms(R), 1.0 + row_norms(B)
    gradient = R @ scaled.A
    gradient -= np.einsum("ij,ij->i", X, gradient)[:, None]
    held, worst = np.where(X > 0, gradient, 0.0), np.where(X > 0, -np.inf, gradient).max(axis=1)
    kkt = np.maximum(np.abs(held).max(axis=1), worst) / size
    rounding = EPS * (4 + np.sqrt((X > 0).sum(axis=1))) * size
    noise = rounding + EPS * (4 + np.sqrt(len(scaled.A))) * value
    # shares change by at most 2
    reach = 2.0 * (np.maximum(np.abs(held).max(axis=1), worst) + noise)
    least = np.sqrt(np.maximum(value**2 - 2 * reach, 0.0)) - rounding
    # the bound of `constrained`
    for i in np.flatnonzero(~is_optimal(value + rounding, least, size)):
        S = X[i] > 0
        sigma = (
            np.linalg.svd(np.column_stack([V[S], np.full(S.sum(), LIFT)]), compute_uv=False)[-1]
            if S.sum() <= V.shape[1] + 1
            else 0.0
        )
        lean = (
            SAFETY * np.sqrt(((np.abs(gradient[i, S]) + noise[i]) ** 2).sum()) / sigma
            if sigma > 0
            else np.inf
        )
        square = value[i] ** 2 - lean**2 - 4 * max(worst[i] + noise[i] + lean, 0.0)
        least[i] = max(least[i], np.sqrt(max(square, 0.0)) - rounding[i])
    least = np.maximum(least, 0.0)
    optimal = is_optimal(value + rounding, least, size)
    return X, Answers(value * units, kkt, least * units, rounds, finished, optimal)


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
        problems = Quadratic(G, which, C, unbounded, ids >= 0, row_norms(R), True)
        solved = solve_quadratic(
            problems, shares, min(ids.shape[1], V.shape[1] + 1), 5 * ids.shape[1] + 100
        )
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
