"""``.npy``: one array, read whole or in blocks."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from conecollapse._arrays import check_promise, load_npy, read_header
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.watch import WatchedFile

PIECE_BYTES = 2**24  # read at once where a block lies across the order of the file


def read_npy(path: Path) -> Matrix:
    """Read a two-dimensional array; objects are refused, never unpickled."""
    return Matrix(load_npy(path))


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
