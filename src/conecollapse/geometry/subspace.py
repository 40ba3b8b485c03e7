"""The best low-dimensional subspace of many points, and the points that do not lie near it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as spla

from conecollapse._errors import InvalidInputError, argument
from conecollapse._linalg import row_norms, scaled_rows, unit_rows
from conecollapse._types import BoolArray, FloatArray, Points

SMALL_SIDE = 1000  # coordinates or points up to which the whole Gram matrix is decomposed
# robust standard deviations, on a logarithmic scale, beyond which "auto" leaves a point out
FAR = 4.0
# a median absolute deviation, times this, is the standard deviation of normal numbers
NORMAL = 1.4826
LONG = 2.0  # median lengths that a point counts for at most
ROUNDS = 3  # of leaving out and fitting the subspace again
MOST = 0.5  # share of the points that may be left out


def best_subspace(Q: Points, r: int) -> FloatArray:
    """Orthonormal columns (dim, r): the r-dimensional subspace with the smallest sum of squared
    distances from the rows of Q."""
    n, m = Q.shape
    r = min(r, n, m)
    if min(n, m) <= SMALL_SIDE or r >= min(n, m):
        is_wide = n < m
        K = Q @ Q.T if is_wide else Q.T @ Q
        K = np.asarray(K.toarray() if hasattr(K, "toarray") else K)
        _, vectors = scipy.linalg.eigh(K, subset_by_index=[len(K) - r, len(K) - 1])
        if not is_wide:
            return np.asarray(vectors[:, ::-1])
        V = np.asarray(Q.T @ vectors[:, ::-1])
        return np.asarray(np.linalg.qr(V)[0])
    start = np.random.default_rng(0).standard_normal(min(n, m))
    return np.asarray(spla.svds(Q, k=r, v0=start)[2][::-1].T)


def outlying(points: Points, r: int, outliers: Any) -> BoolArray:
    """Which points fit no mixture of r components: those furthest from the best r-dimensional
    subspace.

    ``outliers`` is the share of the points to leave out, or "auto": those whose distance stands out
    from the bulk of distances by more than `FAR` robust standard deviations. Points longer than
    `LONG` times the median length are shortened to that, so that no bright point draws the
    subspace; it is fitted again without what was left out. Zero points fit everything.
    """
    n = points.shape[0]
    away = np.zeros(n, bool)
    if outliers == 0:
        return away
    share = _checked(outliers)
    U, lengths = unit_rows(points)
    filled = lengths > 0
    Q = scaled_rows(U, np.minimum(lengths / float(np.median(lengths[filled])), LONG))
    for _ in range(ROUNDS):
        V = best_subspace(Q[filled & ~away], r)
        squares = np.maximum(row_norms(Q) ** 2 - row_norms(np.asarray(Q @ V)) ** 2, 0.0)
        distance = np.where(filled, np.sqrt(squares), 0.0)
        if share is None:
            away = _standing_out(distance, filled)
        else:
            away = np.zeros(n, bool)
            away[np.argsort(-distance, kind="stable")[: int(np.ceil(share * n))]] = True
    return away


def _checked(outliers: Any) -> float | None:
    if isinstance(outliers, str) and outliers == "auto":
        return None
    if (
        isinstance(outliers, (int, float, np.integer, np.floating))
        and not isinstance(outliers, bool)
        and 0 <= outliers <= MOST
    ):
        return float(outliers)
    raise InvalidInputError(
        f"{argument('outliers')} must be 'auto' or a share of the samples from 0 to {MOST:g}; got"
        f" {outliers!r}."
    )


def _standing_out(distance: FloatArray, filled: BoolArray) -> BoolArray:
    """Distances far above the bulk, on a logarithmic scale: noise differs by factors from point to
    point, and outliers by orders."""
    logs = np.log(np.maximum(distance, 1e-12))
    middle = float(np.median(logs[filled]))
    spread = NORMAL * float(np.median(np.abs(logs[filled] - middle)))
    away: BoolArray = filled & (logs > middle + FAR * max(spread, 1e-3)) & (distance > 1e-6)
    return away if away.mean() <= MOST else np.zeros(len(away), bool)
