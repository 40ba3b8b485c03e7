"""Active sets that price every column themselves: for few columns, and for a small problem as a single call of a kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import (
    OPTIMAL,
    STEP_LIMIT,
    Candidates,
    Columns,
    Stopping,
    axpy,
    descend,
    dot,
    new_state,
    smallest_singular_value,
)
from conecollapse._nnls.proof import OPTIMAL_WITHIN, ZERO_RESIDUAL, least_residual
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray, IntArray

INVALID = -1  # something is not finite, or too small or large to square: the caller must solve it another way
UNPROVEN = -2  # a solution is not shown to be optimal
PRICE_STOP = 1e-14  # prices below this share of |r| are rounding
RESIDUAL_STOP = 1e-15  # a residual below this share of |x| is rounding
PLAIN_STOP = Stopping(price=PRICE_STOP, own_price=0.0, residual=RESIDUAL_STOP)  # ends at the optimum
SHORT_LIST_FROM = 256  # with more columns than this, a solve works on a short list of them between two pricings of all
N_BUCKETS = 64  # length of a short list


class Solutions(NamedTuple):
    """One row, or entry, for each right-hand side."""

    H: FloatArray  # coefficients of all columns
    sigma: FloatArray  # estimates of the smallest singular values of the columns in use
    steps: IntArray
    ending: IntArray


def local_active_set(
    Z: FloatArray, weight: FloatArray, X: FloatArray, start: BoolArray | None, max_steps: int | None
) -> tuple[FloatArray, IntArray, BoolArray, FloatArray]:
    """Coefficients of each row of ``X`` over the rows of ``Z``, steps taken, whether the step limit was kept, and the smallest singular
    values of the columns in use.

    The ``weight`` of a column is its length before it was scaled: choosing by weighted prices is Lawson and Hanson's rule for the
    columns as given, and where the solution is not unique it leads to the same one.
    """
    k, n = len(X), len(Z)
    out = Solutions(np.empty((k, n)), np.empty(k), np.zeros(k, np.int64), np.zeros(k, np.int64))
    guess = np.empty((0, n), bool) if start is None else start

    def work(first: int, last: int) -> None:
        run_active_sets(Columns(Z, weight), X, guess, max_steps or 3 * n, out, first, last)

    for_ranges(work, k, smallest=max(1, 20_000 // n**2))
    return out.H, out.steps, out.ending != STEP_LIMIT, out.sigma


@kernel
def run_active_sets(columns, X, start, max_steps, out, first, last):  # type: ignore[no-untyped-def]
    """An active set for each of the rows ``first`` to ``last`` of ``X``; ``out``, of all rows, receives what it finds.

    ``start`` marks columns to try first, in as many rows as ``X`` has; if it has no rows, no start is given.
    """
    n, m = columns.Z.shape
    state = new_state(max(min(m, n), 1), m)
    cand = np.empty(n, np.int64)
    dead = np.empty(n, np.bool_)
    for i in range(first, last):
        x = X[i]
        for t in range(m):
            state.r[t] = x[t]
        k = np.int64(0)
        warm = len(start) > 0
        while True:  # over the warm start, then over all columns or, if they are many, over short lists of them
            count = np.int64(0)
            if not warm and n > SHORT_LIST_FROM:
                count = short_list(columns, state.r, cand)
            else:
                for j in range(n):
                    if not warm or start[i, j]:
                        cand[count] = j
                        count += 1
            candidates = Candidates(cand[:count], dead[:count])
            k, out.ending[i], more = descend(columns, x, candidates, state, k, PLAIN_STOP, max_steps - out.steps[i])
            out.steps[i] += more
            if not warm and (n <= SHORT_LIST_FROM or more == 0 or out.ending[i] != OPTIMAL):
                break
            warm = False
        out.sigma[i] = smallest_singular_value(state.R, k, state.qx, state.ls)
        for j in range(n):
            out.H[i, j] = 0.0
        for a in range(k):
            out.H[i, state.S[a]] = state.h[a]


@kernel
def short_list(columns, r, cand):  # type: ignore[no-untyped-def]
    """Write the column with the highest price of each of N_BUCKETS interleaved buckets to ``cand``; how many there are.

    They are varied, and few enough to stay in cache.
    """
    Z, weight = columns.Z, columns.weight
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
def columns_to_unit_rows(A, Z, norms):  # type: ignore[no-untyped-def]
    """Write the columns of ``A`` to the rows of ``Z``, scaled to unit length, and their norms; False if something is not finite."""
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
    solution, rnorm = np.zeros((n, k)), np.zeros(k)
    Z, norms = np.empty((n, m)), np.empty(n)
    Bt = np.empty((k, m))
    fine = columns_to_unit_rows(A, Z, norms)
    total = 0.0
    for c in range(k):
        for i in range(m):
            Bt[c, i] = B[i, c]
        size = dot(Bt[c], Bt[c])
        total += size
        if size < 1e-280:  # zero, or so small that squares are lost: not for here
            for i in range(m):
                fine = fine and Bt[c, i] == 0.0
    if not (fine and np.isfinite(total)):
        return solution, rnorm, INVALID
    out = Solutions(np.empty((k, n)), np.empty(k), np.zeros(k, np.int64), np.zeros(k, np.int64))
    g = np.empty(n)
    run_active_sets(Columns(Z, norms), Bt, np.empty((0, n), np.bool_), max_steps, out, 0, k)
    for c in range(k):
        if out.ending[c] == STEP_LIMIT:
            return solution, rnorm, STEP_LIMIT
        h, r = out.H[c], Bt[c]  # the right-hand side becomes the residual
        b_norm = np.sqrt(dot(r, r))
        for j in range(n):
            if h[j] > 0.0:
                solution[j, c] = h[j] / norms[j]
                axpy(-h[j], Z[j], r)
        length = np.sqrt(dot(r, r))
        rnorm[c] = length if length > RESIDUAL_STOP * b_norm else 0.0
        if not proven(Z, r, h, out.sigma[c], b_norm, length, g):
            return solution, rnorm, UNPROVEN
    return solution, rnorm, OPTIMAL


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
        if one_sign(Z):
            reach = np.sqrt(m)
    return False


@kernel
def one_sign(Z):  # type: ignore[no-untyped-def]
    """Whether no two entries have opposite signs."""
    n, m = Z.shape
    low, high = False, False
    for j in range(n):
        for i in range(m):
            low = low or Z[j, i] < 0.0
            high = high or Z[j, i] > 0.0
        if low and high:
            return False
    return True
