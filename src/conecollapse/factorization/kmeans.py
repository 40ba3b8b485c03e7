"""k-means from several starts at once: what the starts share is one product for all of them.

Arrays for S starts have the starts first: labels (S, n), centres (S, r, d). A start that no longer
changes takes no further part.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray, IntArray

MAX_STEPS = 100
# what a centre is further off than the one before it: rounding decides nothing for rows, of unit
# length or zero, that are as near to several
TIE = 1e-10
# rows times clusters up to which a dense matrix of memberships takes less time than a sparse one
FEW_PLACES = 2**17


def seeds(E: AnyArray, r: int, n_starts: int, rng: np.random.Generator) -> IntArray:
    """Greedy k-means++ (Arthur & Vassilvitskii 2007): (n_starts, r) rows of ``E``.

    Each next seed is the best of a few rows drawn in proportion to their squared distance from the
    seeds so far.
    """
    n, here = len(E), np.arange(n_starts)
    n_drawn = 2 + int(np.log(r))
    squares = np.einsum("ij,ij->i", E, E)

    def distances(rows: IntArray) -> AnyArray:
        products = E[rows] @ E.T
        products *= 2
        apart = squares[rows][:, None] + squares
        apart -= products
        return np.maximum(apart, 0.0, out=apart)

    chosen = np.empty((n_starts, r), np.int64)
    chosen[:, 0] = rng.integers(n, size=n_starts)
    closest = distances(chosen[:, 0])
    for k in range(1, r):
        shares = np.cumsum(closest, axis=1)
        drawn = rng.random((n_starts, n_drawn)) * shares[:, -1:]
        rows = np.array(
            [share.searchsorted(at) for share, at in zip(shares, drawn, strict=True)]
        ).clip(max=n - 1)
        closer = distances(rows.ravel()).reshape(n_starts, n_drawn, n)
        np.minimum(closer, closest[:, None], out=closer)
        best = closer.sum(axis=2).argmin(axis=1)
        closest, chosen[:, k] = closer[here, best], rows[here, best]
    return chosen


def nearest(E: AnyArray, centres: AnyArray) -> IntArray:
    """For each start the nearest of its centres to every row of ``E``."""
    S, r, d = centres.shape
    far = (E @ centres.reshape(-1, d).T).reshape(len(E), S, r)
    far *= -2
    far += np.square(centres).sum(axis=2) + TIE * np.arange(r)
    return np.ascontiguousarray(far.argmin(axis=2).T)


def lloyd(
    E: AnyArray, centres: AnyArray, weights: AnyArray | None = None, max_iter: int = MAX_STEPS
) -> tuple[IntArray, FloatArray]:
    """Clusters of the rows of ``E`` from each start, and the sum of squared distances that each has
    reached."""
    S, r, _ = centres.shape
    weights = np.ones(len(E), E.dtype) if weights is None else weights
    labels, live, centres, total = (
        np.full((S, len(E)), -1),
        np.arange(S),
        centres.copy(),
        np.zeros((S, r)),
    )
    for _ in range(max_iter):
        new = nearest(E, centres[live])
        moved = (new != labels[live]).any(axis=1)
        live, new = live[moved], new[moved]
        if not len(live):
            break
        labels[live] = new
        total[live] = totals(weights, new, r)
        held = total[live][:, :, None]
        means = sums(np.broadcast_to(weights, new.shape), new, r, E) / np.where(held > 0, held, 1.0)
        centres[live] = np.where(held > 0, means, centres[live])
    within = float(weights @ np.einsum("ij,ij->i", E, E)) - (
        total * np.square(centres).sum(axis=2)
    ).sum(axis=1)
    return labels, within


def totals(weights: AnyArray, labels: IntArray, r: int) -> FloatArray:
    """For each start and cluster the weight of its rows: (S, r)."""
    places = labels + r * np.arange(len(labels))[:, None]
    every = np.bincount(
        places.ravel(), np.broadcast_to(weights, labels.shape).ravel(), r * len(labels)
    )
    return np.asarray(every, np.float64).reshape(-1, r)


def sums(scores: AnyArray, labels: IntArray, r: int, E: AnyArray) -> AnyArray:
    """For each start and cluster the sum of its rows of ``E``, each times its score: (S, r, d)."""
    S, n = labels.shape
    places = labels + r * np.arange(S)[:, None]
    if n * S * r <= FEW_PLACES:
        members = np.zeros((n, S * r), E.dtype)
        members[np.arange(n), places] = scores
    else:
        members = sp.csr_array(
            (scores.T.ravel(), places.T.ravel(), S * np.arange(n + 1)), shape=(n, S * r)
        )
    return np.asarray(members.T @ E).reshape(S, r, E.shape[1])
