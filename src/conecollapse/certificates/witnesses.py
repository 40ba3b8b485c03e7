r"""Witnesses: vectors that prove rays. One class for each way to write many of them down.

A witness of the ray :math:`u_i` is a vector g with :math:`g \cdot u_i > 0 \ge g \cdot u_j` for every other point j. For any y in the cone
of the others :math:`\|g\| \|u_i - y\| \ge g \cdot (u_i - y) \ge g \cdot u_i`, so the ray is at least :math:`g \cdot u_i / \|g\|` away
from that cone. A dense vector for each ray is often wasteful, so there are five forms:

- `Vectors`: the vectors themselves;
- `SparseVectors`: sparse vectors, each less one number in every coordinate;
- `Metric`: one matrix T and one centre for all, :math:`g_i = T T' (q_i - centre) - offset_i` with :math:`q_i = u_i / \sum u_i`;
- `Support`: a few values on the support of :math:`u_i` and one value ``-lift`` everywhere off it, for sparse points;
- `Combination`: weights of the points, :math:`g_i = \sum_j W_{ij} u_j`, whose size does not depend on the dimension. For points in very
  many dimensions, which are seen a block of coordinates at a time.

Each holds ``of``, the rays that its witnesses are about (places in the certificate's list of rays), and has `values`: the products of
its witnesses with points, their lengths, and a bound on the rounding in a product. Whatever rounding does while a vector is computed,
the vector that comes out is the witness; only its products with the points need a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import form

BLOCK_ENTRIES = 2**24  # entries of a block of products: 128 MiB in float64; BLAS is fastest on tall blocks
FEW_ENTRIES = 2**18  # no block need be smaller
SPARSE_COST = 2  # a product of two sparse matrices takes this many times as long as one with a dense matrix, entry for entry
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Values:
    """Products of some witnesses (rows) with some points (columns)."""

    which: IntArray  # the witnesses, as places in their family
    products: Any  # dense, or CSR with increasing columns whose missing entries are known to be at most 0
    lengths: FloatArray  # of the witnesses
    error: FloatArray  # that rounding may have put into a product, for each witness

    def at(self, columns: IntArray) -> FloatArray:
        """One product of each witness."""
        rows = np.arange(len(columns))
        return np.asarray(self.products[rows, columns]).ravel()

    def largest(self, leave_out: IntArray, counted: BoolArray) -> tuple[FloatArray, IntArray]:
        """The largest product of each witness over the ``counted`` columns but one, and its column."""
        if not sp.issparse(self.products):
            products = self.products
            products[np.arange(len(products)), leave_out] = -np.inf
            if not counted.all():
                products[:, ~counted] = -np.inf
            return products.max(axis=1), products.argmax(axis=1)
        columns, starts = self.products.indices, self.products.indptr
        row = np.repeat(np.arange(len(leave_out)), np.diff(starts))
        value = np.where(counted[columns] & (columns != leave_out[row]), self.products.data, -np.inf)
        highest, where = np.full(len(leave_out), -np.inf), np.zeros(len(leave_out), np.int64)
        filled = np.flatnonzero(np.diff(starts))
        if len(filled):
            highest[filled] = np.fmax.reduceat(np.where(np.isnan(value), np.inf, value), starts[filled])
        for i in np.flatnonzero(highest > -np.inf):
            where[i] = columns[starts[i] + int(np.argmax(value[starts[i] : starts[i + 1]]))]
        return highest, where


class _Explicit:
    """Witnesses that are computed as vectors, a block of them at a time."""

    of: IntArray

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:
        raise NotImplementedError

    def values(self, U: Points, rays: IntArray, columns: IntArray) -> Iterator[Values]:
        """Products with the unit points ``U[columns]``; the witnesses are about the points ``rays``."""
        V = take(U, columns)
        for which in pieces(np.arange(len(self.of)), len(columns)):
            G = unit_peak(self.vectors(U, rays, which))
            lengths = row_lengths(G)
            products = np.asarray((V @ G.T).T) if sp.issparse(V) else G @ V.T
            yield Values(which, products, lengths, (U.shape[1] + 2) * EPS * lengths)  # a sum of n terms errs by about n roundoffs; |u| = 1


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
        """Products with the unit points ``U[columns]``, or only those that may be positive: the others are at most 0, without rounding."""
        if (self.offset < 0).any() or (not sp.issparse(U) and self.offset.all()):
            yield from super().values(U, rays, columns)
            return
        V = sp.csr_array(take(U, columns))
        Vt, mass = V.T.tocsr(), np.asarray(V.sum(axis=1)).ravel()
        peak = np.maximum(abs(self.G).max(axis=1).toarray().ravel(), self.offset)
        peak = np.where(peak > 0, peak, 1.0)
        counts = np.diff(self.G.indptr)
        G = sp.csr_array((self.G.data / np.repeat(peak, counts), self.G.indices, self.G.indptr), shape=self.G.shape)
        offset = self.offset / peak
        shifted = sp.csr_array((G.data - np.repeat(offset, counts), G.indices, G.indptr), shape=G.shape)
        lengths = np.sqrt(row_lengths(shifted) ** 2 + offset**2 * (U.shape[1] - counts))
        error = (np.diff(V.indptr).max(initial=0) + 2) * EPS * (row_lengths(G) + offset * mass.max(initial=0.0))
        for which in by_work(G, Vt):
            row, meets, products = meeting_products(G[which], Vt)
            products -= offset[which[row]] * mass[meets.indices]
            yield Values(which, sp.csr_array((products, meets.indices, meets.indptr), shape=meets.shape), lengths[which], error[which])

    def vectors(self, U: Points, rays: IntArray, which: IntArray) -> FloatArray:  # noqa: ARG002
        return np.asarray(self.G[which].toarray() - self.offset[which, None])

    def take(self, which: IntArray) -> SparseVectors:
        return SparseVectors(self.of[which], sp.csr_array(self.G[which]), self.offset[which])

    @classmethod
    def plain(cls, given: Any, n_rays: int, n_points: int, dim: int) -> SparseVectors:  # noqa: ARG003
        of = form.indices("of", given.of, None, 0, n_rays)
        return cls(of, form.sparse("G", given.G, (len(of), dim), single=True), form.floats("offset", given.offset, (len(of),)))


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
        T, centre = form.floats("T", given.T, (dim, None), single=True), form.floats("centre", given.centre, (dim,))
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

    So :math:`g \cdot u_j = f \cdot u_j - lift \cdot (\text{mass of } u_j \text{ off the support})`, which is at most 0, without computing
    it, where f and :math:`u_j` have no coordinate in common.
    """

    kind: ClassVar[str] = "support"
    of: IntArray
    F: Sparse  # (k, dim)
    lift: FloatArray  # (k,), >= 0

    def values(self, U: Sparse, rays: IntArray, columns: IntArray) -> Iterator[Values]:
        """Products with those of the unit points ``U[columns]`` that have a coordinate of f."""
        V = take(U, columns)
        mass = np.asarray(V.sum(axis=1)).ravel()
        Vt = V.T.tocsr()
        F, lift, pattern = self._scaled(U[rays])
        f_lengths = row_lengths(F)
        lengths = np.sqrt(f_lengths**2 + lift**2 * (U.shape[1] - np.diff(pattern.indptr)))
        error = (np.diff(V.indptr).max(initial=0) + 2) * EPS * (f_lengths + lift * mass.max(initial=0.0))
        if SPARSE_COST * (pattern_of(pattern) @ np.diff(Vt.indptr)).sum() > V.nnz * len(self.of):  # the products are mostly filled
            for which in pieces(np.arange(len(self.of)), BLOCK_ENTRIES // _block_entries(V) * len(columns)):
                products = (V @ F[which].toarray().T - (mass[:, None] - V @ pattern[which].toarray().T) * lift[which]).T
                if (~(products <= -error[which, None])).sum() > len(which):  # more than the rays' own: some may be 0 and no more
                    meets = pattern_of(V) @ (F[which].toarray().T > 0).astype(np.float64) > 0
                    products = np.where(meets.T, products, -np.inf)
                yield Values(which, products, lengths[which], error[which])
            return
        for which in by_work(pattern, Vt):
            row, meets, products = meeting_products(F[which], Vt)
            inside = sorted_rows(pattern[which] @ Vt)  # the mass of each point on the support
            on_support = inside.data[np.searchsorted(_keys(inside)[0], _keys(meets)[0])]
            products -= lift[which[row]] * (mass[meets.indices] - on_support)
            table = sp.csr_array((products, meets.indices, meets.indptr), shape=meets.shape)
            yield Values(which, table, lengths[which], error[which])

    def _scaled(self, own: Sparse) -> tuple[Sparse, FloatArray, Sparse]:
        """F and lift in units of the larger of both, so that no square is lost, and the pattern of the rays."""
        peak = np.maximum(abs(self.F).max(axis=1).toarray().ravel(), self.lift)
        peak = np.where(peak > 0, peak, 1.0)
        F = sp.csr_array((self.F.data / np.repeat(peak, np.diff(self.F.indptr)), self.F.indices, self.F.indptr), shape=self.F.shape)
        return F, self.lift / peak, pattern_of(own)

    def stray(self, U: Sparse, rays: IntArray) -> IntArray:
        """Witnesses with values off the support of their ray: these are not of this form."""
        used = pattern_of(self.F)
        own = U[rays]
        shared = used.multiply(pattern_of(own))
        return np.flatnonzero(np.asarray(shared.sum(axis=1)).ravel() < np.diff(self.F.indptr))

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
    """Length of each row, dense or sparse."""
    if sp.issparse(R):
        return np.sqrt(np.asarray(R.multiply(R).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", R, R))


def sorted_rows(M: Sparse) -> Sparse:
    """A product as CSR with increasing columns."""
    M = M.tocsr()
    M.sort_indices()
    return M


def by_work(F: Sparse, Vt: Sparse) -> list[IntArray]:
    """The rows of ``F`` in pieces whose products with the columns of ``Vt`` have about as many entries as ``Vt``, or less."""
    work = np.cumsum(pattern_of(F) @ np.diff(Vt.indptr))
    return np.split(np.arange(F.shape[0]), np.flatnonzero(np.diff(work // _block_entries(Vt))) + 1)


def _block_entries(V: Sparse) -> int:
    """Entries of a block of products that takes about as much room as the sparse points ``V``."""
    return int(np.clip(V.nnz, FEW_ENTRIES, BLOCK_ENTRIES))


def pattern_of(F: Sparse) -> Sparse:
    """Ones where ``F`` has an entry."""
    return sp.csr_array((np.ones(F.nnz), F.indices, F.indptr), shape=F.shape)


def meeting_products(F: Sparse, Vt: Sparse) -> tuple[IntArray, Sparse, FloatArray]:
    """The products ``F Vt`` that may be positive, since a positive entry of F meets a coordinate of a point in the columns of ``Vt``.

    Rows, an array of that pattern, and the products. ``Vt`` has no negative entry.
    """
    positive = F.maximum(0.0)
    meets = sorted_rows(positive @ Vt)
    meets.data[:] = 1.0
    picked = sorted_rows((F @ Vt).multiply(meets))
    key, row = _keys(meets)
    products = np.zeros(len(key))
    products[np.searchsorted(key, _keys(picked)[0])] = picked.data  # SciPy leaves out sums that are exactly 0
    return row, meets, products


def _keys(M: Sparse) -> tuple[IntArray, IntArray]:
    """One increasing number for each entry of a CSR array with increasing columns, and its row."""
    row = np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))
    return row * M.shape[1] + M.indices, row


def unit_peak(G: AnyArray) -> FloatArray:
    """Rows divided by their largest entry, so that no square is lost."""
    peak = np.abs(G).max(axis=1, initial=0.0)
    return np.asarray(G / np.where(peak > 0, peak, 1.0)[:, None])


def take(U: Points, rows: IntArray) -> Points:
    """``U[rows]``, without a copy when that is all of them in order."""
    return U if len(rows) == U.shape[0] else U[rows]


def pieces(rows: IntArray, width: int) -> list[IntArray]:
    """``rows`` in pieces whose product with ``width`` columns stays near BLOCK_ENTRIES."""
    step = max(1, BLOCK_ENTRIES // max(width, 1))
    return [rows[a : a + step] for a in range(0, len(rows), step)]
