"""Points on a smooth surface in few dimensions: what represents one of them, or nearly does, lies
nearby.

The residual of a point over the points near it is mostly its witness (`dense`). Where thousands of
points lie near the tolerance, as on a finely drawn circle, each is decided after the other
(`settle`), and a question to all points for each would take most of the time: 44 s in place of 1 s
on 20,000 points of a circle that lies askew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from conecollapse._nnls.slots import PLAIN_STOP, Slots
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

FEW_DIMENSIONS, N_NEAR = 8, 32
AT_ONCE = 256  # targets of one call
MANY_ASKED = 100  # points from which the tree is worth its while
# so many apart, points are decided in the same round; between two rounds the points nearby are
# found again
ROUNDS = 32


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

    def residuals(self, points: IntArray) -> FloatArray:
        """What is left of each of ``points`` over the other points near it."""
        slots, every = Slots.over(self.U, len(points), self.U.shape[1]), np.arange(len(points))
        k = min(N_NEAR, len(self.U))
        near = np.reshape(cKDTree(self.U).query(self.U[points], k=k)[1], (len(points), -1))
        # the point itself comes last, and is left out
        is_other = near != points[:, None]
        order = np.argsort(~is_other, axis=1, kind="stable")
        slots.load(every, self.U[points])
        lists = np.take_along_axis(near, order, axis=1)
        slots.advance(every, lists, is_other.sum(axis=1), PLAIN_STOP, 3 * N_NEAR)
        return slots.r

    def visit(self, points: IntArray, allowed: BoolArray) -> Iterator[tuple[int, IntArray]]:
        """Each of ``points`` with the ``allowed`` points nearest to it, as they are at the
        beginning of a round.

        A round takes points that are far apart in their order, so that few of those near a point
        are decided in the same round.
        """
        for first in range(min(ROUNDS, len(points))):
            some, usable = points[first::ROUNDS], np.flatnonzero(allowed)
            tree = cKDTree(self.U[usable])
            at = tree.query(self.U[some], k=min(N_NEAR, len(usable)))[1]
            yield from zip(some.tolist(), usable[np.reshape(at, (len(some), -1))], strict=True)

    def solve(
        self, targets: IntArray, over: IntArray
    ) -> tuple[list[tuple[IntArray, FloatArray]], FloatArray]:
        """Combinations of the points ``over`` for each of the points ``targets``, which need not be
        the nearest, and the residuals."""
        found: list[tuple[IntArray, FloatArray]] = []
        residual = np.empty((len(targets), self.U.shape[1]))
        for a in range(0, len(targets), AT_ONCE):
            some = targets[a : a + AT_ONCE]
            every, lists = np.arange(len(some)), np.tile(over, (len(some), 1))
            self.slots.load(every, self.U[some])
            self.slots.advance(every, lists, np.full(len(some), len(over)), PLAIN_STOP, 3 * N_NEAR)
            found.extend(self.slots.solution(slot) for slot in range(len(some)))
            residual[a : a + AT_ONCE] = self.slots.r[every]
        return found, residual
