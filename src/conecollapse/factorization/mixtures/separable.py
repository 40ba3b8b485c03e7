r"""Near-separable NMF: components that are points of the data.

`nearest`, the default, takes the points with the smallest angles to the components of minimum
volume (`conecollapse.factorization.mixtures.starts`), which use all points. The other methods look
at extremes (`conecollapse.geometry.selections`).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths, unit_rows
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.factorization.mixtures.starts import unmix
from conecollapse.geometry.selections import SCALINGS, SELECTIONS

NEAREST = "nearest"
METHODS = (NEAREST, *SELECTIONS)


def select(points: Points, r: int, method: str, scaling: str, rng: np.random.Generator) -> IntArray:
    """``r`` of the rows of ``points``, which are not all zero; ``scaling`` is for the methods that
    look at extremes."""
    for name, value, known in (("method", method, METHODS), ("scaling", scaling, SCALINGS)):
        if value not in known:
            raise InvalidInputError(f"{name} must be one of {', '.join(known)}; got {value!r}.")
    with serial_blas():
        if method == NEAREST:
            return nearest(points, unmix(points, r).result.H)
        indices = SELECTIONS[method](points, r, scaling, rng)
    if len(indices) < r:
        raise InvalidInputError(
            f"n_components = {r}, but the cone of X has fewer rays than that; ask for fewer."
        )
    return indices


def nearest(points: Points, H: FloatArray) -> IntArray:
    """For each row of H a point of its own, with the largest sum of cosines."""
    U, _ = unit_rows(points)
    cosines = np.asarray(U @ (H / row_lengths(H)[:, None]).T)
    return np.asarray(linear_sum_assignment(-cosines.T)[1])
