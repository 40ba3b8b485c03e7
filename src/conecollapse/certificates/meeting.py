r"""Products of sparse witnesses with sparse points, only where they may be positive.

A witness g has values F on a few coordinates, its *pattern*, and ``-lift <= 0`` everywhere else. Its product with a point
:math:`u \ge 0` can be positive only if the point *meets* it: if it has a coordinate where F is positive. A checker need not know the
product itself. A bound from above that is below zero by more than rounding is enough, and part of the coordinates off the pattern gives it:

.. math:: g \cdot u \ \le\ F \cdot u - lift \sum_{d \in D} u_d \qquad \text{for every set } D \text{ of coordinates off the pattern.}

One sparse product has the terms of F. Where the lift is positive, nearly every coordinate of the point has a negative term: the largest is
tried first, then a few more, and all of them only where these do not suffice. Where F has so many entries that most points have
one of them, a product with the dense witness is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._types import FloatArray, IntArray, Sparse

SPARSE_COST = 4  # an entry of a sparse product takes as long as this many of a product with a dense matrix
LOOKUP_COST = 50  # and a term that is looked up by itself as long as this many
PAIRS = 2**17  # pairs of a witness and a point that are looked at side by side
TABLE, WIDTH = 2**22, 2**13  # entries and columns of a table of patterns: 4 MiB
FIRST_TERMS = 8  # terms of a sum that are looked up before all of them are
BLOCK_ENTRIES = 2**24  # entries of a block of products: 128 MiB in float64; BLAS is fastest on tall blocks
FEW_ENTRIES = 2**18  # no block need be smaller


@dataclass(frozen=True)
class Lifted:
    """Witnesses (rows): F on their pattern, 0 where it has no entry, and -lift off it."""

    F: Sparse  # (k, dim), its places within the pattern
    lift: FloatArray  # (k,), >= 0
    pattern: Sparse  # (k, dim), ones, with increasing columns
    own: IntArray  # (k,) the point whose coordinates are the pattern, or -1

    def take(self, which: IntArray) -> Lifted:
        return Lifted(self.F[which], self.lift[which], self.pattern[which], self.own[which])

    def raised(self) -> FloatArray:
        """``g + lift`` as dense rows: 0 off the pattern."""
        table = np.zeros(self.F.shape[0] * self.F.shape[1])
        table[_places(self.pattern)] = np.repeat(self.lift, np.diff(self.pattern.indptr))
        table[_places(self.F)] += self.F.data
        return table.reshape(self.F.shape)


class Postings(NamedTuple):
    """Points as rows, and the points that have each coordinate."""

    V: Sparse
    Vt: Sparse
    mass: FloatArray  # the sum of each point
    top: IntArray  # where in V each has its largest entry

    @classmethod
    def of(cls, V: Sparse) -> Postings:
        starts, sizes = V.indptr[:-1].astype(np.int64), np.diff(V.indptr)
        top, filled = np.zeros(V.shape[0], np.int64), np.flatnonzero(sizes)
        if len(filled):
            peak = np.zeros(V.shape[0])
            peak[filled] = np.maximum.reduceat(V.data, starts[filled])
            row = np.repeat(np.arange(V.shape[0]), sizes)
            at = np.flatnonzero(V.data == peak[row])
            top[row[at]] = at
        return cls(V, V.T.tocsr(), np.asarray(V.sum(axis=1)).ravel(), top)


def products(points: Postings, witnesses: Lifted, error: FloatArray) -> Iterator[tuple[IntArray, Any]]:
    """For some of the witnesses at a time, which they are and their products with the points: dense, or CSR.

    What is missing in a CSR array is at most 0. What is below ``-error`` may be a bound from above, and the rest is the product itself.
    """
    work = pattern_of(witnesses.F) @ np.diff(points.Vt.indptr)
    is_filled = SPARSE_COST * work > points.V.nnz
    for which in pieces(np.flatnonzero(is_filled), BLOCK_ENTRIES // block_entries(points.V) * points.V.shape[0]):
        yield which, _filled(points, witnesses.take(which), error[which])
    sparse = np.flatnonzero(~is_filled)
    for a in pieces_of(np.maximum(work[sparse], PAIRS * min(WIDTH, witnesses.F.shape[1]) // TABLE), PAIRS):
        which = sparse[a]
        some = witnesses.take(which)
        found = _multiplied(points, some.F)
        if some.lift.any():
            found.data = _lowered(points, some, found, -error[which])
        yield which, found


def _filled(points: Postings, some: Lifted, error: FloatArray) -> FloatArray:
    """By products with dense witnesses."""
    found = (points.V @ some.raised().T - points.mass[:, None] * some.lift).T
    if (~(found <= -error[:, None])).sum() > len(found):  # more than the rays' own: some may be 0 and no more
        meets = pattern_of(points.V) @ (some.F.toarray().T > 0).astype(np.float64) > 0
        found = np.where(meets.T, found, -np.inf)
    return np.asarray(found)


def _multiplied(points: Postings, F: Sparse) -> Sparse:
    """Products with F alone of the points that meet it, minus infinity for others that have a coordinate of F.

    Where F has negative entries, too, an imaginary part counts what a point has where F is positive. So SciPy, which leaves out sums
    that are exactly 0, leaves out none of the points that meet F.
    """
    if (F.data >= 0).all():
        return F @ points.Vt
    marked = sp.csr_array((F.data + 1j * (F.data > 0), F.indices, F.indptr), shape=F.shape)
    found = marked @ points.Vt.astype(np.complex128)
    found.data = np.where(found.data.imag <= 0, -np.inf, found.data.real)
    return found


def _lowered(points: Postings, some: Lifted, found: Sparse, limit: FloatArray) -> FloatArray:
    """The entries of ``found``, products with F, less the lift times what each point has off the pattern, or a part of it that suffices."""
    V, row, bound = points.V, _rows(found), found.data.copy()
    outside = _Outside(V, some.pattern)

    def lower(left: IntArray, mass: FloatArray) -> IntArray:
        """Lower the entries ``left`` by the lift times ``mass``; those that are not low enough."""
        bound[left] = found.data[left] - some.lift[row[left]] * mass
        return left[~(bound[left] <= limit[row[left]])]

    left = np.flatnonzero(~(bound <= limit[row]) & (found.indices != some.own[row]))
    left = lower(left, outside.of(row[left], points.top[found.indices[left]]))
    first, last = V.indptr[found.indices[left]], V.indptr[found.indices[left] + 1]
    left = lower(left, outside.total(row[left], first, np.minimum(first + FIRST_TERMS, last)))
    first, last = V.indptr[found.indices[left]], V.indptr[found.indices[left] + 1]
    if LOOKUP_COST * int((last - first).sum()) <= V.nnz * len(np.unique(row[left])):
        for a in pieces_of(last - first, PAIRS):
            lower(left[a], outside.total(row[left[a]], first[a], last[a], exact=True))
        return bound
    for rows in pieces(np.unique(row[left]), BLOCK_ENTRIES // block_entries(V) * V.shape[0]):
        here = left[np.isin(row[left], rows)]
        inside = V @ some.pattern[rows].toarray().T
        column = found.indices[here]
        lower(here, points.mass[column] - inside[column, np.searchsorted(rows, row[here])])
    return bound


class _Outside:
    """What entries of V have off the patterns of some witnesses."""

    def __init__(self, V: Sparse, pattern: Sparse) -> None:
        self.V, self.pattern = V, pattern
        # columns share a place where they are many: what is on the pattern by the table may be off it, so that less is off it than is
        self.width = min(WIDTH, 1 << (V.shape[1] - 1).bit_length())
        self.table = np.zeros(pattern.shape[0] * self.width, np.bool_)
        self.table[_rows(pattern) * self.width + (pattern.indices & (self.width - 1))] = True
        self.is_exact = V.shape[1] <= self.width

    def of(self, row: IntArray, at: IntArray) -> FloatArray:
        """The entry ``at`` this place in V where it is off the pattern of the row, or 0."""
        on = self.table[row * self.width + (self.V.indices[at] & (self.width - 1))]
        return np.where(on, 0.0, self.V.data[at])

    def total(self, row: IntArray, first: IntArray, last: IntArray, *, exact: bool = False) -> FloatArray:
        """The sum over entries from ``first`` to ``last`` for each row; all that is off the pattern if it is to be exact."""
        counts = (last - first).astype(np.int64)
        which = np.repeat(np.arange(len(row)), counts)
        at = np.arange(len(which)) + (first - np.cumsum(counts) + counts)[which]
        terms = self._exactly(row[which], at) if exact and not self.is_exact else self.of(row[which], at)
        return np.bincount(which, terms, minlength=len(row)).astype(np.float64, copy=False)

    def _exactly(self, row: IntArray, at: IntArray) -> FloatArray:
        keys, wanted = _places(self.pattern), row * self.V.shape[1] + self.V.indices[at]
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[found] == wanted, 0.0, self.V.data[at])


def pieces_of(work: IntArray, most: int) -> list[IntArray]:
    """The places of ``work`` in pieces of about ``most`` in total."""
    return np.split(np.arange(len(work)), np.flatnonzero(np.diff(np.cumsum(work, dtype=np.int64) // most)) + 1) if len(work) else []


def _rows(M: Sparse) -> IntArray:
    """The row of each entry of a CSR array."""
    return np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))


def _places(M: Sparse) -> IntArray:
    """The place of each entry of a CSR array in a flat dense one."""
    return _rows(M) * M.shape[1] + M.indices


def pattern_of(F: Sparse) -> Sparse:
    """Ones where ``F`` has an entry."""
    return sp.csr_array((np.ones(F.nnz), F.indices, F.indptr), shape=F.shape)


def pieces(rows: IntArray, width: int) -> list[IntArray]:
    """``rows`` in pieces whose product with ``width`` columns stays near BLOCK_ENTRIES."""
    step = max(1, BLOCK_ENTRIES // max(width, 1))
    return [rows[a : a + step] for a in range(0, len(rows), step)]


def block_entries(V: Sparse) -> int:
    """Entries of a block of products that takes about as much room as the sparse points ``V``."""
    return int(np.clip(V.nnz, FEW_ENTRIES, BLOCK_ENTRIES))
