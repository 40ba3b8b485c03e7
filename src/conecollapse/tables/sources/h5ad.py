"""AnnData ``.h5ad`` files, read with h5py where they lie: ``X`` or a layer, dense, or compressed by
rows or columns; and its names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import DataChangedError, InvalidInputError, MissingDependencyError
from conecollapse._room import check_extent, unreadable
from conecollapse._types import Points
from conecollapse.tables.sources.arrays import pieces_of_lines
from conecollapse.tables.sources.spill import Entries, Spill
from conecollapse.tables.sources.watch import WatchedFile

ENCODINGS = {"csr_matrix": 0, "csc_matrix": 1}  # the axis along which lines are stored whole
# for a damaged file, or one of another layout
H5PY_RAISES = (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError)


class _Promise(NamedTuple):
    encoding: str | None  # None for a dense array
    shape: tuple[int, int]
    dtype: Any
    stored: tuple[int, ...]  # entries and indices of a sparse array


class H5adSource:
    """The table ``X`` (cells, genes) of a ``.h5ad`` file, or one of its layers."""

    def __init__(self, path: str | PathLike[str], layer: str | None = None) -> None:
        self.file = WatchedFile(path)
        self.group = "X" if layer is None else f"layers/{layer}"
        self.spill: Spill | None = None
        X = self._look()
        if X.encoding is None:
            self.is_sparse, self.shape, self.dtype, self.entries = (
                False,
                X.shape,
                X.dtype,
                math.prod(X.shape),
            )
        else:
            if X.encoding not in ENCODINGS:
                raise InvalidInputError(
                    f"{self.group} in {str(path)!r} is encoded as {X.encoding!r}; expected an"
                    " array, csr_matrix or csc_matrix."
                )
            self.is_sparse, self.shape, self.dtype, self.entries = (
                True,
                X.shape,
                X.dtype,
                X.stored[0],
            )
            self.lines_are = ENCODINGS[X.encoding]
            check_extent(*self.shape, self.file.path)
            self.indptr = self._pointers()
            self._check_lines(*X.stored)
        if self.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"{self.group} in {str(path)!r} holds {self.dtype} values, not real numbers."
            )

    def names(self, axis: int) -> list[str] | None:
        """Names of the cells (``axis=0``) or genes; None if the file has none, or not one for
        each."""
        with self._open("at its beginning") as file:
            try:
                frame = file["obs" if axis == 0 else "var"]
                column = frame[str(frame.attrs["_index"])]
                found = (
                    [str(name) for name in column.asstr()[:]]
                    if column.shape == (self.shape[axis],)
                    else None
                )
            except H5PY_RAISES:  # another layout of names does no harm to the table
                return None
        return found

    def _look(self) -> _Promise:
        """What the file says of X."""
        with self._open("at its beginning") as file:
            if self.group not in file:
                there = [str(name) for name in file.get("layers", ())]
                known = f"; its layers are {', '.join(map(repr, there))}" if there else ""
                raise InvalidInputError(
                    f"{str(self.file.path)!r} has no table {self.group}{known}."
                )
            try:
                X = file[self.group]
                if hasattr(X, "dtype"):
                    n, m = (int(size) for size in X.shape)
                    return _Promise(None, (n, m), X.dtype, ())
                n, m = (int(size) for size in X.attrs["shape"])
                stored = tuple(len(X[part]) for part in ("data", "indices"))
                return _Promise(
                    str(X.attrs.get("encoding-type", "")), (n, m), X["data"].dtype, stored
                )
            except H5PY_RAISES as error:
                raise unreadable(self.file.path, error) from error

    def _pointers(self) -> Any:
        """Where the lines of a sparse X begin; none if they are not as many as the shape promises,
        for which there is room."""
        with self._open("at its beginning") as file:
            try:
                pointers = file[f"{self.group}/indptr"]
                found = pointers[:] if len(pointers) == self.shape[self.lines_are] + 1 else ()
            except H5PY_RAISES as error:
                raise unreadable(self.file.path, error) from error
        return np.asarray(found, dtype=np.int64)

    def read(self, axis: int, start: int, stop: int) -> Points:
        where = f"at {('row', 'column')[axis]} {start}"
        if not self.is_sparse:
            places = (
                (slice(start, stop), slice(None))
                if axis == 0
                else (slice(None), slice(start, stop))
            )
            return self._part(self.group, places, where)
        if axis == self.lines_are:
            return self._lines(start, stop, where)
        if self.spill is None:  # across the order of the file: sort it into blocks once
            self.spill = Spill(self._all_entries(), self.shape, axis, self.entries)
        self.file.check(where)
        return self.spill.read(start, stop).astype(self.dtype)

    def _lines(self, start: int, stop: int, where: str) -> Any:
        low, high = self.indptr[start], self.indptr[stop]
        data, indices = (
            self._part(name, slice(low, high), where)
            for name in (f"{self.group}/data", f"{self.group}/indices")
        )
        across = self.shape[1 - self.lines_are]
        # SciPy would write outside its arrays
        if len(indices) and not 0 <= indices.min() <= indices.max() < across:
            wrong = int(indices[(indices < 0) | (indices >= across)][0])
            raise InvalidInputError(
                f"{self.group} in {str(self.file.path)!r} has the index {wrong} {where}, outside 0"
                f" to {across - 1}; it is damaged."
            )
        parts = (data, indices, self.indptr[start : stop + 1] - low)
        if self.lines_are == 0:
            return sp.csr_array(parts, shape=(stop - start, self.shape[1]))
        return sp.csr_array(sp.csc_array(parts, shape=(self.shape[0], stop - start)))

    def _part(self, name: str, places: Any, where: str) -> Any:
        with self._open(where) as file:
            try:
                return file[name][places]
            except H5PY_RAISES as error:
                raise unreadable(self.file.path, error) from error

    def _check_lines(self, *stored: int) -> None:
        """The pointers of a sparse table: one more than lines, from 0 to the number of entries,
        never falling."""
        steps, length = np.diff(self.indptr), self.shape[self.lines_are] + 1
        if (
            len(self.indptr) != length
            or len(stored) != 2
            or self.indptr[0] != 0
            or (steps < 0).any()
            or {int(self.indptr[-1])} != set(stored)
        ):
            raise InvalidInputError(
                f"{self.group} in {str(self.file.path)!r} has pointers that do not fit its shape"
                " and entries; it is damaged."
            )

    def _all_entries(self) -> Iterator[Entries]:
        for start, stop in pieces_of_lines(self.indptr):
            lines = sp.coo_array(self._lines(start, stop, f"at line {start}"))
            rows, columns = (part.astype(np.int64) for part in lines.coords)
            yield (
                (rows + start, columns, lines.data)
                if self.lines_are == 0
                else (rows, columns + start, lines.data)
            )

    def _open(self, where: str) -> Any:
        try:
            import h5py
        except ImportError as error:
            raise MissingDependencyError(
                "reading .h5ad files needs h5py; pip install 'conecollapse[bio]'."
            ) from error
        self.file.check(where)
        try:
            return h5py.File(self.file.path, "r")
        except OSError as error:
            raise DataChangedError(
                f"{str(self.file.path)!r} cannot be opened as HDF5 {where}: {error}."
            ) from error
