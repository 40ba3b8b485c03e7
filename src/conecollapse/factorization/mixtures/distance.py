r"""Cones by the distance of the samples from them: the criterion that judges every candidate.

.. math:: J(B) = \frac{1}{N} \sum_i d(z_i, \operatorname{cone} B)^2 + \log\det(B B^T + \delta I)

N is the squared noise of all samples in each direction of their subspace. It is the objective of
`conecollapse.factorization.mixtures.facets` with the true distance in place of that from single
facets: :math:`n J` is minus twice the logarithm of the likelihood of samples that are spread evenly
over the mixtures. So J needs no threshold: a smaller cone pays for the samples that it leaves out.

*Derivatives.* The amounts w of a sample are its non-negative least squares, positive in a set S.
With :math:`P_S` the projector onto the span of these rays the residual is
:math:`z (I - P_S)`, and :math:`dB = T B` adds :math:`(w w^T) \times B (I - P_S) B^T` to the
Hessian; one product of matrices makes it for all samples. With p the residual the amounts change by
:math:`dw = -w T \Pi_S + p B^T T^T (B B^T)_S^{-1}`, :math:`\Pi_S = B B_S^+`.

*Counts* (``exposures``). Components of counts are often rare: with even mixtures as the only
assumption they would merge, for a large volume where nothing lies is wasted. There the amounts of
each component have a scale of their own:

.. math:: J(B) + \frac{2}{n} \sum_{i,k} \log(w_{ik} + \epsilon_k) ,

the density of amounts that are spread evenly on a logarithmic scale above :math:`\epsilon_k`. A
large :math:`\epsilon` knows no scale, and the term with the mean amount of each component in place
of the single ones (``epsilon=None``) is where a search begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._types import BoolArray, FloatArray
from conecollapse.factorization.mixtures.facets import add_negative, volume_terms
from conecollapse.factorization.mixtures.levenberg import State, descend
from conecollapse.factorization.mixtures.samples import Samples
from conecollapse.factorization.nmf.anls import solve_rows

MAX_ITER, TOL = 60, 1e-3  # steps, and the gain of J that counts
NOISE_LEVELS = 2.0  # of an amount, up to which it may be noise


@dataclass(frozen=True)
class DistanceState:
    B: FloatArray
    value: float
    W: FloatArray
    negative: FloatArray


@dataclass(frozen=True)
class Distance:
    """The objective; ``volume`` is what a unit of the logarithm of the volume counts."""

    samples: Samples
    volume: float = 1.0
    exposures: bool = False
    epsilon: FloatArray | None = None

    def evaluate(self, B: FloatArray, last: DistanceState | None = None) -> DistanceState:
        """J at the rays B."""
        S = self.samples
        G = B @ B.T
        W = solve_rows(G, S.Z @ B.T, None if last is None else last.W > 0)
        negative = np.minimum(B @ S.V, 0.0)
        error = float(S.weights @ np.square(S.Z - W @ B).sum(axis=1))
        error += float((S.weights @ np.square(W)) @ np.square(negative).sum(axis=1))
        size = float(np.linalg.slogdet(G + S.delta * np.eye(len(B)))[1]) + self._spread(W)
        return DistanceState(B, error / S.noise + self.volume * size, W, negative)

    def _spread(self, W: FloatArray) -> float:
        if not self.exposures:
            return 0.0
        S = self.samples
        if self.epsilon is None:
            means = S.weights @ W / S.total
            return 2 * float(np.log(np.maximum(means, np.finfo(np.float64).tiny)).sum())
        return 2 / S.total * float((S.weights @ np.log(W + self.epsilon)).sum())

    def _by_amounts(self, W: FloatArray, negative: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First derivatives of what depends on the amounts alone, and positive second ones."""
        S = self.samples
        first = (2 / S.noise) * np.square(negative).sum(axis=1) * W
        second = np.zeros_like(W)
        if self.exposures:
            if self.epsilon is None:
                total = np.maximum(S.weights @ W, np.finfo(np.float64).tiny)
                first = first + self.volume * 2 / total
            else:
                c = 1 / (W + self.epsilon)
                first = first + (2 * self.volume / S.total) * c
                second = (2 * self.volume / S.total) * c * c
        return first, second

    def expand(self, state: DistanceState) -> tuple[FloatArray, FloatArray]:
        """Gradient and Gauss-Newton Hessian."""
        S, B, W, r = self.samples, state.B, state.W, len(state.B)
        G, D = B @ B.T, (W > 0).astype(np.float64)
        both = D[:, :, None] * D[:, None, :]
        inverse = np.linalg.inv(G * both + np.eye(r) * (1 - D)[:, :, None]) * both
        moved = G @ inverse  # Pi_S
        first, second = self._by_amounts(W, state.negative)
        Q = (2 / S.noise) * (G - moved @ G)
        if second.any():
            Q = Q + (moved * second[:, None, :]) @ moved.transpose(0, 2, 1)
        V = S.weights[:, None] * W
        # both factors are symmetric: half of their entries suffice
        a, b = np.triu_indices(r)
        halves = (V[:, a] * W[:, b]).T @ Q[:, a, b]
        place = np.zeros((r, r), np.int64)
        place[a, b] = place[b, a] = np.arange(len(a))
        K = halves[place[:, None, :, None], place[None, :, None, :]].reshape(r * r, r * r)
        g, of_sums = volume_terms(B, S.delta)
        g *= self.volume
        K += self.volume * of_sums
        left = (S.Z - W @ B) @ B.T
        g -= (2 / S.noise) * V.T @ left
        g -= V.T @ np.einsum("ijl,il->ij", moved, first)
        g += (S.weights[:, None] * np.einsum("ikl,il->ik", inverse, first)).T @ left
        # a longer row has smaller amounts; its sum is kept
        g += (V * first).sum(axis=0)[:, None]
        amounts = S.weights @ np.square(W) / S.noise
        add_negative(g, K, B @ S.V, state.negative, amounts)
        return g, K


def lower_distance(
    samples: Samples,
    B: FloatArray,
    *,
    volume: float = 1.0,
    free: BoolArray | None = None,
    max_iter: int = MAX_ITER,
) -> State:
    """The state of least J that steps from the rays B lead to."""
    objective = Distance(samples, volume)
    return descend(objective, B, samples.sums, max_iter=max_iter, tol=TOL, free=free)


def noise_of_amounts(samples: Samples, B: FloatArray) -> FloatArray:
    """Amounts below these are noise."""
    G = B @ B.T + samples.delta * np.eye(len(B))
    return np.asarray(NOISE_LEVELS * samples.sigma * np.sqrt(np.diag(np.linalg.inv(G))))
