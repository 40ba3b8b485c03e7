r"""How many components a mixture has: three estimates that look at different things, need not
agree, and make a choice together.

- *Clearance*: components of minimum volume at each rank. As long as every component is real, each
  lies clear of the cone of the others; one component too many lies in, or near, that cone. From the
  rank at which the smallest distance is largest, the last before it falls below `CLEAR`, and at
  most what the noise allows. (At lower ranks components are mixtures themselves, and may lie
  close.)
- *Spectrum*: the rank before the largest fall of the singular values of the samples divided by the
  root of their length.
- *Noise*: the noise of each feature is estimated by regression on all other features (as
  Bioucas-Dias & Nascimento 2008 do), or as what the largest rank leaves of it where that is
  independent (`conecollapse.factorization.mixtures.feature_noise`). With features divided by it,
  noise alone has eigenvalues of the covariance up to :math:`(1 + \sqrt{m / n})^2`; those well above
  count. Every kind of variation counts here, such as shadow and variants of a material, so it is an
  upper limit.

*Choice.* The rank of the clearance, but not below that of the spectrum and at most `BEYOND` above
it. By itself the clearance counts variants of a material and scattered light, too, and is then far
too high; the spectrum is blind to a dark component, and is then one too low.

All but the noise look at features that are divided by their noise where
`conecollapse.factorization.mixtures.feature_noise` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._linalg import as_dense, scaled_columns, unit_rows
from conecollapse._nnls.active_set import active_set
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.factorization.mixtures.compressed import RANK, compressed
from conecollapse.factorization.mixtures.feature_noise import feature_noise
from conecollapse.factorization.mixtures.starts import root_scaled, unmix
from conecollapse.tables import as_table

BEYOND = 1  # components that may hide in the singular values
CLEAR = 0.12  # distance of a unit component from the cone of the others
ABOVE = 2.0  # times the largest eigenvalue of pure noise
MOST_FEATURES = 2000  # that are regressed on each other


@dataclass(frozen=True)
class Counts:
    """The choice, the three estimates, and what they rest on."""

    chosen: int
    clearance: int
    spectrum: int
    # None where there are too few samples for the regression, or too many features
    noise: int | None
    clearances: FloatArray  # of each candidate


def count_components(points: Points, ranks: IntArray) -> Counts:
    """Estimates of the number of components of float64 rows that are not all zero, among increasing
    ``ranks``."""
    sizes = feature_noise(points, int(ranks[-1]))
    scaled = scaled_columns(points, 1 / sizes)
    s = _singular_values(scaled)
    rank = int((s > RANK * s[0]).sum())
    clearances = np.zeros(len(ranks))
    for k in np.flatnonzero(ranks <= rank):
        U, _ = unit_rows(unmix(scaled, int(ranks[k]), tol=1e-4).result.H)
        clearances[k] = _clearance(U)
    first = int(clearances.argmax())
    low = np.flatnonzero(clearances[first:] < CLEAR)
    last = first + max(int(low[0]) - 1, 0) if len(low) else len(ranks) - 1
    falls = np.array(
        [s[r - 1] / max(s[r], np.finfo(np.float64).tiny) if r < len(s) else 0.0 for r in ranks]
    )
    above = (
        _above_independent_noise(scaled, int(ranks[-1]))
        if np.ptp(sizes) > 0
        else _above_noise(as_dense(points))
    )
    if above is not None:
        last = min(last, max(int((ranks <= above).sum()) - 1, 0))
    clear, spectrum = int(ranks[last]), int(ranks[int(falls.argmax())])
    near = ranks[(ranks >= spectrum) & (ranks <= spectrum + BEYOND)]
    chosen = int(near[np.abs(near - clear).argmin()])
    return Counts(chosen, clear, spectrum, above, clearances)


def _singular_values(points: Points) -> FloatArray:
    """Of the samples divided by the root of their length, from the Gram matrix of the shorter
    side."""
    X = root_scaled(points)
    K = as_dense(X @ X.T if X.shape[0] < X.shape[1] else X.T @ X)
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(K)[::-1], 0.0)))


def _clearance(U: FloatArray) -> float:
    """The smallest distance of a unit component from the cone of the others."""
    if len(U) == 1:
        return 1.0
    distances = [
        float(np.linalg.norm(active_set(np.delete(U, k, axis=0), U[k : k + 1]).residual))
        for k in range(len(U))
    ]
    return min(distances)


def _above_noise(X: FloatArray) -> int | None:
    n, m = X.shape
    if n < 2 * m or m > MOST_FEATURES:
        return None
    S = X.T @ X / n
    S[np.diag_indices(m)] += 1e-10 * np.trace(S) / m
    # one over the residual of each feature from all others
    size = np.sqrt(np.diag(np.linalg.inv(S)))
    values = np.linalg.eigvalsh(size[:, None] * S * size)
    return int((values > ABOVE * (1 + np.sqrt(m / n)) ** 2).sum())


def _above_independent_noise(points: Points, r: int) -> int:
    """Squared singular values above those of the noise that r dimensions leave."""
    X = compressed(as_table(root_scaled(points)), r)
    n, m = points.shape
    edge = X.floor / (max(n - r, 1) * max(m - r, 1)) * (np.sqrt(n) + np.sqrt(m)) ** 2
    return int((np.square(X.Z).sum(axis=0) > ABOVE * edge).sum())
