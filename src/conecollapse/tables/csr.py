"""A sparse array, compressed by rows."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._linalg import narrow, ratio
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.tables.divergence import Effort, Entries, improve, improve_sparse_rows
from conecollapse.tables.in_memory import DenseTable, InMemoryTable, hashed, scaled_entries
from conecollapse.tables.protocol import Quotients

# multiplications from which on a product of a sparse array runs on our threads: some milliseconds
LARGE_PRODUCT = 2**21
MANY_COLUMNS = 16
# entries from which on ``X' C`` has a kernel, which is 3 to 7 times as fast as SciPy (400,000
# entries, 65 columns: 2 ms); a smaller product is not worth compiling it
MANY_PLACES = 2**15
# share of the entries from which on a Gram matrix is made of dense blocks, about where both ways
# take as long
MANY_ENTRIES = 0.08
BLOCK_ENTRIES = 2**22  # of a dense block


class CsrTable(InMemoryTable):
    """A table that is a canonical CSR array of SciPy's: no stored zeros, no duplicates."""

    kind = "a sparse array"
    is_sparse = True

    @property
    def entries(self) -> AnyArray:
        return self.array.data

    def times(self, B: AnyArray) -> AnyArray:
        return _product(self.array, B)

    def transposed_times(self, C: Any) -> AnyArray:
        if sp.issparse(C):
            return _sparse_product(self.array, sp.csr_array(C))
        if _is_large(self.array, C):
            return _product(self.points(), C)
        return np.asarray(self.array.T @ C)

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> CsrTable:
        picked = self.array[:, indices]
        if scale is not None:
            picked.data = (picked.data * scale[picked.indices]).astype(self.dtype)
        return CsrTable(sp.csr_array(picked))

    def points(self) -> Sparse:
        return self._points

    @cached_property
    def _points(self) -> Sparse:
        return sp.csr_array(self.array.T)

    def gram(self, *, cheaply: bool = True) -> AnyArray:  # noqa: ARG002
        n, m = self.shape
        if self.array.nnz <= MANY_ENTRIES * n * m:
            Y = self.array if n <= m else self.array.T
            return np.asarray((Y @ Y.T).toarray())
        long = self.points() if n <= m else self.array
        K = np.zeros((min(n, m), min(n, m)), self.dtype)
        step = max(1, BLOCK_ENTRIES // len(K))
        for a in range(0, long.shape[0], step):
            block = long[a : a + step].toarray()
            K += block.T @ block
        return K

    def divided(self, unit: float) -> CsrTable:
        return self._at_places(scaled_entries(self.array.data.astype(np.float64, copy=False), unit))

    def row_scaled(self, scale: FloatArray) -> CsrTable:
        return self._at_places(
            self.array.data * np.repeat(scale, np.diff(self.array.indptr)).astype(self.dtype)
        )

    def excess(self, W: AnyArray, H: AnyArray) -> CsrTable:
        return self._at_places(np.maximum(self.array.data - sampled_product(self.array, W, H), 0))

    def _at_places(self, data: AnyArray) -> CsrTable:
        return CsrTable(
            sp.csr_array((data, self.array.indices, self.array.indptr), shape=self.shape)
        )

    def quotients(self) -> Quotients:
        return SparseQuotients(self.array)

    @property
    def filled(self) -> BoolArray:
        held = self.array.data != 0
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.array.indptr))[held]
        return np.asarray(np.bincount(rows, minlength=self.shape[0]) > 0)

    @property
    def filled_columns(self) -> BoolArray:
        return np.asarray(
            np.bincount(self.array.indices[self.array.data != 0], minlength=self.shape[1]) > 0
        )

    def transposed(self) -> CsrTable:
        return CsrTable(self.points())

    def row_keys(self) -> list[bytes]:
        X, columns = self.array, self.array.indices.astype(np.int64)
        return [
            hashed(columns[a:b].tobytes() + X.data[a:b].tobytes())
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        ]

    def shuffled(self, rng: np.random.Generator) -> CsrTable:
        X = sp.csc_array(self.array)
        rows = [rng.choice(X.shape[0], size=count, replace=False) for count in np.diff(X.indptr)]
        dealt = sp.csc_array(
            (X.data, np.concatenate(rows) if rows else np.zeros(0, np.int64), X.indptr),
            shape=X.shape,
        )
        return CsrTable(sp.csr_array(dealt))


def held(array: Points) -> InMemoryTable:
    """The table of an array at hand; its entries are not checked."""
    return CsrTable(sp.csr_array(array)) if sp.issparse(array) else DenseTable(np.asarray(array))


