"""How long a cone will take, from counts that are known before the work begins.

Times are those of two cores of 2020 and good to a factor of several: enough to say beforehand that
a user will have to wait. They depend on the points alone and never on a clock, so what is decided
by them is the same on every machine.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import SlowWarning
from conecollapse._linalg import column_counts, piece_entries, row_pieces
from conecollapse._types import BoolArray, Points

LONG = 10.0  # seconds that a user waits without being told
DENSE_SPEED = 4e10  # multiplications a second of a product in float32
SPARSE_SPEED = 2e8  # of a product of sparse points
SEARCH_SPEED = 2.5e8  # of the triangular factors of active sets
EACH = 2e-4  # seconds for a point whatever its size
ROUNDS = 10  # times that the residual of a point is priced against all points


def product_seconds(U: Points) -> float:
    """One product of the points with their transpose."""
    m, n = U.shape
    dense = m * m * n / 2 / DENSE_SPEED
    if not sp.issparse(U):
        return dense
    counts = column_counts(U)
    return min(dense, float(counts @ counts) / SPARSE_SPEED)


def rest_seconds(left: BoolArray, U: Points) -> float:
    """To decide the points that are ``left``, each by an active set.

    Dense points are priced against all others. The larger the share of points that no product
    proves, the deeper inside the cone they lie, and the larger the part of all dimensions that
    their active sets take. A sparse point meets the points that share a coordinate with it once for
    each step, of which it takes at most as many as it has coordinates.
    """
    n_left, (m, n) = int(left.sum()), U.shape
    steps = min(m, n) * n_left / max(m, 1)
    dense = n_left * (EACH + ROUNDS * m * n / DENSE_SPEED + steps * steps * n / SEARCH_SPEED)
    if not sp.issparse(U):
        return dense
    sizes = np.diff(U.indptr)
    counts, met = column_counts(U), np.zeros(m)
    for rows in row_pieces(sizes * left, piece_entries(U)):
        some = rows[left[rows] & (sizes[rows] > 0)]
        mine = U[some]
        met[some] = np.add.reduceat(counts[mine.indices], mine.indptr[:-1]) if len(some) else 0.0
    return min(dense, float((EACH + met * sizes / SPARSE_SPEED)[left].sum()))


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
