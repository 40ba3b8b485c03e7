"""From findings to proof: every decision confirmed in float64, in the original coordinates, against
every point.

Most rays are confirmed by one product of their functionals with the points (`confirm`), most
redundant points by the residual of their combination. What fails either test is *doubtful*: it is
near the tolerance, or rounding spoiled it. Doubtful points that are far from all others together
are rays whatever happens to the rest; what is left then is decided one after the other (`in_turn`).
Where they are many and in few dimensions, the points near them are asked first (`near`).
"""

from __future__ import annotations

from collections.abc import Callable

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
from conecollapse.geometry.certified.confirm import GRID, confirm, project
from conecollapse.geometry.certified.in_turn import InTurn, Settled
from conecollapse.geometry.certified.near import NearPoints

BELOW_TOL = 0.999  # a residual must stay below tol by this factor
COARSE = 16.0  # steps of the grid above which the distance of a point may be proven on it


def settle(
    U: Points,
    sums: FloatArray,
    tol: float,
    sure: BoolArray,
    combination: dict[int, tuple[IntArray, FloatArray]],
    progress: Progress = None,
    effort: Effort = "exact",
) -> Settled:
    """Decide what is neither a ``sure`` ray nor redundant by a ``combination`` over sure rays that
    holds to ``tol``.

    With ``effort="quick"`` it is left open.
    """
    # the search worked in other coordinates: what is not clear is solved again
    good = _hold(U, tol / 10, sure, combination)
    if effort == "exact":
        good |= _inside_sure(U, tol, sure, np.setdiff1d(np.flatnonzero(~sure), list(good)))
    redundant = np.zeros(U.shape[0], bool)
    redundant[list(good)] = True
    out = Settled(~redundant, {}, {}, good)
    doubtful = np.flatnonzero(~sure & ~redundant)
    if effort == "quick":
        out.open = doubtful
        return out
    near = NearPoints.of(U, len(doubtful))
    in_turn = InTurn(U, sums, tol, out, near)
    leading, distance = doubtful[:0], np.full(U.shape[0], np.inf)
    if near is not None:

        def nearby(some: IntArray) -> FloatArray:
            R = near.residuals(some)
            distance[some] = row_norms(R)
            return R

        leading, beaten = _confirmed(U, sums, tol, doubtful, out, nearby)
        doubtful = in_turn.delete_at_once(beaten)
    close, beaten = _confirmed(
        U,
        sums,
        tol,
        doubtful,
        out,
        lambda some: project(U, dense_rows(U, some), exclude=some).residual,
    )
    left = in_turn.delete_at_once(beaten)
    in_turn.decide_nearby(leading, distance[leading], progress)
    in_turn.decide(np.concatenate([close, left]), progress)
    return out


def _hold(
    U: Points, tol: float, sure: BoolArray, combination: dict[int, tuple[IntArray, FloatArray]]
) -> dict[int, tuple[IntArray, FloatArray]]:
    """The combinations over sure rays whose residual in the original coordinates is within tol."""
    points = np.array([i for i, (S, _) in combination.items() if sure[S].all()], np.int64)
    if not len(points):
        return {}
    H = combination_rows([combination[i] for i in points.tolist()], U.shape[0])
    return {i: combination[i] for i in points[residuals(U, points, H) <= tol].tolist()}


def _inside_sure(
    U: Points, tol: float, sure: BoolArray, points: IntArray
) -> dict[int, tuple[IntArray, FloatArray]]:
    """Combinations over the sure rays of those ``points`` that are within tol of their cone."""
    found: dict[int, tuple[IntArray, FloatArray]] = {}
    if not (sure.any() and len(points)):
        return found
    # sparse rays are not copied
    rays, allowed = (
        (np.arange(U.shape[0]), sure) if sp.issparse(U) else (np.flatnonzero(sure), None)
    )
    R = take_rows(U, rays)
    for some in _blocks(points, U):
        solved = project(R, dense_rows(U, some), allowed=allowed)
        found.update(
            (int(i), (rays[S], h))
            for i, S, h in zip(some, solved.passive, solved.values, strict=True)
        )
    return _hold(U, tol * BELOW_TOL, sure, found)


def _confirmed(
    U: Points,
    sums: FloatArray,
    tol: float,
    doubtful: IntArray,
    out: Settled,
    what_is_left: Callable[[IntArray], FloatArray],
) -> tuple[IntArray, IntArray]:
    """Doubtful points are rays whatever happens if ``what_is_left`` of them over other points
    proves them to lie more than tol from all.

    Of the rest, those that lead in the direction of their residual, if not by enough, and those
    that another point beats.
    """
    leading, beaten = [doubtful[:0]], [doubtful[:0]]
    for some in _blocks(doubtful, U):
        R = what_is_left(some)
        is_coarse = row_norms(R) > COARSE * GRID
        for which, grid in ((is_coarse, GRID), (~is_coarse, 0.0)):
            points = some[which]
            G, proven = confirm(R[which], points, U, sums, tol, grid)
            out.witness.update(zip(points[proven].tolist(), G[proven], strict=True))
            leads = np.einsum("ij,ij->i", dense_rows(U, points), G) > 0
            leading.append(points[~proven & leads])
            beaten.append(points[~proven & ~leads])
    return np.concatenate(leading), np.concatenate(beaten)


def _blocks(points: IntArray, U: Points) -> list[IntArray]:
    """``points`` in pieces that take little memory as dense rows."""
    step = max(1, dense_entries(U) // U.shape[1])
    return [points[a : a + step] for a in range(0, len(points), step)]
