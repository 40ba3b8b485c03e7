"""Checks at the public door: what is wrong, where, the value, and what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, Points, Sparse


def as_points(P: Any, name: str = "P", *, needs: str = "a cone needs points >= 0") -> Points:
    """``P`` as a dense array or a canonical CSR array of non-negative finite numbers, one point in each row."""
    array = as_matrix(P, name)
    check_finite(array, name)
    data = array.data if sp.issparse(array) else array
    if data.size and data.min() < 0:
        row, column, value = _first(array, data < 0)
        count = int((data < 0).sum())
        raise InvalidInputError(
            f"{name} has {count} negative {'entry' if count == 1 else 'entries'}, the first at row {row}, column {column} "
            f"({value:.6g}); {needs}."
        )
    return array


def as_matrix(P: Any, name: str) -> Points:
    """``P`` as a two-dimensional real numeric array or canonical CSR array, with at least one row and one column."""
    if sp.issparse(P):
        _check_dtype(P.dtype, name)
        _check_shape(P.shape, name)
        return _canonical(P)
    try:
        array = np.asarray(P)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a rectangular table of numbers: {error}.") from error
    _check_dtype(array.dtype, name)
    _check_shape(array.shape, name)
    return array.astype(np.float64) if array.dtype.kind == "b" else array


def check_finite(array: Points, name: str) -> None:
    """Refuse NaN and infinity, naming the first."""
    data = array.data if sp.issparse(array) else array
    if data.dtype.kind != "f" or not data.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        spoiled = not np.isfinite(data.sum(dtype=np.float64))  # one pass; large entries may overflow the sum, so look again
    if spoiled and not np.isfinite(data).all():
        row, column, value = _first(array, ~np.isfinite(data))
        raise InvalidInputError(
            f"{name} has {'NaN' if np.isnan(value) else 'an infinite entry'} at row {row}, column {column}; "
            "remove or impute such entries first."
        )


def check_columns(Y: Points, dim: int, name: str) -> None:
    """Refuse points of another dimension than the cone's."""
    if Y.shape[1] != dim:
        raise InvalidInputError(f"{name} has {Y.shape[1]} columns, but the cone lives in dimension {dim}; pass points of that dimension.")


def check_positive(value: Any, name: str, *, below: float = np.inf) -> float:
    """``value`` as a float in (0, below)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 < number < below:
        limit = "" if below == np.inf else f" and below {below:g}"
        raise InvalidInputError(f"{name} must be a number above 0{limit}; got {value!r}.")
    return number


def check_count(value: Any, name: str) -> int:
    """``value`` as an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name} must be an integer of at least 1; got {value!r}.")
    return int(value)


def _check_dtype(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind == "c":
        raise InvalidInputError(f"{name} holds complex numbers; pass real ones, for instance {name}.real.")
    if dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} holds {dtype} values, not numbers; convert it first, for instance {name}.astype(float).")


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"{name} has shape {shape}; expected two dimensions (n_points, dim). A single point is {name}.reshape(1, -1)."
        )
    if shape[0] == 0:
        raise InvalidInputError(f"{name} has no points (shape {shape}); at least one row is needed.")
    if shape[1] == 0:
        raise InvalidInputError(f"{name} has points of dimension 0 (shape {shape}); at least one column is needed.")


def _canonical(P: Any) -> Sparse:
    """CSR with sorted indices, no duplicates and no stored zeros; a copy only where something must change."""
    array = sp.csr_array(P)
    if array.dtype.kind == "b":
        array = array.astype(np.float64)
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    if array.nnz and not array.data.all():
        array = array.copy()
        array.eliminate_zeros()
    return array


def _first(array: Points, bad: AnyArray) -> tuple[int, int, float]:
    """Row, column and value of the first bad entry."""
    at = int(np.argmax(bad))  # of the flattened mask
    if sp.issparse(array):
        row = int(np.searchsorted(array.indptr, at, side="right")) - 1
        return row, int(array.indices[at]), float(array.data[at])
    row, column = (int(place) for place in np.unravel_index(at, array.shape))
    return row, column, float(array[row, column])
