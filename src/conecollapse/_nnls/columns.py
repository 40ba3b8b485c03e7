"""The active set on a QR factorization of the passive columns: for any shape and rank.

For one right-hand side ``x`` and unit columns ``z_j`` (rows of ``Z``) it lowers
``|x - sum_a h_a z_{S_a}|`` over ``h >= 0``. Each step appends the column with the highest price
``r . z_j`` to the triangle of `factor` and restores feasibility. Keeping Q avoids squaring the
condition, which decides cases near the tolerance. A column that brings no descent is *dead* until
the residual is next smaller than ever before, so that between two such moments no column is tried
twice, and no passive set returns: the descent is finite.

With many columns a descent works on a short and varied list of them between two looks at all.
`slots` runs many descents side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.bound import (
    EPS,
    OPTIMAL,
    RESIDUAL_STOP,
    STEP_LIMIT,
    close_row,
    judge,
    open_row,
)
from conecollapse._nnls.factor import (
    append_column,
    axpy,
    dot,
    new_state,
    restore,
    smallest_singular_value,
)
from conecollapse._nnls.products import MANY_COLUMNS, column_norms, list_best
from conecollapse._types import BoolArray, IntArray

WITHIN_TOL = 2  # how a descent ended, beside OPTIMAL and STEP_LIMIT: the residual is small enough
# a residual below this share of |x| is made orthogonal to the passive columns once more
CLEANED_BELOW = 1e-3
PRICE_STOP = 1e-14  # prices below this share of |r| are rounding
N_BUCKETS = 64  # length of a short list


class Candidates(NamedTuple):
    """Columns among which a descent chooses."""

    column: IntArray
    dead: BoolArray  # passive, or tried without success since the residual was at its lowest


class Stopping(NamedTuple):
    """When a descent ends, apart from the limit on its steps. All three are relative."""

    price: float  # prices up to this share of |r| are rounding
    # candidates priced below this share of r . x, the point's own price, are ignored: 0 for a plain
    # solve, 1 to stop once the point itself has the highest price
    own_price: float
    residual: float  # a residual up to this share of |x| counts as zero


PLAIN_STOP = Stopping(price=PRICE_STOP, own_price=0.0, residual=RESIDUAL_STOP)  # at the optimum


@kernel(error_model="numpy")
def refresh_residual(Z, x, x_norm, state, k):  # type: ignore[no-untyped-def]
    """``r = x - sum h z`` from scratch; a small one is cleaned against Q, so that it is accurate
    relative to itself. Its norm."""
    r = state.r
    for t in range(len(x)):
        r[t] = x[t]
    for a in range(k):
        axpy(-state.h[a], Z[state.S[a]], r)
    norm = np.sqrt(dot(r, r))
    if norm < CLEANED_BELOW * x_norm:
        for a in range(k):
            axpy(-dot(state.Q[a], r), state.Q[a], r)
        norm = np.sqrt(dot(r, r))
    return norm


@kernel(error_model="numpy")
def best_candidate(Z, weight, r, candidates, least):  # type: ignore[no-untyped-def]
    """The place of the candidate with the highest price among those above ``least``, or -1.

    With the lengths of the columns as ``weight`` it is the highest for the columns as given: Lawson
    and Hanson's rule, which leads to their solution where there are several."""
    best, at = 0.0, -1
    for q in range(len(candidates.column)):
        if not candidates.dead[q]:
            price = dot(r, Z[candidates.column[q]])
            if price > least:
                if weight is not None:
                    price *= weight[candidates.column[q]]
                if price > best:
                    best, at = price, q
    return at


@kernel(error_model="numpy")
def revive(candidates, S, k):  # type: ignore[no-untyped-def]
    """All candidates may be priced again, except the passive ones, whose price is zero."""
    for q in range(len(candidates.column)):
        if candidates.dead[q]:  # all that are passive are dead already
            candidates.dead[q] = False
            for a in range(k):
                if S[a] == candidates.column[q]:
                    candidates.dead[q] = True
                    break


