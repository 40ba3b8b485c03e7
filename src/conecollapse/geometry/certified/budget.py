"""How much work a quick cone may do: counted in multiplications, so that it stops at the same place on every machine.

The unit is one product of the points with their transpose: ``m^2 n`` multiplications for m dense points in n dimensions, the sum
of the squared numbers of points that have each coordinate for sparse ones. Half a product, in float32, takes a quarter of that time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import column_counts
from conecollapse._types import Points

PRODUCTS = 2.0  # that a quick cone may take in all
OVERHEAD = 0.4  # products that checking, scaling, grouping and writing the certificate may take beside what is counted
SYMMETRIC_SINGLE = 0.25  # products that the symmetric product in float32 takes
FIXED = 2.0**21  # multiplications that take as long as what a quick cone does whatever the number of points: a quarter of a millisecond
EIGEN = 8  # multiplications, for each entry of a k x k x k cube, that take as long as an eigendecomposition


@dataclass
class Budget:
    """What may still be spent, and what has been."""

    left: float
    spent: float = 0.0

    @classmethod
    def quick(cls, U: Points) -> Budget:
        """Of a quick cone of these points."""
        return cls((PRODUCTS - OVERHEAD) * product_work(U))

    @classmethod
    def endless(cls) -> Budget:
        return cls(np.inf)

    def take(self, work: float) -> bool:
        """Whether there is room for ``work``, which is spent if there is."""
        if work > self.left:
            return False
        self.spend(work)
        return True

    def spend(self, work: float) -> None:
        self.left -= work
        self.spent += work


def product_work(U: Points) -> float:
    """Multiplications of one product of the points with their transpose."""
    m, n = U.shape
    if not sp.issparse(U):
        return float(m) * m * n
    counts = column_counts(U)
    return float(counts @ counts)


def frame_work(m: int, n: int) -> float:
    """Of the round coordinates of m points in n dimensions: two products with a square matrix, and its eigenvectors."""
    k = float(min(m, n))
    return 2 * k * m * n + EIGEN * k**3
