"""pandas and polars frames. The index, or else a first column of names, names the rows; every other
column must hold numbers.

`conecollapse.io.headings` decides when a first column of whole numbers holds names.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.headings import ROWS_JUDGED, Layout, are_axes, are_ids
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable
from conecollapse.io.matrix import IMPUTE, Matrix, as_names, place


def from_frame(frame: Any, source: str = "the frame", wanted: bool | None = None) -> Matrix:
    """The table of a frame; ``wanted`` says whether its first column holds names, None to detect
    it."""
    is_pandas = hasattr(frame, "iloc")
    labels = list(frame.columns)
    # by place: labels may occur twice
    columns = [frame.iloc[:, j] if is_pandas else frame[:, j] for j in range(len(labels))]
    index = _index(frame) if is_pandas and wanted is None else None
    if index is None:
        layout = _first_column(columns, labels, wanted)
        first = columns.pop(0) if layout.names else None
        labels = labels[layout.names :]
    else:
        first, word = index, str(index.name or "")
        layout = Layout(None, True, word, _are_axes([word, *labels], index))
    names = None if first is None else as_names(first.to_list(), "rows")
    return Matrix(
        _values(frame, columns, names, source),
        names,
        as_names(labels, "columns"),
        row_word=layout.word,
        layout=layout if layout.axes or index is None else None,
    )


def _first_column(columns: list[Any], labels: list[Any], wanted: bool | None) -> Layout:
    """Whether the first column of a frame names its rows."""
    if not columns or wanted is False:
        return Layout(None, False)
    word, axes = str(labels[0]), _are_axes(labels, columns[0])
    is_named = len(columns) > 1 and bool(wanted or axes or _holds_names(columns[0], word))
    return Layout(None, is_named, word if is_named else "", axes)


def _index(frame: Any) -> Any:
    """The index of a pandas frame; None if it only numbers the rows."""
    import pandas as pd

    return None if isinstance(frame.index, pd.RangeIndex) else frame.index


def _values(frame: Any, columns: list[Any], names: AnyArray | None, source: str) -> Any:
    """The numbers of these columns of a frame: a sparse array if all of its columns are sparse."""
    if columns and len(columns) == frame.shape[1] and hasattr(frame, "iloc"):
        import pandas as pd

        if all(isinstance(kind, pd.SparseDtype) for kind in frame.dtypes):
            return frame.sparse.to_coo().tocsr()
    for j, column in enumerate(columns):
        if _kind(column) == "text":
            where = f"column {j + 1} ({str(column.name)!r})"
            raise _no_number(column, where, names, source)
    if not columns:
        return np.empty((frame.shape[0], 0))
    return np.column_stack([_numbers(column) for column in columns])


def _are_axes(labels: list[Any], column: Any) -> bool:
    """Whether the labels after the first, and the first column of a frame, are axes."""
    return are_axes([str(label) for label in labels], [str(cell) for cell in column[:ROWS_JUDGED]])


def _holds_names(column: Any, word: str) -> bool:
    """Whether the first column of a frame names its rows: text, or whole numbers as
    `conecollapse.io.headings` says."""
    kind = _kind(column)
    return kind == "text" or (
        kind == "whole" and are_ids([str(value) for value in column[:ROWS_JUDGED]], word)
    )


def _kind(column: Any) -> str:
    """What a column holds: "whole" numbers, other "numbers", or "text"."""
    dtype = column.dtype
    if hasattr(dtype, "is_numeric"):  # of polars
        is_whole, is_number = dtype.is_integer(), dtype.is_numeric() or str(dtype) == "Boolean"
    else:
        from pandas.api import types

        is_whole, is_number = types.is_integer_dtype(dtype), types.is_numeric_dtype(dtype)
    return "whole" if is_whole else "numbers" if is_number else "text"


def _numbers(column: Any) -> AnyArray:
    """The numbers of a column, with NaN for what is missing."""
    if hasattr(column, "null_count"):  # of polars
        return np.array(column.to_list(), np.float64) if column.null_count() else column.to_numpy()
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _no_number(column: Any, where: str, names: AnyArray | None, source: str) -> InvalidInputError:
    """The refusal of a column, with its first value that is neither a number nor missing."""
    import pandas as pd

    values = pd.Series(column.to_list(), dtype=object)
    missing = values.isna().to_numpy()
    wrong = pd.to_numeric(values, errors="coerce").isna().to_numpy() & ~missing
    if missing.any() and not wrong.any():
        row = int(np.argmax(missing))
        return InvalidInputError(
            f"{source} has a missing value in row {place(row, names)}, {where}; {IMPUTE}."
        )
    row = int(np.argmax(wrong)) if wrong.any() else 0
    value = str(values.iloc[row])[:40] if len(values) else ""
    return InvalidInputError(
        f"{source} has {value!r} where a number belongs, in row {place(row, names)}, {where}; drop"
        " or convert that column."
    )


# what pandas raises for metadata of its own that it cannot use; pyarrow's exceptions are added
# where it is imported
PANDAS_RAISES = (ValueError, TypeError, LookupError, AttributeError, OSError, NotImplementedError)


def read_parquet(path: Path, names: bool | None = None) -> Matrix:
    """Read a frame; its index, or a first column of names, names the rows."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidInputError(
            f"{path.name} needs the package pyarrow; install it with: pip install"
            ' "conecollapse[parquet]".'
        )
    return from_frame(_frame(path), path.name, names)


def _frame(path: Path) -> Any:
    import pandas as pd
    import pyarrow
    import pyarrow.parquet

    raises = (*PANDAS_RAISES, pyarrow.ArrowException)
    try:
        size = pyarrow.parquet.read_metadata(path)
    except raises as error:
        raise unreadable(path, error) from error
    packed = sum(size.row_group(k).total_byte_size for k in range(size.num_row_groups))
    check_room(max(packed, NUMBER_BYTES * size.num_rows * size.num_columns), path)
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except raises as error:
        raise unreadable(path, error) from error
