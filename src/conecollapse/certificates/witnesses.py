r"""Witnesses: vectors that prove rays. One class for each way to write many of them down.

A witness of the ray :math:`u_i` is a vector g with :math:`g \cdot u_i > 0 \ge g \cdot u_j` for
every other point j. For any y in the cone of the others
:math:`\|g\| \|u_i - y\| \ge g \cdot (u_i - y) \ge g \cdot u_i`, so the ray is at least
:math:`g \cdot u_i / \|g\|` away from that cone. A dense vector for each ray is often wasteful, so
there are five forms:

- `Vectors`: the vectors themselves;
- `SparseVectors`: sparse vectors, each less one number in every coordinate;
- `Metric`: one matrix T and one centre for all, :math:`g_i = T T' (q_i - centre) - offset_i` with
  :math:`q_i = u_i / \sum u_i`;
- `Support`: a few values on the support of :math:`u_i` and one value ``-lift`` everywhere off it,
  for sparse points;
- `Combination`: weights of the points, :math:`g_i = \sum_j W_{ij} u_j`, whose size does not depend
  on the dimension. For points in very many dimensions, which are seen a block of coordinates at a
  time.

Each holds ``of``, the rays that its witnesses are about (places in the certificate's list of rays),
and has `values`: the products of its witnesses with points, their lengths, and a bound on the
rounding in a product. Whatever rounding does while a vector is computed, the vector that comes out
is the witness; only its products with the points need a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from conecollapse._memory import give_back
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import form
from conecollapse.certificates.meeting import (
    Lifted,
    Postings,
    dense_pieces,
    pairs_at_once,
    pieces,
    pieces_of,
    postings_at_once,
    products,
    rows_between,
)

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Values:
    """Products of some witnesses (rows) with some points (columns), which follow each other in the
    list of all points."""

    which: IntArray  # the witnesses, as places in their family
    # dense, or CSR: what is missing is at most 0, and what is below -error may be a bound
    products: Any
    lengths: FloatArray  # of the witnesses
    error: FloatArray  # that rounding may have put into a product, for each witness
    start: int = 0  # the place of the first point in the list

    @property
    def places(self) -> slice:
        """Of the points in the list."""
        return slice(self.start, self.start + self.products.shape[1])

    def at(self, columns: IntArray) -> FloatArray:
        """One product of each witness, 0 for a column that is not one of these."""
        found = np.zeros(len(columns))
        if sp.issparse(self.products):
            here = self._entries(columns)
            found[np.searchsorted(self.products.indptr, here, side="right") - 1] = (
                self.products.data[here]
            )
            return found
        rows = self._with(columns)
        found[rows] = self.products[rows, columns[rows]]
        return found

    def largest(self, leave_out: IntArray, counted: BoolArray) -> FloatArray:
        """The largest product of each witness over the ``counted`` columns but one."""
        value = self._of_others(leave_out, counted)
        if not sp.issparse(self.products):
            return np.asarray(value.max(axis=1))
        starts = self.products.indptr
        highest, filled = np.full(len(leave_out), -np.inf), np.flatnonzero(np.diff(starts))
        if len(filled):
            # what is no number stays so
            highest[filled] = np.maximum.reduceat(value, starts[filled])
        return highest

    def where_largest(self, a: int, leave_out: IntArray, counted: BoolArray) -> int:
        """The column of the largest product of witness ``a``."""
        value = self._of_others(leave_out, counted)
        if not sp.issparse(self.products):
            return int(np.argmax(value[a]))
        row = slice(*self.products.indptr[a : a + 2])
        return int(self.products.indices[row][np.argmax(value[row])])

    def _of_others(self, leave_out: IntArray, counted: BoolArray) -> FloatArray:
        """The products, with minus infinity where they do not count."""
        if sp.issparse(self.products):
            value = self.products.data.copy()
            value[self._entries(leave_out)] = -np.inf
            if not counted.all():
                value[~counted[self.products.indices]] = -np.inf
            return np.asarray(value)
        products, rows = self.products, self._with(leave_out)
        products[rows, leave_out[rows]] = -np.inf
        if not counted.all():
            products[:, ~counted] = -np.inf
        return np.asarray(products)

    def _with(self, columns: IntArray) -> IntArray:
        """The witnesses whose column is one of these."""
        return np.flatnonzero((columns >= 0) & (columns < self.products.shape[1]))

    def _entries(self, columns: IntArray) -> IntArray:
        """Where the sparse products have the entry of each witness in its column, in order, if
        there is one."""
        places = self.products.indices
        return np.flatnonzero(
            places == np.repeat(columns.astype(places.dtype), np.diff(self.products.indptr))
        )


class _Explicit:
    """Witnesses that are computed as vectors, a block of them at a time."""

    of: IntArray

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:
        raise NotImplementedError

    def values(self, U: Points, rays: IntArray, columns: IntArray) -> Iterator[Values]:
        """Products with the unit points ``U[columns]``; the witnesses are about the points
        ``rays``."""
        V, everyone = take(U, columns), np.arange(len(self.of))
        for which in (
            dense_pieces(everyone, V) if sp.issparse(V) else pieces(everyone, len(columns))
        ):
            G = unit_peak(self.vectors(U, rays, which))
            lengths = row_lengths(G)
            products = np.asarray((V @ G.T).T if sp.issparse(V) else G @ V.T)
            # a sum of n terms errs by about n roundoffs; |u| = 1
            yield Values(which, products, lengths, (U.shape[1] + 2) * EPS * lengths)


@dataclass(frozen=True)
class Vectors(_Explicit):
    """Each witness as it is."""

    kind: ClassVar[str] = "vectors"
    of: IntArray
    G: FloatArray  # (k, dim); float32 or float64, and every product is in float64

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:  # noqa: ARG002
        return self.G[which].astype(np.float64)

    def take(self, which: IntArray) -> Vectors:
        return Vectors(self.of[which], self.G[which])

    @classmethod
    def plain(cls, given: Any, n_rays: int, n_points: int, dim: int) -> Vectors:  # noqa: ARG003
        of = form.indices("of", given.of, None, 0, n_rays)
        return cls(of, form.floats("G", given.G, (len(of), dim), single=True))


@dataclass(frozen=True)
class SparseVectors(_Explicit):
    """Each witness as a sparse vector less an offset in every coordinate."""

    kind: ClassVar[str] = "sparse vectors"
    of: IntArray
    G: Sparse  # (k, dim)
    offset: FloatArray  # (k,)

    def values(self, U: Points, rays: IntArray, columns: IntArray) -> Iterator[Values]:
        """Products with the unit points ``U[columns]``, or only those that may be positive: the
        others are at most 0, without rounding."""
        if (self.offset < 0).any() or (not sp.issparse(U) and self.offset.all()):
            yield from super().values(U, rays, columns)
            return
        peak = _peaks(self.G, self.offset)
        F, offset = _divided(self.G, peak), self.offset / peak
        F.data -= np.repeat(offset, np.diff(F.indptr))
        yield from _met(
            sp.csr_array(take(U, columns)),
            Lifted(F, offset, F, np.arange(len(self.of)), np.full(len(self.of), -1)),
        )

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:  # noqa: ARG002
        return np.asarray(self.G[which].toarray() - self.offset[which, None])

    def take(self, which: IntArray) -> SparseVectors:
        return SparseVectors(self.of[which], sp.csr_array(self.G[which]), self.offset[which])

    @classmethod
    def plain(cls, given: Any, n_rays: int, n_points: int, dim: int) -> SparseVectors:  # noqa: ARG003
        of = form.indices("of", given.of, None, 0, n_rays)
        return cls(
            of,
            form.sparse("G", given.G, (len(of), dim), single=True),
            form.floats("offset", given.offset, (len(of),)),
        )


@dataclass(frozen=True)
class Metric(_Explicit):
    """Each ray's own direction in a metric that all share, less an offset."""

    kind: ClassVar[str] = "metric"
    of: IntArray
    T: FloatArray  # (dim, d)
    centre: FloatArray  # (dim,)
    offset: FloatArray  # (k,)

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:
        Q = U[rays[which]]
        Q = Q.toarray() if sp.issparse(Q) else Q
        Q = Q / Q.sum(axis=1, keepdims=True) - self.centre
        T = self.T.astype(np.float64, copy=False)
        return np.asarray((Q @ T) @ T.T - self.offset[which, None])

    def take(self, which: IntArray) -> Metric:
        return Metric(self.of[which], self.T, self.centre, self.offset[which])

    @classmethod
    def plain(cls, given: Any, n_rays: int, n_points: int, dim: int) -> Metric:  # noqa: ARG003
        of = form.indices("of", given.of, None, 0, n_rays)
        T, centre = (
            form.floats("T", given.T, (dim, None), single=True),
            form.floats("centre", given.centre, (dim,)),
        )
        return cls(of, T, centre, form.floats("offset", given.offset, (len(of),)))


