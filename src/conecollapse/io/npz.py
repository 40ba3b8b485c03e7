"""``.npz``: SciPy's sparse matrices, one dense array, or the layout of `conecollapse.datasets`
(``X`` or CSC parts, with ``y``)."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.limits import check_extent, check_room, unreadable
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.npy import UNPACKING_RAISES, load_stream

# what NumPy writes; others unpack without any bound
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 1  # bit of a member's flags
COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array}
FEATURE_KEYS, SAMPLE_KEYS = (
    ("feature_names", "features", "vocab", "genes"),
    ("sample_names", "samples"),
)

Arrays = Mapping[str, AnyArray]


def read(path: Path) -> Matrix:
    """Read the table of such a file, with ``feature_names`` (or ``vocab``) and ``sample_names`` if
    they are in it."""
    return read_arrays(load_npz(path), path)


def read_arrays(arrays: Arrays, path: Path) -> Matrix:
    """The table that these arrays of a file are."""
    values = _values(arrays, path)
    features_in, because = _axis_of_labels(values.shape, arrays)
    keys = [SAMPLE_KEYS, FEATURE_KEYS]
    first, second = keys[::-1] if features_in == "rows" else keys
    return Matrix(
        values,
        _names(arrays, first, values.shape[0], "rows"),
        _names(arrays, second, values.shape[1], "columns"),
        features_in=features_in,
        because=because,
    )


def load_npz(path: Path) -> dict[str, AnyArray]:
    """All arrays of a ``.npz`` file; nothing is unpickled."""
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(
            f"{path.name} is not a whole .npz archive; it is truncated, damaged or of another kind."
        )
    try:
        archive = zipfile.ZipFile(path)
    except UNPACKING_RAISES as error:
        raise unreadable(path, error) from error
    with archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        for member in members:
            if member.compress_type not in METHODS or member.flag_bits & ENCRYPTED:
                raise unreadable(
                    path,
                    f"{member.filename!r} is encrypted, or compressed by a method that NumPy does"
                    " not use",
                )
        check_room(sum(member.file_size for member in members), path)
        return {
            member.filename.removesuffix(".npy"): _member(archive, member, path)
            for member in members
        }


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> AnyArray:
    try:
        stream = archive.open(member)
    except UNPACKING_RAISES as error:
        raise unreadable(path, error) from error
    with stream:
        return load_stream(stream, member.file_size, path)


def _values(arrays: Arrays, path: Path) -> Any:
    """The table: sparse parts, the array called X, or the only one of two dimensions."""
    if {"indices", "indptr", "data", "shape"} <= set(arrays):
        is_ours = "format" not in arrays and "y" in arrays
        kind = "csc" if is_ours else _format(arrays)
        if kind not in COMPRESSED:
            raise InvalidInputError(
                f"{path.name} holds a sparse matrix in the format {kind!r}; save it as CSR or CSC."
            )
        parts = tuple(arrays[part] for part in ("data", "indices", "indptr"))
        return _sparse(COMPRESSED[kind], parts, parts[1:], arrays, path)
    if {"row", "col", "data", "shape"} <= set(arrays):
        places = (arrays["row"], arrays["col"])
        return _sparse(sp.coo_array, (arrays["data"], places), places, arrays, path).tocsr()
    tables = {name: array for name, array in arrays.items() if array.ndim == 2}
    if "X" in tables:
        return tables["X"]
    if len(tables) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise InvalidInputError(
            f"{path.name} holds {listed}; it should hold one table, or one called X."
        )
    return next(iter(tables.values()))


def _sparse(make: Any, parts: Any, places: tuple[AnyArray, ...], arrays: Arrays, path: Path) -> Any:
    """The sparse matrix of these parts, checked in full: SciPy would read and write outside its
    arrays."""
    if (
        any(place.dtype.kind not in "iu" or place.ndim != 1 for place in places)
        or arrays["data"].dtype.kind not in "fiub"
    ):
        raise unreadable(path, "its entries are no numbers, or their places no integers")
    shape = arrays["shape"]
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


def _axis_of_labels(shape: tuple[int, int], arrays: Arrays) -> tuple[str, str]:
    """The axis that is as long as ``y`` holds the samples; a square table is read in the layout of
    our datasets, features in rows."""
    n_labels = arrays["y"].size if "y" in arrays else None
    if n_labels == shape[1]:
        return "rows", f"y has an entry for each of the {shape[1]} columns"
    if n_labels == shape[0]:
        return "columns", f"y has an entry for each of the {shape[0]} rows"
    return "", ""


def _names(arrays: Arrays, keys: tuple[str, ...], size: int, what: str) -> AnyArray | None:
    """The first of these arrays that has a text for each line; names that do not fit are left
    out."""
    for key in keys:
        names = arrays.get(key)
        if names is not None and names.shape == (size,) and names.dtype.kind in "US":
            return as_names(map(_text, names), what)
    return None


def _format(arrays: Arrays) -> str:
    kind = arrays.get("format", np.array("csr"))
    return _text(kind) if kind.dtype.kind in "US" and kind.size == 1 else str(kind.dtype)


def _text(value: Any) -> str:
    """NumPy's text, or bytes (as SciPy writes its format)."""
    item = value.item()
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
