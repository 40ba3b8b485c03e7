"""``.npz``: SciPy's sparse matrices, one dense array, or the layout of `conecollapse.datasets`
(``X`` or CSC parts, with ``y``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._arrays import load_npz
from conecollapse._errors import InvalidInputError
from conecollapse._room import check_extent, unreadable
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names

COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array}
FEATURE_KEYS, SAMPLE_KEYS = (
    ("feature_names", "features", "vocab", "genes"),
    ("sample_names", "samples"),
)


def read_npz(path: Path) -> Matrix:
    """Read the table of such a file, with ``feature_names`` (or ``vocab``) and ``sample_names`` if
    they are in it."""
    arrays = load_npz(path)
    values, features_in, because = _values(arrays, path)
    if not features_in and "y" in arrays:
        features_in, because = _by_labels(values.shape, arrays["y"].size)
    rows, columns = _names(arrays, values.shape, features_in)
    return Matrix(values, rows, columns, features_in=features_in, because=because)


def _values(arrays: dict[str, AnyArray], path: Path) -> tuple[Any, str, str]:
    """The table, and where its features are if the layout says so."""
    if {"indices", "indptr", "data", "shape"} <= set(arrays):
        is_ours = "format" not in arrays and "y" in arrays
        name = "csc" if is_ours else _format(arrays)
        if name not in COMPRESSED:
            raise InvalidInputError(
                f"{path.name} holds a sparse matrix in the format {name!r}; save it as CSR or CSC."
            )
        return (
            _sparse(
                COMPRESSED[name],
                tuple(arrays[part] for part in ("data", "indices", "indptr")),
                arrays,
                path,
            ),
            "",
            "",
        )
    if {"row", "col", "data", "shape"} <= set(arrays):
        return (
            _sparse(
                sp.coo_array, (arrays["data"], (arrays["row"], arrays["col"])), arrays, path
            ).tocsr(),
            "",
            "",
        )
    tables = {name: array for name, array in arrays.items() if array.ndim == 2}
    if "X" in tables:
        return tables["X"], "", ""
    if len(tables) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise InvalidInputError(
            f"{path.name} holds {listed}; it should hold one table, or one called X."
        )
    return next(iter(tables.values())), "", ""


def _sparse(
    make: Callable[..., Any], parts: tuple[Any, ...], arrays: dict[str, AnyArray], path: Path
) -> Any:
    """The sparse matrix of these parts, checked in full: SciPy would read and write outside its
    arrays."""
    places = [arrays[name] for name in ("indices", "indptr", "row", "col") if name in arrays]
    shape = arrays["shape"]
    if (
        any(place.dtype.kind not in "iu" or place.ndim != 1 for place in places)
        or arrays["data"].dtype.kind not in "fiub"
    ):
        raise unreadable(path, "its entries are no numbers, or their places no integers")
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise unreadable(path, f"its shape is {shape.tolist()}")
    extent = (int(shape[0]), int(shape[1]))
    check_extent(*extent, path)
    try:
        matrix = make(parts, shape=extent)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:  # of SciPy
        raise unreadable(path, error) from error
    return matrix


def _by_labels(shape: tuple[int, int], n_labels: int) -> tuple[str, str]:
    """The axis that is as long as ``y`` holds the samples; a square table is read in the layout of
    our datasets, features in rows."""
    if n_labels == shape[1]:
        return "rows", f"y has an entry for each of the {shape[1]} columns"
    if n_labels == shape[0]:
        return "columns", f"y has an entry for each of the {shape[0]} rows"
    return "", ""


def _names(
    arrays: dict[str, AnyArray], shape: tuple[int, int], features_in: str
) -> tuple[AnyArray | None, AnyArray | None]:
    """Names of rows and columns; names that fit neither axis are left out."""
    first, second = (
        (SAMPLE_KEYS, FEATURE_KEYS) if features_in != "rows" else (FEATURE_KEYS, SAMPLE_KEYS)
    )
    found = []
    for keys, size, what in ((first, shape[0], "rows"), (second, shape[1], "columns")):
        named = [
            arrays[key]
            for key in keys
            if key in arrays and arrays[key].shape == (size,) and arrays[key].dtype.kind in "US"
        ]
        found.append(as_names((_text(name) for name in named[0]), what) if named else None)
    return found[0], found[1]


def _format(arrays: dict[str, AnyArray]) -> str:
    kind = arrays.get("format", np.array("csr"))
    return _text(kind) if kind.dtype.kind in "US" and kind.size == 1 else str(kind.dtype)


def _text(value: Any) -> str:
    """NumPy's text, or bytes (as SciPy writes its format)."""
    item = value.item() if hasattr(value, "item") else value
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