def _product(X: Sparse, B: AnyArray) -> AnyArray:
    """``X B`` on the threads in force; SciPy uses one. The sums are the same to the last bit."""
    if not _is_large(X, B):
        return np.asarray(X @ B)
    out = np.zeros((X.shape[0], B.shape[1]), np.result_type(X.dtype, B.dtype))
    B = np.ascontiguousarray(B)

    def work(start: int, stop: int) -> None:
        _add_products(X.indptr, X.indices, X.data, B, out, start, stop)

    for_ranges(work, X.shape[0], smallest=256)
    return out


def _is_large(X: Sparse, B: AnyArray) -> bool:
    """Whether our threads are faster: for few columns SciPy is as fast, and a small product is not
    worth compiling a kernel."""
    return (
        B.ndim == 2
        and B.shape[1] >= MANY_COLUMNS
        and X.nnz * B.shape[1] > LARGE_PRODUCT
        and B.dtype == X.dtype
    )


def _sparse_product(X: Sparse, C: Sparse) -> AnyArray:
    """``X' C`` for C with few entries in each row, as a dense array."""
    if X.nnz < MANY_PLACES or C.dtype != X.dtype:
        return np.asarray(X.T @ C.toarray())
    out = np.zeros((X.shape[1], C.shape[1]), X.dtype)
    _add_entries(Entries(X.indptr, X.indices, X.data), Entries(C.indptr, C.indices, C.data), out)
    return out


class SparseQuotients(Quotients):
    """Formed only at the stored entries."""

    def __init__(self, X: Sparse) -> None:
        # older versions of numba take tuples of arrays of other types for those that they have
        # compiled for
        self.X = narrow(X)
        self.total = float(X.data.sum(dtype=np.float64))

    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        Q = self._quotients(W, H)
        logs = float((self.X.data * np.log(Q.data)).sum(dtype=np.float64))
        return Q @ H.T, logs

    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        return np.asarray((self._quotients(W, H).T @ W).T)

    def improved(
        self, W: AnyArray, H: AnyArray, effort: Effort, totals: AnyArray | None = None
    ) -> tuple[AnyArray, float]:
        entries = Entries(self.X.indptr, self.X.indices, self.X.data)
        Ht = np.ascontiguousarray(H.T)
        return improve(
            partial(improve_sparse_rows, entries, Ht),
            W,
            self.totals(H) if totals is None else totals,
            effort,
        )

    def transposed(self) -> SparseQuotients:
        return SparseQuotients(sp.csr_array(self.X.T))

    def _quotients(self, W: AnyArray, H: AnyArray) -> Sparse:
        X = self.X
        return sp.csr_array(
            (ratio(X.data, sampled_product(X, W, H)), X.indices, X.indptr), shape=X.shape
        )


def sampled_product(X: Sparse, W: AnyArray, H: AnyArray) -> AnyArray:
    """Entries of ``W H`` at the stored places of X."""
    out, Ht = np.empty_like(X.data), np.ascontiguousarray(H.T)
    W = np.ascontiguousarray(W)

    def work(start: int, stop: int) -> None:
        _sampled_product(W, Ht, X.indptr, X.indices, start, stop, out)

    for_ranges(work, X.shape[0], smallest=256)
    return out


@kernel
def _add_products(indptr, indices, data, B, out, start, stop):  # type: ignore[no-untyped-def]
    """Add ``X B`` to ``out`` in the rows start to stop, entry by entry."""
    for i in range(start, stop):
        row = out[i]
        for q in range(indptr[i], indptr[i + 1]):
            x, b = data[q], B[indices[q]]
            for k in range(row.shape[0]):
                row[k] += x * b[k]


@kernel
def _add_entries(X, C, out):  # type: ignore[no-untyped-def]
    """Add ``X' C`` to ``out``."""
    for i in range(X.indptr.shape[0] - 1):
        for t in range(C.indptr[i], C.indptr[i + 1]):
            k, c = C.indices[t], C.data[t]
            for q in range(X.indptr[i], X.indptr[i + 1]):
                out[X.indices[q], k] += c * X.data[q]


@kernel(fastmath=True)
def _sampled_product(W, Ht, indptr, indices, start, stop, out):  # type: ignore[no-untyped-def]
    """Entries of ``W H`` at the stored places of rows start to stop."""
    r = W.shape[1]
    for i in range(start, stop):
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            s = W[i, 0] * Ht[j, 0]
            for k in range(1, r):
                s += W[i, k] * Ht[j, k]
            out[q] = s
