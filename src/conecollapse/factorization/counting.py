r"""How many components a mixture has: three estimates that look at different things, and need not agree.

- *Clearance*: components of minimum volume at each rank. As long as every component is real, each lies clear of the cone of the others;
  one component too many lies in, or near, that cone. The largest rank before the smallest distance falls below `CLEAR`.
- *Spectrum*: the rank before the largest fall of the singular values of the samples divided by the root of their length.
- *Noise*: the noise of each feature is estimated by regression on all other features (as Bioucas-Dias & Nascimento 2008 do). With
  features divided by it, noise alone has eigenvalues of the covariance up to :math:`(1 + \sqrt{m / n})^2`; those well above count. Every
  kind of variation counts here, such as shadow and variants of a material, so it is an upper limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._linalg import as_dense, unit_rows
from conecollapse._nnls.active_set import active_set
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.factorization.compressed import RANK
from conecollapse.factorization.mixtures import root_scaled, unmix

CLEAR = 0.12  # distance of a unit component from the cone of the others
ABOVE = 2.0  # times the largest eigenvalue of pure noise
MOST_FEATURES = 2000  # that are regressed on each other


@dataclass(frozen=True)
class Counts:
    """The three estimates, and what they rest on."""

    clearance: int
    spectrum: int
    noise: int | None  # None where there are too few samples for the regression, or too many features
    clearances: FloatArray  # of each candidate


def count_components(points: Points, ranks: IntArray) -> Counts:
    """Estimates of the number of components of float64 rows that are not all zero, among increasing ``ranks``."""
    s = np.linalg.svd(as_dense(root_scaled(points)), compute_uv=False)
    rank = int((s > RANK * s[0]).sum())
    clearances = np.array([_clearance(unmix(points, int(r), tol=1e-4).result.H) if r <= rank else 0.0 for r in ranks])
    low = np.flatnonzero(clearances < CLEAR)
    last = int(low[0]) - 1 if len(low) else len(ranks) - 1
    falls = np.array([s[r - 1] / max(s[r], np.finfo(np.float64).tiny) if r < len(s) else 0.0 for r in ranks])
    return Counts(int(ranks[max(last, 0)]), int(ranks[int(falls.argmax())]), _above_noise(as_dense(points)), clearances)


def _clearance(H: FloatArray) -> float:
    """The smallest distance of a unit component from the cone of the others."""
    U, _ = unit_rows(H)
    if len(U) == 1:
        return 1.0
    distances = [float(np.linalg.norm(active_set(np.delete(U, k, axis=0), U[k : k + 1]).residual)) for k in range(len(U))]
    return min(distances)


def _above_noise(X: FloatArray) -> int | None:
    n, m = X.shape
    if n < 2 * m or m > MOST_FEATURES:
        return None
    S = X.T @ X / n
    S[np.diag_indices(m)] += 1e-10 * np.trace(S) / m
    size = np.sqrt(np.diag(np.linalg.inv(S)))  # one over the residual of each feature from all others
    values = np.linalg.eigvalsh(size[:, None] * S * size)
    return int((values > ABOVE * (1 + np.sqrt(m / n)) ** 2).sum())
