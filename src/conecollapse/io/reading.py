"""`read_table` and `open_table`: any source as a table with its names, samples in rows, whole or to
be read in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError, argument
from conecollapse._files import sha256_of
from conecollapse.io.formats import open_blocks, read_whole, take_options
from conecollapse.io.headings import as_axis
from conecollapse.io.limits import check_file, too_large
from conecollapse.io.matrix import Matrix, as_numbers, is_anndata, is_frame, stored_at
from conecollapse.io.source import ArraySource, TableSource, TransposedSource
from conecollapse.io.table_file import TableFile, decide_orientation

if TYPE_CHECKING:
    from conecollapse.io.documents import Texts


def read_table(
    source: Any,
    *,
    features_in: str = "auto",
    image_shape: tuple[int, int] | None = None,
    header: bool | None = None,
    names: bool | None = None,
    layer: str | None = None,
    text_column: str | None = None,
    words: Mapping[str, Any] | None = None,
) -> TableFile:
    """Read a table of non-negative numbers, transposed if needed so that samples are rows.

    Parameters
    ----------
    source : path, pandas or polars frame, AnnData object, array or sparse array
        A file is read by its suffix: ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx`` (these three
        also with ``.gz``), ``.parquet`` (needs the extra "parquet") or ``.h5ad`` (needs the extra
        "bio"). A folder holds the three files of 10x Genomics (``matrix.mtx``, ``features.tsv``,
        ``barcodes.tsv``, also with ``.gz``), spectra as `conecollapse.io.folders` describes,
        or texts as ``.txt`` files. Of a list of texts, or a series of them, the words are counted.
    features_in : {"auto", "rows", "columns"}
        Where the features are in the source; "auto" decides as `conecollapse.io.table_file`
        describes, and `TableFile.why` says how.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels.
    header : bool, optional
        For ``.csv`` and ``.tsv`` files: whether the first line is a heading. By default this is
        detected as `conecollapse.io.headings` describes, and `TableFile.read_as` says the result.
    names : bool, optional
        For ``.csv``, ``.tsv`` and ``.parquet`` files and for frames: whether the first column holds
        names. By default this is detected in the same way.
    layer : str, optional
        Of an ``.h5ad`` file or an AnnData object: the layer to read instead of ``X``.
    text_column : str, optional
        Of a ``.csv`` or ``.tsv`` file: the column of texts, whose words are counted as
        `conecollapse.io.documents` describes.
    words : mapping, optional
        Of texts: which words are counted, arguments of `conecollapse.io.documents.count_words`
        such as ``{"stop_words": "german", "ngram_range": (1, 2), "min_df": 5}``.

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
    options = {"header": header, "names": names, "layer": layer}
    for name in ("header", "names"):
        if options[name] not in (None, True, False):
            raise InvalidInputError(
                f"{argument(name)} must be True, False or None; got {options[name]!r}."
            )
    if isinstance(source, (str, PathLike)):
        path = Path(fspath(source))
        if isdir(path) or text_column is not None:
            return _read_folder_or_texts(path, text_column, features_in, options, words)
        check_file(path)
        try:
            matrix = read_whole(path, options)
            chosen = decide_orientation(matrix, features_in, image_shape)
            table = as_table_file(matrix, path, matrix.sha256 or sha256_of(path), chosen)
        except MemoryError as error:
            raise too_large(path) from error
    else:
        if text_column is not None:
            raise InvalidInputError(
                f"{argument('text_column', text_column)} is for files; pass the texts themselves."
            )
        from conecollapse.io.documents import as_texts

        texts = as_texts(source)
        if texts is not None:
            return _of_texts(texts, "the data", "", None, words)
        matrix = _of_object(source, options)
        table = as_table_file(
            matrix, None, "", decide_orientation(matrix, features_in, image_shape)
        )
    return replace(table, image_shape=image_shape, layer=layer)


def open_table(
    source: Any,
    *,
    features_in: str = "auto",
    block_size: int | None = None,
    layer: str | None = None,
) -> TableSource:
    """Open a table of non-negative numbers that is read in blocks and never whole. Estimators and
    `Cone.from_table` take it like any other table.

    Parameters
    ----------
    source : path, array, sparse array, frame or AnnData object
        A ``.npy`` (either order), ``.mtx`` (sorted into blocks in a temporary folder; also with
        ``.gz``) or ``.h5ad`` file, a folder of 10x Genomics, or a backed AnnData object; or data at
        hand, such as a NumPy memory map.
    features_in : {"auto", "rows", "columns"}
        Where the features are in the source, as in `read_table`.
    block_size : int, optional
        Samples in a block; blocks of about 64 MiB by default.
    layer : str, optional
        Of an ``.h5ad`` file: the layer to open instead of ``X``.

    Returns
    -------
    TableSource
        With `feature_names` and `sample_names` where the source has them: in an ``.h5ad`` file, and
        in the text files that may stand beside a ``.mtx`` file.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import Cone
    >>> from conecollapse.io import open_table
    >>> table = open_table(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]]))
    >>> Cone.from_table(table).ray_indices
    array([0, 1])
    """
    if is_anndata(source):
        source = stored_at(source) or source
    if isinstance(source, (str, PathLike)):
        from conecollapse.io.folders import find_files

        path = Path(fspath(source))
        files = find_files(path) if isdir(path) else [path]
        matrix = open_blocks(files[0], {"layer": layer})
    else:
        matrix = _of_object(source, {"layer": layer})
        matrix = replace(matrix, values=ArraySource(matrix.values))
    table, rows, columns = matrix.values, matrix.row_names, matrix.column_names
    if decide_orientation(matrix, features_in, None)[0] == "rows":
        table, rows, columns = TransposedSource(table), columns, rows
    table.sample_names, table.feature_names = rows, columns
    table.block_size = None if block_size is None else check_count(block_size, "block_size")
    return table


