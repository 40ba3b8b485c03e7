"""The product of a sparse matrix and a table: rows that are combinations of a table's rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from conecollapse._linalg import as_dense, row_lengths
from conecollapse._types import AnyArray, FloatArray, Sparse
from conecollapse.tables.dense import DenseQuotients
from conecollapse.tables.protocol import Quotients, Table

BLOCK = 1024  # rows that are formed at a time


class ProductTable(Table):
    """``E X`` for a CSR array E (rows, n_samples) and a table X; it is not formed, but for a loss
    that needs its entries."""

    kind = "a product, which is applied and not formed"

    def __init__(self, E: Sparse, table: Table) -> None:
        self.E = E
        self.table = table
        self.shape = (E.shape[0], table.shape[1])
        self.dtype = table.dtype

    def times(self, B: AnyArray) -> AnyArray:
        return np.asarray(self.E @ self.table.times(B))

    def transposed_times(self, C: Any) -> AnyArray:
        return self.table.transposed_times(self.E.T @ as_dense(C))

    @cached_property
    def row_lengths(self) -> FloatArray:
        return np.concatenate([row_lengths(rows) for rows in self._blocks()])

    @cached_property
    def column_lengths(self) -> FloatArray:
        return np.sqrt(
            sum(np.einsum("ij,ij->j", rows, rows, dtype=np.float64) for rows in self._blocks())
        )

    def quotients(self) -> Quotients:
        return DenseQuotients(np.concatenate(list(self._blocks())))

    def _blocks(self) -> Any:
        for a in range(0, self.shape[0], BLOCK):
            yield np.ascontiguousarray(
                self.table.transposed_times(self.E[a : a + BLOCK].toarray().T).T
            )
