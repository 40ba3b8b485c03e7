"""AnnData: ``.h5ad`` files and objects; samples (obs) in rows, features (var) in columns.

`H5adSource` reads ``X`` or a layer, and the names, with h5py and nothing else of the file, so that
what other programs keep in ``uns`` does no harm. Only `whole_h5ad` needs anndata.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._room import check_extent, check_room, unreadable
from conecollapse._types import AnyArray, Points
from conecollapse.io.hdf5 import H5PY_RAISES, open_hdf5
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.spill import Entries, Spill
from conecollapse.io.watch import WatchedFile

ENCODINGS = {"csr_matrix": 0, "csc_matrix": 1}  # the axis along which lines are stored whole
REASON = "AnnData holds samples (obs) in rows"
HIGHLY_VARIABLE = "highly_variable"  # scanpy's column of `var`
LISTED = 8  # columns that a message names
# what anndata raises for a file of another layout
ANNDATA_RAISES = (*H5PY_RAISES, AssertionError)


def read_h5ad(path: Path, layer: str | None = None) -> Matrix:
    """Read ``X`` or a layer, and the names of cells and genes."""
    source = H5adSource(path, layer)
    rows, columns = source.names(0), source.names(1)
    return Matrix(
        source.whole(), rows, columns, features_in="columns", because=REASON, marked=source.marks()
    )


def whole_h5ad(path: Path) -> Any:
    """The AnnData object in a file, all of it."""
    anndata = _anndata(path.name)
    _check_size(path)
    with warnings.catch_warnings():
        # of its own dependencies, and about names that occur twice, which are fine here
        warnings.simplefilter("ignore")
        try:
            return anndata.read_h5ad(path)
        except Exception as error:
            # its own exceptions are private
            if isinstance(error, ANNDATA_RAISES) or type(error).__module__.startswith("anndata."):
                raise unreadable(path, error) from error
            raise


def new_anndata(X: Any, sample_names: Any, feature_names: Any) -> Any:
    """An AnnData object of a table and its names."""
    import pandas as pd

    anndata = _anndata("an AnnData object")
    frames = {
        name: pd.DataFrame(index=pd.Index(list(names), dtype=object))
        for name, names in _axes(sample_names, feature_names)
    }
    return anndata.AnnData(sp.csr_matrix(X) if sp.issparse(X) else X, **frames)


def _axes(sample_names: Any, feature_names: Any) -> tuple[tuple[str, Any], ...]:
    return ("obs", sample_names), ("var", feature_names)


def obs_column(data: Any, column: str, source: str = "the AnnData object") -> AnyArray:
    """A column of ``obs`` as text, for known classes."""
    if column not in data.obs:
        there = ", ".join(map(repr, data.obs.columns[:LISTED])) or "none"
        raise InvalidInputError(f"{source} has no column {column!r} in obs; it has {there}.")
    values = data.obs[column]
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise InvalidInputError(
            f"{source} has no value in obs[{column!r}] for the sample {str(data.obs_names[row])!r};"
            " give each one."
        )
    return as_names(values, "labels")


def _anndata(what: str) -> Any:
    """The package, which is imported here only."""
    if importlib.util.find_spec("anndata") is None:
        raise InvalidInputError(
            f'{what} needs the package anndata; install it with: pip install "conecollapse[bio]".'
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        import anndata
    return anndata


def from_anndata(data: Any, source: str = "the AnnData object", layer: str | None = None) -> Matrix:
    """The table of an AnnData object, or one of its layers."""
    rows, columns = (
        as_names(data.obs_names, "samples (obs)"),
        as_names(data.var_names, "features (var)"),
    )
    return Matrix(
        in_memory(data, layer, source),
        rows,
        columns,
        features_in="columns",
        because=REASON,
        marked=highly_variable(data),
    )


def highly_variable(data: Any) -> AnyArray | None:
    """Which features ``var["highly_variable"]`` marks; None where there is no such column."""
    if HIGHLY_VARIABLE not in data.var:
        return None
    return np.asarray(data.var[HIGHLY_VARIABLE].isin([True]), bool)  # a missing mark is none


def is_anndata(data: Any) -> bool:
    """Whether this is an AnnData object; anndata is not imported for it."""
    return type(data).__module__.partition(".")[0] == "anndata" and hasattr(data, "obs_names")


def stored_at(data: Any) -> Path | None:
    """The file that holds the tables of a backed AnnData object; None if they are in memory, or if
    it is a part of another object."""
    return Path(data.filename) if getattr(data, "isbacked", False) and not data.is_view else None


def in_memory(data: Any, layer: str | None = None, source: str = "the AnnData object") -> Any:
    """``X`` of an AnnData object, or one of its layers, as an array or a sparse array."""
    if layer is not None and layer not in data.layers:
        raise no_layer(layer, list(data.layers), source)
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise InvalidInputError(
            f"{source} has no X; put the table of counts there, or name one of its layers with"
            " layer=...."
        )
    # a view of a file or of another object
    return values[:] if type(values).__module__.startswith("anndata") else values


def no_layer(layer: str, there: list[str], source: str) -> InvalidInputError:
    """The error for a layer that is not there."""
    known = f"it has {', '.join(map(repr, there))}" if there else "it has none, only X"
    return InvalidInputError(f"{source} has no layer {layer!r}; {known}.")


def _check_size(path: Path) -> None:
    """Refuse arrays for which there is no room: a few bytes of HDF5 may stand for any number of
    equal entries."""
    sizes: list[int] = []

    def look(_: str, item: Any) -> None:
        if getattr(item, "size", None) is not None:  # of a group, or of an empty dataset, it is not
            sizes.append(item.size * item.dtype.itemsize)

    with open_hdf5(path) as file:
        try:
            file.visititems(look)
        except H5PY_RAISES as error:
            raise unreadable(path, error) from error
    check_room(sum(sizes), path)
    H5adSource(path)  # what it promises of X


class _Promise(NamedTuple):
    encoding: str | None  # None for a dense array
    shape: tuple[int, int]
    dtype: Any
    stored: tuple[int, ...]  # entries and indices of a sparse array
    chunk: int  # bytes of the largest chunk, which HDF5 unpacks whole


class H5adSource:
    """The table ``X`` (cells, genes) of a ``.h5ad`` file, or one of its layers."""

    def __init__(self, path: str | PathLike[str], layer: str | None = None) -> None:
        self.file = WatchedFile(path)
        self.layer, self.group = layer, "X" if layer is None else f"layers/{layer}"
        self.spill: Spill | None = None
        X = self._look()
        check_extent(*X.shape, self.file.path)
        check_room(X.chunk, self.file.path)
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
            self.indptr = self._pointers()
            self._check_lines(*X.stored)
        if self.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"{self.group} in {str(path)!r} holds {self.dtype} values, not real numbers."
            )

    def whole(self) -> Points:
        """All of it, if there is room."""
        path = self.file.path
        if not self.is_sparse:
            check_room(self.entries * self.dtype.itemsize, path)
            return self.read(0, 0, self.shape[0])
        check_room(self.entries * (self.dtype.itemsize + self.indptr.itemsize), path)
        return self.read(self.lines_are, 0, self.shape[self.lines_are])

    def names(self, axis: int) -> AnyArray | None:
        """Names of the cells (``axis=0``) or genes; None if the file has none, or not one for
        each."""
        with self._open("at its beginning") as file:
            try:
                frame = file["obs" if axis == 0 else "var"]
                column = _index(frame)
                if column.shape != (self.shape[axis],):
                    return None
                names = [
                    name.decode() if isinstance(name, bytes) else name
                    for name in column[:].tolist()
                ]
            except H5PY_RAISES:  # another layout of names does no harm to the table
                return None
        return as_names(names, ("samples (obs)", "features (var)")[axis])

    def marks(self) -> AnyArray | None:
        """Which genes ``var["highly_variable"]`` marks; None where there is no such column."""
        with self._open("at its beginning") as file:
            try:
                column = file[f"var/{HIGHLY_VARIABLE}"]
                # where marks may be missing, the column is a group of two
                may_miss = "values" in column if hasattr(column, "keys") else False
                marked = np.asarray(column["values"][:] if may_miss else column[:])
                if may_miss:
                    marked = marked & ~np.asarray(column["mask"][:], bool)
            except H5PY_RAISES:  # no column, or one of another layout
                return None
        fits = marked.shape == (self.shape[1],) and marked.dtype.kind == "b"
        return marked if fits else None

    def _look(self) -> _Promise:
        """What the file says of X."""
        path = self.file.path
        with self._open("at its beginning") as file:
            try:
                X = file.get(self.group)
                # an empty dataset stands for None
                if X is None or (hasattr(X, "dtype") and X.shape is None):
                    raise self._no_table([str(name) for name in file.get("layers", ())])
                if hasattr(X, "dtype"):
                    n, m = (int(size) for size in X.shape)
                    return _Promise(None, (n, m), X.dtype, (), _chunk(X))
                # older files have other words for the same
                shape = X.attrs["shape"] if "shape" in X.attrs else X.attrs["h5sparse_shape"]
                n, m = (int(size) for size in shape)
                kind = X.attrs.get("encoding-type") or f"{X.attrs.get('h5sparse_format')}_matrix"
                stored = tuple(len(X[part]) for part in ("data", "indices"))
                chunk = max(_chunk(X[part]) for part in ("data", "indices", "indptr"))
                return _Promise(str(kind), (n, m), X["data"].dtype, stored, chunk)
            except InvalidInputError:
                raise
            except H5PY_RAISES as error:
                raise unreadable(path, error) from error

    def _no_table(self, layers: list[str]) -> InvalidInputError:
        name = self.file.path.name
        if self.layer is not None:
            return no_layer(self.layer, layers, name)
        known = f"; its layers are {', '.join(map(repr, layers))}" if layers else ""
        remedy = ": name one of them with layer=..." if layers else ""
        return InvalidInputError(f"{name} has no X{known}{remedy}.")

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
        self.file.check(where)
        return open_hdf5(self.file.path)


def _chunk(data: Any) -> int:
    """Bytes of a chunk of a dataset; nothing if it is stored in one piece."""
    return math.prod(data.chunks) * int(data.dtype.itemsize) if data.chunks else 0


def _index(frame: Any) -> Any:
    """The names of a frame's rows, as a dataset or an array."""
    if hasattr(frame, "dtype"):  # a table of records, in older files
        return frame["index" if "index" in frame.dtype.names else "_index"]
    column = frame[str(frame.attrs["_index"])]
    return column if hasattr(column, "dtype") else column["values"]  # beside a mask


def pieces_of_lines(indptr: AnyArray, n_entries: int = 2**20) -> Iterator[tuple[int, int]]:
    """Ranges of compressed lines that hold about ``n_entries`` entries each."""
    start = 0
    while start < len(indptr) - 1:
        stop = int(np.searchsorted(indptr, indptr[start] + n_entries, side="right")) - 1
        stop = min(max(stop, start + 1), len(indptr) - 1)
        yield start, stop
        start = stop
