r"""Pivoting in the variables at their bounds, for problems whose solution without bounds is known.

Let ``G`` be positive definite with inverse M, and let :math:`\hat x = M c` be the solution without
bounds. With the variables Z fixed at values f, the solution is

.. math:: x = \hat x - M_{:Z} \nu, \qquad \nu = M_{ZZ}^{-1} (\hat x_Z - f),

and :math:`\nu` is the gradient ``c - G x`` on Z. With a sum of one, M is replaced by
:math:`M - M 1 1' M / 1' M 1` and :math:`\hat x` by the solution with the sum. So a solution with
few variables at their bounds costs a factorization of that size only, and the signs of
:math:`\hat x` are a good first guess at which ones these are. As in `bpp` all variables that offend
change sides at once. Where that does not lead to an end soon, or more than half of the variables
are fixed, the caller solves in another way. Products with M have errors that grow with the
condition of G; the caller removes them with gradients that are measured with A itself where they
matter, that is where the gradient is not zero to rounding, or the residual is near zero.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.factor import axpy, factorize, solve_transposed, solve_triangle
from conecollapse._nnls.products import BARRED, FREE, HIGH, LEAST_WORK, LOW, PRICE_ZERO
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray

PATIENCE = 3  # exchanges without progress before it gives up


def pivot_complement(
    M: FloatArray, X: FloatArray, upper: FloatArray, size: FloatArray
) -> tuple[AnyArray, BoolArray, IntArray]:
    """Turn the solutions without bounds in the rows of ``X`` into those between zero and ``upper``,
    which may have one row for all; where the variables are, which rows are solved, and the
    exchanges. Rows that are not solved stay as they are."""
    k, n = X.shape
    side, solved, steps = np.zeros((k, n), np.int8), np.zeros(k, bool), np.zeros(k, np.int64)

    def work(first: int, last: int) -> None:
        _pivot_range(M, X, upper, size, (side, solved, steps), first, last)

    for_ranges(work, k, smallest=max(1, LEAST_WORK // n**2))
    return side, solved, steps


@kernel(error_model="numpy")
def _pivot_range(M, X, uppers, size, out, first, last):  # type: ignore[no-untyped-def]
    n, (sides, solved, steps) = len(M), out
    scratch = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    given = np.empty(n)
    for i in range(first, last):
        x, side, upper = X[i], sides[i], uppers[i % len(uppers)]
        fixed = 0
        for j in range(n):
            given[j], side[j] = x[j], FREE
            if not upper[j] > 0.0:
                side[j] = BARRED
            elif x[j] < 0.0:
                side[j] = LOW
            elif x[j] > upper[j]:
                side[j] = HIGH
            fixed += side[j] != FREE
        if 2 * fixed > n:
            continue
        zero = PRICE_ZERO * size[i]
        steps[i], solved[i] = _pivot(M, x, given, upper, zero, side, scratch)
        if not solved[i]:
            for j in range(n):
                x[j] = given[j]


@kernel
def _pivot(M, x, given, upper, zero, side, scratch):  # type: ignore[no-untyped-def]
    """Exchange variables until none offends: the number of exchanges, and whether that is so."""
    fewest, patience, turn = len(x) + 1, PATIENCE, 0
    while True:
        k = _solve_fixed(M, x, given, upper, side, scratch)
        if k < 0:
            return turn, False
        offends = _exchange(x, upper, zero, side, k, scratch)
        if offends == 0:
            return turn, True
        if offends < fewest:
            fewest, patience = offends, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            return turn, False
        turn += 1


@kernel(error_model="numpy")
def _solve_fixed(M, x, given, upper, side, scratch):  # type: ignore[no-untyped-def]
    """The solution with the fixed variables at their bounds, and the gradients of these; how many
    they are, or -1 where they are all or depend on each other."""
    F, R, nu = scratch
    k = np.int64(0)
    for j in range(len(x)):
        x[j] = given[j]
        if side[j] != FREE:
            F[k] = j
            nu[k] = x[j] - (upper[j] if side[j] == HIGH else 0.0)
            k += 1
    if k == len(x) or not factorize(M, F, k, R):
        return np.int64(-1)
    solve_transposed(R, k, nu)
    solve_triangle(R, nu, k, nu)
    for a in range(k):
        axpy(-nu[a], M[F[a]], x)
    for a in range(k):
        x[F[a]] = upper[F[a]] if side[F[a]] == HIGH else 0.0
    return k


@kernel
def _exchange(x, upper, zero, side, k, scratch):  # type: ignore[no-untyped-def]
    """Let the variables that offend change sides; how many did."""
    F, _, nu = scratch
    offends = 0
    for j in range(len(x)):
        if side[j] == FREE and (x[j] < 0.0 or x[j] > upper[j]):
            side[j] = LOW if x[j] < 0.0 else HIGH
            offends += 1
    for a in range(k):  # those that were fixed before
        slope = nu[a] if side[F[a]] == LOW else -nu[a] if side[F[a]] == HIGH else 0.0
        if slope > zero:
            side[F[a]] = FREE
            offends += 1
    return offends
