"""Some columns of a table that is not in memory, scaled; never formed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.tables.protocol import Table

if TYPE_CHECKING:
    from conecollapse.tables.blocks import BlockedTable


class Columns(Table):
    """``X[:, indices] diag(scale)`` of a table in blocks: the weighted rays of stage 2, never
    formed."""

    kind = "read in blocks"

    def __init__(self, table: BlockedTable, indices: IntArray, scale: FloatArray) -> None:
        self.table = table
        self.shape = (table.shape[0], len(indices))
        self.dtype = table.dtype
        self.is_sparse = table.is_sparse
        self.indices = indices
        self.scale = scale.astype(np.float64)

    @cached_property
    def row_lengths(self) -> FloatArray:
        weights = np.zeros(self.table.shape[1])
        weights[self.indices] = self.scale
        return np.sqrt(self.table.row_squares(weights))

    @property
    def column_lengths(self) -> FloatArray:
        return self.scale * self.table.column_lengths[self.indices]

    @property
    def peak(self) -> float:
        return float((self.scale * self.table.survey.peaks[self.indices]).max()) / self.table.unit

    def times(self, B: AnyArray) -> AnyArray:
        spread = np.zeros((self.table.shape[1], B.shape[1]), self.dtype)
        spread[self.indices] = self.scale[:, None] * B
        return self.table.times(spread)

    def transposed_times(self, C: Any) -> AnyArray:
        return (self.scale[:, None] * self.table.transposed_times(C)[self.indices]).astype(
            self.dtype
        )

    def gram(self, *, cheaply: bool = True) -> AnyArray | None:
        K = self.table.weighted_gram(self.indices, self.scale)
        return gram_by_products(self) if K is None and not cheaply else K

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> Table:
        return Columns(
            self.table,
            self.indices[indices],
            self.scale[indices] * (1.0 if scale is None else scale),
        )


def gram_by_products(X: Table) -> AnyArray:
    """``X X'`` or ``X' X`` where blocks lie along the shorter side: through the longer one."""
    n, m = X.shape
    eye = np.eye(min(n, m), dtype=X.dtype)
    return X.times(X.transposed_times(eye)) if n <= m else X.transposed_times(X.times(eye))
