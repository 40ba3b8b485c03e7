r"""One point over the points whose supports lie inside its own: an active set whose columns stay
sparse.

In the coordinates of the point's support alone, each divided by a weight, the point is ``x`` and
the contained points are few and mostly much sparser than it. They are priced as they are stored,
all of them only now and then: between two such *looks* a descent chooses among a short and varied
list. Only columns in use become dense, as rows of the factorization (`conecollapse._nnls.factor`).

Weights :math:`w_d = x_d^{-1/2}` make every coordinate of the point count, the faint ones too.
Without them the large coordinates are fitted first, by columns that have to leave again when it is
the turn of the small ones.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.columns import CLEANED_BELOW
from conecollapse._nnls.factor import append_column, axpy, dot, new_state, restore
from conecollapse.geometry.certified.lists import product_with

LISTED = 64  # columns on the list of a look
NEAR = 0.5  # share of the point's own price below which a column is not worth its place
ROUNDING = 1e-14  # prices up to this share of |r| are rounding
MAX_LOOKS = 500


@kernel
def price(columns, q):  # type: ignore[no-untyped-def]
    """``r . q_j`` of one column, by the residual that has been spread."""
    a, b = columns.first[q], columns.last[q]
    return product_with(columns.idx[a:b], columns.val[a:b], columns.room[0]) * columns.share[q]


@kernel
def _spread(columns, r):  # type: ignore[no-untyped-def]
    """Fill the room with the residual times the weights, each entry at its coordinate."""
    for t in range(len(r)):
        columns.room[0, columns.support[t]] = r[t] * columns.weight[columns.support[t]]


@kernel
def _add_column(columns, position, q, factor, out):  # type: ignore[no-untyped-def]
    """Add so many times a column to ``out``, in the coordinates of the support."""
    factor *= columns.share[q]
    for t in range(columns.first[q], columns.last[q]):
        d = columns.idx[t]
        out[position[d]] += factor * columns.val[t] * columns.weight[d]


@kernel
def descend_contained(columns, position, x, zero, lead):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's active set for ``x``, whose entries sum to one, over the columns: those
    in use, coefficients, the residual.

    ``x`` is in the coordinates of the support, which ``position`` numbers.

    It ends as soon as ``|r| <= zero |x|``; then the residual is returned as zero. It also ends once
    ``r . x - max_j r . q_j`` is larger than the share ``lead`` of ``|r|^2``: the residual separates
    the point from the columns. At the optimum the share is 1.
    """
    n, m = len(columns.first), len(x)
    capacity = max(1, min(m, n))
    state = new_state(capacity, m, True)
    r, k = state.r, np.int64(0)
    for t in range(m):
        r[t] = x[t]
    x_norm = np.sqrt(dot(x, x))
    norm = lowest = x_norm
    passive, z = np.zeros(n, np.bool_), np.zeros(m)
    listed, prices = np.empty(min(LISTED, max(n, 1)), np.int64), np.empty(min(LISTED, max(n, 1)))
    for look in range(MAX_LOOKS):
        own, highest = dot(r, x), _list(columns, r, passive, listed, prices)
        if norm <= zero * x_norm:
            r[:] = 0.0
            break
        if own - highest > lead * norm * norm or (look and norm >= lowest * (1.0 - 1e-15)):
            break
        lowest = norm
        while k < capacity and norm > zero * x_norm:
            j = _best(columns, r, listed, max(ROUNDING * norm, min(NEAR, 1.0 - lead) * own))
            if j < 0:
                break
            z[:] = 0.0
            _add_column(columns, position, j, 1.0, z)
            if append_column(z, state, k):
                k, norm = _enter(columns, position, j, x, passive, state, k)
    return state.S[:k].copy(), state.h[:k].copy(), r


@kernel
def _list(columns, r, passive, listed, prices):  # type: ignore[no-untyped-def]
    """Fill the list with the column of the highest positive price in each residue class of their
    numbers; the highest price of all.

    The columns with the highest prices of all tend to be almost equal; these are varied.
    """
    _spread(columns, r)
    prices[:] = 0.0
    listed[:] = -1
    highest = -np.inf
    for q in range(len(passive)):
        g = price(columns, q)
        highest = max(highest, g)
        if g > prices[q % len(listed)] and not passive[q]:
            prices[q % len(listed)] = g
            listed[q % len(listed)] = q
    return highest


@kernel
def _best(columns, r, listed, least):  # type: ignore[no-untyped-def]
    """Take the column with the highest price above ``least`` off the list; -1 if there is none."""
    _spread(columns, r)
    at = -1
    for b in range(len(listed)):
        if listed[b] >= 0:
            g = price(columns, listed[b])
            if g > least:
                least, at = g, b
    if at < 0:
        return -1
    best = listed[at]
    listed[at] = -1
    return best


@kernel
def _enter(columns, position, j, x, passive, state, k):  # type: ignore[no-untyped-def]
    """Column ``j``, which has been appended, takes its coefficient and others may have to leave;
    how many are in use, and ``|r|``."""
    Q, S, h, r = state.Q, state.S, state.h, state.r
    S[k], h[k] = j, 0.0
    for a in range(k):
        passive[S[a]] = False
    grown = k + 1
    k = restore(state, grown)
    for a in range(k):
        passive[S[a]] = True
    norm, x_norm = 0.0, np.sqrt(dot(x, x))
    if k == grown:  # nothing was dropped: the residual only loses its part along the new direction
        axpy(-dot(Q[k - 1], r), Q[k - 1], r)
        norm = np.sqrt(dot(r, r))
    if norm >= CLEANED_BELOW * x_norm:
        return k, norm
    for t in range(len(x)):
        r[t] = x[t]
    for a in range(k):
        _add_column(columns, position, S[a], -h[a], r)
    norm = np.sqrt(dot(r, r))
    if norm < CLEANED_BELOW * x_norm:  # clean it, so that it is accurate relative to itself
        for a in range(k):
            axpy(-dot(Q[a], r), Q[a], r)
        norm = np.sqrt(dot(r, r))
    return k, norm
