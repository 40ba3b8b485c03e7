"""A sparse array, compressed by rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._linalg import ratio
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Sparse
from conecollapse.tables.in_memory import InMemoryTable, hashed, scaled_entries
from conecollapse.tables.protocol import Quotients


class CsrTable(InMemoryTable):
    """A table that is a canonical CSR array of SciPy's: no stored zeros, no duplicates."""

    kind = "a sparse array"
    is_sparse = True

    @property
    def entries(self) -> AnyArray:
        return self.array.data

    def times(self, B: AnyArray) -> AnyArray:
        return np.asarray(self.array @ B)

    def transposed_times(self, C: Any) -> AnyArray:
        return np.asarray((C.T @ self.array).toarray().T if sp.issparse(C) else self.array.T @ C)

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> CsrTable:
        picked = self.array[:, indices]
        return CsrTable(sp.csr_array(picked if scale is None else (picked @ sp.diags_array(scale)).astype(self.dtype)))

    def points(self) -> Sparse:
        return self._points

    @cached_property
    def _points(self) -> Sparse:
        return sp.csr_array(self.array.T)

    def gram(self, *, cheaply: bool = True) -> AnyArray:  # noqa: ARG002
        Y = self.array if self.shape[0] <= self.shape[1] else self.array.T
        return np.asarray((Y @ Y.T).toarray())

    def divided(self, unit: float) -> CsrTable:
        table = self.array.astype(np.float64, copy=False)
        if unit == 1:
            return CsrTable(table)
        return CsrTable(sp.csr_array((scaled_entries(table.data, unit), table.indices, table.indptr), shape=table.shape))

    def quotients(self) -> Quotients:
        return SparseQuotients(self.array)

    @property
    def filled(self) -> BoolArray:
        held = self.array.data != 0
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.array.indptr))[held]
        return np.asarray(np.bincount(rows, minlength=self.shape[0]) > 0)

    @property
    def filled_columns(self) -> BoolArray:
        return np.asarray(np.bincount(self.array.indices[self.array.data != 0], minlength=self.shape[1]) > 0)

    def transposed(self) -> CsrTable:
        return CsrTable(self.points())

    def row_keys(self) -> list[bytes]:
        X, columns = self.array, self.array.indices.astype(np.int64)
        return [hashed(columns[a:b].tobytes() + X.data[a:b].tobytes()) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]

    def shuffled(self, rng: np.random.Generator) -> CsrTable:
        X = sp.csc_array(self.array)
        rows = [rng.choice(X.shape[0], size=count, replace=False) for count in np.diff(X.indptr)]
        dealt = sp.csc_array((X.data, np.concatenate(rows) if rows else np.zeros(0, np.int64), X.indptr), shape=X.shape)
        return CsrTable(sp.csr_array(dealt))


class SparseQuotients(Quotients):
    """Formed only at the stored entries."""

    def __init__(self, X: Sparse) -> None:
        self.X = X
        self.total = float(X.data.sum(dtype=np.float64))

    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        Q = self._quotients(W, H)
        logs = float((self.X.data * np.log(Q.data)).sum(dtype=np.float64))
        return Q @ H.T, logs

    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        return np.asarray((self._quotients(W, H).T @ W).T)

    def _quotients(self, W: AnyArray, H: AnyArray) -> Sparse:
        X, model = self.X, np.empty_like(self.X.data)
        Ht = np.ascontiguousarray(H.T)

        def work(start: int, stop: int) -> None:
            _sampled_product(W, Ht, X.indptr, X.indices, start, stop, model)

        for_ranges(work, X.shape[0], smallest=256)
        return sp.csr_array((ratio(X.data, model), X.indices, X.indptr), shape=X.shape)


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
