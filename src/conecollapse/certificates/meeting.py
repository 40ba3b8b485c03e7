r"""Products of sparse witnesses with sparse points, only where they may be positive.

A witness g has values F on a few coordinates, its *pattern*, and ``-lift <= 0`` everywhere else.
Its product with a point :math:`u \ge 0` can be positive only if the point *meets* it: if it has a
coordinate where F is positive. A checker need not know the product itself. A bound from above that
is below zero by more than rounding is enough, and part of the coordinates off the pattern gives it:

.. math:: g \cdot u \ \le\ F \cdot u - lift \sum_{d \in D} u_d \qquad \text{for every set } D \text{
   of coordinates off the pattern.}

One sparse product has the terms of F. Where the lift is positive, nearly every coordinate of the
point has a negative term: the largest is tried first, then a few more, and all of them only where
these do not suffice. Where F has so many entries that most points have one of them, a product with
the dense witness is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Sparse

# an entry of a sparse product takes as long as this many of a product with a dense matrix
SPARSE_COST = 4
LOOKUP_COST = 50  # and a term that is looked up by itself as long as this many
# a pair of a witness and a point takes less room than this many entries of the points
PAIR_ROOM = 8
# pairs that are looked at side by side: between about 1 and 8 MiB
FEW_PAIRS, MANY_PAIRS = 2**14, 2**17
# columns of a table of patterns, and how many of its places, a byte each, there may be for each
# pair
WIDTH, PAIR_PLACES = 2**13, 32
TINY = np.float32(2.0**-60)  # next to 1
ROWS_AT_ONCE = 512  # of a block of products that are changed at once
FIRST_TERMS = 8  # terms of a sum that are looked up one by one before all of them are
# entries of a block of products: 128 MiB in float64; BLAS is fastest on tall blocks
BLOCK_ENTRIES = 2**24
BLOCK_SHARE = 4  # where the points are sparse, it has one entry for so many of theirs,
FEW_ENTRIES = 2**16  # but half a MiB in any case
# the points that have each coordinate are listed for this part of all points at a time,
POSTINGS_SHARE = 4
FEW_POSTINGS = 2**18  # or for points with so many entries: 3 MiB


@dataclass(frozen=True)
class Lifted:
    """Witnesses (rows): F on their pattern, 0 where it has no entry, and -lift off it."""

    F: Sparse  # (k, dim), its places within the pattern
    lift: FloatArray  # (k,), >= 0
    # (any, dim), with increasing columns: the pattern of a witness is where one of these rows has
    # entries,
    shapes: Sparse
    shape_of: IntArray  # (k,) this one
    own: IntArray  # (k,) the point whose coordinates are the pattern, or -1

    @property
    def pattern_sizes(self) -> IntArray:
        return np.asarray(np.diff(self.shapes.indptr)[self.shape_of])

    def take(self, which: IntArray) -> Lifted:
        shapes = self.shapes[self.shape_of[which]]
        return Lifted(
            self.F[which], self.lift[which], shapes, np.arange(len(which)), self.own[which]
        )


def _raised(taken: Lifted) -> FloatArray:
    """``g + lift`` as the columns of a dense array, for witnesses that have been taken: 0 off the
    pattern."""
    table = _columns(taken.shapes, np.repeat(taken.lift, np.diff(taken.shapes.indptr)))
    table[taken.F.indices, _rows(taken.F)] += taken.F.data
    return table


class Postings(NamedTuple):
    """Points as rows, and the points that have each coordinate."""

    V: Sparse
    Vt: Sparse
    mass: FloatArray  # the sum of each point
    top: FloatArray  # its largest entry,
    top_at: AnyArray  # and the coordinate of that

    @classmethod
    def of(cls, V: Sparse) -> Postings:
        top, top_at, sizes = (
            np.zeros(V.shape[0]),
            np.zeros(V.shape[0], V.indices.dtype),
            np.diff(V.indptr),
        )
        for rows in pieces_of(sizes, pairs_at_once(V)):
            filled = rows[sizes[rows] > 0]
            if len(filled):
                first = V.indptr[filled[0]]
                values = V.data[first : V.indptr[filled[-1] + 1]]
                top[filled] = np.maximum.reduceat(values, V.indptr[filled] - first)
                at = np.flatnonzero(values == np.repeat(top[filled], sizes[filled]))
                top_at[np.repeat(filled, sizes[filled])[at]] = V.indices[first + at]
        return cls(V, V.T.tocsr(), np.asarray(V.sum(axis=1)).ravel(), top, top_at)


def products(
    points: Postings, witnesses: Lifted, error: FloatArray
) -> Iterator[tuple[IntArray, Any]]:
    """For some of the witnesses at a time, which they are and their products with the points:
    dense, or CSR.

    What is missing in a CSR array is at most 0. What is below ``-error`` may be a bound from above,
    and the rest is the product itself.
    """
    V, dim = points.V, witnesses.F.shape[1]
    work = pattern_of(witnesses.F) @ np.diff(points.Vt.indptr)
    is_filled = SPARSE_COST * work > V.nnz
    for which in dense_pieces(np.flatnonzero(is_filled), V):
        yield which, _filled(points, witnesses.take(which), error[which])
    sparse = np.flatnonzero(~is_filled)
    room = np.maximum(witnesses.pattern_sizes[sparse], min(WIDTH, dim) // PAIR_PLACES) * (
        witnesses.lift[sparse] > 0
    )
    for a in pieces_of(np.maximum(work[sparse], room), pairs_at_once(V)):
        which = sparse[a]
        some = witnesses.take(which)
        found = _multiplied(points, some.F)
        if some.lift.any():
            _lower(points, some, found, -error[which])
        yield which, found
        del found, some  # before the next ones are made


def _filled(points: Postings, some: Lifted, error: FloatArray) -> FloatArray:
    """By products with dense witnesses."""
    found = points.V @ _raised(some)
    for a in range(0, len(found), ROWS_AT_ONCE):
        found[a : a + ROWS_AT_ONCE] -= points.mass[a : a + ROWS_AT_ONCE, None] * some.lift
    high, is_positive = (
        np.flatnonzero((~(found <= -error)).any(axis=1)),
        _columns(some.F, some.F.data) > 0,
    )
    # these may be 0 and no more
    for at in pieces_of(np.diff(points.V.indptr)[high], pairs_at_once(points.V)):
        rows = high[at]
        found[rows] = np.where(
            pattern_of(points.V[rows], np.bool_) @ is_positive, found[rows], -np.inf
        )
    return np.asarray(found.T)


def _multiplied(points: Postings, F: Sparse) -> Sparse:
    """Products with F alone of the points that meet it, minus infinity for others that have a
    coordinate of F.

    Where F has negative entries, too, a second product says which points meet it: all its terms are
    positive, and those where F is not are tiny. SciPy leaves out sums that are exactly 0, of which
    the second has none. Where the first has some, both are made at once.
    """
    found = F @ points.Vt
    if (F.data >= 0).all():
        return found
    marks = np.where(F.data <= 0, TINY, np.float32(1))
    marked = sp.csr_array((marks, F.indices, F.indptr), shape=F.shape) @ pattern_of(
        points.Vt, np.float32
    )
    if len(found.indices) != len(marked.indices) or (found.indices != marked.indices).any():
        return _multiplied_at_once(points, F)
    found.data[(marked.data < 0.5) & ~np.isnan(found.data)] = -np.inf
    return found


def _multiplied_at_once(points: Postings, F: Sparse) -> Sparse:
    """`_multiplied` where sums are exactly 0: an imaginary part counts what a point has where F is
    positive, so that none that meets F is left out. It takes more room."""
    marked = sp.csr_array((F.data + 1j * (F.data > 0), F.indices, F.indptr), shape=F.shape)
    found = marked @ points.Vt.astype(np.complex128)
    return sp.csr_array(
        (np.where(found.data.imag <= 0, -np.inf, found.data.real), found.indices, found.indptr),
        shape=found.shape,
    )


def _lower(points: Postings, some: Lifted, found: Sparse, limit: FloatArray) -> None:
    """Lower the entries of ``found``, products with F, by the lift times what each point has off
    the pattern, or a part that suffices."""
    V, bound, point = points.V, found.data, found.indices
    outside = _Outside(V, some.shapes)

    def lower(left: Any, row: AnyArray, mass: FloatArray) -> IntArray:
        """Lower the entries ``left`` by the lift times ``mass`` where that is low enough; the
        places among them where it is not."""
        lowered = bound[left] - some.lift[row] * mass
        is_low = lowered <= limit[row]
        bound[left] = np.where(is_low, lowered, bound[left])
        return np.flatnonzero(~is_low)

    rows, high = _rows(found), [np.zeros(0, np.int64)]
    for a in range(0, len(bound), FEW_PAIRS):
        part = slice(a, a + FEW_PAIRS)
        at = point[part]
        high.append(
            a
            + lower(
                part,
                rows[part],
                np.where(outside.is_on(rows[part], points.top_at[at]), 0.0, points.top[at]),
            )
        )
    left = np.concatenate(high)
    left = left[point[left] != some.own[rows[left]]]
    row, first, last, mass = (
        rows[left],
        V.indptr[point[left]],
        V.indptr[point[left] + 1],
        np.zeros(len(left)),
    )
    del rows
    for term in range(FIRST_TERMS):
        at = np.minimum(first + term, last - 1)
        mass += np.where(first + term < last, outside.of(row, at), 0.0)
        still = lower(left, row, mass)
        left, row, first, last, mass = (
            left[still],
            row[still],
            first[still],
            last[still],
            mass[still],
        )
    if LOOKUP_COST * int((last - first).sum(dtype=np.int64)) <= V.nnz * len(np.unique(row)):
        bound[left] -= some.lift[row] * outside.totals(row, first, last)
        return
    for rows in dense_pieces(np.unique(row), V):
        here = np.flatnonzero(np.isin(row, rows))
        inside = V @ _columns(some.shapes[rows], 1.0)
        at = point[left[here]]
        bound[left[here]] -= some.lift[row[here]] * (
            points.mass[at] - inside[at, np.searchsorted(rows, row[here])]
        )


class _Outside:
    """What entries of V have off the patterns of some witnesses."""

    def __init__(self, V: Sparse, pattern: Sparse) -> None:
        self.V, self.pattern = V, pattern
        # columns share a place where they are many: what is on the pattern by the table may be off
        # it, so that less is off it than is
        self.width = min(WIDTH, 1 << (V.shape[1] - 1).bit_length())
        self.table = np.zeros(pattern.shape[0] * self.width, np.bool_)
        self.table[
            _rows(pattern).astype(np.int64) * self.width + (pattern.indices & (self.width - 1))
        ] = True
        self.is_exact = V.shape[1] <= self.width

    def is_on(self, row: AnyArray, columns: AnyArray) -> BoolArray:
        """Whether each of the ``columns`` is on the pattern of its row, by the table."""
        place = row.astype(np.int64) * self.width
        place += columns & (self.width - 1)
        return np.asarray(self.table[place])

    def of(self, row: AnyArray, at: IntArray) -> FloatArray:
        """The entry ``at`` this place in V where it is off the pattern of the row, or 0."""
        return np.where(self.is_on(row, self.V.indices[at]), 0.0, self.V.data[at])

    def totals(self, row: AnyArray, first: IntArray, last: IntArray) -> FloatArray:
        """The sum over all entries from ``first`` to ``last`` that are off the pattern of each row,
        without the table's errors."""
        counts, out = (last - first).astype(np.int64), np.empty(len(row))
        terms = self.of if self.is_exact else self._exactly
        for some in pieces_of(counts, pairs_at_once(self.V) // 2):
            which = np.repeat(np.arange(len(some)), counts[some])
            at = np.arange(len(which))
            at += (first[some] - np.cumsum(counts[some]) + counts[some])[which]
            out[some] = np.bincount(which, terms(row[some][which], at), minlength=len(some))
        return out

    def _exactly(self, row: AnyArray, at: IntArray) -> FloatArray:
        keys, wanted = (
            _places(self.pattern),
            row.astype(np.int64) * self.V.shape[1] + self.V.indices[at],
        )
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[found] == wanted, 0.0, self.V.data[at])


