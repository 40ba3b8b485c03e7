"""From findings to proof: every decision confirmed in float64, in the original coordinates, against every point.

Most rays are confirmed by one product of their functionals with the points, most redundant points by the residual of
their combination. What fails either test is *doubtful*: it is near the tolerance, or rounding spoiled it. Doubtful points
are taken one after the other, each with the points whose combinations use it: if the other points that are not yet deleted represent
all of these, it is deleted; otherwise it stays, and the residual that could not be removed is its witness. Since points are only
ever deleted, a witness found early still holds at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import as_dense, combination_rows, dense_rows, row_norms
from conecollapse._nnls.active_set import ActiveSetResult, active_set, active_set_sparse
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import BoolArray, Effort, FloatArray, IntArray, Points, Progress
from conecollapse.geometry.certified.near import NearPoints

EPS = float(np.finfo(np.float64).eps)
BELOW_TOL = 0.999  # a residual must stay below tol by this factor
SPARE = 0.995  # a weak ray's own proven distance may fall short of tol by half of what a checker grants
STRICT = 1 + 2e-6  # where it is that of another point, a checker grants nothing and adds a millionth
CLEAR = 1.01  # a proven distance must exceed tol by this factor, so that the checker's rounding cannot refuse it
GRID = 2.0**-22  # unit functionals and shifts of at most 1 in steps of this have differences that float32 holds exactly
PRODUCT_ENTRIES = 2**20  # entries of a block of products: 8 MiB, of which every thread has one


@dataclass
class Settled:
    """Which points are rays, with dense witnesses and combinations, all over the rows of U."""

    alive: BoolArray
    witness: dict[int, FloatArray]  # of rays settled here
    weak: dict[int, int]  # weak ray -> the point its witness separates
    combination: dict[int, tuple[IntArray, FloatArray]]  # of redundant points, over rays
    open: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # rays without proof either way
    unproven: list[int] = field(default_factory=list)  # weak rays whose witness rounding has spoiled: tol is too small for these points


def confirm(A: FloatArray, own: IntArray, U: Points, sums: FloatArray, tol: float) -> tuple[FloatArray, BoolArray]:
    """Shift each functional (row of A, about point ``own``) below zero on all other points; True where it then proves > tol.

    On the slice ``q = u / sums`` a shift by ``t`` is ``a - t``: with t between the second largest value and the point's own,
    ``g = a - t`` has the signs a witness needs. Half-way is safest against rounding; where that is too short for ``tol``, t is
    taken just above the second largest. Where 22 binary digits of a are enough, g has no more than float32 holds, so that a certificate
    can store it in half the room.
    """
    A = A / np.maximum(row_norms(A), np.finfo(np.float64).tiny)[:, None]
    needed = CLEAR * tol + 4 * (U.shape[1] + 2) * EPS
    G = np.empty_like(A)
    proven = np.zeros(len(A), bool)
    step = max(1, PRODUCT_ENTRIES // U.shape[0])

    def work(first: int, last: int) -> None:
        for a in range(first, last, step):
            rows = slice(a, min(a + step, last))
            G[rows], proven[rows] = _shift(np.round(A[rows] / GRID) * GRID, own[rows], U, sums, needed, GRID)
            again = a + np.flatnonzero(~proven[rows])
            if len(again):
                G[again], proven[again] = _shift(A[again], own[again], U, sums, needed)

    with serial_blas():
        for_ranges(work, len(A), smallest=16)
    return G, proven


def _shift(A: FloatArray, own: IntArray, U: Points, sums: FloatArray, needed: float, grid: float = 0.0) -> tuple[FloatArray, BoolArray]:
    """`confirm` for some rows; with a ``grid`` the shifts are rounded up to multiples of it."""
    values = np.asarray((U @ A.T).T) if sp.issparse(U) else A @ U.T
    here = np.arange(len(values))
    lead = values[here, own] / sums[own]
    values[here, own] = -np.inf
    second = (values / sums).max(axis=1)
    tight = least_shift(values, second, sums, A.shape[1])
    G, proven = np.empty_like(A), np.zeros(len(A), bool)
    for t in (np.maximum((lead + second) / 2, tight), tight):
        t = np.ceil(t / grid) * grid if grid else t
        shifted = A - t[:, None]
        distance = (lead - t) * sums[own] / np.maximum(row_norms(shifted), EPS)
        G[~proven] = shifted[~proven]
        proven |= distance > needed
    return G, proven


def least_shift(values: FloatArray, second: FloatArray, sums: FloatArray, n: int) -> FloatArray:
    """The smallest t for which ``g = a - t`` is below zero on all points with ``values = a . u``, rounding included.

    A checker's rounding is at most (n + 2) roundoffs of ``|g| <= |a| + |t| sqrt(n)``, with unit a; we leave room for twice that.
    """
    margin = 2 * (n + 2) * EPS * (1 + np.sqrt(n) * np.abs(second))
    return ((values + margin[:, None]) / sums).max(axis=1)


def settle(
    U: Points,
    sums: FloatArray,
    tol: float,
    sure: BoolArray,
    combination: dict[int, tuple[IntArray, FloatArray]],
    progress: Progress = None,
    effort: Effort = "exact",
) -> Settled:
    """Decide what is neither a ``sure`` ray nor redundant by a ``combination`` over sure rays that holds to ``tol``.

    With ``effort="quick"`` it is left open.
    """
    good = _hold(U, tol / 10, sure, combination)  # the search worked in other coordinates: what is not clear is solved again
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
    left = _prove_strong(U, sums, tol, doubtful, out, near)
    leaning: dict[int, set[int]] = defaultdict(set)  # the points whose combinations use a point, or once did
    for done, i in enumerate(left, start=1):
        _delete_or_keep(U, sums, tol, int(i), out, leaning, near)
        if progress is not None:
            progress("settle", done, len(left))
    return out


def _hold(
    U: Points, tol: float, sure: BoolArray, combination: dict[int, tuple[IntArray, FloatArray]]
) -> dict[int, tuple[IntArray, FloatArray]]:
    """The combinations over sure rays whose residual in the original coordinates is within tol."""
    points = np.array([i for i, (S, _) in combination.items() if sure[S].all()], np.int64)
    good = {}
    for some in _blocks(points, U.shape[1]):
        H = combination_rows([combination[int(i)] for i in some], U.shape[0])
        residual = row_norms(U[some] - H @ U)
        good.update({int(i): combination[int(i)] for i in some[residual <= tol]})
    return good


def _inside_sure(U: Points, tol: float, sure: BoolArray, points: IntArray) -> dict[int, tuple[IntArray, FloatArray]]:
    """Combinations over the sure rays of those ``points`` that are within tol of their cone."""
    found: dict[int, tuple[IntArray, FloatArray]] = {}
    for some in _blocks(points, U.shape[1]) if sure.any() else []:
        solved = project(U, dense_rows(U, some), allowed=sure)
        found.update(zip(some.tolist(), zip(solved.passive, solved.values, strict=True), strict=True))
    return _hold(U, tol * BELOW_TOL, sure, found)


def _prove_strong(U: Points, sums: FloatArray, tol: float, doubtful: IntArray, out: Settled, near: NearPoints | None) -> IntArray:
    """Doubtful points that lie more than tol from the cone of *all* other points are rays whatever happens; the rest is returned.

    Where there are ``near`` points, these are asked first.
    """
    if near is not None:
        doubtful = _confirmed(U, sums, tol, doubtful, out, lambda some: near.residuals(as_dense(U), some))
    return _confirmed(U, sums, tol, doubtful, out, lambda some: project(U, dense_rows(U, some), exclude=some).residual)


def _confirmed(
    U: Points, sums: FloatArray, tol: float, doubtful: IntArray, out: Settled, residuals: Callable[[IntArray], FloatArray]
) -> IntArray:
    """Confirm what the ``residuals`` of doubtful points prove; the points that they do not prove."""
    left = [doubtful[:0]]
    for some in _blocks(doubtful, U.shape[1]):
        G, proven = confirm(residuals(some), some, U, sums, tol)
        out.witness.update(zip(some[proven].tolist(), G[proven], strict=True))
        left.append(some[~proven])
    return np.concatenate(left)


def _blocks(points: IntArray, n: int) -> list[IntArray]:
    """``points`` in pieces that take little memory as dense rows."""
    step = max(1, PRODUCT_ENTRIES // n)
    return [points[a : a + step] for a in range(0, len(points), step)]


def project(U: Points, targets: FloatArray, **restriction: Any) -> ActiveSetResult:
    """Active set of each target over the rows of ``U``, dense or sparse."""
    return (active_set_sparse if sp.issparse(U) else active_set)(U, targets, **restriction)


def _delete_or_keep(
    U: Points, sums: FloatArray, tol: float, i: int, out: Settled, leaning: dict[int, set[int]], near: NearPoints | None
) -> None:
    """Delete doubtful point i if the other points represent it and all points ``leaning`` on it; else keep it, with a witness."""
    needy = np.array([i, *sorted(j for j in leaning[i] if i in out.combination[j][0])])
    others = out.alive.copy()
    others[i] = False
    targets = dense_rows(U, needy)
    for solve in (near.project, project) if near is not None else (project,):
        solved = solve(U, targets, allowed=others)
        residual = row_norms(targets - np.array([h @ U[S] for S, h in zip(solved.passive, solved.values, strict=True)]))
        if (residual <= tol).all():
            out.alive[i] = False
            for j, S, h in zip(needy.tolist(), solved.passive, solved.values, strict=True):
                out.combination[j] = (S, h)
                for k in S.tolist():
                    leaning[k].add(j)
            return
        worst = int(np.argmax(residual))
        g = _shifted_below(solved.residual[worst], U, sums, others)
        out.witness[i], out.weak[i] = g, int(needy[worst])
        distance = float(targets[worst] @ g) / np.linalg.norm(g) - (U.shape[1] + 2) * EPS
        if distance > tol * (SPARE if worst == 0 else STRICT):
            return
    out.unproven.append(i)


def _shifted_below(r: FloatArray, U: Points, sums: FloatArray, others: BoolArray) -> FloatArray:
    """The functional ``r``, of unit length and shifted, so that it is below zero on the ``others``."""
    r = r / np.linalg.norm(r)
    values = np.where(others, np.asarray(U @ r).ravel(), -np.inf)[None, :]
    second = np.maximum((values / sums).max(axis=1), 0.0)
    return np.asarray(r - max(0.0, float(least_shift(values, second, sums, U.shape[1])[0])))
