"""``.h5ad`` files of AnnData; samples (obs) in rows, features (var) in columns.

``X`` or a layer, and the names, are read with h5py and nothing else of the file, so that what other
programs keep in ``uns`` does no harm.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray, Points
from conecollapse.io.hdf5 import H5PY_RAISES, reading_hdf5
from conecollapse.io.limits import LINE_BYTES, WatchedFile, check_extent, check_room, unreadable
from conecollapse.io.matrix import HIGHLY_VARIABLE, Matrix, as_names
from conecollapse.io.source import Entries, Spill, TableSource

ENCODINGS = {"csr_matrix": 0, "csc_matrix": 1}  # the axis along which lines are stored whole
REASON = "AnnData holds samples (obs) in rows"
PIECE_ENTRIES = 2**20  # of compressed lines that are sorted at once


def read(path: Path, layer: str | None = None) -> Matrix:
    """Read ``X`` or a layer, and the names of cells and genes."""
    return blocks(path, layer).loaded()


def blocks(path: Path, layer: str | None = None) -> Matrix:
    """``X`` or a layer on disk, and the names of cells and genes."""
    source = H5adSource(path, layer)
    rows, columns = source.names("obs"), source.names("var")
    return Matrix(
        source, rows, columns, features_in="columns", because=REASON, marked=source.marks()
    )


class H5adSource(TableSource):
    """The table ``X`` (cells, genes) of a ``.h5ad`` file, or one of its layers."""

    def __init__(self, path: str | PathLike[str], layer: str | None = None) -> None:
        self.file = WatchedFile(path)
        self.group = "X" if layer is None else f"layers/{layer}"
        self.where = f"{self.group} in {str(path)!r}"  # for messages
        self.spill: Spill | None = None
        shape, dtype, encoding, stored, chunk = self._look(layer)
        super().__init__(shape, dtype, stored[0] if stored else None, where=self.where)
        check_extent(*self.shape, self.file.path)
        check_room(chunk, self.file.path)
        if encoding is not None and encoding not in ENCODINGS:
            raise InvalidInputError(
                f"{self.where} is encoded as {encoding!r}; expected an array, csr_matrix or"
                " csc_matrix."
            )
        if encoding is not None:
            self.lines_are = ENCODINGS[encoding]
            self.indptr = self._pointers(stored)

    def _look(
        self, layer: str | None
    ) -> tuple[tuple[int, ...], Any, str | None, tuple[int, ...], int]:
        """What the file says of the table: its shape and dtype, the encoding of a sparse one and
        how many entries and indices it has, and the bytes of the largest chunk, which HDF5 unpacks
        whole."""
        with self._opened("at its beginning") as file:
            X = file.get(self.group)
            # an empty dataset stands for None
            if X is None or (hasattr(X, "dtype") and X.shape is None):
                raise no_table(
                    self.file.path.name, layer, [str(name) for name in file.get("layers", ())]
                )
            if hasattr(X, "dtype"):
                return tuple(X.shape), X.dtype, None, (), _chunk_bytes(X)
            # older files have other words for the same
            shape = X.attrs["shape"] if "shape" in X.attrs else X.attrs["h5sparse_shape"]
            encoding = X.attrs.get("encoding-type") or f"{X.attrs.get('h5sparse_format')}_matrix"
            chunk = max(_chunk_bytes(X[part]) for part in ("data", "indices", "indptr"))
            stored = tuple(len(X[part]) for part in ("data", "indices"))
            return tuple(map(int, shape)), X["data"].dtype, str(encoding), stored, chunk

    def _pointers(self, stored: tuple[int, ...]) -> AnyArray:
        """Where the lines of a sparse table begin: one more than lines, from 0 to the number of
        entries, never falling."""
        length = self.shape[self.lines_are] + 1
        with self._opened("at its beginning") as file:
            pointers = file[f"{self.group}/indptr"]
            # there is room for as many as the shape promises
            indptr = np.asarray(pointers[:] if len(pointers) == length else (), dtype=np.int64)
        if (
            len(indptr) != length
            or indptr[0] != 0
            or (np.diff(indptr) < 0).any()
            or {int(indptr[-1])} != set(stored)
        ):
            raise InvalidInputError(
                f"{self.where} has pointers that do not fit its shape and entries; it is damaged."
            )
        return indptr

    def whole(self) -> Points:
        """All of it, if there is room."""
        per_entry = self.dtype.itemsize + (self.indptr.itemsize if self.is_sparse else 0)
        check_room(self.entries * per_entry, self.file.path)
        along = self.lines_are if self.is_sparse else 0
        return self.read(along, 0, self.shape[along])

    def names(self, frame: str) -> AnyArray | None:
        """Names of the cells ("obs") or genes ("var"); None if the file has none, or not one for
        each."""
        axis = ("obs", "var").index(frame)
        names = self._optional(lambda file: _names(file[frame], self.shape[axis]))
        return None if names is None else as_names(names, ("samples (obs)", "features (var)")[axis])

    def marks(self) -> AnyArray | None:
        """Which genes ``var["highly_variable"]`` marks; None where there is no such column."""
        return self._optional(lambda file: _marks(file[f"var/{HIGHLY_VARIABLE}"], self.shape[1]))

    def _optional(self, read: Callable[[Any], Any]) -> Any:
        """What ``read`` takes from the open file; None where the file has another layout, which
        does no harm to the table."""
        with self._opened("at its beginning") as file:
            try:
                return read(file)
            except H5PY_RAISES:
                return None

    def read(self, axis: int, start: int, stop: int) -> Points:
        where = f"at {('row', 'column')[axis]} {start}"
        if not self.is_sparse:
            places = [slice(None), slice(None)]
            places[axis] = slice(start, stop)
            return self._part(self.group, tuple(places), where)
        if axis == self.lines_are:
            return self._lines(start, stop, where)
        if self.spill is None:  # across the order of the file: sort it into blocks once
            self.spill = Spill(self._all_entries(), self.shape, axis, self.entries)
        self.file.check(where)
        return self.spill.read(start, stop).astype(self.dtype)

    def _lines(self, start: int, stop: int, where: str) -> Any:
        low, high = self.indptr[start], self.indptr[stop]
        data, indices = (
            self._part(f"{self.group}/{part}", slice(low, high), where)
            for part in ("data", "indices")
        )
        across = self.shape[1 - self.lines_are]
        # SciPy would write outside its arrays
        if len(indices) and not 0 <= indices.min() <= indices.max() < across:
            wrong = int(indices[(indices < 0) | (indices >= across)][0])
            raise InvalidInputError(
                f"{self.where} has the index {wrong} {where}, outside 0 to {across - 1}; it is"
                " damaged."
            )
        parts = (data, indices, self.indptr[start : stop + 1] - low)
        if self.lines_are == 0:
            return sp.csr_array(parts, shape=(stop - start, across))
        return sp.csr_array(sp.csc_array(parts, shape=(across, stop - start)))

    def _all_entries(self) -> Iterator[Entries]:
        start, n_lines = 0, self.shape[self.lines_are]
        while start < n_lines:
            enough = self.indptr[start] + PIECE_ENTRIES
            stop = int(np.searchsorted(self.indptr, enough, side="right")) - 1
            stop = min(max(stop, start + 1), n_lines)
            lines = sp.coo_array(self._lines(start, stop, f"at line {start}"))
            places = [part.astype(np.int64) for part in lines.coords]
            places[self.lines_are] += start
            yield places[0], places[1], lines.data
            start = stop

    def _part(self, name: str, places: Any, where: str) -> Any:
        with self._opened(where) as file:
            part = file[name][places]
        return part.astype(part.dtype.newbyteorder("="), copy=False)  # SciPy takes no other

    def _opened(self, where: str) -> Any:
        self.file.check(where)
        return reading_hdf5(self.file.path)


def no_table(source: str, layer: str | None, layers: list[str]) -> InvalidInputError:
    """The refusal of data without X, or without this layer; ``layers`` are those that it has."""
    known = ", ".join(map(repr, layers))
    if layer is not None:
        has = f"it has {known}" if known else "it has none, only X"
        return InvalidInputError(f"{source} has no layer {layer!r}; {has}.")
    has = (
        f"; its layers are {known}: name one of them with {argument('layer', ...)}" if known else ""
    )
    return InvalidInputError(f"{source} has no X{has}.")


def _chunk_bytes(data: Any) -> int:
    """Bytes of a chunk of a dataset; nothing if it is stored in one piece."""
    return math.prod(data.chunks) * int(data.dtype.itemsize) if data.chunks else 0


def _names(frame: Any, size: int) -> list[str] | None:
    """The names of a frame's rows, if it has so many."""
    if hasattr(frame, "dtype"):  # a table of records, in older files
        column = frame["index" if "index" in frame.dtype.names else "_index"]
    else:
        column = frame[str(frame.attrs["_index"])]
    column = column if hasattr(column, "dtype") else column["values"]  # beside a mask
    if column.shape != (size,):
        return None
    return [name.decode() if isinstance(name, bytes) else name for name in column[:].tolist()]