@dataclass(frozen=True)
class Combination(_Explicit):
    """Each witness as weights of the points."""

    kind: ClassVar[str] = "combination"
    of: IntArray
    W: FloatArray  # (k, n_points)

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:  # noqa: ARG002
        return np.asarray((U.T @ unit_peak(self.W[which]).T).T)

    def take(self, which: IntArray) -> Combination:
        return Combination(self.of[which], self.W[which])

    @classmethod
    def plain(cls, given: Any, n_rays: int, n_points: int, dim: int) -> Combination:  # noqa: ARG003
        of = form.indices("of", given.of, None, 0, n_rays)
        return cls(of, form.floats("W", given.W, (len(of), n_points)))


@dataclass(frozen=True)
class Support:
    r"""Values f on the support of each ray and ``-lift`` off it.

    So :math:`g \cdot u_j = f \cdot u_j - lift \cdot (\text{mass of } u_j \text{ off the support})`,
    which is at most 0, without computing it, where f and :math:`u_j` have no coordinate in common.
    """

    kind: ClassVar[str] = "support"
    of: IntArray
    F: Sparse  # (k, dim)
    lift: FloatArray  # (k,), >= 0

    def values(self, U: Sparse, rays: IntArray, columns: IntArray) -> Iterator[Values]:
        """Products with those of the unit points ``U[columns]`` that may be positive, or bounds
        below zero."""
        peak = _peaks(self.F, self.lift)
        witnesses = Lifted(
            _divided(self.F, peak), self.lift / peak, U, rays, np.searchsorted(columns, rays)
        )
        yield from _met(take(U, columns), witnesses)

    def stray(self, U: Sparse, rays: IntArray) -> IntArray:
        """Witnesses with values off the support of their ray: these are not of this form."""
        sizes, stray = np.diff(self.F.indptr), np.zeros(len(self.of), bool)
        for some in pieces_of(sizes, pairs_at_once(U)):
            of = np.repeat(some, sizes[some])
            wanted = self.F.indices[self.F.indptr[some[0]] : self.F.indptr[some[-1] + 1]]
            low, end = U.indptr[rays[of]], U.indptr[rays[of] + 1]
            high = end
            while (low < high).any():  # bisection, for all entries at once
                middle = low + (high - low) // 2
                is_below = (low < high) & (U.indices[np.minimum(middle, U.nnz - 1)] < wanted)
                low, high = np.where(is_below, middle + 1, low), np.where(is_below, high, middle)
            stray[of[(low == end) | (U.indices[np.minimum(low, U.nnz - 1)] != wanted)]] = True
        return np.flatnonzero(stray)

    def take(self, which: IntArray) -> Support:
        return Support(self.of[which], sp.csr_array(self.F[which]), self.lift[which])

    @classmethod
    def plain(cls, given: Any, n_rays: int, n_points: int, dim: int) -> Support:  # noqa: ARG003
        of = form.indices("of", given.of, None, 0, n_rays)
        lift = form.floats("lift", given.lift, (len(of),))
        for at in np.flatnonzero(lift < 0)[:1]:
            form.refuse("lift", f"entry {at} is negative ({lift[at]:.3g})")
        return cls(of, form.sparse("F", given.F, (len(of), dim), single=True), lift)


