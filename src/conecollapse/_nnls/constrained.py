r"""Least squares with x >= 0 and more: a sum of one, upper bounds, penalties, masks, weights.

.. math:: \min_x \frac{1}{2} \sum_i w_i (A x - b)_i^2 + \frac{1}{2} ridge \|x\|^2 + l_1 \sum_j x_j
          \quad\text{subject to}\quad 0 \le x \le u,\; x_j = 0 \text{ where not allowed},\; \sum_j
          x_j = 1 \text{ if asked for}

All of these are one quadratic program in Gram form, :math:`G = A' W A + ridge`,
:math:`c = A' W b - l_1` (`quadratic`). Problems that share their weights share G. What rounding has
left of the optimality conditions is measured with A and b themselves, and removed by solving again
from there: with the measured gradient g at x, the linear term ``c = g + G x`` makes the errors of
the next round relative to the change of x, not to x.

Problems are scaled first (`scaled`), and every answer comes with a bound for what could be better
(`measured`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._nnls.bpp import grouped_correction
from conecollapse._nnls.complement import pivot_complement
from conecollapse._nnls.kernels import OPTIMAL, STEP_LIMIT
from conecollapse._nnls.measured import Checked, lower_bounds, measure
from conecollapse._nnls.plain import DENSE_LIMIT, solve_one
from conecollapse._nnls.problem import Answers
from conecollapse._nnls.proof import is_optimal, is_rough_zero
from conecollapse._nnls.quadratic import (
    FREE,
    HIGH,
    LOW,
    SUM_ERROR,
    Quadratic,
    Solved,
    solve_quadratic,
)
from conecollapse._nnls.scaled import LIFT, Block, Scaled, Shared, new_block, take
from conecollapse._types import FloatArray, IntArray

KKT_REFINE = 1e-13  # a solution with a larger KKT residual is refined,
ROUNDS = 3  # at most this often
# corrections of a fit that should be exact: the first may show that a variable taken to be free is
# at a bound
POLISHINGS = 2
# coefficients whose sum is further from one have lost digits, and are solved for again
SUM_DIGITS = 1e-12


class Rule(NamedTuple):
    """How the active set is run."""

    simplex: bool
    capacity: int
    limit: int


def solve_block(
    scaled: Scaled,
    shared: Shared,
    Bt: FloatArray,
    columns: slice,
    start: FloatArray | None,
    maxiter: int | None,
) -> tuple[FloatArray, Answers]:
    """Solutions x in rows for the right-hand sides in rows, which are ``columns`` of the whole, and
    what is known about them."""
    n = scaled.A.shape[1]
    B, units = scaled.right_hand_sides(Bt)
    block, peaks = new_block(scaled, shared.gram, B, units, columns)
    scale = np.ones((len(B), 1)) if scaled.constraints.simplex else units[:, None]
    if start is not None:
        start = start / np.where(scaled.inverse > 0, scaled.inverse, np.inf) / scale
    # with ridge every column is independent of the others, else at most one for each row, and one
    # more with a sum
    capacity = n if scaled.constraints.ridge else min(n, scaled.A.shape[0] + 1)
    rule = Rule(scaled.constraints.simplex, capacity, maxiter or 5 * n + 100)
    solved = _first_solution(scaled, shared, block, start, rule, by_inverse=maxiter is None)
    found = measure(scaled, block, solved)
    steps = _refine(scaled, block, solved, found, rule)
    _polish(scaled, block, solved, found, rule)
    finished = (solved.ending != STEP_LIMIT) | (maxiter is None)
    least, rounding = lower_bounds(scaled, shared, block, solved, found)
    optimal = is_optimal(found.value + rounding, least, block.size)
    rows = np.flatnonzero(~optimal & finished)
    if (
        len(rows)
        and scaled.constraints.upper is None
        and not scaled.constraints.l1
        and scaled.A.shape[0] * n <= DENSE_LIMIT
    ):
        steps[rows] += _solve_again(scaled, take(block, rows), solved, found, least, rows)
        optimal[rows] = is_optimal(
            found.value[rows] + rounding[rows], least[rows], block.size[rows]
        )
    if scaled.constraints.simplex:
        optimal &= np.abs(solved.X.sum(axis=1) - 1) <= SUM_ERROR
    outward = units * np.sqrt(peaks)
    X = solved.X * scaled.inverse * scale
    # which the scaling may have missed by a last digit
    if (upper := scaled.constraints.upper) is not None:
        X = np.minimum(X, upper.T if upper.shape[1] == 1 else upper[:, columns].T)
    return X, Answers(found.rnorm * outward, found.kkt, least * outward, steps, finished, optimal)


def _first_solution(
    scaled: Scaled,
    shared: Shared,
    block: Block,
    start: FloatArray | None,
    rule: Rule,
    *,
    by_inverse: bool,
) -> Solved:
    """Solve from ``start`` or, without one, from the solutions without bounds, where these are
    known."""
    C = np.asarray((block.B if block.W is None else block.B * block.W) @ scaled.A) - block.l1
    if start is not None:
        return _solve(block, C, _within(start, block, rule), rule)
    H = shared.start(
        C if block.W is None else np.asarray(block.B @ scaled.A) - block.l1, rule.simplex
    )
    if not by_inverse or shared.projected is None or block.W is not None:
        return _solve(block, C, _within(H, block, rule), rule)
    side, done, steps = pivot_complement(
        shared.projected, H, (block.upper, block.allowed), block.size
    )
    solved = Solved(H, side, steps, np.full(len(H), OPTIMAL))
    if rule.simplex:  # right-hand sides far away cost digits of the solutions without bounds
        done &= np.abs(H.sum(axis=1) - 1) <= SUM_DIGITS
    left = np.flatnonzero(~done)
    if len(left):
        some = take(block, left)
        others = _solve(some, C[left], _within(H[left], some, rule), rule)
        for mine, theirs in zip(solved, others, strict=True):
            mine[left] = theirs
    return solved


def _within(H: FloatArray, block: Block, rule: Rule) -> FloatArray:
    """The nearest points within the bounds, scaled to a sum of one if that is asked for."""
    H = np.clip(H, 0.0, block.upper) * block.allowed
    return (
        H / np.maximum(H.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        if rule.simplex
        else H
    )


def _refine(scaled: Scaled, block: Block, solved: Solved, found: Checked, rule: Rule) -> IntArray:
    """Solve again from measured gradients where the optimality conditions do not hold to rounding;
    the steps of all solves."""
    steps = solved.steps
    for _ in range(ROUNDS):
        rough = np.flatnonzero((found.kkt > KKT_REFINE) & (steps < rule.limit))
        if not len(rough):
            break
        some, X = take(block, rough), solved.X[rough]
        C = found.gradient[rough] + (
            X @ some.grams[0]
            if len(some.grams) == 1
            else np.einsum("kij,kj->ki", some.grams[some.of], X)
        )
        again = _solve(some, C, X, rule)
        measured = measure(scaled, some, again)
        steps[rough] += again.steps
        better = measured.kkt < found.kkt[rough]
        for mine, theirs in zip(
            (*solved[:2], solved.ending, *found), (*again[:2], again.ending, *measured), strict=True
        ):
            mine[rough[better]] = theirs[better]
        if not better.any():
            break
    return steps


def _polish(scaled: Scaled, block: Block, solved: Solved, found: Checked, rule: Rule) -> None:
    """Where the fit is exact but for errors of x, correct the free variables by ``G_FF^-1 g_F``, g
    measured, and restore the sum."""
    longest = LIFT if rule.simplex else 1.0  # column
    for _ in range(POLISHINGS if len(block.grams) == 1 else 0):
        rough = np.flatnonzero(
            is_rough_zero(found.value, longest * solved.X, block.size - (1 - longest))
        )
        if not len(rough):
            break
        some, X, side = take(block, rough), solved.X[rough], solved.side[rough]
        G, is_free, rows = block.grams[0], side == FREE, np.arange(len(rough))
        step = grouped_correction(G, found.gradient[rough], is_free, rows)
        if rule.simplex:
            along = grouped_correction(G, np.ones_like(step), is_free, rows)
            excess = X.sum(axis=1) - 1 + step.sum(axis=1)
            step -= (
                along * (excess / np.maximum(along.sum(axis=1), np.finfo(np.float64).tiny))[:, None]
            )
        X = X + step
        moved = np.where(is_free & (X <= 0), LOW, np.where(is_free & (some.upper <= X), HIGH, side))
        # one stays free, as `measure` expects
        side = np.where((moved == FREE).any(axis=1, keepdims=True), moved, side)
        X = _within(X, some, rule)
        better = Solved(X, side, solved.steps[rough], solved.ending[rough])
        measured = measure(scaled, some, better)
        # which scaling to the sum may have missed
        is_better = (measured.value < found.value[rough]) & (some.upper >= X).all(axis=1)
        for mine, theirs in zip((*solved[:2], *found), (*better[:2], *measured), strict=True):
            mine[rough[is_better]] = theirs[is_better]


def _solve_again(
    scaled: Scaled, block: Block, solved: Solved, found: Checked, least: FloatArray, rows: IntArray
) -> IntArray:
    """Solve the problems of ``block``, which are ``rows`` of the others, as plain problems, whose
    solver is safe for any rank; the steps.

    Ridge is more rows. With a sum of one let P have the columns ``a_j - b``: over multiples t of an
    x with a sum of one, ``|P (t x)|^2 + (LIFT (t - 1))^2`` has the minimum
    ``p^2 LIFT^2 / (p^2 + LIFT^2)`` for ``p = |P x|``, so that the smallest p belongs to the
    solution of a problem without the sum.
    """
    steps = np.zeros(len(rows), np.int64)
    A = scaled.A.toarray() if sp.issparse(scaled.A) else scaled.A
    simplex, X, L = (
        scaled.constraints.simplex,
        np.zeros((len(rows), A.shape[1])),
        np.zeros(len(rows)),
    )
    for i, b in enumerate(block.B):
        free = np.flatnonzero(block.allowed[i if len(block.allowed) > 1 else 0])
        M = A[:, free] - b[:, None] if simplex else A[:, free]
        b = np.zeros_like(b) if simplex else b
        if block.W is not None:
            root = np.sqrt(block.W[i])
            M, b = M * root[:, None], b * root
        if scaled.constraints.ridge:
            M, b = (
                np.vstack(
                    [M, np.diag(np.sqrt(block.ridge[i if len(block.ridge) > 1 else 0, free]))]
                ),
                np.append(b, np.zeros(len(free))),
            )
        if simplex:
            M, b = np.vstack([M, np.full((1, len(free)), LIFT)]), np.append(b, LIFT)
        h, L[i], steps[i] = solve_one(M, b)
        X[i, free] = h / h.sum() if simplex else h
    if simplex:
        with np.errstate(divide="ignore"):
            L = np.where(L < LIFT, L / np.sqrt(np.maximum(1 - (L / LIFT) ** 2, 0.0)), np.inf)
    again = Solved(X, np.where(X > 0, FREE, LOW).astype(np.int8), steps, solved.ending[rows])
    measured = measure(scaled, block, again)
    better = measured.value < found.value[rows]
    for mine, theirs in zip((*solved[:2], *found), (*again[:2], *measured), strict=True):
        mine[rows[better]] = theirs[better]
    least[rows] = np.maximum(least[rows], np.minimum(L, found.value[rows]))
    return steps


def _solve(block: Block, C: FloatArray, H: FloatArray, rule: Rule) -> Solved:
    problems = Quadratic(
        block.grams,
        block.of,
        np.ascontiguousarray(C),
        block.upper,
        block.allowed,
        block.size,
        rule.simplex,
    )
    return solve_quadratic(problems, H, rule.capacity, rule.limit)
