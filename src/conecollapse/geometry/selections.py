r"""Methods that choose a few of the points as rays, and archetypes, which are mixtures of points.

All take ``(points, n_rays, scaling, rng)`` and return the numbers of rows, in the order of choice;
fewer than ``n_rays`` where the chosen ones generate everything. ``scaling`` says how long the
points are when they are compared: their directions, and so their cone, stay. ``rng`` is used by
`vca` only.

- `cone`: the greedy epsilon-cone; next is the point furthest from the cone of those before.
- `spa`: successive projection (Araujo et al. 2001; Gillis & Vavasis 2014). Next is the longest
  point; all are projected on the complement of it.
- `snpa`: successive non-negative projection (Gillis 2014). SPA forgets that abundances are not
  negative, and finds at most as many points as there are dimensions. Here the residual of a point
  is that from the set :math:`\{\sum_k a_k p_k : a \ge 0, \sum_k a_k \le 1\}` of the chosen points
  :math:`p_k`, which contains every mixture of them and the origin.
- `xray`: XRAY (Kumar, Sindhwani & Kambadur 2013). With r the largest residual from the cone so far,
  next is the point with the largest ``r . x / sum x``: a functional exposes an extreme ray.
- `vca`: vertex component analysis (Nascimento & Dias 2005). In the best subspace, points are scaled
  so that their product with the mean is one; mixtures then lie in a simplex. A random direction
  orthogonal to the vertices found so far is extreme at another vertex.

*Archetypes* (Cutler & Breiman 1994) are mixtures of samples of which all samples are, nearly,
mixtures:

.. math:: \min_{A, B \ge 0,\ A 1 = 1,\ B 1 = 1}\ \|Q - A B Q\|^2

over samples Q of unit length. One noisy sample matters less than where samples are chosen. Both
factors are found in turn: A by least squares over the simplex; B by projecting the best archetypes
for A, of any sign, on the hull of the samples. Alternation does not find the best archetypes in
general; the best of all rounds is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_points, check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import (
    as_dense,
    dense_rows,
    largest,
    row_lengths,
    row_norms,
    scaled_rows,
    unit_rows,
)
from conecollapse._nnls import nnls
from conecollapse._nnls.active_set import active_set
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.epsilon import greedy_rays, over_rays
from conecollapse.geometry.subspace import best_subspace

SCALINGS = ("raw", "sum", "length")
EPS = float(np.finfo(np.float64).eps)
ROUNDS = 10  # of archetypes
ENOUGH = 500  # samples that archetypes are made of
EXTRA = 8  # dimensions beyond their number in which distances of archetypes are measured


def scaled_points(points: Points, scaling: str) -> Points:
    """Rows in float64: as they are ("raw", in units of the longest), scaled to sum one ("sum") or
    to unit length ("length").

    Zero rows stay zero. In units of the longest, the largest squares neither overflow nor vanish.
    """
    if scaling not in SCALINGS:
        raise InvalidInputError(f"scaling must be one of {', '.join(SCALINGS)}; got {scaling!r}.")
    lengths = row_lengths(points)
    if scaling == "raw":
        size = np.where(lengths > 0, float(lengths.max(initial=0.0)), 0.0)
    elif scaling == "sum":
        size = np.asarray(points.sum(axis=1, dtype=np.float64)).ravel()
    else:
        size = lengths
    return scaled_rows(points.astype(np.float64, copy=False), 1 / np.where(size > 0, size, np.inf))


def _prepare(P: Any, n_rays: int, scaling: str) -> tuple[Points, int]:
    """Checked points, scaled, and how many may be chosen."""
    points = as_points(P)
    return scaled_points(points, scaling), min(check_count(n_rays, "n_rays"), points.shape[0])


def cone(P: Any, n_rays: int, scaling: str = "raw", rng: Any = None) -> IntArray:  # noqa: ARG001
    """Rows by the greedy cone (`conecollapse.geometry.epsilon.greedy_rays`)."""
    Q, n_rays = _prepare(P, n_rays, scaling)
    return greedy_rays(Q, n_rays)


def spa(P: Any, n_rays: int, scaling: str = "sum", rng: Any = None) -> IntArray:  # noqa: ARG001
    """Rows by successive projection.

    By default points are scaled to sum one, where the rays of separable data are the vertices of a
    simplex. Points of unit length are all equally long, so there the first is the one furthest from
    the mean direction.

    >>> from conecollapse.geometry.selections import spa
    >>> spa([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 3).tolist()
    [0, 1, 3]
    """
    Q, n_rays = _prepare(P, n_rays, scaling)
    squares = np.asarray((Q.multiply(Q) if sp.issparse(Q) else Q * Q).sum(axis=1)).ravel()
    limit = EPS * float(squares.max(initial=0.0))
    basis = np.zeros((0, Q.shape[1]))
    chosen: list[int] = []
    while len(chosen) < min(n_rays, Q.shape[1]):
        i = largest(squares)
        if not chosen and scaling == "length":  # the squared distance from the mean's direction
            mean = unit_rows(np.asarray(Q.sum(axis=0), np.float64).reshape(1, -1))[0][0]
            i = largest(np.where(squares > 0, squares - np.asarray(Q @ mean) ** 2, -1.0))
        if squares[i] <= limit:  # nothing is left outside the span
            break
        v = dense_rows(Q, np.array([i]))[0]
        v = v - basis.T @ (basis @ v)
        v /= np.linalg.norm(v)
        basis = np.vstack([basis, v])
        squares = squares - np.asarray(Q @ v).ravel() ** 2
        squares[i] = -np.inf
        chosen.append(i)
    return np.array(chosen, np.int64)


def snpa(P: Any, n_rays: int, scaling: str = "raw", rng: Any = None) -> IntArray:  # noqa: ARG001
    """Rows by successive non-negative projection.

    >>> from conecollapse.geometry.selections import snpa
    >>> snpa([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]], 3).tolist()
    [0, 1, 3]
    """
    Q, n_rays = _prepare(P, n_rays, scaling)
    squares = row_norms(Q) ** 2
    limit = EPS * float(squares.max(initial=0.0))
    chosen: list[int] = []
    while len(chosen) < n_rays:
        i = largest(squares)
        if squares[i] <= limit:  # every point is a mixture of the chosen ones
            break
        chosen.append(i)
        corners = np.vstack([dense_rows(Q, np.array(chosen)), np.zeros((1, Q.shape[1]))])
        squares = nnls(corners.T, Q.T, simplex=True, full_output=True)[1] ** 2
        squares[chosen] = -np.inf
    return np.array(chosen, np.int64)


def xray(P: Any, n_rays: int, scaling: str = "length", rng: Any = None) -> IntArray:  # noqa: ARG001
    """Rows by XRAY, with the largest residual as the direction to look in ("max"); lengths do not
    matter to it.

    >>> from conecollapse.geometry.selections import xray
    >>> sorted(xray([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 3).tolist())
    [0, 1, 3]
    """
    Q, n_rays = _prepare(P, n_rays, scaling)
    U, lengths = unit_rows(Q)
    U, index = U[lengths > 0], np.flatnonzero(lengths > 0)
    X, sums = dense_rows(U, np.arange(U.shape[0])), np.asarray(U.sum(axis=1)).ravel()
    residual = X
    chosen: list[int] = []
    while len(chosen) < min(n_rays, len(X)):
        value = X @ residual[largest(row_norms(residual))] / sums
        value[chosen] = -np.inf
        i = largest(value)
        if value[i] <= EPS:  # every point is in the cone
            break
        chosen.append(i)
        residual = active_set(X[chosen], X).residual
    return index[np.array(chosen, np.int64)]


def vca(P: Any, n_rays: int, scaling: str = "raw", rng: Any = None) -> IntArray:
    """Rows by vertex component analysis; other random directions give other points.

    >>> import numpy as np
    >>> from conecollapse.geometry.selections import vca
    >>> P = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    >>> sorted(vca(P, 3, rng=np.random.default_rng(0)).tolist())
    [0, 1, 3]
    """
    Q, n_rays = _prepare(P, n_rays, scaling)
    n_rays, rng = min(n_rays, Q.shape[1]), np.random.default_rng(rng)
    Z = np.asarray(Q @ best_subspace(Q, n_rays))
    height = Z @ Z.mean(axis=0)
    # the others are zero, or outliers far from every mixture
    usable = height > 1e-6 * float(height.max(initial=0.0))
    Z = np.where(usable[:, None], Z / np.where(usable, height, 1.0)[:, None], 0.0)
    chosen: list[int] = []
    for _ in range(n_rays):
        direction, found = rng.standard_normal(n_rays), Z[chosen]
        direction -= np.linalg.pinv(found) @ (found @ direction)
        value = np.abs(Z @ direction)
        value[chosen] = -1.0
        chosen.append(largest(value))
    return np.array(chosen, np.int64)


def archetypes(points: Points, n_rays: int) -> FloatArray | None:
    """Archetypes as rows, of at most `ENOUGH` of the rows of ``points``, or None where these span
    fewer dimensions.

    >>> import numpy as np
    >>> corners = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> mixed = np.random.default_rng(0).dirichlet([0.4, 0.4, 0.4], 60) @ corners
    >>> bool(archetypes(mixed, 3).max(axis=0).min() > 0.9)
    True
    """
    n = points.shape[0]
    if n > ENOUGH:
        points = points[np.sort(np.random.default_rng(0).permutation(n)[:ENOUGH])]
    Q, lengths = unit_rows(points)
    Q = Q[lengths > 0]
    start = spa(Q, n_rays, "length")
    if len(start) < n_rays:
        return None
    Z = np.asarray(Q @ best_subspace(Q, min(n_rays + EXTRA, *Q.shape)))
    B = np.eye(len(Z))[start]
    best, least = B, np.inf
    for _ in range(ROUNDS):
        A, distances = nnls((B @ Z).T, Z.T, simplex=True)
        error = float(np.square(distances).sum())
        if error >= least:
            break
        best, least = B, error
        wanted = np.linalg.lstsq(A.T, Z, rcond=None)[0]
        B = nnls(Z.T, wanted.T, simplex=True)[0].T
    return np.asarray(as_dense(best @ Q))


def chosen_cone(points: Points, indices: IntArray) -> Cone:
    """The cone of these rows of checked ``points``; `Cone.verify` checks the largest residual of
    all rows."""
    with serial_blas():
        rays, certificate = over_rays(points, np.asarray(indices, np.int64))
    return Cone(rays, certificate)


Select = Callable[[Points, int, str, np.random.Generator], IntArray]
SELECTIONS: dict[str, Select] = {
    "cone": cone,
    "spa": spa,
    "snpa": snpa,
    "xray": xray,
    "vca": vca,
}
