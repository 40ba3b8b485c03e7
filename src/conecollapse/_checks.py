"""Checks at the public door: what is wrong, where, the value, and what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument, quoted
from conecollapse._types import AnyArray, Effort, IntArray, Points, Sparse

# a proof may lose 1 % of tol to rounding, and some n^1.5 roundoffs are lost in n dimensions
SMALLEST_TOL = 1e-10
LARGEST_ENTRY = 1e300
LARGEST_COUNT = 2.0**53  # beyond it not every whole number is a float64
TABLES = ("shape", "__array__", "__dataframe__")  # what a table has one of, if it is no list


def as_points(P: Any, name: str = "P", *, needs: str = "a cone needs points >= 0") -> Points:
    """``P`` as a dense array or a canonical CSR array of non-negative finite numbers, one point in
    each row."""
    array = as_matrix(P, name)
    data = array.data if sp.issparse(array) else array
    # NaN spreads through both
    low, high = (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
    if low >= 0 and high <= LARGEST_ENTRY:
        return array
    check_finite(array, name)
    check_size(array, name)
    row, column, value = first_entry(array, data < 0)
    count = int((data < 0).sum())
    raise InvalidInputError(
        f"{name} has {count} negative {'entry' if count == 1 else 'entries'}, the first at row"
        f" {row}, column {column} ({value:.6g}); {needs}."
    )


def non_negative(X: Points, needs: str) -> Points:
    """``X``, after a refusal of negative and infinite entries; scikit-learn's tests look for the
    first words of the message."""
    try:
        return as_points(X, "X", needs=needs)
    except InvalidInputError as error:
        if "negative" not in str(error):
            raise
        raise InvalidInputError(f"Negative values in data: {error}") from None


def as_matrix(P: Any, name: str) -> Points:
    """``P`` as a two-dimensional real numeric array or canonical CSR array, with at least one row
    and one column."""
    if sp.issparse(P):
        _check_dtype(P.dtype, name)
        _check_shape(P.shape, name)
        return _canonical(P)
    array = (
        _frame_values(P, name) if hasattr(P, "iloc") and hasattr(P, "dtypes") else as_array(P, name)
    )
    _check_shape(array.shape, name)
    return _float64(array) if array.dtype.kind == "b" or array.dtype.itemsize > 8 else array


def as_array(P: Any, name: str) -> AnyArray:
    """``P`` as a real numeric array of any shape."""
    if np.ma.isMaskedArray(P) and np.ma.is_masked(P):
        count = int(np.ma.getmaskarray(P).sum())
        raise InvalidInputError(
            f"{name} is a masked array with {count} masked {'entry' if count == 1 else 'entries'};"
            " fill or drop them first."
        )
    try:
        array = np.asarray(P)
    except ValueError as error:
        raise InvalidInputError(
            f"{name} is not a rectangular table of numbers: its rows have different lengths."
        ) from error
    _check_dtype(array.dtype, name)
    return array


def _frame_values(frame: Any, name: str) -> AnyArray:
    """The numbers of a pandas frame, its nullable types included; a column that holds none is
    named."""
    if frame.ndim == 2:
        for label, dtype in zip(frame.columns, frame.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "fiub":
                raise InvalidInputError(
                    f"column {label!r} of {name} holds {dtype} values, not numbers; drop or convert"
                    " it first."
                )
    nullable = any(
        not isinstance(dtype, np.dtype)
        for dtype in np.atleast_1d(np.asarray(frame.dtypes, dtype=object))
    )
    return frame.to_numpy(dtype=np.float64, na_value=np.nan) if nullable else frame.to_numpy()


def check_array(P: Any, name: str) -> None:
    """Refuse what is no table, arrays that have not two dimensions or that hold dates, and lists
    whose rows differ in length; what else is passed is for others to look at."""
    if isinstance(P, (list, tuple)):
        _check_rows(P, name)
    elif not isinstance(P, (str, bytes)) and not any(hasattr(P, kind) for kind in TABLES):
        raise InvalidInputError(
            f"{name} is {quoted(P)}, not a table; pass an array, a sparse array, a data frame or an"
            " AnnData object."
        )
    if hasattr(P, "ndim") and P.ndim != 2:
        check_no_text(P)
        _check_shape(np.shape(P), name)
    if getattr(getattr(P, "dtype", None), "kind", "f") in "mM":
        _check_dtype(P.dtype, name)


def _check_rows(P: list[Any] | tuple[Any, ...], name: str) -> None:
    """Refuse rows of different lengths, naming the first that differs."""
    lengths = [len(row) if hasattr(row, "__len__") else 0 for row in P]
    for i, length in enumerate(lengths):
        if length != lengths[0] and not any(isinstance(row, str) for row in P):
            raise InvalidInputError(
                f"row {i} of {name} has {length} entries, but row 0 has {lengths[0]}; give each row"
                " as many."
            )


def check_no_text(X: Any) -> None:
    """Refuse a table with text in it, naming the first; of a document only the beginning is
    shown."""
    try:
        cells = np.asarray([] if sp.issparse(X) else X, dtype=object)
    except ValueError:  # rows of different lengths
        return
    for at in np.ndindex(cells.shape):
        cell = cells[at]
        if not isinstance(cell, str) or _is_number(cell):
            continue
        if cells.ndim != 2:
            does = "counts the words of a list of texts" if cells.ndim else "reads a file"
            raise InvalidInputError(
                f"X holds text ({quoted(cell)}), not numbers; read_table {does}."
            )
        names = getattr(X, "columns", None)
        column = at[1] if names is None else repr(str(names[at[1]]))
        raise InvalidInputError(
            f"column {column} of X holds text ({quoted(cell)}, in row {at[0]}), not numbers; drop"
            " or convert it."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def row_labels(P: Any, rows: IntArray) -> AnyArray | None:
    """Labels of these rows of a pandas frame; None for anything else."""
    if not (hasattr(P, "iloc") and hasattr(P, "index")):
        return None
    return np.asarray(P.index)[rows]


def check_callable(value: Any, name: str) -> None:
    """Refuse what is neither None nor callable."""
    if value is not None and not callable(value):
        raise InvalidInputError(f"{name} must be a function or None; got {value!r}.")


def check_finite(array: Points, name: str) -> None:
    """Refuse NaN and infinity, naming the first."""
    data = array.data if sp.issparse(array) else array
    if data.dtype.kind != "f" or not data.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        # one pass; large entries may overflow the sum, so look again
        spoiled = not np.isfinite(data.sum(dtype=np.float64))
    if spoiled and not np.isfinite(data).all():
        row, column, value = first_entry(array, ~np.isfinite(data))
        raise InvalidInputError(
            f"{name} has {'NaN' if np.isnan(value) else 'an infinite entry'} at row {row}, column"
            f" {column}; remove or impute such entries first."
        )


def first_nan(array: Points) -> tuple[int, int] | None:
    """Row and column of the first NaN; None if there is none."""
    data = array.data if sp.issparse(array) else array
    if not data.size or not np.isnan(data.min()):  # NaN spreads through the minimum
        return None
    row, column, _ = first_entry(array, np.isnan(data))
    return row, column


def first_no_count(array: Points) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is no whole number, or too large to be told
    from the next; None if all are counts."""
    data = array.data if sp.issparse(array) else array
    bad = (data != np.floor(data)) | (data > LARGEST_COUNT)
    return first_entry(array, bad) if bad.any() else None


