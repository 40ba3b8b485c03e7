"""Sparse points and the posting lists of their coordinates, as the kernels of `private`, `supports`
and `sweeps` read them."""

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
def stored_columns(lists, points, support, weight, room):  # type: ignore[no-untyped-def]
    """The ``points`` as `Stored` columns."""
    first, last = lists.ptr[points], lists.ptr[points + 1]
    share, gain = np.empty(len(points)), np.empty(len(points))
    for q in range(len(points)):
        total, squares = 0.0, 0.0
        for t in range(first[q], last[q]):
            value = lists.val[t] * weight[lists.idx[t]]
            total += value
            squares += value * value
        share[q], gain[q] = 1.0 / total, total / squares
    return Stored(lists.idx, lists.val, first, last, support, weight, share, gain, room)


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
def _post(ptr, idx, val, order, place, post, post_val):  # type: ignore[no-untyped-def]
    """Fill the posting lists with the points in this order; ``place`` is where each begins."""
    for i in order:
        for t in range(ptr[i], ptr[i + 1]):
            at = place[idx[t]]
            post[at] = i
            post_val[at] = val[t]
            place[idx[t]] += 1