def pieces_of(work: IntArray, most: int) -> list[IntArray]:
    """The places of ``work`` in pieces of about ``most`` in total."""
    return (
        np.split(
            np.arange(len(work)),
            np.flatnonzero(np.diff(np.cumsum(work, dtype=np.int64) // most)) + 1,
        )
        if len(work)
        else []
    )


def _rows(M: Sparse) -> AnyArray:
    """The row of each entry of a CSR array."""
    return np.repeat(np.arange(M.shape[0], dtype=M.indices.dtype), np.diff(M.indptr))


def _columns(M: Sparse, values: Any) -> FloatArray:
    """The rows of a CSR array as the columns of a dense one, with these values for its entries."""
    table = np.zeros(M.shape[::-1])
    table[M.indices, _rows(M)] = values
    return table


def _places(M: Sparse) -> IntArray:
    """The place of each entry of a CSR array in a flat dense one."""
    return _rows(M).astype(np.int64) * M.shape[1] + M.indices


def pattern_of(F: Sparse, dtype: type = np.float64) -> Sparse:
    """Ones where ``F`` has an entry."""
    return sp.csr_array((np.ones(F.nnz, dtype), F.indices, F.indptr), shape=F.shape)


def pieces(rows: IntArray, width: int, entries: int = BLOCK_ENTRIES) -> list[IntArray]:
    """``rows`` in pieces whose product with ``width`` columns has about so many ``entries``."""
    step = max(1, entries // max(width, 1))
    return [rows[a : a + step] for a in range(0, len(rows), step)]


def dense_pieces(rows: IntArray, V: Sparse) -> list[IntArray]:
    """``rows`` in pieces whose dense products with the sparse points ``V`` take less room than
    these."""
    return pieces(
        rows, max(V.shape), int(np.clip(V.nnz // BLOCK_SHARE, FEW_ENTRIES, BLOCK_ENTRIES))
    )


def pairs_at_once(V: Sparse) -> int:
    """How many pairs of a witness and a point, or entries of V, are looked at side by side: they
    take less room than the points."""
    return int(np.clip(V.nnz // PAIR_ROOM, FEW_PAIRS, MANY_PAIRS))


def postings_at_once(V: Sparse) -> int:
    """Entries of the points for which `Postings` are made at once, so that these take less room
    than the points."""
    return max(V.nnz // POSTINGS_SHARE + 1, FEW_POSTINGS)


def rows_between(V: Sparse, first: int, end: int) -> Sparse:
    """These rows of a CSR array, without a copy of their entries."""
    if (first, end) == (0, V.shape[0]):
        return V
    a, b = V.indptr[first], V.indptr[end]
    return sp.csr_array(
        (V.data[a:b], V.indices[a:b], V.indptr[first : end + 1] - a),
        shape=(end - first, V.shape[1]),
    )
