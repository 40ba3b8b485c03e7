"""Check the numbers of a table: real, finite and non-negative. An error says where they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import LARGEST_ENTRY
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, Points
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import place


def as_numbers(matrix: Matrix, source: str, *, single: bool = False) -> Points:
    """The values as a float32 or float64 array, or a CSR array without duplicates and stored zeros.

    A single row or column is refused unless ``single``.
    """
    values = matrix.values
    if getattr(values, "ndim", 2) != 2:
        raise InvalidInputError(
            f"{source} holds an array of {values.ndim} dimensions; a table has two."
        )
    if values.dtype.kind not in "fiub":
        kind = {
            "c": "complex numbers",
            "O": "Python objects",
            "U": "text",
            "S": "text",
            "M": "dates",
        }.get(values.dtype.kind, "records")
        raise InvalidInputError(f"{source} holds {kind}; a table of real numbers is needed.")
    _check_shape(values.shape, source, single)
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if sp.issparse(values):
        values = sp.csr_array(values)
        values.sum_duplicates()
        _check_values(values.data, values, matrix, source)
        values.eliminate_zeros()
        return values
    values = np.asarray(values)
    _check_values(values, values, matrix, source)
    return values


def clipped(matrix: Matrix) -> tuple[Matrix, int]:
    """The matrix with negative numbers set to zero, and how many there were; infinite ones stay, to
    be refused."""
    values = matrix.values
    if sp.issparse(values):
        values = sp.csr_array(values, copy=True)
        values.sum_duplicates()
    data = values.data if sp.issparse(values) else np.asarray(values)
    if data.dtype.kind not in "fi":
        return matrix, 0
    with np.errstate(invalid="ignore"):
        is_low = (data < 0) & (data > -np.inf)
    if not is_low.any():
        return matrix, 0
    if sp.issparse(values):
        values.data[is_low] = 0
    else:
        values = np.where(is_low, data.dtype.type(0), data)
    return replace(matrix, values=values), int(is_low.sum())


def _check_shape(shape: tuple[int, ...], source: str, single: bool) -> None:
    for size, what in zip(shape, ("row", "column"), strict=True):
        if size == 0:
            raise InvalidInputError(
                f"{source} has no {what}s of numbers; a table needs at least two rows and two"
                " columns."
            )
        if size == 1 and not single:
            hint = (
                "; is the separator a comma, a semicolon or a tab?"
                if what == "column" and ".csv" in source
                else "."
            )
            raise InvalidInputError(
                f"{source} has only one {what} of numbers; a table needs at least two rows and two"
                f" columns{hint}"
            )


def _check_values(data: AnyArray, values: Points, matrix: Matrix, source: str) -> None:
    # NaN spreads through both
    low, high = (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
    if low >= 0 and high <= LARGEST_ENTRY:
        return
    if np.isnan(low):
        what, bad, remedy = (
            "a missing value (NaN)",
            np.isnan(data),
            "remove or impute such values first",
        )
    elif max(-low, high) == np.inf:
        what, bad, remedy = (
            "an infinite value",
            np.isinf(data),
            "remove or impute such values first",
        )
    elif low < 0:
        count = int((data < 0).sum())
        what, bad = f"{count} negative {'value' if count == 1 else 'values'}", data < 0
        way = (
            " or shift, or pass clip=True to set them to zero"
            if matrix.may_clip
            else ", shift or clip"
        )
        remedy = f"the values must be >= 0: undo a logarithm{way}"
    else:
        what, bad, remedy = (
            "too large a value",
            data > LARGEST_ENTRY,
            f"rescale to at most {LARGEST_ENTRY:g}",
        )
    at = int(np.argmax(bad))
    if sp.issparse(values):
        row, column, value = (
            int(np.searchsorted(values.indptr, at, side="right")) - 1,
            int(values.indices[at]),
            float(data[at]),
        )
    else:
        row, column = (int(i) for i in np.unravel_index(at, values.shape))
        value = float(values[row, column])
    where = f"row {place(row, matrix.row_names)}, column {place(column, matrix.column_names)}"
    first = f", the first in {where}: {value:.6g}" if "negative" in what else f" in {where}"
    raise InvalidInputError(f"{source} has {what}{first}; {remedy}.")
