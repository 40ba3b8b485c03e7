"""Where blocks come from: arrays at hand, ``.npy`` files, and files whose entries must be sorted
into blocks first.

A source reads any range of samples (``axis=0``) or of features (``axis=1``), as a dense array or a
CSR array in the orientation (n_samples, n_features). Files are read with ordinary reads rather than
through a mapping: a mapped file that shrinks kills the process, and mapped pages count as memory of
the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from conecollapse._arrays import check_promise, read_header
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, Points
from conecollapse.tables.sources.watch import WatchedFile

PIECE_BYTES = 2**24  # read at once where a block lies across the order of the file


class Source(Protocol):
    """A table on disk or at hand."""

    shape: tuple[int, int]
    dtype: Any
    is_sparse: bool
    entries: int  # stored ones

    def read(self, axis: int, start: int, stop: int) -> Points:
        """Samples or features from ``start`` to ``stop``."""


class ArraySource:
    """An array at hand: dense, a NumPy memory map, or sparse."""

    def __init__(self, X: Any) -> None:
        self.is_sparse = sp.issparse(X)
        if len(X.shape) != 2:
            raise InvalidInputError(
                f"X has shape {X.shape}; expected two dimensions, (n_samples, n_features)."
            )
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = X.dtype
        self.entries = X.nnz if self.is_sparse else X.size
        self.by_axis = {0: sp.csr_array(X), 1: sp.csc_array(X)} if self.is_sparse else {0: X, 1: X}

    def read(self, axis: int, start: int, stop: int) -> Points:
        X = self.by_axis[axis]
        block = X[start:stop] if axis == 0 else X[:, start:stop]
        return sp.csr_array(block) if self.is_sparse else np.asarray(block)


class NpySource:
    """A ``.npy`` file of numbers in two dimensions, in either order."""

    is_sparse = False

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = WatchedFile(path)
        with open(path, "rb") as stream:
            header = read_header(stream, self.file.path)
            self.offset = stream.tell()
        shape, self.by_columns, self.dtype = header
        if self.dtype.kind not in "fiub":
            raise InvalidInputError(f"{str(path)!r} holds {self.dtype} values, not real numbers.")
        if len(shape) != 2:
            raise InvalidInputError(
                f"{str(path)!r} has shape {shape}; expected two dimensions, (n_samples,"
                " n_features)."
            )
        self.shape = (int(shape[0]), int(shape[1]))
        self.entries = self.shape[0] * self.shape[1]
        check_promise(header, self.offset, self.file.size, self.file.path)

    def read(self, axis: int, start: int, stop: int) -> AnyArray:
        lines_are = 1 if self.by_columns else 0
        if axis == lines_are:
            lines = self._lines(start, stop)
            return lines.T if self.by_columns else lines
        n_lines, length = self.shape[lines_are], self.shape[1 - lines_are]
        step = max(1, PIECE_BYTES // (length * self.dtype.itemsize))
        pieces = [
            self._lines(a, min(a + step, n_lines))[:, start:stop].copy()
            for a in range(0, n_lines, step)
        ]
        return np.concatenate(pieces).T if self.by_columns else np.concatenate(pieces)

    def _lines(self, start: int, stop: int) -> AnyArray:
        """Lines in the order of the file: rows, or the columns of a file in Fortran's order."""
        length = self.shape[0 if self.by_columns else 1]
        where = f"at {'column' if self.by_columns else 'row'} {start}"
        self.file.check(where)
        with open(self.file.path, "rb") as stream:
            stream.seek(self.offset + start * length * self.dtype.itemsize)
            lines = np.fromfile(stream, self.dtype, (stop - start) * length)
        self.file.check(where)
        return lines.reshape(stop - start, length)


def pieces_of_lines(indptr: AnyArray, n_entries: int = 2**20) -> Iterator[tuple[int, int]]:
    """Ranges of compressed lines that hold about ``n_entries`` entries each."""
    start = 0
    while start < len(indptr) - 1:
        stop = int(np.searchsorted(indptr, indptr[start] + n_entries, side="right")) - 1
        stop = min(max(stop, start + 1), len(indptr) - 1)
        yield start, stop
        start = stop
