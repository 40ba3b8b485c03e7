"""`read_table`: any source as a `Table`."""

from __future__ import annotations

import hashlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import ConeCollapseError, InvalidInputError
from conecollapse.io.delimited import read_delimited
from conecollapse.io.frames import from_pandas, from_polars
from conecollapse.io.h5ad import from_anndata, read_h5ad
from conecollapse.io.market import read_mtx
from conecollapse.io.matrix import Matrix
from conecollapse.io.npy import read_npy
from conecollapse.io.npz import read_npz
from conecollapse.io.numbers import as_numbers
from conecollapse.io.opening import suffix
from conecollapse.io.orientation import orientation
from conecollapse.io.parquet import read_parquet
from conecollapse.io.table import Table

FORMATS: dict[str, Callable[[Path], Matrix]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".mtx": read_mtx,
    ".parquet": read_parquet,
    ".h5ad": read_h5ad,
}
GZIPPED = (".csv", ".tsv", ".mtx")
# what NumPy, SciPy, pandas, pyarrow, h5py and gzip raise for a file that is truncated, damaged or of another kind
UNREADABLE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, OSError, EOFError, RuntimeError, AttributeError, NotImplementedError),
    *(MemoryError, SyntaxError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)


def read_table(source: Any, *, features_in: str = "auto", image_shape: tuple[int, int] | None = None) -> Table:
    """Read a table of non-negative numbers and turn it so that samples are rows.

    Parameters
    ----------
    source : path, pandas or polars frame, AnnData object, array or sparse array
        A file is read by its suffix: ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx`` (these three also with ``.gz``), ``.parquet``
        (needs the extra "parquet") or ``.h5ad`` (needs the extra "bio").
    features_in : {"auto", "rows", "columns"}
        Where the features are in the source; "auto" decides as `conecollapse.io.orientation` says, and `Table.why` tells how.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels.

    Returns
    -------
    Table

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
    if isinstance(source, (str, PathLike)):
        path = Path(fspath(source))
        matrix, name, where, digest = _read(path), path.name, str(path), sha256(path)
    else:
        matrix, name, digest = _convert(source), "the data", ""
        where = name
    values = as_numbers(matrix, name)
    chosen, why = orientation(matrix, features_in, image_shape)
    rows, columns = matrix.row_names, matrix.column_names
    if chosen == "rows":
        values = sp.csr_array(values.T) if sp.issparse(values) else np.ascontiguousarray(values.T)
        rows, columns = columns, rows
    return Table(values, rows, columns, where, digest, chosen, why, image_shape)


def sha256(path: Path) -> str:
    """Of the file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path) -> None:
    """Refuse what is no file, or an empty one."""
    if path.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder; name a file.")
    if not path.exists():
        raise InvalidInputError(f"there is no file {str(path)!r}.")
    if path.is_file() and not path.stat().st_size:
        raise InvalidInputError(f"{str(path)!r} is empty.")


def _read(path: Path) -> Matrix:
    check_file(path)
    kind = suffix(path)
    if kind not in FORMATS or (path.suffix.lower() == ".gz" and kind not in GZIPPED):
        gzipped = ", ".join(f"{name}.gz" for name in GZIPPED)
        raise InvalidInputError(f"{path.name} is of no known format; known are {', '.join(FORMATS)}, {gzipped}.")
    try:
        return FORMATS[kind](path)
    except ConeCollapseError:
        raise
    except PermissionError as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except UNREADABLE as error:
        raise unreadable(path, error) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("pyarrow", "anndata", "h5py", "pandas"):
            raise unreadable(path, error) from error
        raise


def unreadable(path: Path, error: BaseException) -> InvalidInputError:
    """The refusal of a file that its reader gave up on, with the reader's reason."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    reason = reason if len(reason) <= 160 else f"{reason[:160]}..."
    return InvalidInputError(f"{path.name} cannot be read ({reason}); it is truncated, damaged or of another kind.")


def _convert(source: Any) -> Matrix:
    """The table of an object in memory, told by its module so that nothing is imported for it."""
    if isinstance(source, Table):
        raise InvalidInputError("this is a Table already; pass its source.")
    module = type(source).__module__.split(".")[0]
    if module == "pandas" and getattr(source, "ndim", 0) == 2:
        return from_pandas(source)
    if module == "polars" and hasattr(source, "get_columns"):
        return from_polars(source)
    if module == "anndata":
        return from_anndata(source)
    if sp.issparse(source):
        return Matrix(source)
    try:
        return Matrix(np.asarray(source))
    except ValueError as error:
        raise InvalidInputError(f"the data is not a rectangular table of numbers ({error}).") from error