def _read_folder_or_texts(
    path: Path,
    text_column: str | None,
    features_in: str,
    options: Mapping[str, Any],
    words: Mapping[str, Any] | None,
) -> TableFile:
    from conecollapse.io.documents import read_column, read_folder
    from conecollapse.io.folders import (
        digest,
        find_files,
        is_10x,
        read_spectrum_files,
        spectrum_files,
    )

    for name, value in options.items():
        if value is not None:
            raise InvalidInputError(
                f"{argument(name, value)} is not for {'texts' if text_column else 'folders'}; leave"
                " it"
                " out."
            )
    if text_column is not None:
        check_file(path)
        texts = read_column(path, text_column)
        found = _of_texts(texts, path.name, sha256_of(path), text_column, words)
        return replace(found, source=str(path))
    files, where = spectrum_files(path), path
    if files:
        matrix = read_spectrum_files(files)
    else:
        files = find_files(path)
        where = files[0]
        if not is_10x(files):
            return _of_texts(read_folder(path), str(path), digest(files), None, words)
        matrix = read_whole(files[0], {})
    table = as_table_file(
        matrix, where, digest(files), decide_orientation(matrix, features_in, None)
    )
    return replace(table, source=str(path))


def _of_texts(
    texts: Texts,
    source: str,
    sha256: str,
    text_column: str | None,
    words: Mapping[str, Any] | None,
) -> TableFile:
    """The counts of words of documents."""
    from conecollapse.io.documents import FEW, count_words

    asked = dict(words or {})
    counts = count_words(texts, source, **asked)
    notes = [f"{counts.language} stop words are left out"] if counts.language else []
    if len(texts.texts) >= FEW and "vocabulary" not in asked:
        rare = "" if asked.get("min_df") is not None else "in few texts or "
        notes.append(f"words {rare}in more than half of them are left out")
    left_out = "".join(f"; {note}" for note in notes)
    return TableFile(
        counts.X,
        texts.names,
        counts.words,
        source,
        sha256,
        "columns",
        f"each of the {len(texts.texts)} texts is a sample{left_out}",
        text_column=text_column,
        texts=tuple(texts.texts),
        words={name: value for name, value in asked.items() if name != "vocabulary"},
    )


def read_more(
    source: Any, known: TableFile, *, header: bool | None = None, names: bool | None = None
) -> TableFile:
    """Further samples in memory, in the orientation of a table that is known already; one sample is
    enough."""
    matrix = _of_object(source, {"header": header, "names": names})
    chosen = decide_orientation(matrix, known.features_in, None)
    return as_table_file(matrix, None, "", chosen, single=True)


def as_table_file(
    matrix: Matrix,
    path: Path | None,
    sha256: str,
    chosen: tuple[str, str],
    *,
    single: bool = False,
) -> TableFile:
    """The numbers of a source checked, and turned so that samples are rows; ``chosen`` is what
    `orientation` says, and ``path`` is None for data in memory."""
    features_in, why = chosen
    values = as_numbers(matrix, "the data" if path is None else path.name, single=single)
    rows, columns = matrix.row_names, matrix.column_names
    if features_in == "rows":
        values = sp.csr_array(values.T) if sp.issparse(values) else np.ascontiguousarray(values.T)
        rows, columns = columns, rows
    axis: Any = [] if matrix.axis is None else matrix.axis
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
        wavelengths=np.array(axis) if len(axis) else None,
        marked=matrix.marked if features_in == "columns" else None,
    )


def _of_object(source: Any, options: Mapping[str, Any]) -> Matrix:
    """The table of an object in memory, which is recognized without importing anything for it."""
    if isinstance(source, TableFile):
        raise InvalidInputError("this is already a TableFile; pass its source.")
    kind = ".parquet" if is_frame(source) else ".h5ad" if is_anndata(source) else ""
    taken = take_options(kind, options, "the data")
    if is_frame(source):
        from conecollapse.io.frames import from_frame

        return from_frame(source, wanted=taken.get("names"))
    if is_anndata(source):
        from conecollapse.io.h5ad import from_anndata

        return from_anndata(source, **taken)
    if sp.issparse(source):
        return Matrix(source)
    try:
        return Matrix(np.asarray(source))
    except ValueError as error:
        raise InvalidInputError(
            f"the data is not a rectangular table of numbers ({error})."
        ) from error
