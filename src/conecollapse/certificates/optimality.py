r"""Is this the nearest point of a cone? The conditions of optimality answer that without a solver.

For a row x and non-negative rows :math:`h_k` of H the problem

.. math:: \min_{w \ge 0} \tfrac12 \|x - w H\|^2

is convex, so w solves it exactly when, with the gradient :math:`g = (w H - x) H^T`, in each entry
:math:`w_k \ge 0`, :math:`g_k \ge 0` and one of the two is zero. `departures` measures how far from
that a row is, whatever the scale of x and H:

.. math:: \epsilon = \max_k \bigl| \min(w_k \|h_k\|,\ g_k / \|h_k\|) \bigr| \,/\, \|x\| .

A coefficient that is wrong by :math:`\delta` departs by :math:`\delta \|h_k\| / \|x\|`. Conversely,
the squared distance of :math:`w H` from the nearest point is at most :math:`g \cdot (w - w^*)`.
Each of its r terms is at most :math:`\epsilon \|x\|^2` (no part :math:`w^*_k h_k` is longer than x,
as nothing is negative), so that :math:`w H` is within :math:`\sqrt{r \epsilon}\, \|x\|` of it.

Where the weights sum to one, :math:`g_k - g \cdot w = (h_k - w H) \cdot (w H - x)` takes the place
of :math:`g_k`. It is divided by :math:`\|h_k\| + \sum_j w_j \|h_j\|`, which is at least the length
of the first factor, and the departure by the longer of x and that sum, as the parts may be longer
than x. Weights that are rounded by half an :math:`\epsilon` then depart by at most
:math:`2 \epsilon`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conecollapse._types import FloatArray, Points
from conecollapse.certificates.witnesses import EPS, row_lengths

# roundoffs, for each term of a gradient: in a solver, in what it stored, and in the check
ROUNDOFFS = 8
GRADIENT_ZERO = 1e-12  # of a row's length: what solvers of unit columns take for a gradient of zero


def departures(X: Points, H: FloatArray, W: Any, *, closed: bool = False) -> FloatArray:
    """How far each row of ``W`` is from minimising ``|x - w H|`` over w >= 0, or with ``closed``
    over such w that sum to one; infinite for a row that is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> X, H = np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> departures(X, H, [[0.0, 2.0], [0.0, 1.0]])
    array([0., 0.])
    >>> departures(X, H, [[0.0, 2.0], [0.0, 1.01]]).round(4)
    array([0.    , 0.0071])
    >>> departures(np.ones((2, 2)), np.eye(2), [[0.5, 0.5], [1.0, 0.0]], closed=True).round(4)
    array([0.    , 0.3536])
    """
    W = np.asarray(W, np.float64)
    X, H = _in_range(X, H)
    sizes, lengths = row_lengths(H), row_lengths(X)
    inverse = 1 / np.where(sizes > 0, sizes, np.inf)
    with np.errstate(all="ignore"):
        gradient = W @ (H @ H.T) - np.asarray(X @ H.T)
        if closed:
            gradient -= np.einsum("ij,ij->i", gradient, W)[:, None]
            parts = W @ sizes
            gradient /= np.maximum(sizes + parts[:, None], np.finfo(float).tiny)
            lengths = np.maximum(lengths, parts)
        else:
            gradient *= inverse
        worst = np.abs(np.minimum(W * sizes, gradient)).max(axis=1, initial=0.0)
        found = worst / np.where(worst > 0, lengths, 1.0)
    return np.where(np.isfinite(W).all(axis=1) & (W >= 0).all(axis=1), found, np.inf)


def allowance(H: FloatArray, dtype: Any = np.float64) -> float:
    """The departure of a solution in float64 that was then rounded to ``dtype``."""
    return GRADIENT_ZERO + ROUNDOFFS * sum(H.shape) * EPS + 2 * float(np.finfo(dtype).eps)


def weights_of_shares(X: Points, H: FloatArray, shares: Any) -> FloatArray:
    """The weights w of which these are the shares ``w_k |h_k| / sum``: the condition
    ``w g = 0`` gives their scale."""
    X, H = _in_range(X, H)
    sizes = row_lengths(H)
    W: FloatArray = np.asarray(shares, np.float64) / np.where(sizes > 0, sizes, np.inf)
    squares = np.einsum("ij,ij->i", W @ (H @ H.T), W)
    scale = np.einsum("ij,ij->i", np.asarray(X @ H.T), W) / np.where(squares > 0, squares, 1.0)
    return W * scale[:, None]


def relative_error(X: Points, W: Any, H: FloatArray) -> float:
    """``|X - W H| / |X|`` from products alone; below about 1e-6 it is rounding."""
    W = np.asarray(W, np.float64)
    X, H = _in_range(X, H)
    norm2 = float(np.square(row_lengths(X)).sum())
    cross = np.einsum("ij,ij->", np.asarray(X @ H.T), W)
    model = np.einsum("ij,ij->", W.T @ W, H @ H.T)
    return float(np.sqrt(max(norm2 - 2 * cross + model, 0.0) / (norm2 or 1.0)))


def _in_range(X: Points, H: FloatArray) -> tuple[Points, FloatArray]:
    """Both in float64 and in units of the largest entry of X, so that no square is lost."""
    peak = float(X.max()) or 1.0
    return X.astype(np.float64) / peak, np.asarray(H, np.float64) / peak
