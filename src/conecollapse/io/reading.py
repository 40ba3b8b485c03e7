"""`read_table`: any source as a `TableFile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from os.path import isdir
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse._room import check_file, too_large
from conecollapse.io.delimited import read_delimited
from conecollapse.io.folders import digest, files_of, is_10x
from conecollapse.io.frames import from_pandas, from_polars
from conecollapse.io.h5ad import from_anndata, is_anndata, read_h5ad
from conecollapse.io.layout import as_axis
from conecollapse.io.market import read_mtx
from conecollapse.io.matrix import Matrix
from conecollapse.io.npy import read_npy
from conecollapse.io.npz import read_npz
from conecollapse.io.numbers import as_numbers
from conecollapse.io.opening import suffix
from conecollapse.io.orientation import orientation
from conecollapse.io.parquet import read_parquet
from conecollapse.io.spectra import read_spectrum_files, spectrum_files
from conecollapse.io.table_file import TableFile
from conecollapse.io.texts import Texts, counted, read_column, read_folder, texts_of

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
    layer: str | None = None,
    text_column: str | None = None,
) -> TableFile:
    """Read a table of non-negative numbers, transposed if needed so that samples are rows.

    Parameters
    ----------
    source : path, pandas or polars frame, AnnData object, array or sparse array
        A file is read by its suffix: ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx`` (these three
        also with ``.gz``), ``.parquet`` (needs the extra "parquet") or ``.h5ad`` (needs the extra
        "bio"). A folder holds the three files of 10x Genomics (``matrix.mtx``, ``features.tsv``,
        ``barcodes.tsv``, also with ``.gz``), spectra as `conecollapse.io.spectra` describes, or
        texts as ``.txt`` files. Of a list of texts, or a series of them, the words are counted.
    features_in : {"auto", "rows", "columns"}
        Where the features are in the source; "auto" decides as `conecollapse.io.orientation`
        describes, and `TableFile.why` says how.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels.
    header : bool, optional
        For ``.csv`` and ``.tsv`` files: whether the first line is a heading. By default this is
        detected as `conecollapse.io.layout` describes, and `TableFile.read_as` says the result.
    names : bool, optional
        For ``.csv``, ``.tsv`` and ``.parquet`` files and for frames: whether the first column holds
        names. By default this is detected in the same way.
    layer : str, optional
        Of an ``.h5ad`` file or an AnnData object: the layer to read instead of ``X``.
    text_column : str, optional
        Of a ``.csv`` or ``.tsv`` file: the column of texts, whose words are counted as
        `conecollapse.io.texts` describes.

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
    >>> frame = pd.DataFrame(
    ...     {"s1": [1, 0, 2], "s2": [0, 3, 1]}, index=pd.Index(["a", "b", "c"], name="gene")
    ... )
    >>> table = read_table(frame)
    >>> table.X.shape, table.feature_names.tolist(), table.why[:36]
    ((2, 3), ['a', 'b', 'c'], 'samples are columns and features row')
    """
    for name, value in (("header", header), ("names", names)):
        if value not in (None, True, False):
            raise InvalidInputError(f"{name} must be True, False or None; got {value!r}.")
    if not isinstance(source, (str, PathLike)):
        if text_column is not None:
            raise InvalidInputError(
                f"text_column={text_column!r} is for files; pass the texts themselves."
            )
        texts = texts_of(source)
        if texts is not None:
            return _counted(texts, "the data", "", None)
        matrix = _convert(source, header, names, layer)
        return _table(matrix, None, "", features_in, image_shape, layer=layer)
    path = Path(fspath(source))
    if isdir(path) or text_column is not None:
        return _of_texts_or_folder(
            path, text_column, features_in, {"header": header, "names": names, "layer": layer}
        )
    check_file(path)
    try:
        matrix, sha256 = read_source(path, header, names, layer)
        return _table(matrix, path, sha256, features_in, image_shape, layer=layer)
    except MemoryError as error:
        raise too_large(path) from error


def _of_texts_or_folder(
    path: Path, text_column: str | None, features_in: str, others: dict[str, Any]
) -> TableFile:
    for name, value in others.items():
        if value is not None:
            raise InvalidInputError(
                f"{name}={value!r} is not for {'texts' if text_column else 'folders'}; leave it"
                " out."
            )
    if text_column is not None:
        check_file(path)
        found, where, sha256 = read_column(path, text_column), path.name, sha256_of(path)
    elif spectra := spectrum_files(path):
        matrix = read_spectrum_files(spectra)
        return _table(matrix, path, digest(spectra), features_in, None)
    else:
        files = files_of(path)
        if is_10x(files):
            table = _table(read_mtx(files[0]), files[0], digest(files), features_in, None)
            return replace(table, source=str(path))
        found, where, sha256 = read_folder(path), str(path), digest(files)
    return replace(_counted(found, where, sha256, text_column), source=str(path))


def _counted(found: Texts, where: str, sha256: str, text_column: str | None) -> TableFile:
    counts, words = counted(found, where)
    why = f"each of the {len(found.texts)} texts is a sample"
    return TableFile(
        counts,
        found.names,
        words,
        where,
        sha256,
        "columns",
        why,
        text_column=text_column,
        texts=tuple(found.texts),
    )


def read_more(
    source: Any, known: TableFile, *, header: bool | None = None, names: bool | None = None
) -> TableFile:
    """Further samples in memory, in the orientation of a table that is known already; one sample is
    enough."""
    return _table(
        _convert(source, header, names, None), None, "", known.features_in, None, single=True
    )


def _table(
    matrix: Matrix,
    path: Path | None,
    sha256: str,
    features_in: str,
    image_shape: tuple[int, int] | None,
    *,
    single: bool = False,
    layer: str | None = None,
) -> TableFile:
    chosen, why = orientation(matrix, features_in, image_shape)
    table = as_table_file(matrix, path, sha256, chosen, why, single=single, layer=layer)
    return replace(table, image_shape=image_shape)


def as_table_file(
    matrix: Matrix,
    path: Path | None,
    sha256: str,
    features_in: str,
    why: str,
    *,
    single: bool = False,
    layer: str | None = None,
) -> TableFile:
    """The numbers of a source checked, and turned so that samples are rows; ``features_in`` and
    ``why`` are of `orientation`, and ``path`` is None for data in memory."""
    values = as_numbers(matrix, "the data" if path is None else path.name, single=single)
    rows, columns = matrix.row_names, matrix.column_names
    if features_in == "rows":
        values = sp.csr_array(values.T) if sp.issparse(values) else np.ascontiguousarray(values.T)
        rows, columns = columns, rows
    axis: list[float] = [] if matrix.axis is None else matrix.axis.tolist()
    if matrix.layout is not None and matrix.layout.axes and columns is not None:
        axis = as_axis(columns.tolist(), [] if rows is None else rows.tolist())
    return TableFile(
        values,
        rows,
        columns,
        "the data" if path is None else str(path),
        sha256,
        features_in,
        why,
        layout=matrix.layout,
        layer=layer,
        wavelengths=np.array(axis) if axis else None,
        marked=matrix.marked if features_in == "columns" else None,
    )


def overruled(
    kind: str, what: str, header: bool | None, names: bool | None
) -> dict[str, bool | None]:
    """Those of ``header`` and ``names`` that the reader of this format takes; the others must be
    None."""
    taken: dict[str, bool | None] = {}
    for name, value, kinds in (
        ("header", header, MAY_HAVE_HEADER),
        ("names", names, MAY_HAVE_NAMES),
    ):
        if kind in kinds:
            taken[name] = value
        elif value is not None:
            raise InvalidInputError(
                f"{name}={value} is only for {', '.join(kinds)} files; leave it out for {what}."
            )
    return taken


def same_layout(source: Any, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that read ``source`` with the heading and the names that were ``taken`` before;
    none if its format says what they are."""
    if not isinstance(source, (str, PathLike)):
        return {}
    if taken.get("text_column") is not None:
        return {"text_column": taken["text_column"]}
    kind = suffix(Path(fspath(source)))
    kinds = (("header", MAY_HAVE_HEADER), ("names", MAY_HAVE_NAMES), ("layer", (".h5ad",)))
    return {name: taken.get(name) for name, of in kinds if kind in of}


