r"""How far samples lie from the cone of thousands of trusted ones.

*The problem.* For unit generators :math:`u_1, \dots, u_N` (rows of ``U``), a unit sample y, a
*locality* :math:`0 \le \lambda < 1` and a *ridge* :math:`\rho \ge 0`

.. math:: f(y) = \min_{h \ge 0} \frac{1}{2} \| y - h U \|^2 + \lambda \sum_j h_j + \frac{1}{2} \rho
   \sum_j h_j^2 .

With :math:`\lambda = \rho = 0` this is half the squared distance from the cone, and hU is the
nearest point in it.

*Ridge.* If the generators carry independent noise E of mean zero, each row of expected squared
length :math:`\rho`, then :math:`\mathbb{E} \|y - h(U + E)\|^2 = \|y - hU\|^2 + \rho \|h\|^2`:
mixtures in which the noise averages out are cheaper than single generators.

*Locality.* A positive :math:`\lambda` puts a price on mixing: unit generators that are far apart
need a larger sum of coefficients to make a unit sample than near ones do. It ranks the samples
inside the cone.

*The scale.* By duality, for :math:`\rho = 0`,

.. math:: f(y) = \max \{ y \cdot z - \frac{1}{2} \|z\|^2 : U z \le \lambda \} .

Since :math:`u_j \cdot y \le 1`, the vector :math:`z = \lambda y` is feasible, so
:math:`f(y) \ge \lambda - \frac{1}{2} \lambda^2`, with equality for the generators themselves; a
ridge only adds to f, and h = 0 gives :math:`f(y) \le \frac{1}{2}`. So

.. math:: d(y) = \frac{\sqrt{2 f(y) - 2 \lambda + \lambda^2}}{1 - \lambda}

is between 0 and 1, and the distance from the cone for :math:`\lambda = \rho = 0`. More generators
never increase it.

*The solver.* It sees only the products :math:`G = U U^T` and :math:`c = U y - \lambda`: an active
set that keeps the triangle of the passive part of :math:`G + \rho I`
(`conecollapse._nnls.products`). Of N gradients a short list is followed from step to step; all are
looked at when the list is used up. Where N is too large for G, samples are treated in blocks over a
*pool*: the generators with the largest c for some sample of the block. The residuals price all
others, those with a positive price join the pool, and the block is solved again until there are
none: the optimality conditions then hold over all N.

*Moreau.* For :math:`\lambda = \rho = 0` the residual g separates: :math:`g \cdot u_j \le 0` for
every generator while :math:`g \cdot y = \|g\|^2`.

*Accuracy.* G squares the condition of U: squared distances are right to about 1e-12, so distances
below `NOTHING` are reported as zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import as_dense, combination_rows, row_norms
from conecollapse._nnls.products import PRICE_ZERO, Problems, solve
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray, Points, Sparse

NOTHING = 1e-6  # a share of the sample's length up to which a distance is rounding
# gradients of the squared distance between unit vectors up to which none can be gained
PRICE = 1e-12
FLOOR = 1e-9  # the least ridge with a locality; it changes squared distances by no more than this
BLOCK = 512  # samples solved at once
GRAM_LIMIT = 6000  # generators up to which G is held: 288 MB
POOL_EACH = 24  # generators that a sample puts into the pool in one round


class Terms(NamedTuple):
    """What is added to half the squared distance."""

    locality: float = 0.0
    ridge: float = 0.0

    @property
    def solved_ridge(self) -> float:
        """With a locality, generators that depend on each other need a ridge to have one
        solution."""
        return max(self.ridge, FLOOR) if self.locality > 0 else self.ridge


EXACT = Terms()


def gram(U: Points) -> FloatArray | None:
    """``U U'`` as a dense array, where it may be held; else None."""
    return np.ascontiguousarray(as_dense(U @ U.T), np.float64) if U.shape[0] <= GRAM_LIMIT else None


