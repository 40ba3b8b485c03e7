"""pandas and polars frames. The index, or else a first column of names, names the rows; every other
column must hold numbers.

`conecollapse.io.layout` decides when a first column of whole numbers holds names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.layout import ROWS_JUDGED, Layout, are_axes, are_names
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names, place


def from_pandas(frame: Any, source: str = "the frame", wanted: bool | None = None) -> Matrix:
    """The table of a pandas frame; ``wanted`` says whether its first column holds names, None to
    detect it."""
    import pandas as pd

    labels = list(frame.columns)
    columns = [frame.iloc[:, j] for j in range(len(labels))]  # by place: labels may occur twice
    names, word, has_index = None, "", not isinstance(frame.index, pd.RangeIndex)
    by_index = has_index and wanted is None
    if by_index:
        names, word = as_names(frame.index, "rows"), str(frame.index.name or "")
    axes = wanted is not False and (
        _are_axes([word, *labels], names) if by_index else _are_axes(labels, *columns[:1])
    )
    if (
        not by_index
        and len(labels) > 1
        and (axes or _names_rows(columns[0], str(labels[0])) if wanted is None else wanted)
    ):
        names, word = as_names(columns.pop(0), "rows"), str(labels.pop(0))
    layout = Layout(None, names is not None, word, axes) if axes or not by_index else None
    heads = as_names(labels, "columns")
    if names is None or len(columns) == frame.shape[1]:
        sparse = (
            getattr(frame, "sparse", None)
            if any(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes)
            else None
        )
        if sparse is not None and all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
            return Matrix(sparse.to_coo().tocsr(), names, heads, word, layout=layout)
    values = [
        (
            column.to_numpy(dtype=np.float64, na_value=np.nan)
            if not isinstance(column.dtype, np.dtype)
            else column.to_numpy()
        )
        for column in (
            _numeric(column, j, heads, names, source) for j, column in enumerate(columns)
        )
    ]
    return Matrix(_stack(values, frame.shape[0]), names, heads, word, layout=layout)


def from_polars(frame: Any, source: str = "the frame", wanted: bool | None = None) -> Matrix:
    """The table of a polars frame; ``wanted`` says whether its first column holds names, None to
    detect it."""
    labels, columns = list(frame.columns), list(frame.get_columns())
    names, word = None, ""
    axes = wanted is not False and _are_axes(labels, *columns[:1])
    if len(labels) > 1 and (axes or _polars_names(columns[0]) if wanted is None else wanted):
        names, word = as_names(columns.pop(0).to_list(), "rows"), labels.pop(0)
    heads = as_names(labels, "columns")
    for j, column in enumerate(columns):
        if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
            raise _text(j, heads, 0, names, column[0] if len(column) else "", source)
        if column.null_count():
            raise _missing(j, heads, int(column.is_null().arg_max()), names, source)
    return Matrix(
        _stack([column.to_numpy() for column in columns], frame.height),
        names,
        heads,
        word,
        layout=Layout(None, names is not None, word, axes),
    )


def _are_axes(labels: Sequence[Any], column: Any = ()) -> bool:
    """Whether the labels after the first, and the first column of a frame, are axes."""
    return are_axes([str(label) for label in labels], [str(cell) for cell in column[:ROWS_JUDGED]])


def _names_rows(column: Any, head: str) -> bool:
    from pandas.api import types

    is_text = not (
        types.is_numeric_dtype(column.dtype) or types.is_datetime64_any_dtype(column.dtype)
    )
    return _named_by(column, head, is_text=is_text, is_whole=types.is_integer_dtype(column.dtype))


def _polars_names(column: Any) -> bool:
    is_text = not (column.dtype.is_numeric() or str(column.dtype) == "Boolean")
    return _named_by(column, column.name, is_text=is_text, is_whole=column.dtype.is_integer())


def _named_by(column: Any, head: str, *, is_text: bool, is_whole: bool) -> bool:
    """Whether the first column of a frame names its rows: text, or whole numbers as
    `conecollapse.io.layout` says."""
    return is_text or (is_whole and are_names([str(value) for value in column[:ROWS_JUDGED]], head))


def _numeric(column: Any, j: int, heads: AnyArray, names: AnyArray | None, source: str) -> Any:
    """The column, if it holds numbers; an error names the first value that is not a number."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        return column
    missing = column.isna().to_numpy()
    numbers = (
        pd.to_numeric(column, errors="coerce").isna().to_numpy()
        if column.dtype == object
        else np.ones(len(column), bool)
    )
    wrong = np.flatnonzero(numbers & ~missing)
    if len(wrong):
        raise _text(j, heads, int(wrong[0]), names, column.iloc[int(wrong[0])], source)
    if missing.any():
        raise _missing(j, heads, int(np.argmax(missing)), names, source)
    raise _text(j, heads, 0, names, column.iloc[0] if len(column) else "", source)


def _stack(values: list[AnyArray], n_rows: int) -> AnyArray:
    return np.column_stack(values) if values else np.empty((n_rows, 0))


def _text(
    j: int, heads: AnyArray, row: int, names: AnyArray | None, value: Any, source: str
) -> InvalidInputError:
    where = f"row {place(row, names)}, column {place(j, heads)}"
    return InvalidInputError(
        f"{source} has {str(value)[:40]!r} where a number belongs, in {where}; drop or convert that"
        " column."
    )


def _missing(
    j: int, heads: AnyArray, row: int, names: AnyArray | None, source: str
) -> InvalidInputError:
    where = f"row {place(row, names)}, column {place(j, heads)}"
    return InvalidInputError(
        f"{source} has a missing value in {where}; remove or impute such values first."
    )
