"""How long a cone will take, from counts that are known before the work begins.

Times are those of two cores of 2020 and good to a factor of several: enough to say beforehand that a user will have to wait. They depend on
the points alone and never on a clock, so what is decided by them is the same on every machine.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import SlowWarning
from conecollapse._types import Points

LONG = 10.0  # seconds that a user waits without being told
DENSE_SPEED = 4e10  # multiplications a second of a product in float32
SPARSE_SPEED = 2e8  # of a product of sparse points
SEARCH_SPEED = 3e9  # of the prices that active sets compute
EACH = 2e-4  # seconds for a point whatever its size


def product_seconds(U: Points) -> float:
    """One product of the points with their transpose."""
    m, n = U.shape
    dense = m * m * n / 2 / DENSE_SPEED
    if not sp.issparse(U):
        return dense
    counts = np.bincount(U.indices, minlength=n).astype(np.float64)
    return min(dense, float(counts @ counts) / SPARSE_SPEED)


def rest_seconds(n_left: int, U: Points) -> float:
    """To decide ``n_left`` of the points, each by an active set of up to as many steps as there are dimensions, priced over all points."""
    m, n = U.shape
    entries = U.nnz if sp.issparse(U) else m * n
    return n_left * (EACH + min(m, n) * entries / SEARCH_SPEED)


def warn_of_rest(n_left: int, U: Points) -> None:
    """Say beforehand that what the product did not decide takes long."""
    instead = "a quick cone leaves them open, and max_rays=... asks for an epsilon-cone of few rays (Cone.approximate)"
    warn_if_long(rest_seconds(n_left, U), f"deciding the {n_left} of {U.shape[0]} points that are left", instead)


def warn_if_long(seconds: float, work: str, instead: str) -> None:
    """Say beforehand that ``work`` takes long, and what takes less."""
    if seconds > LONG:
        size, unit = next((size, unit) for size, unit in ((3600, "hours"), (60, "minutes"), (1, "seconds")) if seconds >= 2 * size)
        warnings.warn(f"{work} may take about {seconds / size:.0f} {unit}; {instead}.", SlowWarning, stacklevel=3)
