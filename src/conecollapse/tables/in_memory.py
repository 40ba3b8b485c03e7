"""Tables whose entries are at hand, dense or compressed by rows: what the two have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.tables.protocol import Table

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

    def _like(self, array: Points) -> InMemoryTable:
        return type(self)(array)

    def rows(self, indices: IntArray) -> Table:
        return self._like(self.array[indices])

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


def _squares(part: AnyArray) -> float:
    """The sum of the squares, in float64."""
    return float(
        part @ part if part.dtype == np.float64 else np.sum(np.square(part, dtype=np.float64))
    )


def hashed(row: bytes) -> bytes:
    """16 bytes in place of all of a row."""
    return hashlib.blake2b(row, digest_size=16).digest()


def exponent_of(unit: float) -> int:
    """The exponent of a power of two: to divide by the smallest ones, SciPy and old versions of
    NumPy form their inverses."""
    return int(np.frexp(unit)[1]) - 1


def scaled_entries(data: AnyArray, unit: float) -> Any:
    """``data / unit``, exactly."""
    return data if unit == 1 else np.ldexp(data, -exponent_of(unit))