def _marks(column: Any, size: int) -> AnyArray | None:
    """A column of so many marks; where some may be missing it is a group of values and a mask."""
    parts = [column["values"], column["mask"]] if hasattr(column, "keys") else [column]
    if any(part.shape != (size,) or part.dtype.kind != "b" for part in parts):
        return None
    marked, *masks = [np.asarray(part[:]) for part in parts]
    return marked & ~masks[0] if masks else marked


NAMED = 8  # columns that a message names
# what anndata raises for a file of another layout
ANNDATA_RAISES = (*H5PY_RAISES, AssertionError)


def from_anndata(data: Any, layer: str | None = None) -> Matrix:
    """The table of an AnnData object, or one of its layers."""
    return Matrix(
        in_memory(data, layer),
        as_names(data.obs_names, "samples (obs)"),
        as_names(data.var_names, "features (var)"),
        features_in="columns",
        because=REASON,
        marked=highly_variable(data),
    )


def in_memory(data: Any, layer: str | None = None) -> Any:
    """``X`` of an AnnData object, or one of its layers, as an array or a sparse array."""
    if layer is not None and layer not in data.layers:
        raise no_table("the AnnData object", layer, list(data.layers))
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise InvalidInputError(
            "the AnnData object has no X; put the table of counts there, or name one of its layers"
            f" with {argument('layer', ...)}."
        )
    # a view of a file or of another object
    return values[:] if type(values).__module__.startswith("anndata") else values


