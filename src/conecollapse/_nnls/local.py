"""Active sets that price every column themselves: for few columns, and for a small problem as a
single call of a kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.doubt import set_aside
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
from conecollapse._nnls.proof import LEAST_LENGTH, MOST_LENGTH, is_shown, least_residual
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray, IntArray

# something is not finite, or too small or large to square: the caller must solve it another way
INVALID = -1
UNPROVEN = -2  # a solution is not shown to be optimal
PRICE_STOP = 1e-14  # prices below this share of |r| are rounding
RESIDUAL_STOP = 1e-15  # a residual below this share of |x| is rounding
# ends at the optimum
PLAIN_STOP = Stopping(price=PRICE_STOP, own_price=0.0, residual=RESIDUAL_STOP)
# with more columns than this, a solve works on a short list of them between two pricings of all
SHORT_LIST_FROM = 256
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
    """Coefficients of each row of ``X`` over the rows of ``Z``, steps taken, whether the step limit
    was kept, and the smallest singular values of the columns in use.

    The ``weight`` of a column is its length before it was scaled: choosing by weighted prices is
    Lawson and Hanson's rule for the columns as given, and where the solution is not unique it leads
    to the same one.
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
    """An active set for each of the rows ``first`` to ``last`` of ``X``; ``out``, of all rows,
    receives what it finds.

    ``start`` marks columns to try first, in as many rows as ``X`` has; if it has no rows, no start
    is given.
    """
    n, m = columns.Z.shape
    state = new_state(m if m < n else n, m)
    room = Candidates(np.empty(n, np.int64), np.empty(n, np.bool_))
    for i in range(first, last):
        x = X[i]
        for t in range(m):
            state.r[t] = x[t]
        k = np.int64(0)
        if len(start) > 0:
            count = np.int64(0)
            for j in range(n):
                if start[i, j]:
                    room.column[count] = j
                    count += 1
            warm = Candidates(room.column[:count], room.dead[:count])
            k, _, out.steps[i] = descend(columns, x, warm, state, k, PLAIN_STOP, max_steps)
        k, out.ending[i], more = descend_over_all(
            columns, x, room, state, k, max_steps - out.steps[i]
        )
        out.steps[i] += more
        out.sigma[i] = smallest_singular_value(state.R, k, state.qx, state.ls)
        out.H[i] = 0.0
        for a in range(k):
            out.H[i, state.S[a]] = state.h[a]


@kernel
def descend_over_all(columns, x, room, state, k, max_steps):  # type: ignore[no-untyped-def]
    """`descend` over all columns or, if they are many, over one short list of them after the other;
    ``room`` is for as many candidates."""
    n = len(columns.Z)
    steps = np.int64(0)
    while True:
        count = n
        if n > SHORT_LIST_FROM:
            count = short_list(columns, state.r, room.column)
        else:
            for j in range(n):
                room.column[j] = j
        candidates = Candidates(room.column[:count], room.dead[:count])
        k, ending, more = descend(columns, x, candidates, state, k, PLAIN_STOP, max_steps - steps)
        steps += more
        if n <= SHORT_LIST_FROM or more == 0 or ending != OPTIMAL:
            return k, ending, steps


@kernel
def short_list(columns, r, cand):  # type: ignore[no-untyped-def]
    """Write the column with the highest price of each of N_BUCKETS interleaved buckets to ``cand``;
    how many there are.

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
    """Write the columns of ``A`` to the rows of ``Z``, scaled to unit length, and their norms.

    The smallest and the largest entry of ``Z``; both NaN if a column is not finite, or so short or
    long that squares are lost.
    """
    m, n = A.shape
    low, high = 0.0, 0.0
    for j in range(n):
        square = 0.0
        for i in range(m):
            square += A[i, j] * A[i, j]
        length = np.sqrt(square)
        norms[j] = length
        inverse = 1.0 / length if length > 0.0 else 0.0
        for i in range(m):
            z = A[i, j] * inverse
            Z[j, i] = z
            low = z if z < low else low
            high = z if z > high else high
            if not LEAST_LENGTH < length < MOST_LENGTH and A[i, j] != 0.0:
                return np.nan, np.nan
    return low, high


@kernel
def solve_small(A, B, max_steps):  # type: ignore[no-untyped-def]
    """``min |A x - b|, x >= 0`` for each column b of ``B``: solutions in columns, residual norms,
    and how each ended."""
    m, n = A.shape
    solution, rnorm, endings = (
        np.zeros((n, B.shape[1])),
        np.zeros(B.shape[1]),
        np.full(B.shape[1], INVALID),
    )
    Z, norms, h, g, x = np.empty((n, m)), np.empty(n), np.empty(n), np.empty(n), np.empty(m)
    low, high = columns_to_unit_rows(A, Z, norms)
    if low != low:
        return solution, rnorm, endings
    columns, state = Columns(Z, norms), new_state(m if m < n else n, m)
    room = Candidates(np.empty(n, np.int64), np.empty(n, np.bool_))
    reach = np.inf if low < 0.0 < high else np.sqrt(m)
    for c in range(B.shape[1]):
        is_zero = True
        for i in range(m):
            x[i] = B[i, c]
            state.r[i] = x[i]
            is_zero = is_zero and x[i] == 0.0
        b_norm = np.sqrt(dot(x, x))
        if is_zero:
            endings[c] = OPTIMAL
        if is_zero or not LEAST_LENGTH < b_norm < MOST_LENGTH:
            continue
        k, ending, _ = descend_over_all(columns, x, room, state, np.int64(0), max_steps)
        if ending == STEP_LIMIT:
            endings[c] = STEP_LIMIT
            return solution, rnorm, endings
        for j in range(n):
            h[j] = 0.0
        for a in range(k):
            j = state.S[a]
            h[j] = state.h[a]
            solution[j, c] = h[j] / norms[j]
            axpy(-h[j], Z[j], x)  # the right-hand side becomes the residual
        length = np.sqrt(dot(x, x))
        rnorm[c] = length if length > RESIDUAL_STOP * b_norm else 0.0
        for j in range(n):
            g[j] = dot(Z[j], x)
        set_aside(A, state.S[:k], h, g, b_norm)
        sigma = smallest_singular_value(state.R, k, state.qx, state.ls)
        least, rounding = least_residual(g, h, False, sigma, reach, m, b_norm, length)
        endings[c] = OPTIMAL if is_shown(least, rounding, b_norm, length) else UNPROVEN
    return solution, rnorm, endings
