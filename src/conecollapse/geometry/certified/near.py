"""Points on a smooth surface in few dimensions: what represents one of them, or nearly does, lies nearby.

Where thousands of points lie near the tolerance, as on a finely drawn circle, each is decided after the other, and a look at all points
for each would take most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from conecollapse._nnls.active_set import ActiveSetResult
from conecollapse._nnls.local import local_active_set
from conecollapse._types import BoolArray, FloatArray, Points

FEW_DIMENSIONS, N_NEAR = 8, 32
MANY_ASKED = 100  # points from which the arrangement is worth its while


@dataclass(frozen=True)
class NearPoints:
    """Unit points and a tree of them; unit vectors that are close together are close on every slice."""

    tree: cKDTree

    @classmethod
    def of(cls, U: Points, n_asked: int) -> NearPoints | None:
        """None where there is no gain: in many dimensions, or where few points are asked about."""
        return None if sp.issparse(U) or U.shape[1] > FEW_DIMENSIONS or n_asked < MANY_ASKED else cls(cKDTree(U))

    def project(self, U: Points, targets: FloatArray, allowed: BoolArray) -> ActiveSetResult:
        """Active set of each target over the ``allowed`` points near the first: an approximation from inside the cone of all of them."""
        near = np.atleast_1d(self.tree.query(targets[0], k=min(N_NEAR, self.tree.n))[1])
        near = np.sort(near[allowed[near]])
        Z = U[near]
        H, steps, converged, sigma = local_active_set(Z, np.ones(len(near)), targets, None, None)
        return ActiveSetResult([near[h > 0] for h in H], [h[h > 0] for h in H], targets - H @ Z, steps, converged, sigma)
