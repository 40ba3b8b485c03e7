"""How much work a quick cone may do: counted beforehand in nanoseconds, from the sizes of the
points alone.

A quick cone takes at most two products of the points with their transpose. What it will do is
counted before it is done, and what does not fit is left out, so that it stops at the same place on
every machine. The product is counted as one that is fast, and our own work as on a busy machine:
the first is a bound from below, the second one from above.

Checking the points, scaling them, merging those of one direction and writing the certificate is
done in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import column_counts
from conecollapse._types import Points

PRODUCTS = 2.0  # that a quick cone may take in all,
# and the part of them that is planned for: our own work suffers more than a product from others on
# the machine
PLANNED = 0.75

MULTIPLY, WRITE = 0.02, 0.4  # a dense product: each multiplication, and each entry of the result
MULTIPLY_SPARSE, WRITE_SPARSE, CALL_SPARSE = 2.5, 4.0, 1e5  # a sparse one: the same, and the whole

# what is done in any case: the whole, each entry, each point
ALWAYS, ALWAYS_ENTRY, ALWAYS_POINT = 1.6e5, 3.0, 100.0
ALWAYS_SPARSE, ALWAYS_SPARSE_ENTRY = 5e5, 20.0  # and of sparse points
MERGED, MERGED_POINT = 2e5, 300.0  # where points are merged: the whole, each of them

EIGEN_SQUARE, EIGEN_CUBE = 90.0, 0.06  # eigenvectors of a k x k matrix: each of k^2, each of k^3
# round coordinates: the whole, each entry, each multiplication
FRAME, FRAME_ENTRY, FRAME_MULTIPLY = 1.2e5, 12.0, 0.045
# the symmetric product in float32 and its maxima
LEAD, LEAD_ENTRY, SINGLE_MULTIPLY, LEAD_MAXIMUM = 2.2e5, 8.0, 0.026, 0.8
AGAIN_MULTIPLY, AGAIN_MAXIMUM = 0.045, 0.6  # products in float64 with their maxima
# leads in the metric of variances: the whole, each entry, each product
VARIANCE, VARIANCE_ENTRY, VARIANCE_MAXIMUM = 1.2e6, 30.0, 3.0

# posting lists and private coordinates: the whole, each entry, each point
SUPPORTS, SUPPORTS_ENTRY, SUPPORTS_POINT = 6e5, 30.0, 1.5e3
VISIT = 20.0  # an entry that is visited for a private coordinate
COMBINATION = 1e4  # a point that is the sum of axes

LEAST = min(FRAME + LEAD, SUPPORTS)  # with less nothing can be begun


@dataclass
class Budget:
    """Nanoseconds that may still be spent, and those that have been."""

    left: float
    spent: float = 0.0

    @classmethod
    def quick(cls, V: Points, n_points: int) -> Budget:
        """Of a quick cone of so many points, whose leaders are ``V``, after what is done in any
        case."""
        if sp.issparse(V):
            product, always = product_time(V), ALWAYS_SPARSE + ALWAYS_SPARSE_ENTRY * V.nnz
        else:
            product, always = (
                _dense_product(n_points, V.shape[1]),
                ALWAYS + ALWAYS_ENTRY * n_points * V.shape[1],
            )
        n_merged = n_points - V.shape[0]
        always += ALWAYS_POINT * n_points + MERGED * (n_merged > 0) + MERGED_POINT * n_merged
        return cls(PLANNED * PRODUCTS * product - always)

    @classmethod
    def endless(cls) -> Budget:
        return cls(np.inf)

    @property
    def is_endless(self) -> bool:
        return self.left == np.inf

    def take(self, work: float) -> bool:
        """Whether there is room for ``work``, which is spent if there is."""
        if work > self.left:
            return False
        self.spend(work)
        return True

    def spend(self, work: float) -> None:
        self.left -= work
        self.spent += work


def product_time(U: Points) -> float:
    """Of one product of the points with their transpose."""
    m, n = U.shape
    if not sp.issparse(U):
        return _dense_product(m, n)
    counts, pairs = column_counts(U), float(m) * m
    work = float(counts @ counts)
    # as many as if the coordinates of all points were independent
    written = pairs * -np.expm1(-work / pairs)
    return float(CALL_SPARSE + MULTIPLY_SPARSE * work + WRITE_SPARSE * written)


def _dense_product(m: int, n: int) -> float:
    return float(m) * m * (MULTIPLY * n + WRITE)


def lead_time(m: int, n: int) -> float:
    """Of round coordinates of m points in n dimensions, and of the product that finds those that
    lead in their own direction."""
    k, entries = float(min(m, n)), float(m) * n
    frame = (
        FRAME
        + FRAME_ENTRY * entries
        + FRAME_MULTIPLY * 2 * k * entries
        + EIGEN_SQUARE * k**2
        + EIGEN_CUBE * k**3
    )
    return frame + LEAD + LEAD_ENTRY * entries + m * m / 2 * (SINGLE_MULTIPLY * k + LEAD_MAXIMUM)


def again_time(m: int, n: int) -> float:
    """Of the products of one point with m points in n dimensions, in float64."""
    return m * (AGAIN_MULTIPLY * n + AGAIN_MAXIMUM)


def variance_time(m: int, n: int) -> float:
    """Of one point that is compared with m points in n dimensions in the metric of variances."""
    return VARIANCE_ENTRY * n + m * (SINGLE_MULTIPLY * n + VARIANCE_MAXIMUM)
