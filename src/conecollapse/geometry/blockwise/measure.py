"""One pass over the blocks: what is zero, which points are one ray, and the moments from which
shared coordinates are made.

Points are compared along two fixed random directions, the first as in
`conecollapse._linalg.merge_colinear`: only points that are near each other along both can be
colinear, and only these leave their blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import (
    as_dense,
    columns_as_points,
    merge_colinear,
    near_along,
    projection,
    take_rows,
    unit_rows,
)
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.tables import BlockedTable
from conecollapse.tables.survey import SLICE, rows_of, slices_of

DIRECTIONS = (0, 1)  # numbers of the fixed random directions
SMALLEST_SHARE = 2**20  # entries: smaller blocks than this, 8 MiB, are not worth keeping apart


class Moments(NamedTuple):
    """Of points ``q``: how many they are, their mean, and the sum of ``(q - mean)(q - mean)'``."""

    size: int
    mean: FloatArray
    scatter: FloatArray

    def joined(self, other: Moments) -> Moments:
        """Of both sets (Chan, Golub & LeVeque 1979): nothing is subtracted that is large."""
        size = self.size + other.size
        if not size:
            return self
        step = other.mean - self.mean
        scatter = (
            self.scatter + other.scatter + self.size * other.size / size * np.outer(step, step)
        )
        return Moments(size, self.mean + step * (other.size / size), scatter)


class Measured(NamedTuple):
    """Of the points of neighbouring blocks."""

    key: FloatArray  # (n_points, 2) places along the fixed directions
    filled: BoolArray  # (n_points,) False for zero points
    moments: Moments | None  # of dense points scaled to sum one
    holders: IntArray | None  # of sparse points: how many have each coordinate
    lengths: IntArray | None  # (n_points,) of sparse points: their entries
    entries: int
    longest: int  # entries of the longest point
    heaviest: float  # largest sum of a unit point

    def joined(self, other: Measured) -> Measured:
        return Measured(
            np.concatenate([self.key, other.key]),
            np.concatenate([self.filled, other.filled]),
            None
            if self.moments is None or other.moments is None
            else self.moments.joined(other.moments),
            None if self.holders is None or other.holders is None else self.holders + other.holders,
            None
            if self.lengths is None or other.lengths is None
            else np.concatenate([self.lengths, other.lengths]),
            self.entries + other.entries,
            max(self.longest, other.longest),
            max(self.heaviest, other.heaviest),
        )


def unit_points(block: Points, *, as_sparse: bool) -> tuple[Any, FloatArray]:
    """The columns of a block as unit rows, and their lengths; sparse ones with increasing
    coordinates."""
    return unit_rows(_points_of(block, as_sparse=as_sparse))


def _points_of(block: Points, *, as_sparse: bool) -> Points:
    """The columns of a block as rows, without a copy where that is possible."""
    if not as_sparse:
        return columns_as_points(as_dense(block))
    points = columns_as_points(block if sp.issparse(block) else sp.csr_array(block))
    if not (points.has_canonical_format and points.data.all()):
        points = points.copy()  # the block may not be ours
        points.sum_duplicates()
        points.eliminate_zeros()
    return points


