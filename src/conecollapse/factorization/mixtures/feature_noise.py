r"""How large the noise of each feature is, and whether features should be divided by it before
components are sought.

Least squares trusts all features alike. In counts they are not alike: the noise of a feature grows
with its mean, and a few large ones decide alone. Dividing each feature by the standard deviation of
its noise makes them equally reliable, which changes neither which samples are mixtures of which nor
the abundances.

*Estimate.* Noise is what the best r-dimensional subspace leaves of a feature. The subspace depends
on the scaling and the scaling on the subspace, so both are found in turn, from the root of the
mean, which is right for Poisson counts; as in factor analysis. With V the basis of the subspace, it
takes the share :math:`h_j = \sum_k V_{kj}^2` of the noise of feature j, its *leverage*, which is
given back. Where a feature has most of a direction of the subspace for itself, there is nothing to
tell its noise from, and it keeps the size that it has.

*When.* The residual of measured spectra is mostly no noise but structure: variants of a material,
light that is reflected twice. It says little about how reliable a feature is. So features are
divided only if what is left then looks like independent noise: the squared singular values r + 1 to
2 r of the scaled samples are at most `UNSTRUCTURED` times what such noise has
(`conecollapse.factorization.mixtures.compressed`).
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import scaled_columns
from conecollapse._types import FloatArray, Points
from conecollapse.factorization.mixtures.compressed import Compressed, compressed
from conecollapse.factorization.mixtures.starts import LEAST_NOISE, core_samples, root_scaled
from conecollapse.tables import as_table

# of what independent noise has: about 1 for planted counts, above 10 for spectra
UNSTRUCTURED = 2.0
ROUNDS = 4  # of subspace and scaling
# of the median: features with less noise are divided by this, so that none decides alone
LEAST_PART = 0.1
MOST_LEVERAGE = 0.5  # beyond that a feature keeps its size
FEWEST = 20  # samples beyond r without which a standard deviation is not worth the name


def feature_noise(points: Points, r: int) -> FloatArray:
    """Standard deviations of the noise of each feature in units of their median, or ones where
    dividing by them is not called for.

    ``points`` are float64 rows that are not zero.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean = rng.dirichlet([0.5, 0.5], 200) @ (
    ...     100 * rng.random((2, 30)) * ([100] + 29 * [1])
    ... )  # the first feature is large
    >>> bool(feature_noise(rng.poisson(clean).astype(float), 2)[0] > 5)
    True
    >>> bool(feature_noise(clean, 2)[0] == 1)  # without noise
    True
    """
    n, m = points.shape
    ones = np.ones(m)
    core = core_samples(n)
    some = points if len(core) == n else points[core]
    filled = np.asarray((some > 0).sum(axis=0)).ravel() > 0
    if min(n - FEWEST, int(filled.sum()) - 1) < r:
        return ones
    if not filled.all():
        ones[filled] = feature_noise(some[:, np.flatnonzero(filled)], r)
        return ones
    size = np.sqrt(np.asarray(some.mean(axis=0), np.float64).ravel())
    for _ in range(ROUNDS):
        X, left = _residuals(some, r, size)
        if X.floor <= LEAST_NOISE * X.norm2:
            return ones
        size = size * np.maximum(left, LEAST_PART)
        size /= float(np.median(size))
    return size if _residuals(some, r, size)[0].structure <= UNSTRUCTURED else ones


def _residuals(points: Points, r: int, size: FloatArray) -> tuple[Compressed, FloatArray]:
    """The samples with features divided by ``size``, and the noise of each such feature in units of
    the median."""
    table = as_table(root_scaled(scaled_columns(points, 1 / size)))
    X = compressed(table, r)
    squares = np.square(X.Vt[:r])
    explained = (np.square(X.Z[:, :r]).sum(axis=0)[:, None] * squares).sum(axis=0)
    leverage = squares.sum(axis=0)
    known = leverage <= MOST_LEVERAGE
    noise = np.sqrt(
        np.maximum(table.column_lengths**2 - explained, 0.0) / np.where(known, 1 - leverage, 1.0)
    )
    middle = float(np.median(noise[known])) if known.any() else 0.0
    return X, np.where(known, noise / middle, 1.0) if middle > 0 else np.ones(len(noise))