def highly_variable(data: Any) -> AnyArray | None:
    """Which features ``var["highly_variable"]`` marks; None where there is no such column."""
    if HIGHLY_VARIABLE not in data.var:
        return None
    return np.asarray(data.var[HIGHLY_VARIABLE].isin([True]), bool)  # a missing mark is none


def obs_column(data: Any, column: str, source: str, missing: str | None = None) -> AnyArray:
    """A column of ``obs`` as text, for known classes; ``missing`` is written for missing values,
    which are refused without it."""
    if column not in data.obs:
        there = ", ".join(map(repr, data.obs.columns[:NAMED])) or "none"
        raise InvalidInputError(f"{source} has no column {column!r} in obs; it has {there}.")
    values = data.obs[column]
    if missing is not None:
        values = values.astype(object).where(values.notna(), missing)
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise InvalidInputError(
            f"{source} has no value in obs[{column!r}] for the sample {str(data.obs_names[row])!r};"
            " give each one."
        )
    return as_names(values, "labels")


def read_embedding(table: Any, key: str) -> AnyArray | None:
    """Two finite numbers for each sample in ``obsm`` of the ``.h5ad`` file of a table; None where
    it has none."""
    path = Path(table.source)
    if path.suffix.lower() != ".h5ad" or not path.is_file():
        return None
    with reading_hdf5(path) as file:
        try:
            places = np.asarray(file[f"obsm/{key}"][:, :2], np.float64)
        except H5PY_RAISES:
            return None
    is_whole = places.shape == (table.n_samples, 2) and np.isfinite(places).all()
    return places if is_whole else None


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
    obs, var = (
        pd.DataFrame(index=pd.Index(list(names), dtype=object))
        for names in (sample_names, feature_names)
    )
    return anndata.AnnData(sp.csr_matrix(X) if sp.issparse(X) else X, obs=obs, var=var)


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


def _check_size(path: Path) -> None:
    """Refuse arrays for which there is no room: a few bytes of HDF5 may stand for any number of
    equal entries."""
    sizes: list[int] = []

    def look(_: str, item: Any) -> None:
        if getattr(item, "size", None) is not None:  # of a group, or of an empty dataset, it is not
            is_text = item.dtype.kind == "O"
            sizes.append(item.size * (LINE_BYTES if is_text else item.dtype.itemsize))

    with reading_hdf5(path) as file:
        file.visititems(look)
    check_room(sum(sizes), path)
    H5adSource(path)  # what it promises of X
