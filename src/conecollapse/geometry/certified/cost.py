"""How long a cone takes, from counts that are known before the work begins.

Times depend on the points alone and never on a clock, so what is decided by them is the same on
every machine.

*To say beforehand that a user has to wait*, times of two cores of 2020 are good enough, within a
factor of several.

*A quick cone* takes at most two products of the points with their transpose (`Budget`). What it
will do is counted before it is done, and what does not fit is left out. The product is counted as
one that is fast, and our own work as on a busy machine: the first is a bound from below, the second
one from above. Checking the points, scaling them, merging those of one direction and writing the
certificate is done in any case.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import SlowWarning
from conecollapse._linalg import column_counts
from conecollapse._types import BoolArray, Points

LONG = 10.0  # seconds that a user waits without being told
SEARCH_SPEED = 2.5e8  # multiplications a second of the triangular factors of active sets
EACH = 2e-4  # seconds for a point whatever its size
ROUNDS = 10  # times that the residual of a point is priced against all points


PRODUCTS = 2.0  # that a quick cone may take in all,
# and the part of them that is planned for: our own work suffers more than a product from others on
# the machine
PLANNED = 0.75

# nanoseconds
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

# posting lists and private coordinates: the whole, each entry, each point
SUPPORTS, SUPPORTS_ENTRY, SUPPORTS_POINT = 6e5, 30.0, 1.5e3
VISIT = 20.0  # an entry that is visited for a private coordinate
COMBINATION = 1e4  # a point that is the sum of axes

LEAST = min(FRAME + LEAD, SUPPORTS)  # with less nothing can be begun


@dataclass
class Budget:
    """Nanoseconds that may still be spent, and those that have been."""

    left: float = np.inf
    spent: float = 0.0

    @classmethod
    def quick(cls, V: Points, n_points: int) -> Budget:
        """Of a quick cone of so many points, whose leaders are ``V``, after what is done in any
        case."""
        if sp.issparse(V):
            product, always = product_time(V), ALWAYS_SPARSE + ALWAYS_SPARSE_ENTRY * V.nnz
        else:
            product = float(n_points) ** 2 * (MULTIPLY * V.shape[1] + WRITE)
            always = ALWAYS + ALWAYS_ENTRY * n_points * V.shape[1]
        n_merged = n_points - V.shape[0]
        always += ALWAYS_POINT * n_points + MERGED * (n_merged > 0) + MERGED_POINT * n_merged
        return cls(PLANNED * PRODUCTS * product - always)

    @classmethod
    def cheap(cls) -> Budget:
        """Room for all that is cheap: the search and small problems are left out."""
        return cls(np.finfo(np.float64).max)

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
        return float(m) * m * (MULTIPLY * n + WRITE)
    counts, pairs = column_counts(U), float(m) * m
    work = float(counts @ counts)
    # as many as if the coordinates of all points were independent
    written = pairs * -np.expm1(-work / pairs)
    return float(CALL_SPARSE + MULTIPLY_SPARSE * work + WRITE_SPARSE * written)


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


def rest_seconds(left: BoolArray, U: Points) -> float:
    """To decide the points that are ``left``, each by an active set.

    Dense points are priced against all others. The larger the share of points that no product
    proves, the deeper inside the cone they lie, and the larger the part of all dimensions that
    their active sets take. A sparse point meets the points that share a coordinate with it once for
    each step, of which it takes at most as many as it has coordinates.
    """
    n_left, (m, n) = int(left.sum()), U.shape
    steps = min(m, n) * n_left / max(m, 1)
    prices = 1e-9 * MULTIPLY * ROUNDS * m * n
    dense = n_left * (EACH + prices + steps * steps * n / SEARCH_SPEED)
    if not sp.issparse(U):
        return dense
    V = U[left & (np.diff(U.indptr) > 0)]
    met = np.add.reduceat(column_counts(U)[V.indices], V.indptr[:-1]) if V.nnz else np.zeros(0)
    sparse = EACH * len(met) + 1e-9 * MULTIPLY_SPARSE * float(met @ np.diff(V.indptr))
    return min(dense, sparse)


def warn_of_rest(left: BoolArray, U: Points) -> None:
    """Say beforehand that what the product did not decide takes long."""
    instead = (
        "a quick cone leaves them open, and max_rays=... asks for an epsilon-cone of few rays"
        " (Cone.approximate)"
    )
    warn_if_long(
        rest_seconds(left, U),
        f"deciding the {int(left.sum())} of {U.shape[0]} points that are left",
        instead,
    )


def warn_if_long(seconds: float, work: str, instead: str) -> None:
    """Say beforehand that ``work`` takes long, and what takes less."""
    if seconds > LONG:
        size, unit = next(
            (size, unit)
            for size, unit in ((3600, "hours"), (60, "minutes"), (1, "seconds"))
            if seconds >= 2 * size
        )
        warnings.warn(
            f"{work} may take about {seconds / size:.0f} {unit}; {instead}.",
            SlowWarning,
            stacklevel=3,
        )
