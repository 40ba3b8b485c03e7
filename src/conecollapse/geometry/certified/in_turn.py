r"""Points near the tolerance, decided one after the other.

Each is taken with the points whose combinations use it, which *lean* on it. If the other points
that are not yet deleted represent all of these, it is deleted; otherwise it stays, and the residual
that could not be removed is its witness. Since points are only ever deleted, a witness found early
still holds at the end.

Two things keep this fast where thousands of points are doubtful:

- Points *clearly inside*, whose residual over the others is next to nothing, are deleted without
  asking what leans on them. On the slice :math:`q = u / \sum u` combinations are convex, so that
  deleting a point with residual e moves what leans on it, however indirectly, by e at most: the sum
  of all e bounds what is lost. They come first, and are represented by what is left once all of
  them are gone.
- Points that lead among the points near them (`near`) are decided over these alone. What those keep
  is confirmed against all points at the end, by one product, and what is not confirmed is decided
  over all points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from conecollapse._linalg import combination_rows, dense_entries, dense_rows, row_norms, take_rows
from conecollapse._types import BoolArray, FloatArray, IntArray, Points, Progress
from conecollapse.geometry.certified.confirm import EPS, least_shift, project
from conecollapse.geometry.certified.near import Combinations, NearPoints

# a weak ray's own proven distance may fall short of tol by half of what a checker grants
SPARE = 0.995
# where it is that of another point, a checker grants nothing and adds a millionth
STRICT = 1 + 2e-6
CLEARLY = 1e-3  # share of tol up to which a residual is next to nothing
LOST = 0.1  # share of tol that all points clearly inside may lose together
# so many apart, points are decided in the same round; between two rounds the points nearby are
# found again
ROUNDS = 32


@dataclass
class Settled:
    """Which points are rays, with dense witnesses and combinations, all over the rows of U."""

    alive: BoolArray
    witness: dict[int, FloatArray]  # of rays settled here
    weak: dict[int, int]  # weak ray -> the point its witness separates
    combination: dict[int, tuple[IntArray, FloatArray]]  # of redundant points, over rays
    # rays without proof either way
    open: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    # weak rays whose witness rounding has spoiled: tol is too small for these points
    unproven: list[int] = field(default_factory=list)


class InTurn:
    """Decides doubtful points of ``U`` and adds to ``out``."""

    def __init__(
        self, U: Points, sums: FloatArray, tol: float, out: Settled, near: NearPoints | None
    ) -> None:
        self.U, self.sums, self.tol, self.out, self.near = U, sums, tol, out, near
        # the points whose combinations use a point, or once did
        self.leaning: dict[int, set[int]] = defaultdict(set)
        self.lost = 0.0  # how far points clearly inside may have moved from what is left

    def delete_at_once(self, points: IntArray) -> IntArray:
        """Delete those of ``points`` that are clearly inside the cone of the others; the rest."""
        others = self.out.alive.copy()
        others[points] = False
        for i, S, h, e in self._over(np.flatnonzero(others), points):
            self._delete_if_clear(i, S, h, e)
        return points[self.out.alive[points]]

    def decide_nearby(
        self, points: IntArray, distance: FloatArray, progress: Progress = None
    ) -> None:
        """Decide ``points`` over the points near them; ``distance`` is from the cone of all points
        near them."""
        for i, over in self._rounds(points[distance <= CLEARLY * self.tol]):
            ((S, h),), _, (e,) = self._solve(np.array([i]), i, over)
            self._delete_if_clear(i, S, h, e)
        self._represent()
        kept: dict[int, tuple[FloatArray, int]] = {}
        left = points[self.out.alive[points]]
        for done, (i, over) in enumerate(self._rounds(left), start=1):
            reason = self._delete_or_keep(i, over)
            if reason is not None:
                kept[i] = reason
            if progress is not None:
                progress("settle", done, len(left))
        at = np.array(sorted(kept), np.int64)
        for a in range(0, len(at), step := max(1, dense_entries(self.U) // self.U.shape[0])):
            some = at[a : a + step]
            for i in some[
                ~self._confirm(some, *zip(*(kept[i] for i in some.tolist()), strict=True))
            ]:
                self._decide(int(i))

    def decide(self, points: IntArray, progress: Progress = None) -> None:
        """Decide ``points`` over all points."""
        for done, i in enumerate(points.tolist(), start=1):
            self._decide(i)
            if progress is not None:
                progress("settle", done, len(points))

    def _delete_if_clear(self, i: int, S: IntArray, h: FloatArray, e: float) -> None:
        # lengths on the slice differ by that much at most
        e *= float(self.sums.max() / self.sums.min())
        if e <= CLEARLY * self.tol and self.lost + e <= LOST * self.tol:
            self.lost += e
            self.out.alive[i] = False
            self._lean(i, S, h)

    def _represent(self) -> None:
        """Combinations of what is left for the points whose combinations use a deleted one."""
        alive, combination = self.out.alive, self.out.combination
        points = np.array([j for j, (S, _) in combination.items() if not alive[S].all()], np.int64)
        for i, S, h, e in self._over(np.flatnonzero(alive), points):
            self._lean(i, S, h)
            if not e <= self.tol:
                self.out.unproven.append(i)

    def _over(
        self, rays: IntArray, points: IntArray
    ) -> Iterator[tuple[int, IntArray, FloatArray, float]]:
        """For each of ``points`` a combination of ``rays`` and the length of its residual."""
        R = take_rows(self.U, rays)
        for a in range(
            0,
            len(points) if len(rays) else 0,
            step := max(1, dense_entries(self.U) // self.U.shape[1]),
        ):
            some = points[a : a + step]
            X = dense_rows(self.U, some)
            solved = project(R, X)
            H = combination_rows(list(zip(solved.passive, solved.values, strict=True)), len(rays))
            residual = row_norms(np.asarray(X - H @ R))
            yield from zip(
                some.tolist(),
                (rays[S] for S in solved.passive),
                solved.values,
                residual.tolist(),
                strict=True,
            )

    def _lean(self, j: int, S: IntArray, h: FloatArray) -> None:
        self.out.combination[j] = (S, h)
        for k in S.tolist():
            self.leaning[k].add(j)

    def _needy(self, i: int) -> IntArray:
        """Point i and the points that lean on it."""
        return np.array([i, *sorted(j for j in self.leaning[i] if i in self.out.combination[j][0])])

    def _rounds(self, points: IntArray) -> Iterator[tuple[int, IntArray | None]]:
        """Each of ``points`` that is not deleted, with the points near it at the beginning of the
        round, or None.

        A round takes points that are far apart in their order, so that few of those near a point
        are decided in the same round.
        """
        for first in range(min(ROUNDS, len(points))):
            some = points[first::ROUNDS]
            lists = (
                [None] * len(some) if self.near is None else self.near.nearest(some, self.out.alive)
            )
            yield from zip(some.tolist(), lists, strict=True)

    def _solve(
        self, targets: IntArray, without: int, over: IntArray | None = None
    ) -> tuple[Combinations, FloatArray, FloatArray]:
        """Combinations for ``targets`` of the points that are not deleted, but for one; residuals
        that are accurate relative to themselves, and the lengths of those that the combinations
        leave."""
        if over is not None and self.near is not None:
            return self.near.solve(targets, over[self.out.alive[over] & (over != without)])
        others = self.out.alive.copy()
        others[without] = False
        X = dense_rows(self.U, targets)
        solved = project(self.U, X, allowed=others)
        found = list(zip(solved.passive, solved.values, strict=True))
        return found, solved.residual, row_norms(X - np.array([h @ self.U[S] for S, h in found]))

    def _delete_or_keep(
        self, i: int, over: IntArray | None = None
    ) -> tuple[FloatArray, int] | None:
        """Delete i if the other points represent it and all that leans on it; else the residual of
        the worst of these, and which it is."""
        needy = self._needy(i)
        found, residual, lengths = self._solve(needy, i, over)
        worst = int(np.argmax(lengths))
        if not lengths[worst] <= self.tol:
            return residual[worst], int(needy[worst])
        self.out.alive[i] = False
        for j, (S, h) in zip(needy.tolist(), found, strict=True):
            self._lean(j, S, h)
        return None

    def _decide(self, i: int) -> None:
        reason = self._delete_or_keep(i)
        if reason is not None and not self._confirm(np.array([i]), [reason[0]], [reason[1]])[0]:
            self.out.unproven.append(i)

    def _confirm(
        self, rays: IntArray, residual: Sequence[FloatArray], about: Sequence[int]
    ) -> BoolArray:
        """Shift residuals below zero on all points but the ray: witnesses about the points
        ``about``, and whether they prove enough."""
        n, separated = self.U.shape[1], np.array(about, np.int64)
        A = np.array(residual)
        A /= row_norms(A)[:, None]
        values = np.asarray((self.U @ A.T).T) / self.sums
        values[:, ~self.out.alive] = -np.inf
        values[np.arange(len(rays)), rays] = -np.inf
        highest = np.maximum(values.max(axis=1), 0.0)
        G = A - least_shift(highest, self.sums, n)[:, None]
        distance = (
            np.einsum("ij,ij->i", dense_rows(self.U, separated), G) / row_norms(G) - (n + 2) * EPS
        )
        proven = distance > self.tol * np.where(separated == rays, SPARE, STRICT)
        self.out.witness.update(zip(rays.tolist(), G, strict=True))
        self.out.weak.update(zip(rays.tolist(), separated.tolist(), strict=True))
        return np.asarray(proven)
