"""``.npz``: SciPy's sparse matrices, one dense array, or the layout of `conecollapse.datasets` (``X`` or CSC parts, with ``y``)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.npy import pickled

COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array}
FEATURE_KEYS, SAMPLE_KEYS = ("feature_names", "features", "vocab", "genes"), ("sample_names", "samples")


def read_npz(path: Path) -> Matrix:
    """Read the table of such a file, with ``feature_names`` (or ``vocab``) and ``sample_names`` if they are in it."""
    arrays = load_arrays(path)
    values, features_in, because = _values(arrays, path)
    if not features_in and "y" in arrays:
        features_in, because = _by_labels(values.shape, arrays["y"].size)
    rows, columns = _names(arrays, values.shape, features_in)
    return Matrix(values, rows, columns, features_in=features_in, because=because)


def load_arrays(path: Path) -> dict[str, AnyArray]:
    """All arrays of the file; objects are refused, never unpickled."""
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(f"{path.name} is not a whole .npz archive; it is truncated, damaged or of another kind.")
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:  # numpy leaves a damaged file open
            return {name: file[name] for name in file.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise pickled(path) from None
        raise


def _values(arrays: dict[str, AnyArray], path: Path) -> tuple[Any, str, str]:
    """The table, and where its features are if the layout says so."""
    if {"indices", "indptr", "data", "shape"} <= set(arrays):
        is_ours = "format" not in arrays and "y" in arrays
        name = "csc" if is_ours else _text(arrays.get("format", np.array("csr")))
        if name not in COMPRESSED:
            raise InvalidInputError(f"{path.name} holds a sparse matrix in the format {name!r}; save it as CSR or CSC.")
        return _compressed(name, arrays), "", ""
    if {"row", "col", "data", "shape"} <= set(arrays):
        shape = tuple(int(size) for size in arrays["shape"])
        return sp.coo_array((arrays["data"], (arrays["row"], arrays["col"])), shape=shape).tocsr(), "", ""
    tables = {name: array for name, array in arrays.items() if array.ndim == 2}
    if "X" in tables:
        return tables["X"], "", ""
    if len(tables) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise InvalidInputError(f"{path.name} holds {listed}; it should hold one table, or one called X.")
    return next(iter(tables.values())), "", ""


def _compressed(name: str, arrays: dict[str, AnyArray]) -> Any:
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    if any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise ValueError("the places of its entries are not integers")
    matrix = COMPRESSED[name](parts, shape=tuple(int(size) for size in arrays["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _by_labels(shape: tuple[int, int], n_labels: int) -> tuple[str, str]:
    """The axis that ``y`` is as long as holds the samples; for a square, the datasets' own layout."""
    if n_labels == shape[1]:
        return "rows", f"y has an entry for each of the {shape[1]} columns"
    if n_labels == shape[0]:
        return "columns", f"y has an entry for each of the {shape[0]} rows"
    return "", ""


def _names(arrays: dict[str, AnyArray], shape: tuple[int, int], features_in: str) -> tuple[AnyArray | None, AnyArray | None]:
    """Names of rows and columns; names that fit neither axis are left out."""
    first, second = (SAMPLE_KEYS, FEATURE_KEYS) if features_in != "rows" else (FEATURE_KEYS, SAMPLE_KEYS)
    found = []
    for keys, size, what in ((first, shape[0], "rows"), (second, shape[1], "columns")):
        named = [arrays[key] for key in keys if key in arrays and arrays[key].shape == (size,) and arrays[key].dtype.kind in "US"]
        found.append(as_names((_text(name) for name in named[0]), what) if named else None)
    return found[0], found[1]


def _text(value: Any) -> str:
    """NumPy's text, or bytes (as SciPy writes its format)."""
    item = value.item() if hasattr(value, "item") else value
    return item.decode("utf-8") if isinstance(item, bytes) else str(item)
