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
from conecollapse._nnls.local import PLAIN_STOP, local_active_set
from conecollapse._nnls.slots import Slots
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

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

    def residuals(self, U: FloatArray, points: IntArray) -> FloatArray:
        """What is left of each of ``points`` over the other points near it."""
        near = np.asarray(self.tree.query(U[points], k=min(N_NEAR, self.tree.n))[1], np.int64).reshape(len(points), -1)
        order = np.argsort(near == points[:, None], axis=1, kind="stable")  # the point itself comes last, and is left out
        slots, every = Slots.over(U, len(points), U.shape[1]), np.arange(len(points))
        slots.load(every, U[points])
        n_others = (near != points[:, None]).sum(axis=1)
        slots.advance(every, np.take_along_axis(near, order, axis=1), n_others, PLAIN_STOP, 3 * N_NEAR)
        return slots.r

    def project(self, U: Points, targets: FloatArray, allowed: BoolArray) -> ActiveSetResult:
        """Active set of each target over the ``allowed`` points near the first: an approximation from inside the cone of all of them.

        Where none is near, all that are allowed are taken.
        """
        near = np.atleast_1d(self.tree.query(targets[0], k=min(N_NEAR, self.tree.n))[1])
        near = np.sort(near[allowed[near]]) if allowed[near].any() else np.flatnonzero(allowed)
        Z = U[near]
        H, steps, converged, sigma = local_active_set(Z, np.ones(len(near)), targets, None, None)
        return ActiveSetResult([near[h > 0] for h in H], [h[h > 0] for h in H], targets - H @ Z, steps, converged, sigma)
