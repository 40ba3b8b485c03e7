"""Matrix Market, with names from files beside it: ``NAME.rows.txt`` and ``NAME.cols.txt``, or ``features.tsv`` and ``barcodes.tsv``.

The file is parsed here, by `numpy.loadtxt`, because `scipy.io.mmread` (SciPy 1.17) ends the process when a file is truncated.
"""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_extent
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.opening import stem, text_of

FEATURE_FILES, SAMPLE_FILES = ("features.tsv", "genes.tsv"), ("barcodes.tsv",)
LAYOUTS, FIELDS, SYMMETRIES = (
    ("coordinate", "array"),
    ("real", "double", "integer", "unsigned-integer", "pattern"),
    ("general", "symmetric"),
)


def read_mtx(path: Path) -> Matrix:
    """Read the matrix, sparse or dense, and the names beside it, if there are any."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="latin-1") as file:  # comments may hold any bytes
        values = _parse(file, path.name)
    rows, columns = (_beside(path, (f"{stem(path)}.{end}.txt",), size) for end, size in zip(("rows", "cols"), values.shape, strict=True))
    if rows is not None or columns is not None:
        return Matrix(values, rows, columns)
    features, samples = (_beside(path, files, size) for files, size in ((FEATURE_FILES, values.shape[0]), (SAMPLE_FILES, values.shape[1])))
    if features is None and samples is None:
        return Matrix(values)
    reason = "features.tsv and barcodes.tsv beside the file name its rows and columns"
    return Matrix(values, features, samples, features_in="rows", because=reason)


def _parse(file: Any, name: str) -> Any:
    words = file.readline().lower().split()
    if words[:1] != ["%%matrixmarket"]:
        raise InvalidInputError(f"{name} is not a Matrix Market file: its first line does not begin with %%MatrixMarket.")
    if len(words) != 5 or words[1] != "matrix" or words[2] not in LAYOUTS or words[3] not in FIELDS or words[4] not in SYMMETRIES:
        raise InvalidInputError(
            f"{name} holds a {' '.join(words[1:])}; what can be read is a matrix, {' or '.join(LAYOUTS)}, {', '.join(FIELDS)} "
            f"(not complex), {' or '.join(SYMMETRIES)}."
        )
    _, _, layout, field, symmetry = words
    sizes: list[str] = next((line.split() for line in file if line.strip() and not line.startswith("%")), [])
    if len(sizes) != (3 if layout == "coordinate" else 2) or not all(size.isdigit() for size in sizes):
        raise ValueError("its sizes are missing")
    shape = (int(sizes[0]), int(sizes[1]))
    check_extent(*shape, "it")
    if symmetry == "symmetric" and (layout == "array" or shape[0] != shape[1]):
        raise ValueError("only square matrices of coordinates can be symmetric here")
    if layout == "array":
        return _body(file, 1, shape[0] * shape[1]).reshape(shape, order="F")
    return _coordinates(_body(file, 2 if field == "pattern" else 3, int(sizes[2])), shape, symmetry)


def _body(file: Any, width: int, count: int) -> AnyArray:
    """The numbers, ``count`` lines of ``width``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there are none: the count says so too
        found = np.loadtxt(file, dtype=np.float64, comments="%", ndmin=2)
    if found.size and found.shape[1] != width:
        raise ValueError(f"its lines have {found.shape[1]} numbers where {width} are needed")
    if found.shape[0] * found.shape[1] != count * width:
        raise ValueError(f"it has {len(found) if found.size else 0} entries where it promises {count}")
    return found.reshape(count, width)


def _coordinates(entries: AnyArray, shape: tuple[int, int], symmetry: str) -> Any:
    places = entries[:, :2].astype(np.int64) - 1
    if len(places) and ((places < 0).any() or (places >= np.array(shape)).any() or (places + 1 != entries[:, :2]).any()):
        raise ValueError(f"an entry lies outside {shape[0]} x {shape[1]}")
    data = entries[:, 2] if entries.shape[1] == 3 else np.ones(len(entries))
    row, column = places[:, 0], places[:, 1]
    if symmetry == "symmetric":
        off = row != column
        row, column, data = np.append(row, column[off]), np.append(column, row[off]), np.append(data, data[off])
    return sp.csr_array(sp.coo_array((data, (row, column)), shape=shape))


def _beside(path: Path, names: tuple[str, ...], size: int) -> AnyArray | None:
    """A name in each line of a file beside ``path``; of several columns the second, as in 10x Genomics' features.tsv (id, name, type)."""
    for name in (n for base in names for n in (base, f"{base}.gz")):
        file = path.with_name(name)
        if not file.is_file():
            continue
        lines = text_of(file).splitlines()
        if len(lines) != size:
            raise InvalidInputError(f"{name} has {len(lines)} names, but {path.name} has {size} of what it names; give one in each line.")
        fields = [line.split("\t") for line in lines]
        return as_names((field[1] if len(field) > 1 and name.startswith(FEATURE_FILES) else field[0] for field in fields), name)
    return None
