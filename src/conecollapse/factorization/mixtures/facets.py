r"""Cones by their facets.

A cone of r rays in r dimensions, the rows of B, is also the set of points z with :math:`z \cdot
a_k \ge 0` for the columns :math:`a_k` of :math:`A = B^{-1}`, the normals of its facets. Minimized
is

.. math:: F_s(B) = \frac{1}{n} \sum_{i,k} \min\Bigl(\frac{z_i \cdot a_k}{s |a_k|}, 0\Bigr)^2 +
   \log\det(B B^T + \delta I) , \qquad \delta = (s / b)^2 ,

where rows of B sum to one over the features and b is the brightness of a typical sample.

*Why facets.* Where no sample is pure no sample is near a ray, and what is known of the cone is
known from samples on its facets. The squared distance of a sample from the cone is its squared
distance from the one facet that it violates; where it violates several, the sum is too large.
Therefore facets find the cone, and the last word has the distance itself
(`conecollapse.factorization.mixtures.distance`).

*Why the logarithm of the volume.* If the n samples are spread evenly over the mixtures, their
density is one over the volume of the cone's slice, :math:`\det(B B^T)^{-1/2}` up to a factor; and
with noise of standard deviation s in every direction, :math:`n F_s` is minus twice the logarithm of
the likelihood. A facet then stands where the push of the samples beyond it balances the gain of
volume.

*Why delta.* The logarithm has no lower bound: a cone that lost a dimension would cost a finite
error and gain without end. Volumes are not told apart below the size of the noise.

*What s does.* A wide s blurs the facets, so that a bad start is led by all samples and not by the
few extreme ones; s then falls by halves to the noise. Begun wider than a part `WIDEST` of the
thinnest direction of the data, the cone collapses.

*When the minimum is the truth.* Without noise F is the volume over the cones that hold the samples
as s falls to zero. If the shares are sufficiently scattered (their cone holds the cone
:math:`\{w \ge 0 : \sum_k w_k \ge \sqrt{r - 1}\, |w|\}`, and of the orthogonal matrices only
permutations map it so), the true cone is the only one of least volume (Fu, Ma, Huang &
Sidiropoulos 2015; Lin, Ma, Li, Chi & Ambikapathi 2015). Nothing pure is needed.

Entries of :math:`B V^T`, the rays over the features, that are negative pay what cutting them off
adds to the error: their square times the squared amounts of the component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._linalg import row_lengths
from conecollapse._types import BoolArray, FloatArray
from conecollapse.factorization.mixtures.levenberg import descend
from conecollapse.factorization.mixtures.samples import Samples

WIDEST, STEP = 0.15, 2.0  # the first s over the thinnest direction; the factor to the next
MAX_ITER, TOL = 40, 1e-4  # steps at each s, and the gain of F that counts


@dataclass(frozen=True)
class FacetState:
    B: FloatArray
    value: float
    A: FloatArray  # normals of facets as columns
    lengths: FloatArray
    Y: FloatArray  # Z A: amounts
    beyond: FloatArray  # min(z a / (s |a|), 0)
    negative: FloatArray  # min(B V, 0)


@dataclass(frozen=True)
class Facets:
    """The objective at one noise level s."""

    samples: Samples
    s: float

    @property
    def delta(self) -> float:
        """Volumes below this are not told apart."""
        return float((self.s / self.samples.brightness) ** 2)

    def evaluate(self, B: FloatArray, last: FacetState | None = None) -> FacetState:  # noqa: ARG002
        """F at the rays B."""
        S = self.samples
        try:
            A = np.asarray(np.linalg.inv(B), np.float64)
        except np.linalg.LinAlgError:
            return FacetState(B, np.inf, B, B, B, B, B)
        lengths, Y = np.asarray(row_lengths(A.T), np.float64), S.Z @ A
        beyond, negative = np.minimum(Y / (self.s * lengths), 0.0), np.minimum(B @ S.V, 0.0)
        value = float(np.vdot(S.weights @ np.square(beyond), np.ones(len(B)))) / S.total
        value += float(np.linalg.slogdet(B @ B.T + self.delta * np.eye(len(B)))[1])
        value += float(self._amounts(Y) @ np.square(negative).sum(axis=1))
        return FacetState(B, value, A, lengths, Y, np.asarray(beyond, np.float64), negative)

    def _amounts(self, Y: FloatArray) -> FloatArray:
        """Squared amounts of each component over the squared noise."""
        S = self.samples
        return np.asarray(S.weights @ np.square(np.maximum(Y, 0.0)) / (S.total * self.s**2))

    def expand(self, state: FacetState) -> tuple[FloatArray, FloatArray]:
        """Gradient and Gauss-Newton Hessian: facet k depends on column k of T, with
        ``da_k = -A T_k``."""
        S, r, B = self.samples, len(state.B), state.B
        g, K = volume_terms(B, self.delta)
        K = K.reshape(r, r, r, r)
        amounts = self._amounts(state.Y)
        cut = np.square(state.negative).sum(axis=1)
        for k in range(r):
            rows = np.flatnonzero(state.beyond[:, k] < 0)
            w, u = S.weights[rows] * (2 / S.total), state.beyond[rows, k]
            turned = (state.A.T @ state.A[:, k]) / state.lengths[k] ** 2
            D = u[:, None] * turned - state.Y[rows] / (self.s * state.lengths[k])
            g[:, k] += D.T @ (w * u)
            K[:, k, :, k] += (D.T * w) @ D
            if cut[k] > 0:  # the amounts of the component change, too
                w = S.weights * np.maximum(state.Y[:, k], 0.0)
                g[:, k] -= (2 * cut[k] / (S.total * self.s**2)) * (state.Y.T @ w)
                g[k] += 2 * cut[k] * amounts[k]
        K = K.reshape(r * r, r * r)
        add_negative(g, K, B @ S.V, state.negative, amounts)
        return g, K


def volume_terms(B: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
    """Gradient of ``logdet(B B' + delta I)`` in T where rows of B keep the sum one; and the
    curvature of these sums."""
    r = len(B)
    M = np.linalg.solve(B @ B.T + delta * np.eye(r), B @ B.T)
    g = 2 * M.T - 2 * np.diag(M)[:, None]
    return g, np.asarray(2 * np.kron(np.eye(r), np.ones((r, r))))


def add_negative(
    g: FloatArray, K: FloatArray, H: FloatArray, negative: FloatArray, amounts: FloatArray
) -> None:
    """Add the derivatives of ``sum_k amounts_k |min(H_k, 0)|^2`` for given amounts, in place; rows
    of H sum to one."""
    r = len(H)
    for k in range(r):
        below = negative[k] < 0
        if below.any():
            D = H[:, below] - H[k, below]
            g[k] += 2 * amounts[k] * (D @ negative[k, below])
            K[k * r : (k + 1) * r, k * r : (k + 1) * r] += 2 * amounts[k] * (D @ D.T)


def search_facets(
    samples: Samples, B: FloatArray, *, widest: float = WIDEST, free: BoolArray | None = None
) -> FloatArray:
    """The rays that the facets lead to from the rays ``B``, while s falls from ``widest`` times the
    thinnest direction of the samples to their noise."""
    steps = np.log(max(widest * samples.thinnest / samples.sigma, 1.0)) / np.log(STEP)
    for level in range(int(np.ceil(steps)), -1, -1):
        objective = Facets(samples, samples.sigma * STEP**level)
        B = descend(objective, B, samples.sums, max_iter=MAX_ITER, tol=TOL, free=free).B
    return B
