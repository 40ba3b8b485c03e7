r"""Points that lead in their own direction, in a metric that needs no eigenvectors.

On the slice ``q = u / sum u`` with the mean c and the variance :math:`v_d` of each coordinate, the
functional :math:`a = (q_i - c) / v` is the direction of a point in the metric ``diag(1 / v)``.
Where coordinates are many and noisy, such as the cells of a table of genes, a point is usually the
one that goes furthest in it, and one product with the sparse points proves it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import dense_entries, dense_rows, piece_entries, row_pieces, row_sizes
from conecollapse._types import FloatArray, IntArray, Points, Sparse
from conecollapse.geometry.certified.confirm import confirm

WIDE = 64  # points with fewer coordinates are decided in no time by the points that they contain
SAMPLE = 16  # points that are tried first
WORTHWHILE = 0.5  # share of these that must be proven


def led_by_variance(
    U: Points, sums: FloatArray, points: IntArray, tol: float, *, once: bool = False
) -> dict[int, FloatArray]:
    """Witnesses of those of ``points`` that lead in their own direction by more than ``tol``;
    ``once`` is as in `confirm`."""
    m, n = U.shape
    centre, squares = (1 / sums) @ U / m, np.zeros(n)
    for rows in row_pieces(row_sizes(U), piece_entries(U)):
        part = U[rows]
        squares += (1 / sums[rows] ** 2) @ (part.power(2) if sp.issparse(part) else part**2)
    variance = squares / m - centre**2
    weight = np.where(variance > 0, 1 / np.where(variance > 0, variance, 1.0), 0.0)
    found: dict[int, FloatArray] = {}
    step = max(1, dense_entries(U) // n)
    for a in range(0, len(points), step):
        some = points[a : a + step]
        G, proven = confirm(
            (dense_rows(U, some) / sums[some, None] - centre) * weight,
            some,
            U,
            sums,
            tol,
            once=once,
        )
        found.update(zip(some[proven].tolist(), G[proven], strict=True))
    return found


def wide_led_by_variance(
    U: Sparse, sums: FloatArray, points: IntArray, tol: float
) -> dict[int, FloatArray]:
    """`led_by_variance` for those of ``points`` that have many coordinates.

    A sample is tried first. Where it shows that few points lead, or where witnesses would take more
    room than the points, there are none.
    """
    points = points[np.diff(U.indptr)[points] > WIDE]
    if not len(points) or len(points) * U.shape[1] > U.nnz:
        return {}
    sample = points[:: max(1, len(points) // SAMPLE)]
    found = led_by_variance(U, sums, sample, tol)
    if len(found) >= WORTHWHILE * len(sample):
        found |= led_by_variance(U, sums, np.setdiff1d(points, sample), tol)
    return found
