"""What the reader of one format returns: numbers and names as they are in the source, not yet
transposed or checked; and the check that they are real, finite and non-negative."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import LARGEST_ENTRY, first_entry
from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray, Points
from conecollapse.io.headings import Layout

KINDS = {"c": "complex numbers", "O": "Python objects", "U": "text", "S": "text", "M": "dates"}
HIGHLY_VARIABLE = "highly_variable"  # scanpy's column of `var`
IMPUTE = "remove or impute such values first"


@dataclass(frozen=True, eq=False)
class Matrix:
    """The numbers of a source with the names of its rows and columns."""

    values: Any  # two-dimensional array, sparse array, or a `TableSource` that reads blocks of one
    row_names: AnyArray | None = None
    column_names: AnyArray | None = None
    row_word: str = ""  # what the source calls its rows, such as the heading of a column of names
    features_in: str = ""  # "rows" or "columns" when the format itself says so
    because: str = ""  # how it says so
    layout: Layout | None = None  # of text and frames: what was taken as heading and names
    marked: AnyArray | None = None  # which features the source marks as highly variable
    axis: AnyArray | None = None  # where along the columns was measured, such as wavelengths
    sha256: str = ""  # of the file, where the reader has all of its bytes
    may_clip: bool = False  # whether the caller can ask for negative values to be set to zero

    def loaded(self) -> Matrix:
        """The same with the values of a `TableSource` in memory."""
        return replace(self, values=self.values.whole())


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
        kind = KINDS.get(values.dtype.kind, "records")
        raise InvalidInputError(f"{source} holds {kind}; a table of real numbers is needed.")
    _check_shape(values.shape, source, single)
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if not sp.issparse(values):
        values = np.asarray(values)
        _check_values(values, matrix, source)
        return values
    values = sp.csr_array(values)
    values.sum_duplicates()
    _check_values(values, matrix, source)
    values.eliminate_zeros()
    return values


def clip_negative(matrix: Matrix) -> tuple[Matrix, int]:
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
    needs = "a table needs at least two rows and two columns"
    for size, what in zip(shape, ("row", "column"), strict=True):
        if size == 0:
            raise InvalidInputError(f"{source} has no {what}s of numbers; {needs}.")
        if size == 1 and not single:
            asks = "; is the separator a comma, a semicolon or a tab?"
            hint = asks if what == "column" and ".csv" in source else "."
            raise InvalidInputError(f"{source} has only one {what} of numbers; {needs}{hint}")


def _check_values(values: Points, matrix: Matrix, source: str) -> None:
    data = values.data if sp.issparse(values) else values
    # NaN spreads through both
    low, high = (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
    if low >= 0 and high <= LARGEST_ENTRY:
        return
    if np.isnan(low):
        bad, what, remedy = np.isnan(data), "a missing value (NaN) in {}", IMPUTE
    elif max(-low, high) == np.inf:
        bad, what, remedy = np.isinf(data), "an infinite value in {}", IMPUTE
    elif low < 0:
        bad = data < 0
        count = int(bad.sum())
        what = (
            f"{count} negative {'value' if count == 1 else 'values'}, the first in {{}}: {{:.6g}}"
        )
        clip = f" or shift, or pass {argument('clip', True)} to set them to zero"
        remedy = "the values must be >= 0: undo a logarithm" + (
            clip if matrix.may_clip else ", shift or clip"
        )
    else:
        bad, what = data > LARGEST_ENTRY, "too large a value in {}"
        remedy = f"rescale to at most {LARGEST_ENTRY:g}"
    row, column, value = first_entry(values, bad)
    where = f"row {place(row, matrix.row_names)}, column {place(column, matrix.column_names)}"
    raise InvalidInputError(f"{source} has {what.format(where, value)}; {remedy}.")


LONGEST = 1000  # characters of a name; an array of text gives every name the room of the longest


def as_names(names: Iterable[Any], what: str) -> AnyArray:
    """``names`` as an array of str; ``what`` they name is for the message.

    Examples
    --------
    >>> as_names([1, "b"], "rows")
    array(['1', 'b'], dtype='<U1')
    """
    texts = [str(name) for name in names]
    for number, text in enumerate(texts, 1):
        if len(text) > LONGEST:
            raise InvalidInputError(
                f"name {number} of the {what} has {len(text)} characters ({text[:20]!r}...), more"
                f" than {LONGEST}; is it a name?"
            )
    return np.array(texts, dtype=np.str_)


def place(number: int, names: AnyArray | None) -> str:
    """A row or column for a message: its place, counted from 1, and its name if it has one.

    Examples
    --------
    >>> place(0, None), place(0, np.array(["TP53"]))
    ('1', "1 ('TP53')")
    """
    return str(number + 1) if names is None else f"{number + 1} ({str(names[number])!r})"


def is_frame(data: Any) -> bool:
    """Whether this is a frame of pandas or polars; neither is imported for it."""
    module = type(data).__module__.partition(".")[0]
    return (module == "pandas" and getattr(data, "ndim", 0) == 2) or (
        module == "polars" and hasattr(data, "get_columns")
    )


def is_anndata(data: Any) -> bool:
    """Whether this is an AnnData object; anndata is not imported for it."""
    return type(data).__module__.partition(".")[0] == "anndata" and hasattr(data, "obs_names")


def stored_at(data: Any) -> Path | None:
    """The file that holds the tables of a backed AnnData object; None if they are in memory, or if
    it is a part of another object."""
    return Path(data.filename) if getattr(data, "isbacked", False) and not data.is_view else None
