r"""Successive non-negative projection (Gillis 2014): SPA that subtracts what a *mixture* of the
chosen points explains.

SPA projects on the span of the chosen points, so it finds at most as many as there are dimensions
and forgets that abundances are not negative. Here the residual of a point is that from the set
:math:`\{\sum_k a_k p_k : a \ge 0, \sum_k a_k \le 1\}` of the chosen points :math:`p_k`, which
contains every mixture of them and the origin. The longest residual is the next point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conecollapse._checks import as_points, check_count
from conecollapse._linalg import dense_rows, largest, row_norms
from conecollapse._types import FloatArray, IntArray
from conecollapse.geometry.scaling import scaled_points

STEPS = 200  # of accelerated projected gradient for each new point, from the last solution
BLOCK = 4096  # points at a time


def snpa(P: Any, n_rays: int, scaling: str = "raw") -> IntArray:
    """Indices of ``n_rays`` rows of ``P`` by successive non-negative projection.

    >>> from conecollapse.geometry.snpa import snpa
    >>> snpa([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]], 3).tolist()
    [0, 1, 3]
    """
    points = as_points(P)
    n_rays = min(check_count(n_rays, "n_rays"), points.shape[0])
    Q = scaled_points(points, scaling)
    lengths = row_norms(Q)
    squares = lengths**2
    limit = np.finfo(np.float64).eps * float(squares.max(initial=0.0))
    codes = np.zeros((points.shape[0], 0))
    chosen: list[int] = []
    while len(chosen) < n_rays:
        i = largest(squares)
        if squares[i] <= limit:  # every point is a mixture of the chosen ones
            break
        chosen.append(i)
        K = dense_rows(Q, np.array(chosen))
        G, C = K @ K.T, np.asarray(Q @ K.T)
        codes = _mixtures(G, C, np.column_stack([codes, np.zeros(len(codes))]))
        squares = (
            lengths**2
            - 2 * np.einsum("ij,ij->i", C, codes)
            + np.einsum("ij,ij->i", codes @ G, codes)
        )
        squares[chosen] = -np.inf
    return np.array(chosen, np.int64)


def _mixtures(G: FloatArray, C: FloatArray, start: FloatArray) -> FloatArray:
    """Rows a >= 0 with sum at most one that nearly minimise ``a G a' - 2 c a'``, by FISTA from
    ``start``."""
    step = 1 / float(np.linalg.eigvalsh(G)[-1])
    out = np.empty_like(start)
    for a in range(0, len(start), BLOCK):
        c, x = C[a : a + BLOCK] * step, start[a : a + BLOCK]
        y, t = x, 1.0
        for _ in range(STEPS):
            new = onto_mixtures(y - y @ (G * step) + c)
            moved = float(np.abs(new - x).max())
            u = (1 + np.sqrt(1 + 4 * t * t)) / 2
            y, x, t = new + (t - 1) / u * (new - x), new, u
            if moved <= 1e-6:
                break
        out[a : a + BLOCK] = x
    return out


def onto_mixtures(V: FloatArray) -> FloatArray:
    """The nearest row to each row of V that is not negative and sums to at most one."""
    out = np.maximum(V, 0.0)
    rows = np.flatnonzero(out.sum(axis=1) > 1)
    if len(rows):
        down = -np.sort(-V[rows], axis=1)
        excess = np.cumsum(down, axis=1) - 1
        count = (down * np.arange(1, V.shape[1] + 1) > excess).sum(axis=1)
        out[rows] = np.maximum(
            V[rows] - (excess[np.arange(len(rows)), count - 1] / count)[:, None], 0.0
        )
    return out
