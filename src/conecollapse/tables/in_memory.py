"""Tables whose entries are at hand: what dense and sparse ones share, and the dense one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import dense_product, ratio, row_lengths
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.tables.divergence import Effort, improve, improve_dense_rows
from conecollapse.tables.protocol import Quotients, Table

BLOCK = 2**22  # entries treated at once
# up to so many BLAS sums on one thread anyway; with more it would sum in another order for each
# number of threads
FEW = 2**13
WHOLE = 2.0**24  # up to here float32 holds every whole number


class InMemoryTable(Table):
    """A table with an `array`."""

    in_memory = True

    def __init__(self, array: Points) -> None:
        self._array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = array.dtype

    @property
    def array(self) -> Points:
        return self._array

    @property
    def entries(self) -> AnyArray:
        """The entries that are stored, in one dimension."""
        raise NotImplementedError

    def in_parts(self) -> Iterator[Table]:
        yield self

    def rows(self, indices: IntArray) -> Table:
        return type(self)(self.array[indices])

    @cached_property
    def row_lengths(self) -> FloatArray:
        return row_lengths(self.array)

    @cached_property
    def column_lengths(self) -> FloatArray:
        return row_lengths(self.points())

    @cached_property
    def squared_norm(self) -> float:
        """Refused where the type of X cannot hold it: nothing that the methods compute is larger,
        so all their numbers are finite."""
        flat = self.entries
        with (
            np.errstate(over="ignore", under="ignore"),
            serial_blas() if flat.size > FEW else nullcontext(),
        ):
            norm2 = float(sum(_squares(flat[a : a + BLOCK]) for a in range(0, flat.size, BLOCK)))
        limits = np.finfo(self.dtype)
        if not float(limits.tiny) <= norm2 <= float(limits.max) and flat.any():
            raise InvalidInputError(
                f"the squares of X, whose largest entry is {self.peak:.3g}, leave the range of"
                f" {self.dtype}; divide X by that entry first."
            )
        return norm2

    @cached_property
    def mean_entry(self) -> float:
        return float(self.entries.sum(dtype=np.float64)) / (self.shape[0] * self.shape[1])

    @cached_property
    def n_entries(self) -> int:
        return int(np.count_nonzero(self.entries))

    @cached_property
    def peak(self) -> float:
        return float(self.entries.max(initial=0.0))

    @property
    def is_rounded(self) -> bool:
        """Entries of float32 that are not all whole numbers."""
        data = self.entries
        return bool(self.dtype == np.float32) and not (
            self.peak <= WHOLE and bool((np.rint(data) == data).all())
        )


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


def _squares(part: AnyArray) -> float:
    """The sum of the squares, in float64."""
    return float(
        part @ part if part.dtype == np.float64 else np.sum(np.square(part, dtype=np.float64))
    )


def hashed(row: bytes) -> bytes:
    """16 bytes in place of all of a row."""
    return hashlib.blake2b(row, digest_size=16).digest()


def scaled_entries(data: AnyArray, unit: float) -> Any:
    """``data / unit`` for a power of two, exactly: to divide by the smallest ones, SciPy and old
    versions of NumPy form their inverses."""
    return data if unit == 1 else np.ldexp(data, 1 - int(np.frexp(unit)[1]))