def check_size(array: Points, name: str) -> None:
    """Refuse entries so large that the length of a point would overflow."""
    data = array.data if sp.issparse(array) else array
    if (
        data.dtype.kind == "f"
        and data.size
        and max(float(data.max()), -float(data.min())) > LARGEST_ENTRY
    ):
        row, column, value = first_entry(array, np.abs(data) > LARGEST_ENTRY)
        raise InvalidInputError(
            f"{name} has {value:.6g} at row {row}, column {column}; rescale entries to at most"
            f" {LARGEST_ENTRY:g}."
        )


def check_columns(Y: Points, dim: int, name: str) -> None:
    """Refuse points of another dimension than the cone's."""
    if Y.shape[1] != dim:
        raise InvalidInputError(
            f"{name} has {Y.shape[1]} columns, but the cone lives in dimension {dim}; pass points"
            " of that dimension."
        )


def check_positive(value: Any, name: str, *, below: float = np.inf) -> float:
    """``value`` as a float in (0, below)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 < number < below:
        limit = "" if below == np.inf else f" and below {below:g}"
        raise InvalidInputError(f"{argument(name)} must be a number above 0{limit}; got {value!r}.")
    return number


def check_tol(tol: Any) -> float:
    """``tol`` as a float from `SMALLEST_TOL` to 1."""
    number = check_positive(tol, "tol", below=1.0)
    if number < SMALLEST_TOL:
        raise InvalidInputError(
            f"tol = {number:.3g} is below {SMALLEST_TOL:g}, the least that can be proven in"
            " float64; pass that or more."
        )
    return number


def check_effort(effort: Any) -> Effort:
    """How much work goes into a cone: "exact" or "quick"."""
    if isinstance(effort, str) and effort in ("exact", "quick"):
        return "exact" if effort == "exact" else "quick"
    raise InvalidInputError(f'`effort` must be "exact" or "quick"; got {effort!r}.')


def check_count(value: Any, name: str, *, or_auto: bool = False) -> int:
    """``value`` as an integer >= 1; ``or_auto`` says that "auto" would have been right, too."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        allowed = 'an integer of at least 1, or "auto"' if or_auto else "an integer of at least 1"
        raise InvalidInputError(f"{name} must be {allowed}; got {value!r}.")
    return int(value)


