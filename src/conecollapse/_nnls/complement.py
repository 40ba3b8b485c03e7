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
from conecollapse._nnls.cholesky import factorize, forward, new_factor
from conecollapse._nnls.kernels import axpy, solve_triangle
from conecollapse._nnls.quadratic import BARRED, DUAL_ZERO, FREE, HIGH, LOW, PATIENCE
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray

WELL_ENOUGH = 1e-5  # reciprocal condition of G from which its inverse is accurate enough


def pivot_complement(
    M: FloatArray, X: FloatArray, bounds: tuple[FloatArray, BoolArray], size: FloatArray
) -> tuple[AnyArray, BoolArray, IntArray]:
    """Turn the solutions without bounds in the rows of ``X`` into those with ``bounds`` (upper,
    allowed: one row for each or one for all).

    Gradients are compared with ``size``. Returns where the variables are, as in `quadratic`, which
    rows are solved, and the exchanges. Rows that are not solved hold the solution without bounds.
    """
    k, n = X.shape
    side, solved, steps = np.zeros((k, n), np.int8), np.zeros(k, bool), np.zeros(k, np.int64)

    def work(first: int, last: int) -> None:
        _pivot_range(
            M,
            X[first:last],
            _rows(bounds, first, last),
            size[first:last],
            side[first:last],
            solved[first:last],
            steps[first:last],
        )

    for_ranges(work, k, smallest=max(1, 20_000 // n**2))
    return side, solved, steps


def _rows(
    bounds: tuple[FloatArray, BoolArray], first: int, last: int
) -> tuple[FloatArray, BoolArray]:
    upper, allowed = bounds
    return upper if len(upper) == 1 else upper[first:last], allowed if len(
        allowed
    ) == 1 else allowed[first:last]


@kernel
def _pivot_range(M, X, bounds, size, side, solved, steps):  # type: ignore[no-untyped-def]
    n = X.shape[1]
    s = new_factor(n, n + 1)
    for i in range(len(X)):
        upper, allowed = (
            bounds[0][i if len(bounds[0]) > 1 else 0],
            bounds[1][i if len(bounds[1]) > 1 else 0],
        )
        fixed = 0
        for j in range(n):
            s.given[j] = X[i, j]
            side[i, j] = FREE
            if not (allowed[j] and upper[j] > 0.0):
                side[i, j] = BARRED
            elif X[i, j] < 0.0:
                side[i, j] = LOW
            elif X[i, j] > upper[j]:
                side[i, j] = HIGH
            fixed += side[i, j] != FREE
        if 2 * fixed > n:
            continue
        solved[i], steps[i] = _pivot(M, X[i], upper, size[i], side[i], s)
        if not solved[i]:
            for j in range(n):
                X[i, j] = s.given[j]


@kernel
def _pivot(M, x, upper, size, side, s):  # type: ignore[no-untyped-def]
    n, nu = len(x), s.target
    fewest, patience, turn = n + 1, PATIENCE, 0
    while True:
        k = np.int64(0)
        for j in range(n):
            x[j] = s.given[j]
            if side[j] != FREE:
                s.F[k] = j
                nu[k] = x[j] - (upper[j] if side[j] == HIGH else 0.0)
                k += 1
        if k == n or not factorize(M, s, k):
            return False, turn
        forward(s.R, k, nu)
        solve_triangle(s.R, nu, k, nu)
        for a in range(k):
            axpy(-nu[a], M[s.F[a]], x)
        count = 0
        for a in range(k):
            j = s.F[a]
            slope = nu[a] if side[j] == LOW else -nu[a] if side[j] == HIGH else 0.0
            x[j] = upper[j] if side[j] == HIGH else 0.0
            s.dead[j] = slope > DUAL_ZERO * size
            count += s.dead[j]
        for j in range(n):
            if side[j] == FREE:
                s.dead[j] = x[j] < 0.0 or x[j] > upper[j]
                count += s.dead[j]
        if count == 0:
            return True, turn
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            return False, turn
        turn += 1
        for j in range(n):
            if s.dead[j]:
                side[j] = FREE if side[j] != FREE else LOW if x[j] < 0.0 else HIGH
