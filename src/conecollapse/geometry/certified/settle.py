r"""From findings to proof: every combination measured in the original coordinates, and what is near
the tolerance decided one point after the other.

1. Combinations whose residual over sure rays is small *hold*. Others may use points that have been
   deleted since; they are expressed once more, over the sure rays.
2. What is left is *doubtful*: it is near the tolerance, or rounding spoiled it. Doubtful points
   whose residual over all others together proves that they are far from these are rays whatever
   happens to the rest.
3. Points *clearly inside*, whose residual over what is left is next to nothing, are deleted at
   once. On the slice :math:`q = u / \sum u` combinations are convex, so that deleting a point with
   residual e moves what leans on it, however indirectly, by e at most: the sum of all e bounds what
   is lost.
4. The others are decided in turn. Each is taken with the points whose combinations use it, which
   *lean* on it. If the other points that are not yet deleted represent all of these, it is deleted;
   otherwise it stays, and the residual that could not be removed is its witness. Since points are
   only ever deleted, a witness found early still holds at the end.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import (
    combination_rows,
    dense_entries,
    dense_rows,
    residuals,
    row_norms,
    take_rows,
)
from conecollapse._types import BoolArray, Effort, FloatArray, IntArray, Points, Progress
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.near import NearPoints
from conecollapse.geometry.certified.proof import Combinations, Decisions, Proof
from conecollapse.geometry.certified.supports import solve_over_contained
from conecollapse.geometry.certified.witness import EPS, confirm, least_shift, project

BELOW_TOL = 0.999  # a residual must stay below tol by this factor
# a weak ray's own proven distance may fall short of tol by half of what a checker grants
SPARE = 0.995
# where it is that of another point, a checker grants nothing and adds a millionth
STRICT = 1 + 2e-6
CLEARLY = 1e-3  # share of tol up to which a residual is next to nothing
LOST = 0.1  # share of tol that all points clearly inside may lose together


def settle(
    U: Points,
    tol: float,
    decisions: Decisions,
    progress: Progress = None,
    effort: Effort = "exact",
) -> Proof:
    """Decide what is neither a sure ray nor redundant by a combination over sure rays that holds to
    ``tol``.

    With ``effort="quick"`` it is left open.
    """
    sure = decisions.sure
    # the search worked in other coordinates: what is not clear is solved again
    good = _hold(U, tol / 10, sure, decisions.combination)
    if effort == "exact":
        unclear = np.setdiff1d(list(decisions.combination), [*good, *np.flatnonzero(sure)])
        again = _express(U, unclear.astype(np.int64), sure, tol)
        good |= _hold(U, tol * BELOW_TOL, sure, again)
    redundant = np.zeros(U.shape[0], bool)
    redundant[list(good)] = True
    out = Proof(~redundant, U.shape[1], decisions.families, good)
    doubtful = np.flatnonzero(~sure & ~redundant)
    if effort == "quick":
        out.open = doubtful
    elif len(doubtful):
        in_turn = InTurn(U, tol, out)
        close, beaten = _confirm_alone(U, in_turn.sums, tol, doubtful, out)
        left = in_turn.delete_at_once(beaten)
        points, near = np.concatenate([close, left]), NearPoints.of(U, len(close))
        if near is not None:
            in_turn.decide_nearby(points, near, progress)
            return out
        for done, i in enumerate(points.tolist(), start=1):
            in_turn.decide(i)
            if progress is not None:
                progress("settle", done, len(points))
    return out


def find_given(U: Points, rays: IntArray, tol: float) -> Decisions:
    """Witnesses for ``rays`` that somebody else found, as far as they are clear of all others, and
    combinations of these rays for the other points."""
    R = project(U, dense_rows(U, rays), exclude=rays).residual
    G, proven = confirm(R, rays, U, np.asarray(U.sum(axis=1)).ravel(), tol)
    found = Decisions.nothing(U.shape[0]).add_vectors(rays[proven], G[proven])
    return replace(found, combination=_express(U, np.flatnonzero(~found.sure), found.sure, tol))


def _hold(U: Points, tol: float, sure: BoolArray, combination: Combinations) -> Combinations:
    """The combinations over sure rays whose residual in the original coordinates is within tol."""
    points = np.array([i for i, (S, _) in combination.items() if sure[S].all()], np.int64)
    if not len(points):
        return {}
    H = combination_rows([combination[i] for i in points.tolist()], U.shape[0])
    return {i: combination[i] for i in points[residuals(U, points, H) <= tol].tolist()}


def _express(U: Points, points: IntArray, over: BoolArray, tol: float) -> Combinations:
    """Combinations of the points ``over`` for those of ``points`` that are near their cone, and
    maybe for others."""
    found: Combinations = {}
    if not (over.any() and len(points)):
        return found
    if sp.issparse(U):
        return solve_over_contained(Lists.of(U), points, over, tol)[1]
    rows = np.flatnonzero(over)
    R = take_rows(U, rows)
    for some in _blocks(points, U):
        solved = project(R, dense_rows(U, some))
        for i, S, h in zip(some.tolist(), solved.passive, solved.values, strict=True):
            found[i] = rows[S], h
    return found


def _confirm_alone(
    U: Points, sums: FloatArray, tol: float, doubtful: IntArray, out: Proof
) -> tuple[IntArray, IntArray]:
    """Doubtful points whose residual over all others proves them to lie more than tol from these
    are rays whatever happens.

    Of the rest, those that lead in the direction of their residual, if not by enough, and those
    that another point beats.
    """
    leading, beaten = [doubtful[:0]], [doubtful[:0]]
    for some in _blocks(doubtful, U):
        X = dense_rows(U, some)
        G, proven = confirm(project(U, X, exclude=some).residual, some, U, sums, tol, 0.0)
        out.witness.update(zip(some[proven].tolist(), G[proven], strict=True))
        leads = np.einsum("ij,ij->i", X, G) > 0
        leading.append(some[~proven & leads])
        beaten.append(some[~proven & ~leads])
    return np.concatenate(leading), np.concatenate(beaten)


def _blocks(points: IntArray, U: Points) -> list[IntArray]:
    """``points`` in pieces that take little memory as dense rows."""
    step = max(1, dense_entries(U) // U.shape[1])
    return [points[a : a + step] for a in range(0, len(points), step)]


class InTurn:
    """Decides doubtful points of ``U`` and adds to ``out``."""

    def __init__(self, U: Points, tol: float, out: Proof) -> None:
        self.U, self.tol, self.out = U, tol, out
        self.sums = np.asarray(U.sum(axis=1)).ravel()
        # the points whose combinations use a point, or once did
        self.leaning: dict[int, set[int]] = defaultdict(set)

    def delete_at_once(self, points: IntArray) -> IntArray:
        """Delete those of ``points`` that are clearly inside the cone of the others; the rest."""
        others = self.out.alive.copy()
        others[points] = False
        found, lost = _express(self.U, points, others, CLEARLY * self.tol), 0.0
        if not found:
            return points
        some = np.array(sorted(found))
        H = combination_rows([found[i] for i in some.tolist()], self.U.shape[0])
        # lengths on the slice differ by that much at most
        moved = residuals(self.U, some, H) * float(self.sums.max() / self.sums.min())
        for i, e in zip(some.tolist(), moved.tolist(), strict=True):
            if e <= CLEARLY * self.tol and lost + e <= LOST * self.tol:
                lost += e
                self.out.alive[i] = False
                self._lean(i, *found[i])
        return points[self.out.alive[points]]

    def decide_nearby(self, points: IntArray, near: NearPoints, progress: Progress) -> None:
        """Decide ``points`` over the points near them. What these do not represent is confirmed
        against all points at the end, and decided over all points where that fails."""
        kept: list[tuple[int, int, FloatArray]] = []
        for done, (i, over) in enumerate(near.visit(points, self.out.alive), start=1):
            needy = self._needy(i)
            found, residual = near.solve(needy, over[self.out.alive[over] & (over != i)])
            worst = self._delete(i, needy, found, residual)
            if worst is not None:
                kept.append((i, *worst))
            if progress is not None:
                progress("settle", done, len(points))
        step = max(1, dense_entries(self.U) // self.U.shape[0])
        for a in range(0, len(kept), step):
            rays, about, residual = map(np.array, zip(*kept[a : a + step], strict=True))
            for j in rays[~self._keep(rays, about, residual)].tolist():
                self.decide(j)

    def decide(self, i: int) -> None:
        """Decide i over all other points that are not deleted: the residual of the worst of those
        that need it is its witness."""
        needy, others = self._needy(i), self.out.alive.copy()
        others[i] = False
        solved = project(self.U, dense_rows(self.U, needy), allowed=others)
        found = list(zip(solved.passive, solved.values, strict=True))
        worst = self._delete(i, needy, found, solved.residual)
        if worst is not None:
            is_proven = self._keep(np.array([i]), np.array([worst[0]]), worst[1][None])
            self.out.unproven += [] if is_proven[0] else [i]

    def _needy(self, i: int) -> IntArray:
        """Point i and the points that lean on it."""
        return np.array([i, *sorted(j for j in self.leaning[i] if i in self.out.combination[j][0])])

    def _delete(
        self, i: int, needy: IntArray, found: list[tuple[IntArray, FloatArray]], R: FloatArray
    ) -> tuple[int, FloatArray] | None:
        """Delete i if all that need it are represented without it; else which of them is worst off,
        and its residual."""
        given = np.array([h @ self.U[S] for S, h in found])
        lengths = row_norms(dense_rows(self.U, needy) - given)
        worst = int(np.argmax(lengths))
        if not lengths[worst] <= self.tol:
            return int(needy[worst]), R[worst]
        self.out.alive[i] = False
        for j, (S, h) in zip(needy.tolist(), found, strict=True):
            self._lean(j, S, h)
        return None

    def _lean(self, j: int, S: IntArray, h: FloatArray) -> None:
        self.out.combination[j] = (S, h)
        for k in S.tolist():
            self.leaning[k].add(j)

    def _keep(self, rays: IntArray, about: IntArray, residual: FloatArray) -> BoolArray:
        """Keep ``rays``: each residual, shifted below zero on all points but the ray, is a witness
        about a point of ``about``. Which of them prove enough?"""
        n = self.U.shape[1]
        A = residual / row_norms(residual)[:, None]
        values = np.asarray((self.U @ A.T).T) / self.sums
        values[:, ~self.out.alive] = -np.inf
        values[np.arange(len(rays)), rays] = -np.inf
        G = A - least_shift(np.maximum(values.max(axis=1), 0.0), self.sums, n)[:, None]
        own = np.einsum("ij,ij->i", dense_rows(self.U, about), G)
        distance = own / row_norms(G) - (n + 2) * EPS
        self.out.witness.update(zip(rays.tolist(), G, strict=True))
        self.out.weak.update(zip(rays.tolist(), about.tolist(), strict=True))
        return np.asarray(distance > self.tol * np.where(about == rays, SPARE, STRICT))
