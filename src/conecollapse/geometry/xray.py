"""XRAY: grow a cone by the point that sticks out furthest along a residual (Kumar, Sindhwani &
Kambadur 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conecollapse._checks import as_points, check_count
from conecollapse._linalg import dense_rows, largest, row_norms, unit_rows
from conecollapse._nnls.active_set import active_set
from conecollapse._types import IntArray


def xray(P: Any, n_rays: int) -> IntArray:
    """Indices of ``n_rays`` rows of ``P`` by XRAY, with the largest residual as the direction to
    look in ("max").

    With ``r`` the largest residual of a point from the cone so far, the next ray maximises
    ``r . x / sum(x)``: the residual is a functional that exposes an extreme ray. Every point is
    then projected on the larger cone.

    >>> from conecollapse.geometry.xray import xray
    >>> sorted(xray([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 3).tolist())
    [0, 1, 3]
    """
    points = as_points(P)
    n_rays = check_count(n_rays, "n_rays")
    U, lengths = unit_rows(points)
    U = U[lengths > 0]
    index = np.flatnonzero(lengths > 0)
    sums = np.asarray(U.sum(axis=1)).ravel()
    residual = dense_rows(U, np.arange(U.shape[0]))
    chosen: list[int] = []
    while len(chosen) < min(n_rays, U.shape[0]):
        r = residual[largest(row_norms(residual))]
        value = np.asarray(U @ r).ravel() / sums
        value[chosen] = -np.inf
        i = largest(value)
        if value[i] <= np.finfo(np.float64).eps:  # every point is in the cone
            break
        chosen.append(i)
        residual = active_set(
            dense_rows(U, np.array(chosen)), dense_rows(U, np.arange(U.shape[0]))
        ).residual
    return index[np.array(chosen, np.int64)]
