"""pandas and polars frames. The index, or else a first column of text, names the rows; every other column must hold numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names, place


def from_pandas(frame: Any, source: str = "the frame") -> Matrix:
    """The table of a pandas frame."""
    import pandas as pd

    labels = list(frame.columns)
    columns = [frame.iloc[:, j] for j in range(len(labels))]  # by place: labels may occur twice
    names, word = None, ""
    if not isinstance(frame.index, pd.RangeIndex):
        names, word = as_names(frame.index, "rows"), str(frame.index.name or "")
    elif (
        len(labels) > 1
        and not pd.api.types.is_numeric_dtype(columns[0].dtype)
        and not pd.api.types.is_datetime64_any_dtype(columns[0].dtype)
    ):
        names, word = as_names(columns.pop(0), "rows"), str(labels.pop(0))
    heads = as_names(labels, "columns")
    if names is None or len(columns) == frame.shape[1]:
        sparse = getattr(frame, "sparse", None) if any(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes) else None
        if sparse is not None and all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
            return Matrix(sparse.to_coo().tocsr(), names, heads, word)
    values = [
        column.to_numpy(dtype=np.float64, na_value=np.nan) if not isinstance(column.dtype, np.dtype) else column.to_numpy()
        for column in (_numeric(column, j, heads, names, source) for j, column in enumerate(columns))
    ]
    return Matrix(_stack(values, frame.shape[0]), names, heads, word)


def from_polars(frame: Any, source: str = "the frame") -> Matrix:
    """The table of a polars frame."""
    labels, columns = list(frame.columns), list(frame.get_columns())
    names, word = None, ""
    if len(labels) > 1 and not columns[0].dtype.is_numeric():
        names, word = as_names(columns.pop(0).to_list(), "rows"), labels.pop(0)
    heads = as_names(labels, "columns")
    for j, column in enumerate(columns):
        if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
            raise _text(j, heads, 0, names, column[0] if len(column) else "", source)
        if column.null_count():
            raise _missing(j, heads, int(column.is_null().arg_max()), names, source)
    return Matrix(_stack([column.to_numpy() for column in columns], frame.height), names, heads, word)


def _numeric(column: Any, j: int, heads: AnyArray, names: AnyArray | None, source: str) -> Any:
    """The column, if it holds numbers; else the first value that is none is named."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        return column
    missing = column.isna().to_numpy()
    numbers = pd.to_numeric(column, errors="coerce").isna().to_numpy() if column.dtype == object else np.ones(len(column), bool)
    wrong = np.flatnonzero(numbers & ~missing)
    if len(wrong):
        raise _text(j, heads, int(wrong[0]), names, column.iloc[int(wrong[0])], source)
    if missing.any():
        raise _missing(j, heads, int(np.argmax(missing)), names, source)
    raise _text(j, heads, 0, names, column.iloc[0] if len(column) else "", source)


def _stack(values: list[AnyArray], n_rows: int) -> AnyArray:
    return np.column_stack(values) if values else np.empty((n_rows, 0))


def _text(j: int, heads: AnyArray, row: int, names: AnyArray | None, value: Any, source: str) -> InvalidInputError:
    where = f"row {place(row, names)}, column {place(j, heads)}"
    return InvalidInputError(f"{source} has {str(value)[:40]!r} where a number belongs, in {where}; drop or convert that column.")


def _missing(j: int, heads: AnyArray, row: int, names: AnyArray | None, source: str) -> InvalidInputError:
    where = f"row {place(row, names)}, column {place(j, heads)}"
    return InvalidInputError(f"{source} has a missing value in {where}; remove or impute such values first.")
