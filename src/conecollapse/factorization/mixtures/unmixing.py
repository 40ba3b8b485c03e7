r"""The components of a mixture: the smallest cone that explains the samples to within their noise.

`find_components` prepares the samples, searches candidates
(`conecollapse.factorization.mixtures.search`, for counts
`conecollapse.factorization.mixtures.exposures`) and returns the best.

*Outliers again.* With ``outliers="auto"`` samples that stand out by their distance from the best
subspace are left out first. A subspace that outliers have bent hides some of them and convicts
others, so that after the choice all samples are asked again by their distance from the cone:
beyond `FAR` robust standard deviations of its logarithm they are left out, the others return, and
the choice is made again.

*Corners among features.* With few samples and many features, as in expression of tissues, no sample
is near a facet, but features are: marker genes occur in one component only. Then the transpose is
unmixed as well: its rays are the amounts of the components in the samples. Both sides estimate the
amounts, with a covariance that is twice the inverse of the Hessian of n J; the side that knows them
better is taken. Features that occur a little in other components, too, shift all amounts, which the
covariance does not know; `LEAKAGE` stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, scaled_columns
from conecollapse._threads import serial_blas
from conecollapse._types import BoolArray, FloatArray, Points
from conecollapse.factorization.mixtures.distance import Distance, lower_distance
from conecollapse.factorization.mixtures.exposures import search_counts
from conecollapse.factorization.mixtures.feature_noise import feature_noise
from conecollapse.factorization.mixtures.minvolume_kl import unmix_counts
from conecollapse.factorization.mixtures.samples import Samples, prepare_samples
from conecollapse.factorization.mixtures.search import (
    MORE_OR_LESS,
    UNIT,
    Candidate,
    chosen_starts,
    say_nothing,
    search_candidates,
)
from conecollapse.factorization.mixtures.starts import furthest_from, unmix
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.factorization.resampling.matching import matched
from conecollapse.geometry.subspace import outlying

FAR = 6.0  # robust standard deviations of the logarithm of the distance from the cone
# of the logarithm, at least: samples of many features have distances that hardly differ
LEAST_SPREAD = 0.1
NORMAL = 1.4826  # a median absolute deviation, times this, is a standard deviation
MOST_OUTLIERS = 0.5  # of the samples
ROUNDS = 3  # of the choice, each with other outliers
FEW_SAMPLES, FEW_FOR_EACH = 20, 10  # and for each component: below that the transpose is tried
MANY_FEATURES = 10  # for each sample
# of the amounts, relative: the least error of what marker features say, in planted tissues
LEAKAGE = 0.04
PRESENT = 1e-9  # of the largest entry of a start: what is zero can become positive
START_STEPS = 50  # of minimum volume, where others follow
COUNT_STARTS = ("SPA", "SPA, unit sum", "cone, unit length")

Told = Callable[[str], object]


@dataclass(frozen=True)
class Solution:
    """A choice and what it rests on; components sum to one over features that are divided by their
    noise."""

    samples: Samples
    found: list[Candidate]  # best first
    H: FloatArray  # components of the best, over the columns
    columns: BoolArray  # features that are not all zero
    sizes: FloatArray  # noise of each feature
    left_out: BoolArray

    def over_all(self, H: FloatArray) -> FloatArray:
        """Components over all features, in the unit of the points."""
        whole = np.zeros((len(H), len(self.columns)))
        whole[:, self.columns] = H
        return np.asarray(whole * self.sizes)

    @property
    def best(self) -> FloatArray:
        """The components of the best candidate."""
        return self.over_all(self.H)


@dataclass(frozen=True)
class Unmixed:
    """Components and what is known about them."""

    H: FloatArray  # (r, m)
    candidates: tuple[tuple[str, float], ...]  # best first, with J
    spread: FloatArray  # (r, m): largest less smallest of those about as good
    left_out: BoolArray
    feature_noise: FloatArray
    noise: float  # N over the squared norm
    corners: str  # "samples" or "features"


def find_components(
    points: Points,
    filled: BoolArray,
    r: int,
    *,
    is_counts: bool = False,
    outliers: Any = "auto",
    fixed: FloatArray | None = None,
    told: Told = say_nothing,
) -> Unmixed:
    """Components of the float64 rows that are ``filled``; the first ones are ``fixed``."""
    with serial_blas():
        away = ~filled
        if not is_counts:
            away = leave_out(points, filled, r, outliers)
        solution = solve(points, away, r, is_counts=is_counts, fixed=fixed, told=told)
        if isinstance(outliers, str) and not is_counts:
            solution = without_outliers(points, filled, solution, fixed, told)
        H, corners = solution.best, "samples"
        spread = measure_spread(solution, H)
        if fixed is None and not is_counts and is_wide(points, r):
            other = corners_among_features(points, solution, told)
            if other is not None:
                H, corners = other, "features"
                spread = np.abs(H - solution.best[matched(solution.best, H)[0]])
        if fixed is not None:  # also what of them lies outside of the subspace
            H[: len(fixed)] = fixed
            spread[: len(fixed)] = 0.0
    return Unmixed(
        H,
        tuple((c.name, c.value) for c in solution.found),
        spread,
        solution.left_out,
        solution.sizes,
        solution.samples.noise / float(np.square(solution.samples.Z).sum()),
        corners,
    )


def leave_out(points: Points, filled: BoolArray, r: int, outliers: Any) -> BoolArray:
    """Points that take no part in the choice of r components: those that are zero, and outliers."""
    away = ~filled
    away[filled] = outlying(points[np.flatnonzero(filled)], r, outliers)
    left = int((~away).sum())
    if left < r:
        raise InvalidInputError(
            f"n_components = {r}, but only {left} of {len(away)} points are neither zero nor"
            " outliers; ask for fewer components, or lower outliers."
        )
    return away


def solve(
    points: Points,
    away: BoolArray,
    r: int,
    *,
    is_counts: bool = False,
    fixed: FloatArray | None = None,
    before: FloatArray | None = None,
    told: Told = say_nothing,
) -> Solution:
    """The candidates of the samples that are not ``away``; ``before`` are components found with
    others away."""
    kept = points[np.flatnonzero(~away)]
    columns = filled_columns(kept)
    sizes = np.ones(points.shape[1]) if is_counts else noise_of_features(kept, r)
    inside = sizes[columns]
    kept = scaled_columns(kept[:, np.flatnonzero(columns)], 1 / inside)
    samples = prepare_samples(kept, r, is_counts=is_counts)
    held = None if fixed is None else fixed[:, columns] / inside
    starts = find_starts(kept, samples, is_counts)
    if before is not None:
        starts["before"] = before[:, columns] / inside
    rays = {name: samples.rays(_with(held, H)) for name, H in starts.items()}
    if is_counts and samples.beta > 0:
        return _drawn(samples, rays, starts, columns, away)
    free = None if fixed is None else np.arange(r) >= len(fixed)
    search = search_counts if is_counts else search_candidates
    found = search(samples, rays, free=free, told=told)
    if not found:
        raise InvalidInputError(
            f"n_components = {r}, but every candidate lost a component: X supports fewer; ask for"
            " fewer components."
        )
    H = samples.components(found[0].B)
    if samples.is_structured and not is_counts:  # what lies outside of the subspace is kept
        H = _with(held, starts[found[0].name])
        H = H / H.sum(axis=1, keepdims=True)
    return Solution(samples, found, H, columns, sizes, away)


def filled_columns(points: Points) -> BoolArray:
    """Which features are not all zero."""
    return np.asarray((points > 0).sum(axis=0)).ravel() > 0


def noise_of_features(points: Points, r: int) -> FloatArray:
    """The noise of each feature, by which it is divided; one where it is all zero."""
    columns, sizes = filled_columns(points), np.ones(points.shape[1])
    sizes[columns] = feature_noise(points[:, np.flatnonzero(columns)], r)
    return sizes


def _drawn(
    samples: Samples,
    rays: dict[str, FloatArray],
    starts: dict[str, FloatArray],
    columns: BoolArray,
    away: BoolArray,
) -> Solution:
    """Counts with Poisson's noise: each entry has its own, which J does not know; the divergence
    does, and its cone of minimum volume is taken."""
    name = next(iter(starts))
    value = Distance(samples).evaluate(rays[name]).value
    H = starts[name] / starts[name].sum(axis=1, keepdims=True)
    return Solution(
        samples, [Candidate(name, value, rays[name])], H, columns, np.ones(len(columns)), away
    )


def find_starts(points: Points, samples: Samples, is_counts: bool) -> dict[str, FloatArray]:
    """Components to begin with, over features."""
    r, core = samples.Z.shape[1], samples.core()
    starts = chosen_starts(core)
    if is_counts:
        starts = {name: H for name, H in starts.items() if name in COUNT_STARTS}
        return {"minimum volume, counts": unmix_counts(points, r).result.H, **starts}
    if samples.is_structured:
        return {"minimum volume": unmix(points, r).result.H, **starts}
    return {"minimum volume": unmix(core.points, r, max_iter=START_STEPS).result.H, **starts}


def _with(held: FloatArray | None, H: FloatArray) -> FloatArray:
    """A start with the held components first, in place of those that are most like them."""
    H = H + PRESENT * H.max(axis=1, keepdims=True)
    if held is None:
        return H
    return np.vstack([held, H[furthest_from(held, H, len(H) - len(held))]])


def without_outliers(
    points: Points, filled: BoolArray, solution: Solution, fixed: FloatArray | None, told: Told
) -> Solution:
    """The choice made again while the samples far from the cone are others than those left out."""
    r = len(solution.found[0].B)
    for _ in range(ROUNDS):
        away = ~filled | stand_out(points, filled, solution)
        if (away == solution.left_out).all() or (~away).sum() < max(r, MOST_OUTLIERS * len(away)):
            break
        solution = solve(points, away, r, fixed=fixed, before=solution.best, told=told)
    return solution


def stand_out(points: Points, filled: BoolArray, solution: Solution) -> BoolArray:
    """Samples whose distance from the cone, over the noise of samples of their brightness, is far
    above the bulk."""
    H = solution.best / solution.sizes
    scaled = scaled_columns(points, 1 / solution.sizes)
    C, lengths = np.asarray(scaled @ H.T), _row_lengths(scaled)
    W = solve_rows(H @ H.T, C)
    squares = lengths**2 - 2 * np.einsum("ij,ij->i", C, W) + np.einsum("ij,ij->i", W @ (H @ H.T), W)
    distances = np.sqrt(np.maximum(squares, 0.0)) / solution.samples.divide(lengths)
    # what rounding leaves of exact samples says nothing
    logs = np.log(np.maximum(distances, solution.samples.sigma))
    inside = logs[~solution.left_out]
    middle = float(np.median(inside))
    spread = max(NORMAL * float(np.median(np.abs(inside - middle))), LEAST_SPREAD)
    return np.asarray(filled & (logs > middle + FAR * spread))


def _row_lengths(points: Points) -> FloatArray:
    return np.sqrt(np.asarray((points * points).sum(axis=1), np.float64).ravel())


def measure_spread(solution: Solution, H: FloatArray) -> FloatArray:
    """For each entry of H the largest less the smallest among the candidates that are about as
    good."""
    samples, best = solution.samples.core(), solution.found[0]
    similar = [c.B for c in solution.found[1:] if c.value < best.value + UNIT]
    for volume in (1 / MORE_OR_LESS, MORE_OR_LESS):
        similar.append(lower_distance(samples, best.B, volume=volume, max_iter=10).B)
    low, high = H.copy(), H.copy()
    for B in similar:
        other = solution.over_all(samples.components(B))
        other = other[matched(other, H)[0]]
        low, high = np.minimum(low, other), np.maximum(high, other)
    return np.asarray(high - low)


def is_wide(points: Points, r: int) -> bool:
    """Whether corners may be features: few samples for the components, and many features."""
    n, m = points.shape
    return n < FEW_SAMPLES + FEW_FOR_EACH * r and m > MANY_FEATURES * n


def corners_among_features(points: Points, solution: Solution, told: Told) -> FloatArray | None:
    """Components from the amounts that the features are mixtures of, or None where the samples know
    the amounts better."""
    r = len(solution.found[0].B)
    kept = points[np.flatnonzero(~solution.left_out)]
    columns = np.flatnonzero(solution.columns)
    features = np.ascontiguousarray(as_dense(kept)[:, columns].T)
    other = solve(
        features, leave_out(features, np.ones(len(features), bool), r, "auto"), r, told=told
    )
    own = error_of_amounts(solution.samples, solution.found[0].B)
    if error_of_rays(other.samples, other.found[0].B) + LEAKAGE**2 >= own:
        return None
    U = other.best.T  # amounts of the samples
    H = np.zeros((r, points.shape[1]))
    H[:, columns] = solve_rows(U.T @ U, features @ U).T
    return H / H.sum(axis=1, keepdims=True)


def error_of_amounts(samples: Samples, B: FloatArray) -> float:
    """Expected squared error of the amounts that the uncertain rays cause, as a share of their
    squares."""
    W = Distance(samples).evaluate(B).W
    moments = (W.T * samples.weights) @ W
    covariance = _covariance(samples, B)
    return float(np.einsum("kl,kjlj->", moments, covariance) / np.trace(moments))


def error_of_rays(samples: Samples, B: FloatArray) -> float:
    """Expected squared error of the rays, as a share of their squares."""
    G = B @ B.T
    return float(np.einsum("jl,kjkl->", G, _covariance(samples, B)) / np.trace(G))


def _covariance(samples: Samples, B: FloatArray) -> FloatArray:
    r, objective = len(B), Distance(samples)
    _, K = objective.expand(objective.evaluate(B))
    K = K + np.trace(K) * np.kron(np.eye(r), np.ones((r, r)))  # the length of a ray is no error
    values, vectors = np.linalg.eigh(K * samples.total / 2)
    return np.asarray((vectors / np.maximum(values, 1.0)) @ vectors.T).reshape(r, r, r, r)
