r"""Non-negative least squares with few positive entries: forward and backward selection, for many
right-hand sides in Gram form.

For a set S of columns of A let :math:`E(S)` be the least squared residual :math:`|A x - b|^2` over
:math:`x \ge 0` with :math:`x_j = 0` outside S.

- *Forward*: S is empty at first. The column joins with which :math:`E(S + j)` is smallest; S then
  keeps the columns that are positive.
- *Backward*: S holds the positive entries of the solution over all columns at first. The column
  leaves without which :math:`E(S - j)` is smallest.

Both need many values of E, and few solves. Let x be the solution over S, positive on S,
:math:`G = A^T A`, :math:`c = A^T b`, :math:`g = c - G x`. Without the constraint on the entries
that are positive, the values have closed forms, and the constraint can only raise them:

.. math:: E(S) - E(S + j) \le \frac{g_j^2}{G_{jj} - G_{jS} G_{SS}^{-1} G_{Sj}} , \qquad
          E(S - j) - E(S) \ge \frac{x_j^2}{(G_{SS}^{-1})_{jj}} ,

with equality where the solution stays positive. A candidate whose bound is no better than the best
one so far needs no more; for the others it is looked up whether the solution stays positive, and
only where it does not is a problem of the size of S solved. Where two columns are equally good, the
first is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.factor import (
    DEPENDENT_SQUARE,
    append_product,
    new_state,
    remove,
    restore,
    solve_triangle,
)
from conecollapse._nnls.products import plain_problems, solve, unit_products
from conecollapse._threads import for_ranges
from conecollapse._types import FloatArray

PRICE = 1e-12  # gradients up to this share of the largest entry of c are rounding
ROUNDS = 50  # more steps than there are columns: beyond that only rounding changes


class Limits(NamedTuple):
    """When a selection ends."""

    most: int  # columns
    gain: FloatArray  # (rows,): what a column must lower the squared residual by
    room: int  # columns that are ever held at once


def stepwise(
    G: FloatArray, C: FloatArray, *, most: int, gain: FloatArray, backward: bool, rank: int
) -> FloatArray:
    """One solution with at most ``most`` positive entries for each row c of ``C``.

    ``gain`` is what a column must lower the squared residual by, one number for each row; ``rank``
    is a bound on the rank of ``G``.
    """
    unit_G, unit_C, inverse = unit_products(G, C)
    X = solve(plain_problems(unit_G, unit_C)).X if backward else np.zeros_like(unit_C)
    held = int((X > 0).sum(axis=1).max(initial=1)) if backward else min(most, rank, len(G))
    limits = Limits(min(most, len(G)), np.ascontiguousarray(gain, np.float64), held + 1)
    select = _backward if backward else _forward

    def work(start: int, stop: int) -> None:
        select(
            unit_G,
            unit_C,
            limits,
            (new_state.py_func(limits.room, 0, False), new_state.py_func(limits.room, 0, False)),
            X,
            start,
            stop,
        )

    for_ranges(work, len(X), smallest=16)
    return X * inverse


@kernel
def _copy(source, k, target):  # type: ignore[no-untyped-def]
    for a in range(k):
        target.S[a] = source.S[a]
        target.h[a] = source.h[a]
        target.q[a] = source.q[a]
        for b in range(a + 1):
            target.R[b, a] = source.R[b, a]


@kernel
def _peak(c):  # type: ignore[no-untyped-def]
    largest = 0.0
    for j in range(len(c)):
        largest = max(largest, abs(c[j]))
    return largest


@kernel
def _explained(state, k):  # type: ignore[no-untyped-def]
    """``|b|^2 - E(S)`` at the solution over S."""
    total = 0.0
    for a in range(k):
        total += state.q[a] * state.q[a]
    return total


@kernel
def _joins(G, c, j, state, k):  # type: ignore[no-untyped-def]
    """Put column ``j`` last among the passive ones; False if it depends on them or brings no
    descent."""
    if not append_product(G, c, j, state, k):
        return False
    state.S[k], state.h[k] = j, 0.0
    return state.q[k] > 0.0


@kernel
def _settled(G, c, among, m, state, k):  # type: ignore[no-untyped-def]
    """The solution over the first ``m`` columns in ``among``, from the feasible state given."""
    k = restore(state, k)
    for _ in range(m + ROUNDS):
        best, at = PRICE * _peak(c), -1
        for q in range(m):
            j = among[q]
            g = c[j]
            for a in range(k):
                if state.S[a] == j:
                    g = 0.0
                    break
                g -= state.h[a] * G[state.S[a], j]
            if g > best:
                best, at = g, j
        if at < 0 or not _joins(G, c, at, state, k):
            return k
        k = restore(state, k + 1)
    return k


@kernel
def _joined(G, c, j, state, k, trial, among):  # type: ignore[no-untyped-def]
    """In ``trial`` the solution over S and ``j``."""
    _copy(state, k, trial)
    for a in range(k):
        among[a] = state.S[a]
    among[k] = j
    return _settled(G, c, among, k + 1, trial, k + 1) if _joins(G, c, j, trial, k) else k


@kernel
def _left(G, c, a, state, k, trial, among):  # type: ignore[no-untyped-def]
    """In ``trial`` the solution over S without its column number ``a``."""
    _copy(state, k, trial)
    remove(trial, k, a)
    for b in range(k - 1):
        among[b] = trial.S[b]
    return _settled(G, c, among, k - 1, trial, k - 1)


@kernel
def _forward(G, C, limits, states, X, start, stop):  # type: ignore[no-untyped-def]
    n, room = len(G), limits.room
    state, trial = states
    among = np.empty(room, np.int64)
    W, outside, along = np.empty((room, n)), np.empty(n), np.empty(n)
    for i in range(start, stop):
        c = C[i]
        k, done = 0, 0  # passive columns, and how many of them W knows
        rounding = PRICE * _peak(c) ** 2
        for _ in range(n + ROUNDS):
            if done == 0:
                for j in range(n):
                    along[j] = c[j]
                    outside[j] = G[j, j]
            for a in range(done, k):
                for j in range(n):
                    w = G[state.S[a], j]
                    for b in range(a):
                        w -= state.R[b, a] * W[b, j]
                    w /= state.R[a, a]
                    W[a, j] = w
                    outside[j] -= w * w
                    along[j] -= w * state.q[a]
                outside[state.S[a]] = 0.0
            if k == min(limits.most, room - 1):
                break
            at = _best_to_join(
                G, c, (W, outside, along), max(limits.gain[i], rounding), state, k, (trial, among)
            )
            if at < 0:
                break
            grown = _joined(G, c, at, state, k, trial, among)
            done = k
            for a in range(k):
                if a >= grown or trial.S[a] != state.S[a]:
                    done = 0
                    break
            k = grown
            _copy(trial, k, state)
        for a in range(k):
            X[i, state.S[a]] = state.h[a]


@kernel
def _best_to_join(G, c, outlook, least, state, k, scratch):  # type: ignore[no-untyped-def]
    """The column that lowers the squared residual most, by more than ``least``; or -1."""
    W, outside, along = outlook
    trial, among = scratch
    best, at = least, -1
    for j in range(len(G)):
        if along[j] <= 0.0 or outside[j] <= DEPENDENT_SQUARE * G[j, j]:
            continue
        gain = along[j] * along[j] / outside[j]
        if gain <= best:
            continue
        step = along[j] / outside[j]
        solve_triangle(state.R, W[:, j], k, state.ls)
        for a in range(k):
            if state.h[a] < step * state.ls[a]:  # it would be negative
                grown = _joined(G, c, j, state, k, trial, among)
                gain = _explained(trial, grown) - _explained(state, k)
                break
        if gain > best:
            best, at = gain, j
    return at


@kernel
def _backward(G, C, limits, states, X, start, stop):  # type: ignore[no-untyped-def]
    n, room = len(G), limits.room
    state, trial = states
    among = np.empty(room, np.int64)
    inverse = np.empty((room, room))
    for i in range(start, stop):
        c = C[i]
        k = 0
        for j in range(n):
            if X[i, j] > 0.0 and append_product(G, c, j, state, k):
                state.S[k], state.h[k] = j, X[i, j]
                k += 1
        k = restore(state, k)
        while k > 0:
            at, rise = _best_to_leave(G, c, inverse, state, k, trial, among)
            if k <= limits.most and rise >= limits.gain[i]:
                break
            k = _left(G, c, at, state, k, trial, among)
            _copy(trial, k, state)
        X[i] = 0.0
        for a in range(k):
            X[i, state.S[a]] = state.h[a]


@kernel
def _best_to_leave(G, c, inverse, state, k, trial, among):  # type: ignore[no-untyped-def]
    """The number of the passive column without which the squared residual rises least, and by how
    much."""
    R, h = state.R, state.h
    for b in range(k):  # the inverse of R, column by column
        inverse[b, b] = 1.0 / R[b, b]
        for a in range(b - 1, -1, -1):
            s = 0.0
            for d in range(a + 1, b + 1):
                s += R[a, d] * inverse[d, b]
            inverse[a, b] = -s / R[a, a]
    best, at = np.inf, -1
    for a in range(k):
        own = 0.0
        for d in range(a, k):
            own += inverse[a, d] * inverse[a, d]
        rise = h[a] * h[a] / own
        if rise >= best:
            continue
        for b in range(k):
            if b != a:
                shared = 0.0
                for d in range(max(a, b), k):
                    shared += inverse[a, d] * inverse[b, d]
                if h[b] < h[a] * shared / own:  # it would be negative
                    left = _left(G, c, a, state, k, trial, among)
                    rise = _explained(state, k) - _explained(trial, left)
                    break
        if rise < best:
            best, at = rise, a
    return at, best
