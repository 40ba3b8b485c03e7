r"""How many components, for `Unmixing(n_components="auto")`: as few as leave nothing but
independent noise.

With r components every sample lies in a subspace of r dimensions, up to noise. Independent noise of
variance :math:`\sigma^2` has squared singular values up to :math:`\sigma^2 (\sqrt n + \sqrt m)^2`.
The number is the smallest r after which the next squared singular value is at most `ABOVE` times
that, with :math:`\sigma^2` from what r dimensions leave. Features are divided by their noise
or not, and samples by the root of their length or not, whichever leaves less. Samples that stand
out by their distance from r dimensions are left out. Data without noise
have as many components as dimensions.

Where no r leaves such noise, as in most measured scenes, what is left has a structure of its own,
and `conecollapse.factorization.mixtures.counting` weighs three estimates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conecollapse._linalg import as_dense, scaled_columns
from conecollapse._types import FloatArray, Points
from conecollapse.factorization.mixtures.counting import count_components
from conecollapse.factorization.mixtures.feature_noise import feature_noise
from conecollapse.factorization.mixtures.starts import core_samples, root_scaled
from conecollapse.geometry.subspace import outlying

MOST, MOST_OF_COUNTS = 20, 40
MOST_BY_CLEARANCE = 10  # each number is fitted there
ABOVE = 1.3  # of the largest squared singular value of noise
EXACT = 1e-12  # of the squared norm: less is rounding
_TINY = float(np.finfo(np.float64).tiny)


class Number(NamedTuple):
    """How many, and why, as a sentence."""

    r: int
    reason: str


def count(points: Points, *, is_counts: bool = False, outliers: Any = "auto") -> Number:
    """The number of components of float64 rows that are not zero, without the ``outliers`` of
    each number."""
    points = points[core_samples(points.shape[0])]
    n, m = points.shape
    most = min(MOST_OF_COUNTS if is_counts else MOST, max(1, n // 2), max(1, m - 1))
    exact = _dimensions(_squares(points))
    if exact is not None and exact <= most:
        return Number(exact, f"X has {exact} dimensions up to rounding")
    for r in range(1, most + 1):
        kept = points[np.flatnonzero(~outlying(points, r, outliers))]
        sizes = feature_noise(kept, r)
        tables = [kept, scaled_columns(kept, 1 / sizes)] if np.ptp(sizes) > 0 else [kept]
        spectra = [_squares(X) for table in tables for X in (table, root_scaled(table))]
        next_one = min(s[r] / max(_edge(s, r, kept.shape[0], m), _TINY) for s in spectra)
        if next_one <= ABOVE:
            return Number(
                r,
                f"{r} dimensions leave independent noise, and fewer do not: the next squared"
                f" singular value is {next_one:.2f} of the largest of such noise",
            )
    counts = count_components(points, np.arange(2, max(3, min(most, MOST_BY_CLEARANCE) + 1)))
    return Number(
        counts.chosen,
        "what any number of components leaves has a structure of its own, so the number is not"
        f" sure; the clearance of the components suggests {counts.clearance}, the singular values"
        f" {counts.spectrum}",
    )


def _squares(points: Points) -> FloatArray:
    """Squared singular values, largest first."""
    K = as_dense(points @ points.T if points.shape[0] < points.shape[1] else points.T @ points)
    return np.asarray(np.append(np.maximum(np.linalg.eigvalsh(K)[::-1], 0.0), 0.0))


def _dimensions(squares: FloatArray) -> int | None:
    """How many dimensions hold all but rounding, if the others hold nothing else."""
    left = np.append(np.cumsum(squares[::-1])[::-1][1:], 0.0)
    r = int(np.argmax(left <= EXACT * squares.sum())) + 1
    return r if r < len(squares) - 1 else None


def _edge(squares: FloatArray, r: int, n: int, m: int) -> float:
    """The largest squared singular value of noise with the variance that r dimensions leave."""
    variance = float(squares[r:].sum()) / (max(n - r, 1) * max(m - r, 1))
    return variance * (np.sqrt(n) + np.sqrt(m)) ** 2
