r"""What many runs of a factorization agree on (Brunet et al. 2004; Kotliar et al. 2019).

NMF has many local minima, and a random start ends in one of them. Components that the data
determine come back in most runs, the others come and go. From the components of all runs, at unit
length:

1. *Outliers*. A component that the data determine has one like it in nearly every other run. The
   mean distance from the nearest 30 % of n_runs others is small for these; components for which it
   is larger than a threshold are left out.
2. *Groups*. k-means, from the components of each of the ten best runs as centres; the grouping with
   the smallest sum of squared distances counts. No randomness is needed, since a run is a good set
   of centres.
3. *Consensus*. The median of each group, entry by entry.

The consensus is the start of one last factorization, of the whole table, so that the result is a
minimum like any other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._linalg import unit_rows
from conecollapse._types import BoolArray, FloatArray, IntArray
from conecollapse.factorization.kmeans import lloyd
from conecollapse.factorization.resampling.matching import matched

NEIGHBOURS = 0.3  # of n_runs: how many others a component is compared with (Kotliar et al.)
BEST_RUNS = 10  # whose components are tried as centres
BLOCK = 1024  # rows of distances at once
ROUNDING = 1e-12  # of the squared distance of a unit row


class Agreement(NamedTuple):
    """What runs agree on."""

    H: FloatArray  # (r, n_features): the consensus, at unit length
    is_outlier: BoolArray  # (n_runs, r)
    enough: bool  # whether components were left for every group; else outliers were kept


def agreement(components: FloatArray, objectives: FloatArray, max_distance: float) -> Agreement:
    """The consensus of ``components`` (n_runs, r, n_features), whose runs ended with these
    objectives."""
    n_runs, r, m = components.shape
    U = unit_rows(np.asarray(components.reshape(n_runs * r, m), np.float64))[0]
    is_alive = U.any(axis=1)
    near = max(1, int(NEIGHBOURS * n_runs))
    is_outlier = ~is_alive | (_mean_distances(U, near) > max_distance) if n_runs > 1 else ~is_alive
    best = np.argsort(objectives, kind="stable")[:BEST_RUNS]
    groups, centres = _grouped(U[~is_outlier], U.reshape(n_runs, r, m)[best])
    enough = bool((np.bincount(groups, minlength=r) > 0).all())
    if not enough:
        is_outlier = ~is_alive
        groups, centres = _grouped(U[is_alive], U.reshape(n_runs, r, m)[best])
    members = U[~is_outlier]
    H = np.array(
        [
            np.median(members[groups == k], axis=0) if (groups == k).any() else centres[k]
            for k in range(r)
        ]
    )
    # the median of very sparse components may be zero
    H = np.where(np.any(H, axis=1, keepdims=True), H, centres)
    return Agreement(unit_rows(H)[0], is_outlier.reshape(n_runs, r), enough)


def stability(components: FloatArray, H: FloatArray) -> FloatArray:
    """For each row of ``H`` the mean cosine with its counterpart in every run, matched one to
    one."""
    return np.asarray(np.mean([matched(found, H)[1] for found in components], axis=0))


def _mean_distances(U: FloatArray, near: int) -> FloatArray:
    """The mean distance of each unit row from the nearest others."""
    means = np.empty(len(U))
    for start in range(0, len(U), BLOCK):
        rows = slice(start, start + BLOCK)
        cosines = U[rows] @ U.T
        cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))] = -np.inf  # itself
        nearest = -np.partition(-cosines, near - 1, axis=1)[:, :near]
        means[rows] = np.sqrt(np.maximum(2 - 2 * nearest, 0.0)).mean(axis=1)
    return means


def _grouped(U: FloatArray, starts: FloatArray) -> tuple[IntArray, FloatArray]:
    """The best grouping of the unit rows from these sets of centres, and the set that led to it."""
    groups, within = lloyd(U, starts)
    # the first of those that are equal but for rounding, which orders the components
    best = int((within <= within.min() + ROUNDING * len(U)).argmax())
    return groups[best], starts[best]
