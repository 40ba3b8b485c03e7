"""`read_table`: any source as a `TableFile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse._room import check_file, too_large
from conecollapse.io.delimited import read_delimited
from conecollapse.io.frames import from_pandas, from_polars
from conecollapse.io.h5ad import from_anndata, read_h5ad
from conecollapse.io.market import read_mtx
from conecollapse.io.matrix import Matrix
from conecollapse.io.npy import read_npy
from conecollapse.io.npz import read_npz
from conecollapse.io.numbers import as_numbers, clipped
from conecollapse.io.opening import suffix
from conecollapse.io.orientation import orientation
from conecollapse.io.parquet import read_parquet
from conecollapse.io.table_file import TableFile

FORMATS: dict[str, Callable[..., Matrix]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".mtx": read_mtx,
    ".parquet": read_parquet,
    ".h5ad": read_h5ad,
}
GZIPPED = (".csv", ".tsv", ".mtx")
MAY_HAVE_HEADER, MAY_HAVE_NAMES = (
    (".csv", ".tsv"),
    (".csv", ".tsv", ".parquet"),
)  # formats that do not say whether there is a heading, or names


def read_table(
    source: Any,
    *,
    features_in: str = "auto",
    image_shape: tuple[int, int] | None = None,
    header: bool | None = None,
    names: bool | None = None,
) -> TableFile:
    """Read a table of non-negative numbers, transposed if needed so that samples are rows.

    Parameters
    ----------
    source : path, pandas or polars frame, AnnData object, array or sparse array
        A file is read by its suffix: ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx`` (these three also with ``.gz``), ``.parquet``
        (needs the extra "parquet") or ``.h5ad`` (needs the extra "bio").
    features_in : {"auto", "rows", "columns"}
        Where the features are in the source; "auto" decides as `conecollapse.io.orientation` describes, and
        `TableFile.why` says how.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels.
    header : bool, optional
        For ``.csv`` and ``.tsv`` files: whether the first line is a heading. By default this is detected as `conecollapse.io.layout`
        describes, and `TableFile.read_as` says the result.
    names : bool, optional
        For ``.csv``, ``.tsv`` and ``.parquet`` files and for frames: whether the first column holds names. By default this is detected
        in the same way.

    Returns
    -------
    TableFile

    Raises
    ------
    InvalidInputError
        In one sentence, with place and value where there is one.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"s1": [1, 0, 2], "s2": [0, 3, 1]}, index=pd.Index(["a", "b", "c"], name="gene"))
    >>> table = read_table(frame)
    >>> table.X.shape, table.feature_names.tolist(), table.why[:36]
    ((2, 3), ['a', 'b', 'c'], 'samples are columns and features row')
    """
    for name, value in (("header", header), ("names", names)):
        if value not in (None, True, False):
            raise InvalidInputError(f"{name} must be True, False or None; got {value!r}.")
    if not isinstance(source, (str, PathLike)):
        return _table(_convert(source, header, names), "the data", "the data", "", features_in, image_shape)
    path = Path(fspath(source))
    check_file(path)
    try:
        return _table(_read(path, header, names), path.name, str(path), sha256_of(path), features_in, image_shape)
    except MemoryError as error:
        raise too_large(path) from error


def read_matrix(path: Path, *, clip: bool, features_in: str, header: bool | None, names: bool | None) -> tuple[TableFile, int]:
    """`read_table` of a file, with negative numbers set to zero if ``clip``, and how many there were."""
    matrix = _read(path, header, names)
    matrix, count = clipped(matrix) if clip else (matrix, 0)
    return _table(matrix, path.name, str(path), sha256_of(path), features_in, None), count


def read_more(source: Any, known: TableFile, *, header: bool | None = None, names: bool | None = None) -> TableFile:
    """Further samples in the orientation and layout of a table that is known already; one sample is enough."""
    taken = {} if known.layout is None else same_layout(source, {"header": known.layout.header, "names": known.layout.names})
    taken |= {name: value for name, value in (("header", header), ("names", names)) if value is not None}
    if not isinstance(source, (str, PathLike)):
        matrix = _convert(source, taken.get("header"), taken.get("names"))
        return _table(matrix, "the data", "the data", "", known.features_in, None, single=True)
    path = Path(fspath(source))
    check_file(path)
    matrix = _read(path, taken.get("header"), taken.get("names"))
    return _table(matrix, path.name, str(path), sha256_of(path), known.features_in, None, single=True)


def _table(
    matrix: Matrix,
    name: str,
    where: str,
    digest: str,
    features_in: str,
    image_shape: tuple[int, int] | None,
    *,
    single: bool = False,
) -> TableFile:
    values = as_numbers(matrix, name, single=single)
    chosen, why = orientation(matrix, features_in, image_shape)
    rows, columns = matrix.row_names, matrix.column_names
    if chosen == "rows":
        values = sp.csr_array(values.T) if sp.issparse(values) else np.ascontiguousarray(values.T)
        rows, columns = columns, rows
    return TableFile(values, rows, columns, where, digest, chosen, why, image_shape, layout=matrix.layout)


def overruled(kind: str, what: str, header: bool | None, names: bool | None) -> dict[str, bool | None]:
    """Those of ``header`` and ``names`` that the reader of this format takes; the others must be None."""
    taken: dict[str, bool | None] = {}
    for name, value, kinds in (("header", header, MAY_HAVE_HEADER), ("names", names, MAY_HAVE_NAMES)):
        if kind in kinds:
            taken[name] = value
        elif value is not None:
            raise InvalidInputError(f"{name}={value} is only for {', '.join(kinds)} files; leave it out for {what}.")
    return taken


def same_layout(source: Any, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that read ``source`` with the heading and the names that were ``taken`` before; none if its format says what they are."""
    if isinstance(source, (str, PathLike)):
        kind = suffix(Path(fspath(source)))
        return {name: taken.get(name) for name, kinds in (("header", MAY_HAVE_HEADER), ("names", MAY_HAVE_NAMES)) if kind in kinds}
    return {}


def _read(path: Path, header: bool | None, names: bool | None) -> Matrix:
    kind = suffix(path)
    if kind not in FORMATS or (path.suffix.lower() == ".gz" and kind not in GZIPPED):
        gzipped = ", ".join(f"{name}.gz" for name in GZIPPED)
        raise InvalidInputError(f"{path.name} has no known format; known are {', '.join(FORMATS)}, {gzipped}.")
    return FORMATS[kind](path, **overruled(kind, path.name, header, names))


def _convert(source: Any, header: bool | None, names: bool | None) -> Matrix:
    """The table of an object in memory, recognized by its module's name so that nothing is imported for it."""
    if isinstance(source, TableFile):
        raise InvalidInputError("this is already a TableFile; pass its source.")
    module = type(source).__module__.split(".")[0]
    is_frame = (module == "pandas" and getattr(source, "ndim", 0) == 2) or (module == "polars" and hasattr(source, "get_columns"))
    overruled(".parquet" if is_frame else "", "the data", header, names)
    if is_frame:
        return (from_pandas if module == "pandas" else from_polars)(source, wanted=names)
    if module == "anndata":
        return from_anndata(source)
    if sp.issparse(source):
        return Matrix(source)
    try:
        return Matrix(np.asarray(source))
    except ValueError as error:
        raise InvalidInputError(f"the data is not a rectangular table of numbers ({error}).") from error
