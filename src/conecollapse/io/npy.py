"""``.npy``: one array of NumPy's, from anyone, read whole or in blocks. Sizes are checked before
memory is taken, and nothing is ever unpickled."""

from __future__ import annotations

import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.limits import WatchedFile, check_extent, check_room, in_words, unreadable
from conecollapse.io.matrix import Matrix, as_names
from conecollapse.io.source import TableSource

MAGIC = b"\x93NUMPY"
PIECE_BYTES = 2**24  # read at once where a block lies across the order of the file
# what the members of an archive raise while they are unpacked
UNPACKING_RAISES = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)
# what NumPy raises for a header that it cannot read: the header is Python source, and its type may
# be any nonsense
HEADER_RAISES = (
    *(*UNPACKING_RAISES, TypeError, SyntaxError, tokenize.TokenError),
    *(LookupError, AttributeError, MemoryError),
)


class Header(NamedTuple):
    """What the first bytes of an array promise."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: Any
    n_bytes: int


def read(path: Path) -> Matrix:
    """Read a table from the array of such a file."""
    return Matrix(load_npy(path))


def blocks(path: Path) -> Matrix:
    """The table of such a file, in either memory order."""
    return Matrix(NpySource(path))


def load_npy(path: Path) -> AnyArray:
    """The array of a ``.npy`` file, of any number of dimensions."""
    with open(path, "rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise InvalidInputError(f"{path.name} is not a .npy file; write one with numpy.save.")
        stream.seek(0)
        return load_stream(stream, path.stat().st_size, path)


def load_stream(stream: IO[bytes], size: int, path: Path) -> AnyArray:
    """The array of a stream of ``size`` bytes that holds just this array."""
    header = read_header(stream, path)
    check_promise(header, stream.tell(), size, path)
    check_room(header.n_bytes, path)
    try:
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
    except UNPACKING_RAISES as error:
        raise unreadable(path, error) from error


def read_header(stream: IO[bytes], path: Path) -> Header:
    """The header of an array; the stream is then at the array's first byte."""
    formats = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
        (3, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(stream)
        if version not in formats:
            raise ValueError(
                f"it is of version {version[0]}.{version[1]} of the format, which is not known"
            )
        with warnings.catch_warnings():
            # about how old the file is, and about damaged escapes in its header
            warnings.simplefilter("ignore")
            shape, by_columns, dtype = formats[version](stream)
    except HEADER_RAISES as error:
        raise unreadable(path, error) from error
    if dtype.hasobject:
        raise InvalidInputError(
            f"{path.name} holds Python objects (a pickle), which could run code when read; save a"
            " plain array of numbers."
        )
    if any(isinstance(size, bool) or size < 0 for size in shape) or dtype.itemsize == 0:
        raise unreadable(path, f"its header promises the shape {shape} of {dtype}")
    return Header(shape, by_columns, dtype, math.prod(shape) * int(dtype.itemsize))


def check_promise(header: Header, offset: int, size: int, path: Path) -> None:
    """Refuse an array that begins at ``offset`` of ``size`` bytes and needs more than these."""
    promised = offset + header.n_bytes
    if promised > size:
        raise InvalidInputError(
            f"{str(path)!r} has {size} bytes, but its header promises {promised}; it was cut short "
            f"(an array of shape {header.shape}, {in_words(header.n_bytes)})."
        )


class NpySource(TableSource):
    """A ``.npy`` file of numbers in two dimensions, in either order."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = WatchedFile(path)
        with open(path, "rb") as stream:
            header = read_header(stream, self.file.path)
            self.offset = stream.tell()
        super().__init__(header.shape, header.dtype, where=repr(str(path)))
        self.by_columns, self.stored_as = header.by_columns, header.dtype
        check_promise(header, self.offset, self.file.size, self.file.path)

    def read(self, axis: int, start: int, stop: int) -> AnyArray:
        along = int(self.by_columns)  # the axis of the lines of the file
        if axis == along:
            lines = self._lines(start, stop)
        else:
            n_lines, length = self.shape[along], self.shape[axis]
            step = max(1, PIECE_BYTES // (length * self.stored_as.itemsize))
            pieces = [
                self._lines(a, min(a + step, n_lines))[:, start:stop].copy()
                for a in range(0, n_lines, step)
            ]
            lines = np.concatenate(pieces)
        return lines.T if self.by_columns else lines

    def _lines(self, start: int, stop: int) -> AnyArray:
        """Lines in the order of the file: rows, or the columns of a file in Fortran's order."""
        length = self.shape[0 if self.by_columns else 1]
        where = f"at {'column' if self.by_columns else 'row'} {start}"
        self.file.check(where)
        with open(self.file.path, "rb") as stream:
            stream.seek(self.offset + start * length * self.stored_as.itemsize)
            lines = np.fromfile(stream, self.stored_as, (stop - start) * length)
        self.file.check(where)
        return lines.reshape(stop - start, length)


# what NumPy writes; others unpack without any bound
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 1  # bit of a member's flags
COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array}
FEATURE_KEYS, SAMPLE_KEYS = (
    ("feature_names", "features", "vocab", "genes"),
    ("sample_names", "samples"),
)

Arrays = Mapping[str, AnyArray]


def read_npz(path: Path) -> Matrix:
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
        ours = "csc" if "y" in arrays else "csr"  # where SciPy's word for the format is missing
        kind = _text(arrays["format"]) if "format" in arrays else ours
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


def _text(value: AnyArray) -> str:
    """A text of NumPy's, or bytes, as SciPy writes its format; the type of anything longer."""
    item = value.item() if value.size == 1 else value.dtype
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
