"""A dense array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import dense_product, ratio
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.tables.divergence import Effort, improve, improve_dense_rows
from conecollapse.tables.in_memory import BLOCK, InMemoryTable, hashed, scaled_entries
from conecollapse.tables.protocol import Quotients


class DenseTable(InMemoryTable):
    """A table that is a NumPy array."""

    kind = "a dense array"

    @property
    def entries(self) -> AnyArray:
        return self.array.reshape(-1)

    def times(self, B: AnyArray) -> AnyArray:
        return dense_product(self.array, B)

    def transposed_times(self, C: Any) -> AnyArray:
        return (
            np.asarray((C.T @ self.array).T) if sp.issparse(C) else dense_product(self.array.T, C)
        )

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> DenseTable:
        # in the order of rows, unlike array[:, indices]: later products need no copy
        picked = np.take(self.array, indices, axis=1)
        return DenseTable(
            picked if scale is None else np.multiply(picked, scale, out=picked, casting="same_kind")
        )

    def points(self) -> AnyArray:
        return self.array.T

    def gram(self, *, cheaply: bool = True) -> AnyArray:  # noqa: ARG002
        return self._gram

    @cached_property
    def _gram(self) -> AnyArray:
        Y = self.array if self.shape[0] <= self.shape[1] else self.array.T
        return np.asarray(Y @ Y.T)

    def divided(self, unit: float) -> DenseTable:
        return DenseTable(scaled_entries(np.ascontiguousarray(self.array, np.float64), unit))

    def row_scaled(self, scale: FloatArray) -> DenseTable:
        return DenseTable((self.array * scale[:, None]).astype(self.dtype, copy=False))

    def excess(self, W: AnyArray, H: AnyArray) -> DenseTable:
        return DenseTable(np.maximum(self.array - W @ H, 0).astype(self.dtype, copy=False))

    def quotients(self) -> Quotients:
        return DenseQuotients(self.array)

    @property
    def filled(self) -> BoolArray:
        return np.asarray(self.array.any(axis=1))

    @property
    def filled_columns(self) -> BoolArray:
        return np.asarray(self.array.any(axis=0))

    def transposed(self) -> DenseTable:
        return DenseTable(self.array.T)

    def row_keys(self) -> list[bytes]:
        return [
            hashed(places.tobytes() + row[places].tobytes())
            for row in np.ascontiguousarray(self.array)
            for places in [np.flatnonzero(row)]
        ]

    def shuffled(self, rng: np.random.Generator) -> DenseTable:
        return DenseTable(rng.permuted(self.array, axis=0))


class DenseQuotients(Quotients):
    """A block of rows at a time."""

    def __init__(self, X: AnyArray) -> None:
        self.X = X
        self.total = float(X.sum(dtype=np.float64))
        self.step = max(1, BLOCK // X.shape[1])

    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        out, logs = np.empty_like(W), 0.0
        for rows, Q in self._blocks(W, H):
            out[rows] = Q @ H.T
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = self.X[rows] * np.log(Q)
            logs += float(terms.sum(dtype=np.float64, where=self.X[rows] > 0))
        return out, logs

    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        out = np.zeros_like(H)
        for rows, Q in self._blocks(W, H):
            out += W[rows].T @ Q
        return out

    def improved(
        self, W: AnyArray, H: AnyArray, effort: Effort, totals: AnyArray | None = None
    ) -> tuple[AnyArray, float]:
        of_rows = partial(improve_dense_rows, self.X, np.ascontiguousarray(H, np.float64))
        return improve(of_rows, W, self.totals(H) if totals is None else totals, effort)

    def transposed(self) -> DenseQuotients:
        return DenseQuotients(np.ascontiguousarray(self.X.T))

    def _blocks(self, W: AnyArray, H: AnyArray) -> Iterator[tuple[slice, AnyArray]]:
        for a in range(0, len(self.X), self.step):
            rows = slice(a, a + self.step)
            yield rows, ratio(self.X[rows], W[rows] @ H)
