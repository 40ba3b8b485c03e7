"""Sparse points and the posting lists of their coordinates, as the kernels of `private`, `small`,
`contained` and `sweeps` read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import column_counts
from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse

SUM_ROUNDING = 4 * float(np.finfo(np.float64).eps)  # for each term of a sum


class Lists(NamedTuple):
    """The points, compressed by rows, and the posting list of each coordinate: the points that have
    it, those with small supports first."""

    ptr: IntArray  # point i has the coordinates idx[ptr[i]:ptr[i + 1]], increasing,
    idx: AnyArray
    val: FloatArray  # with these values
    # coordinate d is in the supports of the points post[post_ptr[d]:post_ptr[d + 1]], by size of
    # support,
    post_ptr: IntArray
    post: AnyArray
    post_val: FloatArray  # where it has these values
    by_size: AnyArray  # (n_points,): the points, those with small supports first
    sums: FloatArray  # (n_points,): sum of the values of each point
    rounding: float  # bound on the rounding error of a sum over the support of a point

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.ptr) - 1, len(self.post_ptr) - 1

    @classmethod
    def of(cls, U: Sparse) -> Lists:
        order = np.argsort(np.diff(U.indptr), kind="stable").astype(np.int32)
        ptr, idx, sums = (
            U.indptr.astype(np.int64),
            U.indices.astype(np.int32, copy=False),
            np.asarray(U.sum(axis=1)).ravel(),
        )
        post_ptr = np.concatenate([[0], np.cumsum(column_counts(U).astype(np.int64))])
        post, post_val = np.empty(len(idx), np.int32), np.empty(len(idx))
        _post(ptr, idx, U.data, order, post_ptr[:-1].copy(), post, post_val)
        return cls(
            ptr=ptr,
            idx=idx,
            val=U.data,
            post_ptr=post_ptr,
            post=post,
            post_val=post_val,
            by_size=order,
            sums=sums,
            rounding=float(
                SUM_ROUNDING * (np.diff(ptr).max(initial=0) + 2) * sums.max(initial=0.0)
            ),
        )


class Rows(NamedTuple):
    """Points as they are read one after the other, those with small supports first."""

    ptr: IntArray  # row k has the coordinates idx[ptr[k]:ptr[k + 1]]
    idx: AnyArray
    val: FloatArray  # with these values
    rank: AnyArray  # (n_points,): the row of each point

    @classmethod
    def as_stored(cls, lists: Lists) -> Rows:
        """Without a copy, in the order of the points."""
        return cls(lists.ptr, lists.idx, lists.val, np.arange(len(lists.sums), dtype=np.int32))

    @classmethod
    def by_size(cls, lists: Lists) -> Rows:
        rank = np.empty(len(lists.sums), np.int32)
        rank[lists.by_size] = np.arange(len(rank), dtype=np.int32)
        ptr = np.concatenate([[0], np.cumsum(np.diff(lists.ptr)[lists.by_size])])
        rows = cls(ptr, np.empty(len(lists.idx), np.int32), np.empty(len(lists.idx)), rank)
        _copy(lists, rows)
        return rows


class Stored(NamedTuple):
    r"""Columns :math:`q_j = w \circ u_j / s_j` that are not written down: sparse points times the
    weights of their coordinates, scaled to sum one.

    With :math:`t = w \circ r` their products are :math:`r \cdot q_j = t \cdot u_j / s_j`, so that
    all threads read the same points.
    """

    idx: AnyArray  # column j has the coordinates idx[first[j]:last[j]]
    val: FloatArray  # with these values
    first: IntArray  # (n_columns,)
    last: IntArray
    support: AnyArray  # the coordinates of x, which has all those of the columns
    weight: FloatArray  # (dim,), on the support
    share: FloatArray  # (n_columns,): 1 / s_j
    gain: FloatArray  # (n_columns,): 1 / (s_j |q_j|^2)
    room: FloatArray  # (3, dim), scratch


@kernel
def stored_columns(rows, points, support, weight, room):  # type: ignore[no-untyped-def]
    """The ``points`` among the rows as `Stored` columns."""
    at = rows.rank[points]
    first, last = rows.ptr[at], rows.ptr[at + 1]
    share, gain = np.empty(len(points)), np.empty(len(points))
    for q in range(len(points)):
        total, squares = 0.0, 0.0
        for t in range(first[q], last[q]):
            value = rows.val[t] * weight[rows.idx[t]]
            total += value
            squares += value * value
        share[q], gain[q] = 1.0 / total, total / squares
    return Stored(rows.idx, rows.val, first, last, support, weight, share, gain, room)


@kernel
def copied_rows(rows, points, position, weight):  # type: ignore[no-untyped-def]
    """The ``points`` among the rows, times the weights, in coordinates that ``position`` numbers:
    faster to read than where they are."""
    n = len(points)
    ptr = np.zeros(n + 1, np.int64)
    for q in range(n):
        at = rows.rank[points[q]]
        ptr[q + 1] = ptr[q] + rows.ptr[at + 1] - rows.ptr[at]
    idx, val = np.empty(ptr[n], np.int32), np.empty(ptr[n])
    for q in range(n):
        first = rows.ptr[rows.rank[points[q]]] - ptr[q]
        for t in range(ptr[q], ptr[q + 1]):
            d = rows.idx[first + t]
            idx[t], val[t] = position[d], rows.val[first + t] * weight[d]
    return Rows(ptr, idx, val, np.arange(n).astype(np.int32))


@kernel(fastmath={"reassoc", "contract", "nsz"})
def product_with(idx, val, t):  # type: ignore[no-untyped-def]
    """``t . u`` of a point with these coordinates and values."""
    g = 0.0
    for a in range(len(idx)):
        g += t[idx[a]] * val[a]
    return g


@kernel
def add_times(idx, val, step, squared, t):  # type: ignore[no-untyped-def]
    """Add so many times a point, times the ``squared`` weights, to ``t``."""
    for a in range(len(idx)):
        t[idx[a]] += step * val[a] * squared[idx[a]]


@kernel
def _copy(lists, rows):  # type: ignore[no-untyped-def]
    """Fill the rows."""
    for k in range(len(lists.by_size)):
        first = lists.ptr[lists.by_size[k]]
        for t in range(rows.ptr[k], rows.ptr[k + 1]):
            rows.idx[t] = lists.idx[first + t - rows.ptr[k]]
            rows.val[t] = lists.val[first + t - rows.ptr[k]]


@kernel
def _post(ptr, idx, val, order, place, post, post_val):  # type: ignore[no-untyped-def]
    """Fill the posting lists with the points in this order; ``place`` is where each begins."""
    for i in order:
        for t in range(ptr[i], ptr[i + 1]):
            at = place[idx[t]]
            post[at] = i
            post_val[at] = val[t]
            place[idx[t]] += 1
