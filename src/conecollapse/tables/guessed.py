r"""Guesses in place of missing entries, for the start of a factorization: a product of a number for
each row and one for each column.

With :math:`a_i b_j` at the missing entries a sparse table is :math:`a b^T` plus the differences
:math:`X - a b^T` at the known ones: a product of two vectors, which is never formed, and a sparse
array.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, FloatArray
from conecollapse.tables.csr import CsrTable, sampled_product
from conecollapse.tables.in_memory import InMemoryTable
from conecollapse.tables.protocol import Table

ROUNDS = 5  # of alternating least squares for one component: enough for a start


def rank_one_guess(
    values: InMemoryTable, known: InMemoryTable, start: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Numbers a for the rows and b for the columns whose products are near the known entries;
    ``values`` is zero elsewhere. ``start`` is the first guess of a; ones by default."""
    n, m = values.shape
    a, b = np.ones((n, 1)) if start is None else start[:, None], np.zeros((m, 1))
    for _ in range(ROUNDS):
        b = _quotient(
            values.transposed_times(a.astype(values.dtype)), known.transposed_times(np.square(a))
        )
        a = _quotient(values.times(b.astype(values.dtype)), known.times(np.square(b)))
    return a.ravel(), b.ravel()


def _quotient(numerator: AnyArray, denominator: AnyArray) -> FloatArray:
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0)


class GuessedTable(Table):
    """A sparse table of known entries with guesses ``a b'`` elsewhere."""

    kind = "a sparse table whose missing entries are guessed"

    def __init__(
        self, values: InMemoryTable, known: InMemoryTable, a: FloatArray, b: FloatArray
    ) -> None:
        self.values, self.known = values, known
        self.a, self.b = a[:, None].astype(values.dtype), b[:, None].astype(values.dtype)
        self.shape, self.dtype = values.shape, values.dtype
        array = values.array
        self._off = array.data - sampled_product(array, self.a, self.b.T)
        self._difference = CsrTable(
            sp.csr_array((self._off, array.indices, array.indptr), shape=self.shape)
        )

    def times(self, B: AnyArray) -> AnyArray:
        return self._difference.times(B) + self.a @ (self.b.T @ B)

    def transposed_times(self, C: Any) -> AnyArray:
        return self._difference.transposed_times(C) + self.b @ (self.a.T @ as_dense(C))

    @cached_property
    def row_lengths(self) -> FloatArray:
        guessed = np.square(self.a).ravel() * (
            np.square(self.b).sum() - self.known.times(np.square(self.b)).ravel()
        )
        return np.sqrt(np.square(self.values.row_lengths) + np.maximum(guessed, 0))

    @cached_property
    def column_lengths(self) -> FloatArray:
        guessed = np.square(self.b).ravel() * (
            np.square(self.a).sum() - self.known.transposed_times(np.square(self.a)).ravel()
        )
        return np.sqrt(np.square(self.values.column_lengths) + np.maximum(guessed, 0))

    @property
    def peak(self) -> float:
        return max(self.values.peak, float(self.a.max() * self.b.max()))

    def row_scaled(self, scale: FloatArray) -> GuessedTable:
        scaled = cast(InMemoryTable, self.values.row_scaled(scale))
        return GuessedTable(scaled, self.known, self.a.ravel() * scale, self.b.ravel())

    def excess(self, W: AnyArray, H: AnyArray) -> Table:
        return self.values.excess(W, H)
