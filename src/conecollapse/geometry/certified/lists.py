"""Sparse points and the posting lists of their coordinates, as the kernels of `private`, `support` and `sweeps` read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
        order = np.argsort(np.diff(U.indptr), kind="stable")
        posting = U[order].T.tocsr()  # a row of the transpose lists the points in the order in which they are given
        sums = np.asarray(U.sum(axis=1)).ravel()
        return cls(
            ptr=U.indptr.astype(np.int64),
            idx=U.indices.astype(np.int32, copy=False),
            val=U.data,
            post_ptr=posting.indptr.astype(np.int64),
            post=order.astype(np.int32)[posting.indices],
            post_val=posting.data,
            by_size=order.astype(np.int32),
            sums=sums,
            rounding=float(SUM_ROUNDING * (np.diff(U.indptr).max(initial=0) + 2) * sums.max(initial=0.0)),
        )