Witnesses = Vectors | SparseVectors | Metric | Support | Combination
KINDS: tuple[type[Witnesses], ...] = (Vectors, SparseVectors, Metric, Support, Combination)


def row_lengths(R: Points) -> FloatArray:
    """Length of each row, dense or CSR."""
    if sp.issparse(R):
        return np.sqrt(
            np.asarray(
                sp.csr_array((R.data * R.data, R.indices, R.indptr), shape=R.shape).sum(axis=1)
            ).ravel()
        )
    return np.sqrt(np.einsum("ij,ij->i", R, R))


def _peaks(F: Sparse, other: FloatArray) -> FloatArray:
    """The largest size of an entry of each row and of the ``other`` number that goes with it, or 1
    where all are 0: in units of it, no square is lost."""
    peak, filled = other.copy(), np.flatnonzero(np.diff(F.indptr))
    if len(filled):
        peak[filled] = np.maximum(
            peak[filled], np.maximum.reduceat(np.abs(F.data), F.indptr[filled])
        )
    return np.asarray(np.where(peak > 0, peak, 1.0))


def _divided(F: Sparse, divisors: FloatArray) -> Sparse:
    """Each row divided by a number, in float64."""
    values = np.repeat(divisors, np.diff(F.indptr))
    np.divide(F.data, values, out=values)
    return sp.csr_array((values, F.indices, F.indptr), shape=F.shape)


def _met(V: Sparse, witnesses: Lifted) -> Iterator[Values]:
    """Products of the points ``V`` with the witnesses that they meet, for some of the points at a
    time."""
    give_back(V.nnz)
    lengths_F = row_lengths(witnesses.F)
    off_pattern = V.shape[1] - witnesses.pattern_sizes
    lengths = np.sqrt(lengths_F**2 + witnesses.lift**2 * off_pattern)
    for some in pieces_of(np.diff(V.indptr), postings_at_once(V)):
        points, start = Postings.of(rows_between(V, some[0], some[-1] + 1)), int(some[0])
        error = (
            (np.diff(points.V.indptr).max(initial=0) + 2)
            * EPS
            * (lengths_F + witnesses.lift * points.mass.max(initial=0.0))
        )
        for which, found in products(points, replace(witnesses, own=witnesses.own - start), error):
            yield Values(which, found, lengths[which], error[which], start)
            del found  # before the next ones are made
        del points


def unit_peak(G: AnyArray) -> FloatArray:
    """Rows divided by their largest entry, so that no square is lost."""
    peak = np.abs(G).max(axis=1, initial=0.0)
    return np.asarray(G / np.where(peak > 0, peak, 1.0)[:, None])


def take(U: Points, rows: IntArray) -> Points:
    """``U[rows]``, without a copy when that is all of them in order."""
    return U if len(rows) == U.shape[0] else U[rows]