def read_source(
    path: Path, header: bool | None, names: bool | None, layer: str | None = None
) -> tuple[Matrix, str]:
    """What a file holds, as it lies there, and the checksum of its bytes."""
    if path.is_dir():
        files = spectrum_files(path)
        if not files:
            raise InvalidInputError(
                f"{str(path)!r} is a folder without spectra: files (.csv, .tsv or .txt) with two"
                " columns of numbers, wavelengths and values; name a file."
            )
        return read_spectrum_files(files), digest(files)
    return _read(path, header, names, layer), sha256_of(path)


def _read(path: Path, header: bool | None, names: bool | None, layer: str | None) -> Matrix:
    kind = suffix(path)
    if layer is not None:
        if kind != ".h5ad":
            raise InvalidInputError(
                f"layer={layer!r} is only for .h5ad files; leave it out for {path.name}."
            )
        return read_h5ad(path, layer)
    if kind not in FORMATS or (path.suffix.lower() == ".gz" and kind not in GZIPPED):
        gzipped = ", ".join(f"{name}.gz" for name in GZIPPED)
        raise InvalidInputError(
            f"{path.name} has no known format; known are {', '.join(FORMATS)}, {gzipped}."
        )
    return FORMATS[kind](path, **overruled(kind, path.name, header, names))


def _convert(source: Any, header: bool | None, names: bool | None, layer: str | None) -> Matrix:
    """The table of an object in memory, recognized by its module's name so that nothing is imported
    for it."""
    if isinstance(source, TableFile):
        raise InvalidInputError("this is already a TableFile; pass its source.")
    module = type(source).__module__.split(".")[0]
    is_frame = (module == "pandas" and getattr(source, "ndim", 0) == 2) or (
        module == "polars" and hasattr(source, "get_columns")
    )
    overruled(".parquet" if is_frame else "", "the data", header, names)
    if is_frame:
        return (from_pandas if module == "pandas" else from_polars)(source, wanted=names)
    if is_anndata(source):
        return from_anndata(source, layer=layer)
    if layer is not None:
        raise InvalidInputError(
            f"layer={layer!r} is for AnnData objects; leave it out for {type(source).__name__}."
        )
    if sp.issparse(source):
        return Matrix(source)
    try:
        return Matrix(np.asarray(source))
    except ValueError as error:
        raise InvalidInputError(
            f"the data is not a rectangular table of numbers ({error})."
        ) from error