def _check_dtype(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind == "c":
        raise InvalidInputError(
            f"{name} holds complex numbers; pass real ones, for instance {name}.real."
        )
    if dtype.kind not in "fiub":
        kind = {"U": "text", "S": "bytes", "O": "objects", "M": "dates", "m": "time spans"}.get(
            dtype.kind, str(dtype)
        )
        raise InvalidInputError(f"{name} holds {kind}, not numbers; pass a table of numbers.")


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        is_row = len(shape) == 1 and shape[0]
        hint = f" Reshape your data: a single row is {name}.reshape(1, -1)." if is_row else ""
        if len(shape) == 3:
            hint = f" The pixels of an image are {name}.reshape(-1, {shape[2]})."
        raise InvalidInputError(
            f"{name} has shape {shape}; expected two dimensions, rows and columns.{hint}"
        )
    if shape[0] == 0:
        raise InvalidInputError(f"{name} has no rows (shape {shape}); at least one is needed.")
    if shape[1] == 0:
        raise InvalidInputError(f"{name} has no columns (shape {shape}); at least one is needed.")


def _canonical(P: Any) -> Sparse:
    """CSR with sorted indices, no duplicates and no stored zeros; a copy only where something must
    change."""
    array = sp.csr_array(P)
    if array.dtype.kind == "b" or array.dtype.itemsize > 8:
        array = _float64(array)
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    if array.nnz and not array.data.all():
        array = array.copy()
        array.eliminate_zeros()
    return array


def _float64(array: Points) -> Points:
    """``array`` in float64; what overflows there becomes infinite, and is refused as such."""
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def first_entry(array: Points, bad: AnyArray) -> tuple[int, int, float]:
    """Row, column and value of the first bad entry."""
    at = int(np.argmax(bad))  # of the flattened mask
    if sp.issparse(array):
        row = int(np.searchsorted(array.indptr, at, side="right")) - 1
        return row, int(array.indices[at]), float(array.data[at])
    row, column = (int(place) for place in np.unravel_index(at, array.shape))
    return row, column, float(array[row, column])