def nearest(
    U: Points,
    Y: Points,
    G: FloatArray | None,
    terms: Terms = EXACT,
    leave_out: IntArray | None = None,
) -> Sparse:
    """The coefficients h over the unit rows of ``U`` for each unit row of ``Y``.

    ``G`` is `gram` of ``U``. The generator ``leave_out[i]`` is not used for row i (-1 for none).
    """
    barred = np.full(Y.shape[0], -1) if leave_out is None else leave_out
    parts: list[Sparse] = []
    held = None if G is None else _with_ridge(G, terms)
    with serial_blas():
        for start in range(0, Y.shape[0], BLOCK):
            rows = Y[start : start + BLOCK]
            out = barred[start : start + BLOCK]
            C = np.ascontiguousarray(as_dense(rows @ U.T), np.float64) - terms.locality
            parts.append(_pooled(U, rows, C, terms, out) if held is None else _solve(held, C, out))
    return sp.csr_array(sp.vstack(parts, format="csr")) if len(parts) > 1 else parts[0]


def _pooled(U: Points, Y: Points, C: FloatArray, terms: Terms, barred: IntArray) -> Sparse:
    """`nearest` for one block of samples, over a pool that grows until no generator outside it has
    a positive price."""
    n = U.shape[0]
    prices, rows = C.copy(), np.arange(len(C))
    is_barred = barred >= 0
    in_pool = np.zeros(n, bool)
    found: list[tuple[IntArray, FloatArray]] = [(np.zeros(0, np.int64), np.zeros(0))] * len(C)
    while True:
        prices[rows[is_barred], barred[is_barred]] = -np.inf
        top = np.argpartition(-prices, min(POOL_EACH, n - 1), axis=1)[:, :POOL_EACH]
        wanted = top[np.take_along_axis(prices, top, axis=1) > PRICE]
        before = int(in_pool.sum())
        in_pool[wanted] = True
        pool = np.flatnonzero(in_pool)
        if len(pool) == before:
            return combination_rows(found, n)
        place = np.full(n, -1)
        place[pool] = np.arange(len(pool))
        at = np.where(is_barred, place[np.maximum(barred, 0)], -1)
        V = U[pool]
        H = _solve(
            _with_ridge(np.ascontiguousarray(as_dense(V @ V.T), np.float64), terms),
            np.ascontiguousarray(C[:, pool]),
            at,
        )
        found = [
            (pool[H.indices[a:b]], H.data[a:b])
            for a, b in zip(H.indptr[:-1], H.indptr[1:], strict=True)
        ]
        left = as_dense(Y) - as_dense(H @ V)
        prices = np.asarray(left @ U.T) - terms.locality
        prices[:, pool] = -np.inf


def _solve(G: FloatArray, C: FloatArray, barred: IntArray) -> Sparse:
    """Coefficients over all rows of ``G``, the ridge included, for each row of ``C``."""
    k, n = C.shape
    upper = np.full((k if (barred >= 0).any() else 1, n), np.inf)
    upper[np.flatnonzero(barred >= 0), barred[barred >= 0]] = 0.0
    size = np.full(k, PRICE / PRICE_ZERO)
    problems = Problems(G[None], np.zeros(k, np.int64), C, upper, size)
    return sp.csr_array(solve(problems).X)


def _with_ridge(G: FloatArray, terms: Terms) -> FloatArray:
    if terms.solved_ridge:
        G = G.copy()
        np.fill_diagonal(G, np.diag(G) + terms.solved_ridge)
    return G


def distances(U: Points, Y: Points, H: Sparse, terms: Terms = EXACT) -> FloatArray:
    """The distance of each unit row of ``Y``, given its coefficients; zero for rows of zeros, and
    where it is rounding."""
    squares = np.empty(Y.shape[0])
    for start in range(0, Y.shape[0], BLOCK):
        piece = slice(start, start + BLOCK)
        squares[piece] = row_norms(as_dense(Y[piece]) - as_dense(H[piece] @ U)) ** 2
    squares += terms.ridge * row_norms(H) ** 2
    squares += 2 * terms.locality * (np.asarray(H.sum(axis=1)).ravel() - 1) + terms.locality**2
    found = np.sqrt(np.maximum(squares, 0.0))
    return np.where((found <= NOTHING) | (row_norms(Y) == 0), 0.0, found / (1 - terms.locality))


def witnesses(U: Points, Y: Points, G: FloatArray | None) -> FloatArray:
    """Each unit row of ``Y`` minus the nearest point of the cone; zero where that is rounding."""
    H = nearest(U, Y, G)
    outside = distances(U, Y, H) > 0
    return np.asarray((as_dense(Y) - as_dense(H @ U)) * outside[:, None])
