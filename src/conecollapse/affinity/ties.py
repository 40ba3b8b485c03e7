"""The k nearest of some samples, where a last bit decides nothing.

Data of counts and of pixels has many equal distances, and a product of matrices rounds them in
another way on each processor, for each number of threads and for each way of storing the samples.
So distances that are equal up to rounding count as equal, and of these samples those with the
smaller number are taken.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._types import FloatArray, IntArray

# squared distances are equal within this share of the k-th, and of the squared length of the
# sample, from which a product of thousands of features cancels them
TIE, ROUNDING = 1e-9, 1e-13


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
