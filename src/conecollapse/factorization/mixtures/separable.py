r"""Near-separable NMF: components that are points of the data, chosen by one of several methods.

Every method gives r points. To choose between methods and scalings without labels, each choice is
judged by how well its cone fits all points: the sum over points of
:math:`\operatorname{dist}(x, \operatorname{cone})^2 / \|x\|`, in which neither the brightest points
nor the darkest decide alone. One of the choices is made of the points nearest in angle to the
components of minimum volume (`conecollapse.factorization.mixtures.starts`), which use all points
where the others look at extremes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import dense_rows, row_lengths, unit_rows
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.factorization.mixtures.starts import unmix
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.geometry.selections import SCALINGS, SELECTIONS

METHODS = ("auto", *SELECTIONS)
NEAREST = "nearest to minimum volume"
# of which "auto" takes the best, beside the points nearest to the components of minimum volume
AUTOMATIC = ("cone", "spa")


@dataclass(frozen=True)
class Selection:
    """Points chosen as components, how, and the error that speaks for them."""

    indices: IntArray
    method: str
    scaling: str
    error: float  # root of the weighted squared residuals over the total length


def select(
    points: Points, r: int, method: str, scaling: str, rng: np.random.Generator
) -> Selection:
    """``r`` of the rows of ``points``, which are not all zero; "auto" for method or scaling takes
    the smallest error."""
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if scaling not in ("auto", *SCALINGS):
        raise InvalidInputError(
            f"scaling must be one of auto, {', '.join(SCALINGS)}; got {scaling!r}."
        )
    scalings = SCALINGS if scaling == "auto" else (scaling,)
    methods = AUTOMATIC if method == "auto" else (method,)
    found = []
    with serial_blas():
        for name in methods:
            for how in scalings:
                indices = SELECTIONS[name](points, r, how, rng)
                if len(indices) == r:
                    found.append(Selection(indices, name, how, weighted_error(points, indices)))
    if method == "auto" and scaling == "auto":
        near = nearest(points, unmix(points, r).result.H)
        if len(set(near.tolist())) == r:
            found.append(Selection(near, NEAREST, "root", weighted_error(points, near)))
    if not found:
        raise InvalidInputError(
            f"n_components = {r}, but the cone of X has fewer rays than that; ask for fewer."
        )
    return min(found, key=lambda s: s.error)


def nearest(points: Points, H: FloatArray) -> IntArray:
    """For each row of H the point with the smallest angle to it."""
    U, _ = unit_rows(points)
    return np.asarray(U @ (H / row_lengths(H)[:, None]).T).argmax(axis=0)


def weighted_error(points: Points, indices: IntArray) -> float:
    """Root of the sum of ``dist(x, cone)^2 / |x|`` over the sum of ``|x|``."""
    K = dense_rows(points, indices).astype(np.float64)
    lengths = row_lengths(points)
    filled = lengths > 0
    G, C = K @ K.T, np.asarray(points @ K.T, np.float64)
    W = solve_rows(G, C)
    squares = np.maximum(
        lengths**2 - 2 * np.einsum("ij,ij->i", C, W) + np.einsum("ij,ij->i", W @ G, W), 0.0
    )
    return float(np.sqrt((squares[filled] / lengths[filled]).sum() / lengths.sum()))
