"""Exact nearest neighbours, where neither a last bit nor the way of storing decides anything.

Data of counts and of pixels has many equal distances, and a product of matrices rounds them in
another way on each processor, for each number of threads and for each way of storing the samples.
So distances that are equal up to rounding count as equal, and of these samples those with the
smaller number are taken.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import as_dense, columns_as_points, is_sparse, row_lengths
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray, Points

# distances that are compared at once, for at least so many samples: float32 is converted for each
AT_ONCE, LEAST_ROWS = 2**18, 256
PART = 2**22  # entries of differences that are formed at once
# squared distances are equal within this share of the k-th, and of the squared length of the
# sample, from which a product of thousands of features cancels them
TIE, ROUNDING = 1e-9, 1e-13


def others_of(samples: AnyArray, rows: IntArray, k: int) -> tuple[IntArray, FloatArray]:
    """The k nearest others of these samples; k copies of a sample may keep it from being its own
    first neighbour."""
    index, distance = exact(samples[rows], samples, k + 1)
    # what is not the row itself first, in its order
    order = np.argsort(index == rows[:, None], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(index, order, axis=1), np.take_along_axis(distance, order, axis=1)


def exact(X: Points | None, samples: Points, k: int) -> tuple[IntArray, FloatArray]:
    """The k nearest samples of each row of X; where X is None, of each sample among the others."""
    rows = samples if X is None else X
    own, squares = np.square(row_lengths(rows)), np.square(row_lengths(samples))
    columns = columns_as_points(samples) if is_sparse(samples) else samples.T
    n, step = rows.shape[0], max(LEAST_ROWS, AT_ONCE // samples.shape[0])
    index, distance = np.empty((n, k), np.int64), np.empty((n, k))

    def work(start: int, stop: int) -> None:
        for a in range(start, stop, step):
            part = np.arange(a, min(a + step, stop))
            apart = _products(rows[part], columns)
            apart += squares
            if X is None:
                apart[part - a, part] = np.inf
            index[part], distance[part] = take_nearest(apart, k, own[part])

    with serial_blas():
        for_ranges(work, n, smallest=step)
    return index, distance


def _products(rows: Points, columns: Points) -> FloatArray:
    """``-2 rows columns`` in float64, dense."""
    rows = -2.0 * rows.astype(np.float64, copy=False)
    if is_sparse(rows) or columns.dtype == np.float64:
        return np.asarray(as_dense(rows @ columns))
    parts = (
        columns[:, a : a + LEAST_ROWS].astype(np.float64)
        for a in range(0, columns.shape[1], LEAST_ROWS)
    )
    return np.hstack([rows @ part for part in parts])


def nearest_of(
    samples: AnyArray, rows: IntArray, candidates: IntArray, k: int
) -> tuple[IntArray, FloatArray]:
    """The k nearest of the candidates of each row, by differences in float64; the row itself, and
    a place left empty (-1), count as infinitely far."""
    candidates = np.sort(candidates, axis=1)
    apart = np.empty(candidates.shape)
    step = max(1, PART // (candidates.shape[1] * samples.shape[1]))
    for a in range(0, len(rows), step):
        part = slice(a, a + step)
        differences = samples[candidates[part]].astype(np.float64) - samples[rows[part], None]
        apart[part] = np.einsum("ijk,ijk->ij", differences, differences)
    apart[(candidates < 0) | (candidates == rows[:, None])] = np.inf
    place, distance = take_nearest(apart, k)
    return np.take_along_axis(candidates, place, axis=1), distance


def take_nearest(
    apart: FloatArray, k: int, own: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The columns of the k smallest entries of each row, and their distances, nearest first.

    Entries are squared distances, less the squared length of the row's sample if these are given as
    ``own``: then they come from products and cancel. A sample that does not count is at infinity.
    """
    n = len(apart)
    index, squares = np.empty((n, k), np.int64), np.empty((n, k))
    _take(apart, np.zeros(n) if own is None else own, index, squares)
    order = np.argsort(squares, axis=1, kind="stable")
    return np.take_along_axis(index, order, axis=1), np.sqrt(
        np.take_along_axis(squares, order, axis=1)
    )


@kernel
def _take(apart, own, index, squares):  # type: ignore[no-untyped-def]
    """Fill ``index`` and ``squares``, in the order of the columns; what is zero up to rounding is
    zero."""
    k = index.shape[1]
    best = np.empty(k)
    for i in range(apart.shape[0]):
        best[:] = np.inf
        for j in range(apart.shape[1]):
            value = apart[i, j]
            if value < best[k - 1]:
                t = k - 1
                while t > 0 and best[t - 1] > value:
                    best[t] = best[t - 1]
                    t -= 1
                best[t] = value
        furthest = max(best[k - 1] + own[i], 0.0)
        rounding = ROUNDING * (own[i] + furthest) if furthest < np.inf else 0.0
        slack = TIE * furthest + rounding if furthest < np.inf else 0.0
        low, high = furthest - slack - own[i], furthest + slack - own[i]
        ties = k
        for t in range(k):
            ties -= best[t] < low
        taken, j = 0, 0
        while taken < k:
            value = apart[i, j]
            if value < low or (value <= high and ties > 0):
                ties -= value >= low
                square = value + own[i]
                index[i, taken] = j
                squares[i, taken] = square if square > rounding else 0.0
                taken += 1
            j += 1
