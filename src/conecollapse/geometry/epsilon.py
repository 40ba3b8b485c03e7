r"""The epsilon-cone: few rays, chosen greedily, with a guaranteed largest residual.

In high dimension nearly every noisy point is extreme, so the exact cone is large. Here the point
furthest from the cone so far becomes the next ray, until no point is further than asked. Adding a
ray can only bring points nearer: a residual measured earlier is an upper bound. So only the points
with the largest bounds are measured again after each ray, until one of them exceeds all remaining
bounds, and the greedy choice is exact although most points are left alone (*lazy* greedy). The
bounds are kept tight at the price of one product: a step of length :math:`g = r \cdot u` along the
new ray u takes :math:`g^2` off the squared residual; where :math:`g \le 0` the old solution is
still the best.

Residuals come from block pivoting in Gram form: ``G = K K'`` and ``c_i = K u_i`` grow by one row
with each ray, which costs one product with the points. The final guarantee is measured from
explicit residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conecollapse._checks import check_count, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import (
    SAME,
    combination_rows,
    csr_rows,
    dense_rows,
    largest,
    residuals,
    unit_rows,
)
from conecollapse._nnls.active_set import active_set
from conecollapse._nnls.bpp import block_pivoting
from conecollapse._types import FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import ApproximateCertificate

WEIGHTINGS = ("unit", "mass")
# squares of smaller ones are lost in the Gram form; the exact cone serves there
SMALLEST_RESIDUAL = 1e-6
# what the Gram form may be off by at SMALLEST_RESIDUAL; the guarantee is measured explicitly
GRAM_DIGITS = 0.999
BATCH = 16  # bounds measured again at a time
UNMOVED = 1e-12  # gradients up to this are rounding: products of unit vectors carry some 1e-16
MEASURED_ROWS = 1024  # points that are solved at a time in the end


@dataclass(frozen=True)
class EpsilonPath:
    """Points added as rays, in order, and the largest (weighted) residual after each."""

    rays: IntArray
    residuals: FloatArray


def approximate(
    points: Points,
    max_residual: float,
    max_rays: int | None,
    weighting: str,
    callback: Callable[[int, float], None] | None,
) -> tuple[Points, ApproximateCertificate, EpsilonPath]:
    """Rays (unit rows), certificate and path of the epsilon-cone of checked ``points``."""
    max_residual = check_positive(max_residual, "max_residual", below=1.0)
    if max_residual < SMALLEST_RESIDUAL:
        raise InvalidInputError(
            f"max_residual = {max_residual:.3g} is below {SMALLEST_RESIDUAL:g}, what an"
            " epsilon-cone resolves; use Cone.from_points."
        )
    if not isinstance(weighting, str) or weighting not in WEIGHTINGS:
        raise InvalidInputError(
            f"weighting must be one of {', '.join(WEIGHTINGS)}; got {weighting!r}."
        )
    U, lengths = unit_rows(points)
    if not lengths.any():
        raise InvalidInputError(
            f"all {len(lengths)} points are zero; a cone needs at least one point that is not."
        )
    share = lengths / lengths.max() if weighting == "mass" else (lengths > 0).astype(np.float64)
    limit = (
        len(lengths) if max_rays is None else min(check_count(max_rays, "max_rays"), len(lengths))
    )
    greedy = Greedy(U, share)
    greedy.grow(first_ray(U, share), limit, max_residual * GRAM_DIGITS, callback)
    rays, certificate = _certified(greedy, weighting, float(lengths.max()))
    return rays, certificate, EpsilonPath(certificate.rays, np.array(greedy.residuals))


def over_rays(points: Points, rays: IntArray) -> tuple[Points, ApproximateCertificate]:
    """The given rows of checked ``points`` as unit rays, and how near their cone comes to each unit
    point, as a certificate."""
    U, lengths = unit_rows(points)
    greedy = Greedy(U, (lengths > 0).astype(np.float64))
    for i in rays:
        greedy.add(int(i))
    return _certified(greedy, "unit", float(lengths.max()))


def greedy_rays(points: Points, n_rays: int) -> IntArray:
    """Up to ``n_rays`` rows: the longest, then each time the one furthest from the cone of those
    before; distances at their own lengths.

    For points that sum to one this is the algorithm of the theorem on noisy mixtures
    (`conecollapse.geometry.separable_bound`): such points lie in the convex hull of the pure ones,
    and a distance from a cone, which is a convex function, is largest at a vertex.
    """
    U, lengths = unit_rows(points)
    share = lengths / max(float(lengths.max()), np.finfo(np.float64).tiny)
    greedy = Greedy(U, share)
    greedy.grow(largest(lengths), n_rays, SMALLEST_RESIDUAL)
    return np.array(greedy.rays)


def _certified(
    greedy: Greedy, weighting: str, longest: float
) -> tuple[Points, ApproximateCertificate]:
    """Unit rays and the certificate of the rays chosen so far."""
    U = greedy.U
    rays = np.array(greedy.rays)
    coefficients, reached = _coefficients(greedy)
    certificate = ApproximateCertificate(
        # sums in another order round otherwise
        tol=min(float(reached + (1 + len(rays)) * np.finfo(np.float64).eps), 1.0),
        n_points=U.shape[0],
        dim=U.shape[1],
        rays=rays,
        weighting=weighting,
        longest=longest,
        coefficients=coefficients,
    )
    return U[rays], certificate


def first_ray(U: Points, share: FloatArray) -> int:
    """The point that deviates most, by its weight, from the mean direction: on the outside of the
    cone, where rays are."""
    mean = np.asarray(U.T @ share).ravel()
    mean /= np.linalg.norm(mean)
    cosine = np.minimum(np.asarray(U @ mean).ravel(), 1.0)
    return largest(share * np.sqrt(1 - cosine**2 + np.finfo(np.float64).eps))


class Greedy:
    """Rays so far, their Gram matrix, and for each point an upper bound on its weighted
    residual."""

    def __init__(self, U: Points, share: FloatArray) -> None:
        self.U = U
        self.share = share
        self.rays: list[int] = []
        self.residuals: list[float] = []
        self.squares = np.ones(len(share))  # upper bounds of squared residuals, of unit points
        self.fresh = np.zeros(len(share), bool)
        self.G = np.zeros((0, 0))
        self.C = np.zeros((len(share), 8))  # columns are added in place, doubling as needed
        self.H = np.zeros((len(share), 8))  # the last solution of each point

    def grow(
        self,
        first: int,
        limit: int,
        least: float,
        callback: Callable[[int, float], None] | None = None,
    ) -> None:
        """Add the ``first`` ray, then each time the furthest point: up to ``limit`` rays, until no
        point is further than ``least``."""
        self.add(first)
        while True:
            worst, residual = self.furthest()
            self.residuals.append(residual)
            if callback is not None:
                callback(len(self.rays), residual)
            if residual <= least or len(self.rays) == limit or worst in self.rays:
                break
            self.add(worst)

    def add(self, i: int) -> None:
        k = len(self.rays)
        if k == self.C.shape[1]:
            self.C = np.hstack([self.C, np.zeros_like(self.C)])
            self.H = np.hstack([self.H, np.zeros_like(self.H)])
        u = dense_rows(self.U, np.array([i]))[0]
        self.C[:, k] = self.U @ u
        gradient = self.C[:, k] - self.H[:, :k] @ self.C[self.rays, k]
        self.fresh &= gradient <= UNMOVED
        self.H[:, k] = np.where(gradient > UNMOVED, gradient, 0.0)
        self.squares = np.maximum(self.squares - self.H[:, k] ** 2, 0.0)
        self.rays.append(i)
        self.G = self.C[self.rays, : k + 1]

    def furthest(self) -> tuple[int, float]:
        """The point with the largest weighted residual, and that residual."""
        while True:
            bound = self.share * np.sqrt(self.squares)
            stale = np.where(self.fresh, -1.0, bound)
            top = np.argpartition(-stale, min(BATCH, len(stale) - 1))[:BATCH]
            known = np.where(self.fresh, bound, -1.0)
            leader = largest(known)
            if (1 - SAME) * known.max() >= stale[top].max():
                return leader, float(known[leader])
            self.measure(top[stale[top] >= 0])

    def measure(self, rows: IntArray) -> FloatArray:
        """Solve ``rows`` over the rays so far; their coefficients, with bounds brought up to
        date."""
        k = len(self.rays)
        C = self.C[rows, :k]
        result = block_pivoting(self.G, C, np.ones(len(rows)), start=self.H[rows, :k] > 0)
        H = np.maximum(result.X, 0.0)
        broken = np.flatnonzero(~result.solved)
        # the rays chosen are dependent, as when there are more of them than dimensions
        if len(broken):
            K = dense_rows(self.U, np.array(self.rays))
            H[broken] = active_set(K, dense_rows(self.U, rows[broken])).dense(k)
        squares = 1.0 - 2.0 * np.einsum("ij,ij->i", H, C) + np.einsum("ij,ij->i", H @ self.G, H)
        self.squares[rows] = np.maximum(squares, 0.0)
        self.H[rows, :k] = H
        self.fresh[rows] = True
        return H


def _coefficients(greedy: Greedy) -> tuple[Sparse, float]:
    """Coefficients of every point over the rays, and the largest weighted residual, measured
    explicitly."""
    U, share, rays = greedy.U, greedy.share, np.array(greedy.rays)
    parts: list[tuple[IntArray, FloatArray]] = []
    for a in range(0, U.shape[0], MEASURED_ROWS):
        rows = np.arange(a, min(a + MEASURED_ROWS, U.shape[0]))
        H = greedy.measure(rows)
        H[share[rows] == 0] = 0.0
        parts += [(np.flatnonzero(h), h[h > 0]) for h in H]
    H = combination_rows(parts, len(rays))
    of_points = csr_rows(H.data, rays[H.indices], H.indptr, U.shape[0])
    weighted = share * residuals(U, np.arange(U.shape[0]), of_points)
    return H, float(weighted.max())
