"""The quick way: float64 arrays and ``x >= 0`` alone, solved by the kernel that fits their shape.

Small problems are solved in less time than the general way takes to look at its arguments, and with
very few columns many right-hand sides need no compiled kernel at all (`subsets`): what is used
depends on the size alone. Each answer comes with a proof that it is optimal (`proof`); those
without are left to the caller. Where b lies in the cone of A, the proof is the residual of x
itself. The bound for its rounding error is far too large if x has hundreds of large entries, so it
is computed with 32 digits, as are prices where columns depend on each other (`refine`).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from conecollapse._errors import ConvergenceError
from conecollapse._nnls.confirm import UNPROVEN
from conecollapse._nnls.few import is_for_few, solve_with_few_columns
from conecollapse._nnls.kernels import OPTIMAL, STEP_LIMIT
from conecollapse._nnls.local import solve_small
from conecollapse._nnls.normal import is_narrow, solve_narrow
from conecollapse._nnls.plain import TALL_ENOUGH, WELL_CONDITIONED, conditioning, pivoting
from conecollapse._nnls.problem import Problem
from conecollapse._nnls.refine import refine
from conecollapse._nnls.subsets import is_for_subsets, solve_by_subsets
from conecollapse._nnls.tall import is_tall_and_few, solve_tall_and_few
from conecollapse._threads import BLAS_THREADS_PAY, for_ranges, serial_blas
from conecollapse._types import FloatArray, IntArray

SMALL_WORK = 2**20  # entries of A times right-hand sides up to which one kernel call does it all
# or so few right-hand sides of a matrix that a cache nearly holds: they take turns, a thread each
FEW, SMALL_ENTRIES = 16, 2**21
# right-hand sides up to which a tall matrix with very few columns is best solved in one thread
FEW_SIDES = 64
# right-hand sides, and entries of A times these, from which a Gram matrix of a tall A pays
MANY, SHARED_WORK = 50, 10**5
# with one right-hand side, such a matrix is best reduced to its Gram matrix
TALL_RATIO, TALL_COLUMNS, TALL_SIZE = 20, 16, 20_000
FLOAT64 = np.dtype(np.float64)

# solutions in the form of b, residual norms, the numbers of those without a proof
Quick = tuple[FloatArray, Any, "IntArray | None"]


def limit_text(maxiter: int | None, left: int, count: int) -> str:
    """What is said when ``left`` of ``count`` right-hand sides reach the limit."""
    limit = "" if maxiter is None else f"maxiter = {maxiter} exchanges were not enough for "
    which = f"{left} of {count} right-hand sides" if count > 1 else "the right-hand side"
    remedy = f"maxiter={2**20} allows more" if maxiter is None else "raise maxiter, or leave it out"
    return (
        f"Maximum number of iterations reached: {limit or 'too many exchanges for '}{which};"
        f" {remedy}."
    )


def is_plain(A: Any, b: Any) -> bool:
    """Float64 arrays of matching shapes."""
    if (
        type(A) is not np.ndarray
        or type(b) is not np.ndarray
        or A.dtype is not FLOAT64
        or b.dtype is not FLOAT64
    ):
        return False
    return A.ndim == 2 and 1 <= b.ndim <= 2 and len(A) == len(b) and A.size > 0 and b.size > 0


def solve_quickly(A: FloatArray, b: FloatArray, method: str, maxiter: int | None) -> Quick | None:
    """Solutions for one or many right-hand sides; None where there is no quick way, or no solution
    is shown to be optimal."""
    m, n = A.shape
    is_one = b.ndim == 1
    B = b[:, None] if is_one else b
    if b.item(0) == 0.0 and not b.any():
        return None  # nobody would look at A, which may have NaN
    if is_one and is_for_few(m, n) and not is_tall_and_few(m, n) and not maxiter:
        few = solve_with_few_columns(A, b)
        if few is not None:
            return *few, None
    is_by_products = is_narrow(m, n, B.shape[1])
    if is_by_products:
        A = np.ascontiguousarray(A)
        found = _solve_few_columns(A, B, maxiter)
        if is_one and found.item(n + 1) == UNPROVEN and not maxiter and _is_small(A.size, 1):
            # products have the errors of squares
            found = np.vstack(solve_small(A, np.ascontiguousarray(B), 3 * n))
            if found.item(n + 1) == UNPROVEN and (refined := refine(A, found[:n, 0], b)).is_optimal:
                return refined.x, refined.rnorm, None
            if found.item(n + 1) != OPTIMAL:
                return None
        if is_one and found.item(n + 1) == OPTIMAL:
            return found[:n, 0], found.item(n), None
        X, rnorm, endings = found[:n], found[n], found[n + 1]
    elif method == "auto" and _is_tall(m, n):
        return _solve_tall(A, b, maxiter) if is_one else None
    elif _is_small(A.size, B.shape[1]) and (
        is_one or method != "auto" or not _shares_work(m, n, B.shape[1])
    ):
        A = np.ascontiguousarray(A)
        X, rnorm, endings = _solve_one_by_one(A, B, maxiter or 3 * n)
    else:
        return None
    left = np.flatnonzero(endings != OPTIMAL)
    if len(left):
        if (endings == STEP_LIMIT).any():
            raise ConvergenceError(
                limit_text(maxiter, int((endings == STEP_LIMIT).sum()), len(endings))
            )
        if is_by_products and not is_one and not maxiter and _is_small(A.size, len(left)):
            X[:, left], rnorm[left], endings[left] = _solve_one_by_one(A, B[:, left], 3 * n)
        for i in left[endings[left] == UNPROVEN]:
            refined = refine(A, X[:, i], np.ascontiguousarray(B[:, i]))
            if refined.is_optimal:
                X[:, i], rnorm[i], endings[i] = refined.x, refined.rnorm, OPTIMAL
        left = left[endings[left] != OPTIMAL]
        if len(left) == len(endings) or not np.isfinite(B[:, left]).all():
            return None
    if is_one:
        return X[:, 0], float(rnorm[0]), None
    return X, rnorm.copy(), left if len(left) else None


def _solve_few_columns(A: FloatArray, B: FloatArray, maxiter: int | None) -> FloatArray:
    """An array with x, the residual norm and the ending in its columns, by the method for the
    size."""
    (m, n), k = A.shape, B.shape[1]
    max_steps = maxiter or 3 * n
    if is_for_subsets(m, n, k) and not maxiter:
        found = solve_by_subsets(A, B)
        left = np.flatnonzero(found[n + 1] == UNPROVEN)
        if len(left):
            found[:, left] = solve_narrow(A, B[:, left], max_steps)
        return found
    if is_tall_and_few(m, n) and k <= FEW_SIDES:
        return solve_tall_and_few(A, np.ascontiguousarray(B.T), max_steps)
    return solve_narrow(A, B, max_steps)


def _shares_work(m: int, n: int, k: int) -> bool:
    """Whether right-hand sides are so many that one Gram matrix for all of them pays."""
    return k >= MANY and m >= TALL_ENOUGH * n and m * n * k > SHARED_WORK


def _is_small(entries: int, k: int) -> bool:
    """Whether an active set for each right-hand side on its own is the quickest."""
    return entries * k <= SMALL_WORK or (entries <= SMALL_ENTRIES and k <= FEW)


def _solve_one_by_one(
    A: FloatArray, B: FloatArray, max_steps: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Solutions, residual norms and endings by `solve_small`, on all threads where there is much to
    do."""
    k = B.shape[1]
    if A.size * k <= SMALL_WORK or k == 1:
        solved: tuple[FloatArray, FloatArray, IntArray] = solve_small(
            A, np.ascontiguousarray(B), max_steps
        )
        return solved
    X, rnorm, endings = np.empty((A.shape[1], k)), np.empty(k), np.empty(k, np.int64)

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            one = slice(i, i + 1)
            X[:, one], rnorm[one], endings[one] = solve_small(
                A, np.ascontiguousarray(B[:, one]), max_steps
            )

    for_ranges(work, k)
    return X, rnorm, endings


