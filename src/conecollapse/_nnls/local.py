"""Active sets that price every column themselves: for few columns, and for one problem without any Python in between."""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import LIMIT, OPTIMAL, axpy, descend, dot, smallest_singular_value
from conecollapse._nnls.proof import OPTIMAL_WITHIN, ZERO_RESIDUAL, least_residual
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray, IntArray

INVALID = -1  # something is not finite, or too small or large to square: the caller takes care
UNPROVEN = -2  # a solution is not shown to be optimal
PRICE_STOP = 1e-14  # prices below this share of |r| are rounding
MANY = 256  # columns from which on a short list of them is worked on between full pricings
N_BUCKETS = 64
INSIDE_AT = 1e-15  # a residual below this share of |x| is rounding


def local_active_set(
    Z: FloatArray, weight: FloatArray, X: FloatArray, start: BoolArray | None, max_steps: int | None
) -> tuple[FloatArray, IntArray, BoolArray, FloatArray]:
    """Coefficients of each row of ``X`` over the rows of ``Z``, steps taken, whether the step limit was kept, and the smallest singular
    values of the columns in use.

    The ``weight`` of a column is its length before it was scaled: choosing by weighted prices is Lawson and Hanson's rule for the
    columns as given, and where the solution is not unique it leads to the same one.
    """
    k, n = len(X), len(Z)
    H, sigma, steps, ending = np.empty((k, n)), np.empty(k), np.zeros(k, np.int64), np.zeros(k, np.int64)
    guess = np.empty((0, n), bool) if start is None else start

    def work(first: int, last: int) -> None:
        solve_rows(Z, weight, X, H, sigma, steps, ending, guess, max_steps or 3 * n, first, last)

    for_ranges(work, k, smallest=max(1, 20_000 // n**2))
    return H, steps, ending != LIMIT, sigma


@kernel
def solve_rows(Z, weight, X, H, sigma, steps, ending, start, max_steps, first, last):  # type: ignore[no-untyped-def]
    """Coefficients ``H`` of rows ``first`` to ``last`` of ``X`` over the rows of ``Z``, and how independent those in use are: ``sigma``.

    ``start`` marks columns to try first, in as many rows as ``X`` has, or none.
    """
    n, m = Z.shape
    capacity = max(min(m, n), 1)
    S, h, qx, z = np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity), np.empty(capacity)
    Q, R = np.empty((capacity, m)), np.empty((capacity, capacity))
    r = np.empty(m)
    cand = np.empty(n, np.int64)
    dead = np.empty(n, np.bool_)
    for i in range(first, last):
        x = X[i]
        for t in range(m):
            r[t] = x[t]
        inside = INSIDE_AT * np.sqrt(dot(x, x))
        k = np.int64(0)
        warm = len(start) > 0
        while True:  # over the warm start, then over all columns or, if they are many, over short lists of them
            count = np.int64(0)
            if not warm and n > MANY:
                count = thin_candidates(Z, weight, r, cand)
            else:
                for j in range(n):
                    if not warm or start[i, j]:
                        cand[count] = j
                        count += 1
            k, ending[i], more = descend(
                Z, weight, x, cand, count, S, h, k, Q, R, qx, r, z, dead, 0.0, PRICE_STOP, inside, max_steps - steps[i]
            )  # fmt: skip
            steps[i] += more
            if not warm and (n <= MANY or more == 0 or ending[i] != OPTIMAL):
                break
            warm = False
        sigma[i] = smallest_singular_value(R, k, qx, z)
        for j in range(n):
            H[i, j] = 0.0
        for a in range(k):
            H[i, S[a]] = h[a]


@kernel
def thin_candidates(Z, weight, r, cand):  # type: ignore[no-untyped-def]
    """The best priced column of each of N_BUCKETS interleaved buckets: few, varied, and small enough to stay in cache."""
    best, at = np.zeros(N_BUCKETS), np.empty(N_BUCKETS, np.int64)
    for j in range(len(Z)):
        price = dot(r, Z[j]) * weight[j]
        if price > best[j % N_BUCKETS]:
            best[j % N_BUCKETS] = price
            at[j % N_BUCKETS] = j
    count = np.int64(0)
    for q in range(N_BUCKETS):
        if best[q] > 0.0:
            cand[count] = at[q]
            count += 1
    return count


@kernel
def unit_columns(A, Z, norms):  # type: ignore[no-untyped-def]
    """The columns of ``A`` as unit rows of ``Z``, and their norms; False if something is not finite."""
    m, n = A.shape
    for i in range(m):
        for j in range(n):
            Z[j, i] = A[i, j]
    total = 0.0
    for j in range(n):
        length = np.sqrt(dot(Z[j], Z[j]))
        norms[j] = 0.0
        if not 1e-140 < length < 1e140:  # squares may be lost: scale by the largest entry first
            peak = 0.0
            for i in range(m):
                peak = max(peak, abs(Z[j, i]))
                total += Z[j, i] * 0.0
            if peak > 0.0 and peak < np.inf:
                for i in range(m):
                    Z[j, i] /= peak
                length = np.sqrt(dot(Z[j], Z[j]))
                norms[j] = length * peak
        else:
            norms[j] = length
        total += length
        if length > 0.0:
            inverse = 1.0 / length
            for i in range(m):
                Z[j, i] *= inverse
    return np.isfinite(total)


@kernel
def solve_small(A, B, max_steps):  # type: ignore[no-untyped-def]
    """``min |A x - b|, x >= 0`` for each column b of ``B``: solutions in columns, residual norms, and the worst ending."""
    m, n = A.shape
    k = B.shape[1]
    x, rnorm = np.zeros((n, k)), np.zeros(k)
    Z, norms = np.empty((n, m)), np.empty(n)
    X = np.empty((k, m))
    fine = unit_columns(A, Z, norms)
    total = 0.0
    for c in range(k):
        for i in range(m):
            X[c, i] = B[i, c]
        size = dot(X[c], X[c])
        total += size
        if size < 1e-280:  # zero, or so small that squares are lost: not for here
            for i in range(m):
                fine = fine and X[c, i] == 0.0
    if not (fine and np.isfinite(total)):
        return x, rnorm, INVALID
    H, sigma, steps, ending = np.empty((k, n)), np.empty(k), np.zeros(k, np.int64), np.zeros(k, np.int64)
    g = np.empty(n)
    solve_rows(Z, norms, X, H, sigma, steps, ending, np.empty((0, n), np.bool_), max_steps, 0, k)
    for c in range(k):
        if ending[c] == LIMIT:
            return x, rnorm, LIMIT
        b_norm = np.sqrt(dot(X[c], X[c]))
        for j in range(n):
            if H[c, j] > 0.0:
                x[j, c] = H[c, j] / norms[j]
                axpy(-H[c, j], Z[j], X[c])
        length = np.sqrt(dot(X[c], X[c]))
        rnorm[c] = length if length > INSIDE_AT * b_norm else 0.0
        if not proven(Z, X[c], H[c], sigma[c], b_norm, length, g):
            return x, rnorm, UNPROVEN
    return x, rnorm, OPTIMAL


@kernel
def proven(Z, r, h, sigma, b_norm, r_norm, g):  # type: ignore[no-untyped-def]
    """Whether the coefficients ``h`` with residual ``r`` are shown to be optimal, as in `proof.is_optimal`; ``g`` gets the gradient."""
    n, m = Z.shape
    for j in range(n):
        g[j] = dot(Z[j], r)
    reach = np.inf
    for _ in range(2):
        least, rounding = least_residual(g, h, False, sigma, reach, m, b_norm, r_norm)
        if r_norm + rounding <= (1.0 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm:
            return True
        if Z.min() >= 0.0 or Z.max() <= 0.0:
            reach = np.sqrt(m)
    return False
