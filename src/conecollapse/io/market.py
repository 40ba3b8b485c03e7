"""Matrix Market, with names from files beside it: ``NAME.rows.txt`` and ``NAME.cols.txt``, or
``features.tsv`` and ``barcodes.tsv``.

The file is parsed here, by `numpy.loadtxt`, because `scipy.io.mmread` (SciPy 1.17) ends the process
when a file is truncated.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._room import LONGEST_NUMBER, check_extent, check_room, unreadable
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.opening import GZIP_RAISES, NUMBER_BYTES, count, lines_of, opened, pieces, stem

FEATURE_FILES, SAMPLE_FILES = ("features.tsv", "genes.tsv"), ("barcodes.tsv",)
LAYOUTS, FIELDS, SYMMETRIES = (
    ("coordinate", "array"),
    ("real", "double", "integer", "unsigned-integer", "pattern"),
    ("general", "symmetric"),
)
LONGEST_BANNER = 1000  # characters of the first line


def read_mtx(path: Path) -> Matrix:
    """Read the matrix, sparse or dense, and the names beside it, if there are any."""
    _check_size(path)
    with io.TextIOWrapper(opened(path), encoding="latin-1") as file:  # type: ignore[arg-type]  # comments may hold any bytes
        values = _parse(file, path)
    rows, columns = (names_beside(path, axis, size) for axis, size in enumerate(values.shape))
    if rows is not None or columns is not None:
        return Matrix(values, rows, columns)
    features, samples = (
        _beside(path, files, size)
        for files, size in ((FEATURE_FILES, values.shape[0]), (SAMPLE_FILES, values.shape[1]))
    )
    if features is None and samples is None:
        return Matrix(values)
    reason = "features.tsv and barcodes.tsv beside the file name its rows and columns"
    return Matrix(values, features, samples, features_in="rows", because=reason)


def names_beside(path: Path, axis: int, size: int) -> AnyArray | None:
    """The names in ``NAME.rows.txt`` (``axis=0``) or ``NAME.cols.txt``; None if there is no such
    file."""
    return _beside(path, (f"{stem(path)}.{('rows', 'cols')[axis]}.txt",), size)


def _check_size(path: Path) -> None:
    """Refuse more numbers than there is room for, before any is kept."""
    seen = numbers = 0
    for piece in pieces(path):
        seen += len(piece)
        numbers += count(piece, "\n") + count(piece, " ")
        check_room(max(seen, NUMBER_BYTES * numbers), path, at_least=True)


def _parse(file: Any, path: Path) -> Any:
    words = file.readline(LONGEST_BANNER).lower().split()
    if words[:1] != ["%%matrixmarket"]:
        raise InvalidInputError(
            f"{path.name} is not a Matrix Market file: its first line does not begin with"
            " %%MatrixMarket."
        )
    if (
        len(words) != 5
        or words[1] != "matrix"
        or words[2] not in LAYOUTS
        or words[3] not in FIELDS
        or words[4] not in SYMMETRIES
    ):
        raise InvalidInputError(
            f"{path.name} holds a {' '.join(words[1:])[:80]}; what can be read is a matrix,"
            f" {' or '.join(LAYOUTS)}, {', '.join(FIELDS)} (not complex),"
            f" {' or '.join(SYMMETRIES)}."
        )
    _, _, layout, field, symmetry = words
    sizes = _sizes(file, 3 if layout == "coordinate" else 2, path)
    shape = (sizes[0], sizes[1])
    if symmetry == "symmetric" and (layout == "array" or shape[0] != shape[1]):
        raise unreadable(path, "only square matrices of coordinates can be symmetric here")
    if layout == "array":
        return _body(file, 1, shape[0] * shape[1], path).reshape(shape, order="F")
    check_extent(*shape, path)
    return _coordinates(
        _body(file, 2 if field == "pattern" else 3, sizes[2], path), shape, symmetry, path
    )


def _sizes(file: Any, count: int, path: Path) -> list[int]:
    """Rows, columns and, of coordinates, entries."""
    words: list[str] = next(
        (line.split() for line in file if line.strip() and not line.startswith("%")), []
    )
    if len(words) != count or not all(
        word.isascii() and word.isdigit() and len(word) <= LONGEST_NUMBER for word in words
    ):
        raise unreadable(path, "its sizes are missing")
    return [int(word) for word in words]


def _body(file: Any, width: int, count: int, path: Path) -> AnyArray:
    """The numbers, ``count`` lines of ``width``."""
    try:
        with warnings.catch_warnings():
            # that there are none: the count says so too
            warnings.simplefilter("ignore", UserWarning)
            found = np.loadtxt(file, dtype=np.float64, comments="%", ndmin=2)
    except (ValueError, *GZIP_RAISES) as error:
        raise unreadable(path, error) from error
    if found.size and found.shape[1] != width:
        raise unreadable(path, f"its lines have {found.shape[1]} numbers where {width} are needed")
    if found.shape[0] * found.shape[1] != count * width:
        raise unreadable(
            path, f"it has {len(found) if found.size else 0} entries where it promises {count}"
        )
    return found.reshape(count, width)


def _coordinates(entries: AnyArray, shape: tuple[int, int], symmetry: str, path: Path) -> Any:
    wanted = entries[:, :2]
    if not ((wanted >= 1) & (wanted <= np.array(shape)) & (wanted == np.floor(wanted))).all():
        raise unreadable(path, f"an entry lies outside {shape[0]} x {shape[1]}")
    places = wanted.astype(np.int64) - 1
    data = entries[:, 2] if entries.shape[1] == 3 else np.ones(len(entries))
    row, column = places[:, 0], places[:, 1]
    if symmetry == "symmetric":
        off = row != column
        row, column, data = (
            np.append(row, column[off]),
            np.append(column, row[off]),
            np.append(data, data[off]),
        )
    return sp.csr_array(sp.coo_array((data, (row, column)), shape=shape))


def _beside(path: Path, names: tuple[str, ...], size: int) -> AnyArray | None:
    """A name in each line of a file beside ``path``; of several columns the second, as in 10x
    Genomics' features.tsv (id, name, type)."""
    for name in (n for base in names for n in (base, f"{base}.gz")):
        file = path.with_name(name)
        if not file.is_file():
            continue
        lines = lines_of(file)
        if len(lines) != size:
            raise InvalidInputError(
                f"{name} has {len(lines)} names, but {path.name} has {size} of what it names; give"
                " one in each line."
            )
        fields = [line.split("\t") for line in lines]
        return as_names(
            (
                field[1] if len(field) > 1 and name.startswith(FEATURE_FILES) else field[0]
                for field in fields
            ),
            name,
        )
    return None
