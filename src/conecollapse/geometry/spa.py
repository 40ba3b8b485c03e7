"""Successive projection: the anchor of separable data as the longest point, again and again (Araujo
et al. 2001; Gillis & Vavasis 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_points, check_count
from conecollapse._linalg import largest
from conecollapse._types import IntArray
from conecollapse.geometry.scaling import scaled_points


def spa(P: Any, n_rays: int, scaling: str = "sum") -> IntArray:
    """Indices of ``n_rays`` rows of ``P`` by successive projection.

    By default points are scaled to sum one, where the rays of separable data are the vertices of a
    simplex. The longest point is taken, all points are projected on the complement of it, and so
    on. It finds at most as many rays as there are dimensions. Points of unit length
    (``scaling="length"``) are all equally long, so there the first is the one furthest from the
    mean direction; "raw" leaves the points as they are.

    >>> from conecollapse.geometry.spa import spa
    >>> spa([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 3).tolist()
    [0, 1, 3]
    """
    points = as_points(P)
    n_rays = min(check_count(n_rays, "n_rays"), *points.shape)
    Q = scaled_points(points, scaling)
    squares = np.asarray(
        (Q * Q).sum(axis=1) if not sp.issparse(Q) else Q.multiply(Q).sum(axis=1)
    ).ravel()
    limit = np.finfo(np.float64).eps * float(squares.max(initial=0.0))
    basis = np.zeros((0, points.shape[1]))
    chosen: list[int] = []
    for k in range(n_rays):
        i = largest(squares if k or scaling != "length" else _away_from_mean(Q, squares))
        if squares[i] <= limit:  # nothing is left outside the span
            break
        v = np.asarray(Q[[i]].toarray() if sp.issparse(Q) else Q[[i]], np.float64)[0]
        v = v - basis.T @ (basis @ v)
        v /= np.linalg.norm(v)
        basis = np.vstack([basis, v])
        squares = squares - np.asarray(Q @ v).ravel() ** 2
        squares[i] = -np.inf
        chosen.append(i)
    return np.array(chosen, np.int64)


def _away_from_mean(Q: Any, squares: Any) -> Any:
    """Squared distance of each point from the line through the mean."""
    mean = np.asarray(Q.sum(axis=0), np.float64).ravel()
    mean /= max(float(np.linalg.norm(mean)), np.finfo(np.float64).tiny)
    return np.where(squares > 0, squares - np.asarray(Q @ mean).ravel() ** 2, -1.0)