def _is_tall(m: int, n: int) -> bool:
    return TALL_COLUMNS <= n <= m / TALL_RATIO and m * n > TALL_SIZE


def _solve_tall(A: FloatArray, b: FloatArray, maxiter: int | None) -> Quick | None:
    """One right-hand side of a tall matrix by pivoting on its Gram matrix; None where that needs
    more care."""
    with (
        np.errstate(over="ignore", invalid="ignore"),
        serial_blas() if A.size < BLAS_THREADS_PAY else nullcontext(),
    ):
        G = A.T @ A
        squares = np.diag(G).copy()
        if not (
            np.isfinite(squares).all() and (squares > 1e-200).all() and 1e-280 < b @ b < np.inf
        ):
            return None
        norms = np.sqrt(squares)
        G /= norms * norms[:, None]
        rcond, sigma = conditioning(G)
        if rcond < WELL_CONDITIONED:
            return None
        problem = Problem(A, norms, 1 / norms, np.ones(len(norms)))
        outcome = pivoting(problem, G, sigma)(b[None, :], None, maxiter)
    if not outcome.finished[0]:
        raise ConvergenceError(limit_text(maxiter, 1, 1))
    return (
        (outcome.H[0] * problem.inverse, float(outcome.measured.rnorm[0]), None)
        if outcome.measured.optimal[0]
        else None
    )