@kernel(error_model="numpy")
def descend(Z, weight, x, candidates, state, k, stopping, max_steps):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent over the candidate columns, from the state given: how many
    columns are passive at its end, how it ended, and the number of steps.

    It ends as WITHIN_TOL when ``|r| <= stopping.residual |x|``, and as OPTIMAL when the state is
    full or when no candidate's price exceeds both ``stopping.price |r|`` and ``stopping.own_price``
    times the point's own price ``r . x``.
    """
    S, h, r = state.S, state.h, state.r
    x_norm, norm = np.sqrt(dot(x, x)), np.sqrt(dot(r, r))
    lowest = norm
    for q in range(len(candidates.dead)):
        candidates.dead[q] = True
    revive(candidates, S, k)
    for step in range(max_steps):
        if norm <= stopping.residual * x_norm:
            return k, WITHIN_TOL, step
        least = max(stopping.price * norm, stopping.own_price * dot(r, x))
        while True:
            at = best_candidate(Z, weight, r, candidates, least)
            if at < 0 or k == len(S):
                return k, OPTIMAL, step
            candidates.dead[at] = True
            if append_column(Z[candidates.column[at]], state, k):
                break
        S[k], h[k] = candidates.column[at], 0.0
        grown = k + 1
        k, norm = restore(state, grown), 0.0
        if (
            k == grown
        ):  # nothing was dropped: the residual only loses its part along the new direction
            axpy(-dot(state.Q[k - 1], r), state.Q[k - 1], r)
            norm = np.sqrt(dot(r, r))
        if norm < CLEANED_BELOW * x_norm:
            norm = refresh_residual(Z, x, x_norm, state, k)
        if norm < lowest * (1.0 - 1e-15):
            lowest = norm
            revive(candidates, S, k)
    return k, STEP_LIMIT, max_steps


@kernel(error_model="numpy")
def _descend_over_all(Z, weight, x, start, room, state, max_steps):  # type: ignore[no-untyped-def]
    """`descend` over the columns in ``start``, then over all or, if they are many, over short lists
    of them, until a list brings nothing."""
    n, k, steps, count = len(Z), np.int64(0), np.int64(0), np.int64(0)
    prices = np.empty(n)
    for j in range(n):
        room.column[count] = j
        count += 1 if start is not None and start[j] else 0
    is_over_all = count == 0
    while True:
        if is_over_all:
            count = _list(Z, state.r, prices, room.column)
        some = Candidates(room.column[:count], room.dead[:count])
        k, ending, more = descend(Z, weight, x, some, state, k, PLAIN_STOP, max_steps - steps)
        steps += more
        if ending != OPTIMAL or (is_over_all and (n <= MANY_COLUMNS or more == 0)):
            return k, ending, steps
        is_over_all = True


@kernel(error_model="numpy")
def _list(Z, r, prices, column):  # type: ignore[no-untyped-def]
    """Write all columns to ``column`` or, if they are many, those with the best prices; how many
    there are."""
    n = len(Z)
    for j in range(n):
        column[j] = j
    if n <= MANY_COLUMNS:
        return np.int64(n)
    for j in range(n):
        prices[j] = dot(r, Z[j])
    return list_best(prices, 0.0, np.empty(N_BUCKETS), np.empty(N_BUCKETS, np.int32), column)


@kernel(error_model="numpy")
def solve_rows(A, Bt, reach, start, max_steps, out):  # type: ignore[no-untyped-def]
    """As `products.solve_rows`."""
    m, n = A.shape
    Z, norms, W = np.empty((n, m)), np.empty(n), np.empty((2, n))
    x, g = W[0], W[1]
    is_safe = column_norms(A, norms)
    for j in range(n):
        for t in range(m):
            Z[j, t] = A[t, j] / norms[j]
    state = new_state(min(m, n), m, True)
    room = Candidates(np.empty(n, np.int64), np.empty(n, np.bool_))
    for i in range(len(Bt)):
        b, row = Bt[i], out[i]
        b_norm = open_row(b, is_safe, row)
        if b_norm == 0.0:
            continue
        for t in range(m):
            state.r[t] = b[t]
        first = None if start is None else start[i]
        k, ending, row[n + 3] = _descend_over_all(Z, norms, b, first, room, state, max_steps)
        for j in range(n):
            x[j] = 0.0
        for t in range(m):
            state.r[t] = b[t]
        for a in range(k):
            j = state.S[a]
            x[j], row[j] = state.h[a], state.h[a] / norms[j]
            axpy(-state.h[a], Z[j], state.r)
        r_norm = np.sqrt(dot(state.r, state.r))
        for j in range(n):
            g[j] = dot(Z[j], state.r)
        sigma = smallest_singular_value(state.R, k, state.ls, state.q)
        noise = EPS * (4.0 + np.sqrt(m)) * r_norm
        used, lengths = (state.S, k), (r_norm, b_norm)
        shown, least = judge(A, used, x, g, sigma, reach, lengths, noise)
        ending = ending if ending == STEP_LIMIT and shown != OPTIMAL else shown
        close_row(row, ending, r_norm, least, b_norm)
