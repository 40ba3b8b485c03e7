r"""Samples in the coordinates in which cones are searched, and the size of their noise.

*Noise.* Features are divided by their noise where it is independent
(`conecollapse.factorization.mixtures.feature_noise`). Samples are divided by
:math:`\ell^{\beta/2}`, with :math:`\ell` their length over the median: noise whose variance grows
with the signal's power :math:`\beta` is then equal in all. Where what the subspace leaves looks
like independent noise, :math:`\beta` is the slope of its variance over the length; else it is 1. N
is the squared noise of all samples in each direction of the subspace
(`conecollapse.factorization.mixtures.compressed`), at least a part `LEAST_NOISE` of their squared
norm: data without noise are known to rounding only.

*Counts* are drawn, so that their noise is Poisson's, or rounded, so that it is the same
everywhere; the slope tells which.

*A part of the samples.* Above `CORE` samples, cones are searched on `CORE` drawn ones, each with
the weight of those that it stands for, and on those that are extreme in random directions of the
subspace, which a facet may rest on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conecollapse._linalg import row_lengths, scaled_rows
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.factorization.mixtures.compressed import Compressed, compressed
from conecollapse.tables import as_table

CORE, DIRECTIONS = 1500, 300
# slope of the variance over the length from which on counts are drawn: 0 if rounded, 1 if Poisson
DRAWN = 0.5
FAINT = 0.02  # samples shorter than this share of the median length are scaled as if they had it
LEAST_NOISE = 1e-10  # of the squared norm; rounding to float32 leaves 1e-15
LEAST_OF_COUNTS = 1e-14  # counts that are rounded products
# singular values beyond the subspace, in units of independent noise, up to which it is that
INDEPENDENT = 2.0
ROUNDS = 3  # of the subspace and beta
ONE_LENGTH = 1e-9  # relative difference of lengths that rounding makes
ENOUGH = 20  # samples beyond r for a slope


@dataclass(frozen=True)
class Samples:
    """``points ~ Z V`` with orthonormal rows of V, one for each component; rows count by
    ``weights``."""

    points: Points
    Z: FloatArray  # (n, r)
    V: FloatArray  # (r, m)
    weights: FloatArray
    noise: float  # N, of all samples
    structure: float  # of what the subspace leaves, as in `Compressed`
    middle: float  # median length of the samples
    beta: float  # the power of the length that the variance of the noise grows with

    @cached_property
    def sums(self) -> FloatArray:
        """Sums of the rows of V."""
        return np.asarray(self.V.sum(axis=1))

    @cached_property
    def total(self) -> float:
        """How many samples these stand for."""
        return float(self.weights.sum())

    @cached_property
    def sigma(self) -> float:
        """Noise of a sample in each direction."""
        return float(np.sqrt(self.noise / self.total))

    @cached_property
    def brightness(self) -> float:
        """Sum of a typical sample."""
        return float(np.median(self.Z @ self.sums))

    @cached_property
    def delta(self) -> float:
        """Volumes below this are not told apart."""
        return (self.sigma / self.brightness) ** 2

    @property
    def is_structured(self) -> bool:
        """Whether what the subspace leaves is no independent noise, such as variants of a component
        and light that is reflected twice."""
        least = 2 * LEAST_NOISE * float(self.weights @ np.square(self.Z).sum(axis=1))
        return self.structure > INDEPENDENT and self.noise > least

    @cached_property
    def thinnest(self) -> float:
        """Root mean square of the samples along their thinnest direction."""
        moments = (self.Z.T * self.weights) @ self.Z / self.total
        return float(np.sqrt(max(np.linalg.eigvalsh(moments)[0], 0.0)))

    def divide(self, lengths: FloatArray) -> FloatArray:
        """What samples of these lengths are divided by."""
        return np.asarray(np.maximum(lengths / self.middle, FAINT) ** (self.beta / 2))

    def rays(self, H: FloatArray) -> FloatArray:
        """Components over the features as rays in the subspace, at sum one."""
        B = H @ self.V.T
        return np.asarray(B / (B @ self.sums)[:, None])

    def components(self, B: FloatArray) -> FloatArray:
        """Rays as components over the features, not negative, at sum one."""
        H = np.maximum(B @ self.V, 0.0)
        return np.asarray(H / H.sum(axis=1, keepdims=True))

    def core(self) -> Samples:
        """The samples on which cones are searched."""
        n = len(self.Z)
        if n <= CORE + 2 * DIRECTIONS:
            return self
        rng, weights = np.random.default_rng(0), np.zeros(n)
        weights[rng.permutation(n)[:CORE]] = n / CORE
        extremes = self.extremes(rng)
        weights[extremes] = np.maximum(weights[extremes], 1.0)
        kept = np.flatnonzero(weights)
        return replace(
            self,
            points=self.points[kept],
            Z=self.Z[kept],
            weights=weights[kept],
            noise=self.noise * float(weights.sum()) / n,
        )

    def extremes(self, rng: np.random.Generator) -> IntArray:
        """Samples that are extreme in random directions, at sum one."""
        height = self.Z @ self.sums
        slice_ = self.Z / np.where(height > 0, height, np.inf)[:, None]
        along = slice_ @ rng.standard_normal((self.Z.shape[1], DIRECTIONS))
        return np.unique(np.r_[along.argmax(axis=0), along.argmin(axis=0)])


def prepare_samples(points: Points, r: int, *, is_counts: bool = False) -> Samples:
    """The samples of float64 rows, none of them zero, whose features are divided by their noise."""
    lengths = row_lengths(points)
    middle = float(np.median(lengths))
    relative = np.maximum(lengths / middle, FAINT)
    least = LEAST_OF_COUNTS if is_counts else LEAST_NOISE
    beta = 1.0
    if is_counts:
        beta = 1.0 if _slope(points, relative, 0.0, r) > DRAWN else 0.0
    X = _in_subspace(points, relative, beta, r)
    measurable = X.structure <= INDEPENDENT and X.floor > LEAST_NOISE * X.norm2
    if not is_counts and measurable and len(relative) > ENOUGH + r:
        for _ in range(ROUNDS):
            beta = _slope(points, relative, beta, r)
        X = _in_subspace(points, relative, beta, r)
    return Samples(
        scaled_rows(points, relative ** (-beta / 2)),
        np.ascontiguousarray(X.Z[:, :r]),
        X.Vt[:r],
        np.ones(len(relative)),
        max(X.noise, least * X.norm2),
        X.structure,
        middle,
        beta,
    )


def _in_subspace(points: Points, relative: FloatArray, beta: float, r: int) -> Compressed:
    return compressed(as_table(scaled_rows(points, relative ** (-beta / 2))), r)


def _slope(points: Points, relative: FloatArray, beta: float, r: int) -> float:
    """The slope of the logarithm of the squared residuals over that of the lengths."""
    V = _in_subspace(points, relative, beta, r).Vt[:r]
    left = row_lengths(points) ** 2 - np.square(np.asarray(points @ V.T)).sum(axis=1)
    if np.ptp(relative) <= ONE_LENGTH * relative.max():  # nothing to take a slope over
        return 0.0
    logs = np.log(np.maximum(left, np.finfo(np.float64).tiny))
    return float(np.clip(np.polyfit(np.log(relative), logs, 1)[0], 0.0, 2.0))
