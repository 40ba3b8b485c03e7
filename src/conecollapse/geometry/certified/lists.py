"""Sparse points and the posting lists of their coordinates, as the kernels of `private`, `support` and `sweeps` read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import column_counts
from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse

SUM_ROUNDING = 4 * float(np.finfo(np.float64).eps)  # for each term of a sum


class Lists(NamedTuple):
    """The points, compressed by rows, and the posting list of each coordinate: the points that have it, those with small supports first."""

    ptr: IntArray  # point i has the coordinates idx[ptr[i]:ptr[i + 1]], increasing,
    idx: AnyArray
    val: FloatArray  # with these values
    post_ptr: IntArray  # coordinate d is in the supports of the points post[post_ptr[d]:post_ptr[d + 1]], by size of support,
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
        ptr, idx, sums = U.indptr.astype(np.int64), U.indices.astype(np.int32, copy=False), np.asarray(U.sum(axis=1)).ravel()
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
            rounding=float(SUM_ROUNDING * (np.diff(ptr).max(initial=0) + 2) * sums.max(initial=0.0)),
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
