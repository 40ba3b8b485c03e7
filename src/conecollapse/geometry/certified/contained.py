r"""One point over the points whose supports lie inside its own: an active set whose columns stay sparse.

In the coordinates of the point's support alone, each divided by a weight, the point is ``x`` and the contained points are few and mostly
much sparser than it. They are priced as they are stored, all of them only now and then: between two such *looks* a descent chooses among
a short and varied list. Only columns in use become dense, as rows of the factorization (`conecollapse._nnls.kernels`).

Weights :math:`w_d = x_d^{-1/2}` make every coordinate of the point count, the faint ones too. Without them the large coordinates
are fitted first, by columns that have to leave again when it is the turn of the small ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import CLEANED_BELOW, append_column, axpy, dot, new_state, restore_feasibility
from conecollapse._types import AnyArray, FloatArray, IntArray

LISTED = 64  # columns on the list of a look
NEAR = 0.5  # share of the point's own price below which a column is not worth its place
ROUNDING = 1e-14  # prices up to this share of |r| are rounding
MAX_LOOKS = 500


class Contained(NamedTuple):
    """Columns q_j, each with entries that are positive and sum to one, compressed."""

    ptr: IntArray  # column j has its entries at the places
    place: AnyArray  # [ptr[j]:ptr[j + 1]]
    value: FloatArray  # with these values


@kernel
def contained_columns(lists, points, position, weight):  # type: ignore[no-untyped-def]
    """``points`` in the coordinates of a support, times their weights and scaled to sum one; ``position`` numbers these coordinates."""
    n = len(points)
    ptr = np.zeros(n + 1, np.int64)
    for q in range(n):
        ptr[q + 1] = ptr[q] + lists.ptr[points[q] + 1] - lists.ptr[points[q]]
    place, value = np.empty(ptr[n], np.int32), np.empty(ptr[n])
    for q in range(n):
        first, total = lists.ptr[points[q]], 0.0
        for t in range(ptr[q], ptr[q + 1]):
            place[t] = position[lists.idx[first + t - ptr[q]]]
            value[t] = lists.val[first + t - ptr[q]] * weight[place[t]]
            total += value[t]
        for t in range(ptr[q], ptr[q + 1]):
            value[t] /= total
    return Contained(ptr, place, value)


@kernel(fastmath={"reassoc", "contract", "nsz"})
def price(columns, q, r):  # type: ignore[no-untyped-def]
    """``r . q_j`` of one column."""
    g = 0.0
    for t in range(columns.ptr[q], columns.ptr[q + 1]):
        g += r[columns.place[t]] * columns.value[t]
    return g


@kernel
def descend_contained(columns, x, zero, lead):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's active set for ``x``, whose entries sum to one, over the columns: those in use, coefficients, the residual.

    It ends as soon as ``|r| <= zero |x|``; then the residual is returned as zero. It also ends once ``r . x - max_j r . q_j`` is larger
    than the share ``lead`` of ``|r|^2``: the residual separates the point from the columns. At the optimum the share is 1.
    """
    n, m = len(columns.ptr) - 1, len(x)
    capacity = max(1, min(m, n))
    state = new_state(capacity, m)
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
            for t in range(columns.ptr[j], columns.ptr[j + 1]):
                z[columns.place[t]] = columns.value[t]
            enters = append_column(z, r, state.Q, state.R, state.qx, k)
            for t in range(columns.ptr[j], columns.ptr[j + 1]):
                z[columns.place[t]] = 0.0
            if enters:
                k, norm = _enter(columns, j, x, x_norm, passive, state, k)
    return state.S[:k], state.h[:k], r


@kernel
def _list(columns, r, passive, listed, prices):  # type: ignore[no-untyped-def]
    """Fill the list with the column of the highest positive price in each residue class of their numbers; the highest price of all.

    The columns with the highest prices of all tend to be almost equal; these are varied.
    """
    prices[:] = 0.0
    listed[:] = -1
    highest = -np.inf
    for q in range(len(passive)):
        g = price(columns, q, r)
        highest = max(highest, g)
        if g > prices[q % len(listed)] and not passive[q]:
            prices[q % len(listed)] = g
            listed[q % len(listed)] = q
    return highest


@kernel
def _best(columns, r, listed, least):  # type: ignore[no-untyped-def]
    """Take the column with the highest price above ``least`` off the list; -1 if there is none."""
    at = -1
    for b in range(len(listed)):
        if listed[b] >= 0:
            g = price(columns, listed[b], r)
            if g > least:
                least, at = g, b
    if at < 0:
        return -1
    best = listed[at]
    listed[at] = -1
    return best


@kernel
def _enter(columns, j, x, x_norm, passive, state, k):  # type: ignore[no-untyped-def]
    """Column ``j``, which has been appended, takes its coefficient and others may have to leave; how many are in use, and ``|r|``."""
    Q, S, h, r = state.Q, state.S, state.h, state.r
    S[k], h[k] = j, 0.0
    for a in range(k):
        passive[S[a]] = False
    grown = k + 1
    k = restore_feasibility(state, grown)
    for a in range(k):
        passive[S[a]] = True
    norm = 0.0
    if k == grown:  # nothing was dropped: the residual only loses its part along the new direction
        axpy(-dot(Q[k - 1], r), Q[k - 1], r)
        norm = np.sqrt(dot(r, r))
    if norm >= CLEANED_BELOW * x_norm:
        return k, norm
    r[:] = x
    for a in range(k):
        for t in range(columns.ptr[S[a]], columns.ptr[S[a] + 1]):
            r[columns.place[t]] -= h[a] * columns.value[t]
    norm = np.sqrt(dot(r, r))
    if norm < CLEANED_BELOW * x_norm:  # clean it, so that it is accurate relative to itself
        for a in range(k):
            axpy(-dot(Q[a], r), Q[a], r)
        norm = np.sqrt(dot(r, r))
    return k, norm
