"""Points on a smooth surface in few dimensions: what represents one of them, or nearly does, lies
nearby.

Where thousands of points lie near the tolerance, as on a finely drawn circle, each is decided after
the other, and a look at all points for each would take most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from conecollapse._linalg import row_norms
from conecollapse._nnls.slots import PLAIN_STOP, Slots
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

FEW_DIMENSIONS, N_NEAR = 8, 32
MANY_ASKED = 100  # points from which the arrangement is worth its while
AT_ONCE = 256  # targets of one call

# the points that each uses, and their coefficients
Combinations = list[tuple[IntArray, FloatArray]]


@dataclass(frozen=True)
class NearPoints:
    """Unit points, of which those near a point represent it; unit vectors that are close together
    are close on every slice."""

    U: FloatArray
    slots: Slots

    @classmethod
    def of(cls, U: Points, n_asked: int) -> NearPoints | None:
        """None where there is no gain: in many dimensions, or where few points are asked about."""
        if sp.issparse(U) or U.shape[1] > FEW_DIMENSIONS or n_asked < MANY_ASKED:
            return None
        return cls(U, Slots.over(U, AT_ONCE, U.shape[1]))

    def nearest(self, points: IntArray, allowed: BoolArray) -> IntArray:
        """For each of ``points`` the ``allowed`` points nearest to it, one row each."""
        usable = np.flatnonzero(allowed)
        at = cKDTree(self.U[usable]).query(self.U[points], k=min(N_NEAR, len(usable)))[1]
        return np.asarray(usable[np.reshape(at, (len(points), -1))])

    def residuals(self, points: IntArray) -> FloatArray:
        """What is left of each of ``points`` over the other points near it."""
        slots, every = Slots.over(self.U, len(points), self.U.shape[1]), np.arange(len(points))
        near = self.nearest(points, np.ones(len(self.U), bool))
        # the point itself comes last, and is left out
        order = np.argsort(near == points[:, None], axis=1, kind="stable")
        slots.load(every, self.U[points])
        n_others = (near != points[:, None]).sum(axis=1)
        slots.advance(
            every, np.take_along_axis(near, order, axis=1), n_others, PLAIN_STOP, 3 * N_NEAR
        )
        return slots.r

    def solve(
        self, targets: IntArray, over: IntArray
    ) -> tuple[Combinations, FloatArray, FloatArray]:
        """Combinations of the points ``over`` for each of the points ``targets``: approximations
        from inside their cone.

        The residuals are accurate relative to themselves; lengths are of what the combinations
        leave as they are.
        """
        found: Combinations = []
        residual, lengths = np.empty((len(targets), self.U.shape[1])), np.empty(len(targets))
        for a in range(0, len(targets), AT_ONCE):
            some = targets[a : a + AT_ONCE]
            count = len(some)
            every = np.arange(count)
            self.slots.load(every, self.U[some])
            lists = np.empty((count, len(over)), np.int64)
            lists[:] = over
            self.slots.advance(every, lists, np.full(count, len(over)), PLAIN_STOP, 3 * N_NEAR)
            used = self.slots.h[:count] * (np.arange(self.U.shape[1]) < self.slots.k[:count, None])
            left = self.U[some] - np.einsum("ij,ijk->ik", used, self.U[self.slots.S[:count]])
            found.extend(self.slots.solution(s) for s in range(count))
            residual[a : a + count], lengths[a : a + count] = self.slots.r[:count], row_norms(left)
        return found, residual, lengths