def in_slices(block: Points, *, as_sparse: bool) -> Iterator[tuple[int, Any, FloatArray]]:
    """`unit_points`, some at a time: the place of the first, the rows and their lengths."""
    n, m = block.shape
    if as_sparse:
        points = _points_of(block, as_sparse=True)
        for a, b in slices_of(points.indptr):
            yield a, *unit_rows(rows_of(points, a, b))
        return
    # a matrix of n x n, as is made from a slice, is no larger than the slice
    step = max(n, SLICE // n)
    for a in range(0, max(m, 1), step):
        yield a, *unit_points(block[:, a : a + step], as_sparse=False)


def unit_points_sparse(block: Points, rows: IntArray) -> Sparse:
    """These columns of a block, increasing, as sparse unit rows; if they are all, coordinates are
    those of the block where it can be.

    They are made some at a time, so that nothing as large as the block is held beside it and the
    result.
    """
    points = _points_of(block, as_sparse=True)
    chosen = np.zeros(points.shape[0], bool)
    chosen[rows] = True
    counts = np.diff(points.indptr)[rows]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    are_all = len(rows) == points.shape[0]
    data, indices = (
        np.empty(int(ptr[-1])),
        points.indices if are_all else np.empty(int(ptr[-1]), points.indices.dtype),
    )
    end = 0
    for a, b in slices_of(points.indptr):
        U = unit_rows(take_rows(rows_of(points, a, b), np.flatnonzero(chosen[a:b])))[0]
        begin, end = end, end + U.nnz
        data[begin:end] = U.data
        if not are_all:
            indices[begin:end] = U.indices
    return sp.csr_array(
        (data, indices, ptr.astype(points.indptr.dtype)), shape=(len(rows), points.shape[1])
    )


def key_block(block: Points, _: Any, as_sparse: bool) -> tuple[FloatArray, BoolArray, int]:
    """Of one block of columns: the places of each along the fixed directions, which are not zero,
    and how many entries they have."""
    U, lengths = unit_points(block, as_sparse=as_sparse)
    return _key(U), lengths > 0, U.nnz if as_sparse else U.size


def _key(U: Points) -> FloatArray:
    return np.asarray(U @ np.column_stack([projection(U.shape[1], which) for which in DIRECTIONS]))


def measure_block(block: Points, _: Any, as_sparse: bool | None) -> Measured:
    """Measure one block of columns, as sparse points or as dense ones; None: as it comes."""
    as_sparse = sp.issparse(block) if as_sparse is None else as_sparse
    work = _measure_sparse if as_sparse else _measure_dense
    return reduce(
        Measured.joined,
        (work(U, lengths > 0) for _, U, lengths in in_slices(block, as_sparse=as_sparse)),
    )


def _measure_sparse(U: Sparse, filled: BoolArray) -> Measured:
    counts = np.diff(U.indptr)
    holders = np.bincount(U.indices, minlength=U.shape[1]).astype(np.int64)
    heaviest = float(np.asarray(U.sum(axis=1)).max(initial=0.0))
    return Measured(
        _key(U), filled, None, holders, counts, U.nnz, int(counts.max(initial=0)), heaviest
    )


def _measure_dense(U: FloatArray, filled: BoolArray) -> Measured:
    sums = U.sum(axis=1)
    Q = U[filled] / sums[filled, None]
    mean = Q.mean(axis=0) if len(Q) else np.zeros(U.shape[1])
    Q -= mean
    return Measured(
        _key(U),
        filled,
        Moments(len(Q), mean, Q.T @ Q),
        None,
        None,
        U.size,
        U.shape[1],
        float(sums.max(initial=0.0)),
    )


def share(table: BlockedTable) -> int:
    """Points that may be held in one place beside a block: as many as a block has on average, or as
    fill `SMALLEST_SHARE`."""
    return share_of(*table.shape, table.n_blocks)


def share_of(dim: int, n_points: int, n_blocks: int) -> int:
    """`share` of a table in so many blocks."""
    return max(-(-n_points // n_blocks), SMALLEST_SHARE // dim)


def leaders(
    key: FloatArray,
    filled: BoolArray,
    dim: int,
    tol: float,
    most: int,
    fetched: Callable[[IntArray], Points],
) -> tuple[IntArray, float]:
    """Leader of each point's group of colinear ones, -1 for zero points, as in memory; and the
    largest distance from a leader.

    Runs of points that are near each other along both fixed directions are ``fetched``, increasing
    numbers as unit rows, and compared, about ``most`` at a time.
    """
    leader = np.where(filled, np.arange(len(filled)), -1)
    if not filled.any():
        raise InvalidInputError(
            f"all {len(leader)} points are zero; a cone needs at least one point that is not."
        )
    order, run = np.flatnonzero(filled), np.zeros(int(filled.sum()), np.int64)
    # runs along the first, each divided along the second; points alone in a run are like no other
    for which in DIRECTIONS:
        sorted_by = np.lexsort((key[order, which], run)) if which else np.argsort(key[order, which])
        order, run = order[sorted_by], run[sorted_by]
        is_new = (np.diff(run) > 0) | (np.diff(key[order, which]) > near_along(dim, tol, which))
        run = np.cumsum(np.append(0, is_new)[: len(order)])
        crowded = (np.bincount(run) > 1)[run]
        order, run = order[crowded], run[crowded]
    runs = np.split(order, np.flatnonzero(np.diff(run)) + 1) if len(order) else []
    worst = 0.0
    for some in _pieces(runs, most):
        U = fetched(some)
        found, apart = merge_colinear(U, tol)
        leader[some] = some[found]
        worst = max(worst, apart)
    return leader, worst


def _pieces(runs: list[IntArray], size: int) -> list[IntArray]:
    """Whole runs put together to about ``size`` points, increasing."""
    pieces: list[list[IntArray]] = []
    count = size
    for run in runs:
        if count >= size:
            pieces.append([])
            count = 0
        pieces[-1].append(run)
        count += len(run)
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def leaders_of(
    table: BlockedTable, key: FloatArray, filled: BoolArray, tol: float
) -> tuple[IntArray, float]:
    """`leaders` of a table: those that must be compared leave their blocks, a `share` at a time."""
    return leaders(key, filled, table.shape[0], tol, share(table), partial(fetch, table))


def fetch(table: BlockedTable, points: IntArray) -> Points:
    """These points, increasing, as unit rows."""
    return stack(
        table.visit(unit_rows_of, by_block(table.bounds, points), table.is_sparse, stage="fetch")
    )


def unit_rows_of(block: Points, columns: IntArray, as_sparse: bool) -> Points:
    """These columns of a block, increasing, as unit rows."""
    return unit_rows(take_rows(_points_of(block, as_sparse=as_sparse), columns))[0]


def stack(parts: list[Points]) -> Points:
    """Rows below each other."""
    return sp.csr_array(sp.vstack(parts)) if sp.issparse(parts[0]) else np.vstack(parts)


def by_block(bounds: IntArray, points: IntArray) -> list[IntArray]:
    """Increasing numbers of points, as places in their blocks."""
    place: AnyArray = np.searchsorted(points, bounds)
    return [
        points[a:b] - first for a, b, first in zip(place[:-1], place[1:], bounds[:-1], strict=True)
    ]
