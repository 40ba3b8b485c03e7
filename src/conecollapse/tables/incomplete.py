"""Missing entries and weights at the public door: what is wrong with them, and how they become a
`MaskedTable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_array, as_matrix, first_entry, first_nan, non_negative
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, FloatArray, Points
from conecollapse.tables.csr import held
from conecollapse.tables.masked import MaskedTable
from conecollapse.tables.protocol import Table

WEIGHTS = (1e-100, 1e100)  # of the largest weight: products with squares of entries stay in range


def incomplete_table(
    array: Points,
    weights: Any,
    *,
    unstored: bool,
    is_new: bool,
    needs: str,
) -> Table:
    """``array`` as a table, with weights where entries are missing or have some; an ordinary table
    where all count the same.

    Negative and infinite entries are refused; ``needs`` says who cannot use them. New samples
    (``is_new``) may lack a whole column.
    """
    at = first_nan(array)
    if sp.issparse(array):
        if at is not None:
            raise InvalidInputError(
                f"X is sparse and has NaN at row {at[0]}, column {at[1]}; store only what is known"
                ' and use missing="unstored", or pass a dense array.'
            )
    elif unstored:
        raise InvalidInputError(
            'missing="unstored" is for sparse X; mark missing entries of a dense one with NaN.'
        )
    if at is None and weights is None and not unstored:
        array = non_negative(array, needs)
        return held(array)
    values = _sorted(array) if sp.issparse(array) else np.where(np.isnan(array), 0, array)
    non_negative(values, needs)
    known = _known(array if not sp.issparse(array) else values, unstored)
    Q = (
        known
        if weights is None
        else check_weights(weights, array.shape, "" if is_new else ", or use sample_weight")
    )
    table = _weighted(values, known, Q, weights is not None)
    _refuse_unknown(table, ("row",) if is_new else ("row", "column"))
    return table


def _sorted(array: Points) -> Points:
    """A CSR array with sorted indices and no duplicates; stored zeros stay."""
    array = sp.csr_array(array)
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array


def _known(array: Points, unstored: bool) -> Points | None:
    """Ones for known entries, stored like the array; None where all entries are known."""
    if sp.issparse(array):
        return (
            sp.csr_array((np.ones_like(array.data), array.indices, array.indptr), shape=array.shape)
            if unstored
            else None
        )
    return (~np.isnan(array)).astype(array.dtype)


def check_weights(weights: Any, shape: tuple[int, int], otherwise: str = "") -> Points:
    """Weights of entries in float64: finite, >= 0, of the shape of X; ``otherwise`` is a further
    remedy for another shape."""
    Q = (
        weights
        if sp.issparse(weights) or hasattr(weights, "iloc")
        else as_array(weights, "weights")
    )
    if Q.shape != shape:
        raise InvalidInputError(
            f"weights has shape {Q.shape}, but X has {shape}; give one for each entry{otherwise}."
        )
    Q = as_matrix(weights, "weights")
    data = Q.data if sp.issparse(Q) else Q
    bad = ~(np.isfinite(data) & (data >= 0))
    if bad.any():
        row, column, value = first_entry(Q, bad)
        hint = (
            " An uncertainty of zero gives an infinite weight: use the smallest that you believe."
            if np.isposinf(value)
            else ""
        )
        raise InvalidInputError(
            f"weights has {value:.6g} at row {row}, column {column}; weights must be finite and"
            f" >= 0.{hint}"
        )
    peak = float(data.max(initial=0.0))
    if peak and not WEIGHTS[0] <= peak <= WEIGHTS[1]:
        raise InvalidInputError(
            f"the largest of weights is {peak:.3g}, and must be from {WEIGHTS[0]:g} to"
            f" {WEIGHTS[1]:g}; divide all weights by the largest. With `robust` or penalties, which"
            " depend on the size of the weights, give X and its uncertainties in another unit"
            " instead."
        )
    return Q.astype(np.float64, copy=False)


def _weighted(
    values: Points, known: Points | None, Q: Points, has_uncertainties: bool
) -> MaskedTable:
    """The table with these weights: sparse where the weights are, or where only stored entries are
    known."""
    if known is not None:
        Q = Q if known is Q else Q * known
    if not sp.issparse(Q):
        return MaskedTable.of(np.where(Q > 0, as_dense(values), 0), Q, has_uncertainties)
    places = _sorted(Q)
    places.eliminate_zeros()
    rows = np.repeat(np.arange(places.shape[0]), np.diff(places.indptr))
    data = np.asarray(values[rows, places.indices]).ravel()
    return MaskedTable.of(
        sp.csr_array((data, places.indices, places.indptr), shape=places.shape),
        places,
        has_uncertainties,
    )


def _refuse_unknown(table: MaskedTable, which: tuple[str, ...]) -> None:
    """Refuse rows, or rows and columns, of which no entry counts."""
    for what in which:
        empty = np.flatnonzero(
            (table.weights.row_lengths if what == "row" else table.weights.column_lengths) == 0
        )
        if len(empty):
            raise InvalidInputError(
                f"all entries of {what} {empty[0]} of X are missing or have weight zero; drop the"
                f" {what}."
            )


def check_sample_weight(sample_weight: Any, X: Table) -> FloatArray:
    """Weights of samples in float64: finite, >= 0, one for each, above zero for one that is not
    empty."""
    s = as_array(sample_weight, "sample_weight")
    if s.shape != X.shape[:1]:
        raise InvalidInputError(
            f"sample_weight has shape {s.shape}; expected ({X.shape[0]},), one for each sample."
        )
    s = s.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(s) & (s >= 0)))
    if len(bad):
        raise InvalidInputError(
            f"sample_weight has {s[bad[0]]:.6g} at sample {bad[0]}; weights must be finite and"
            " >= 0."
        )
    if not s.any():
        raise InvalidInputError("sample_weight is zero everywhere; at least one sample must count.")
    if not X.filled[s > 0].any():
        raise InvalidInputError("all samples whose sample_weight is above zero hold only zeros.")
    return s


def filled_in(X: Any, guesses: Callable[[], AnyArray]) -> Any:
    """``X`` with ``guesses()`` in place of its missing entries."""
    if sp.issparse(X):
        raise InvalidInputError(
            "impute makes a dense table of all entries; for sparse X call inverse_transform of the"
            " rows you need."
        )
    model = guesses()  # which refuses what is no table
    if hasattr(X, "iloc"):
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
        filled = np.where(np.isnan(values), model, values)
        return type(X)(filled, index=X.index, columns=X.columns)
    if type(X).__module__.partition(".")[0] == "polars":
        values = np.asarray(X.to_numpy(), np.float64)  # with NaN for nulls
        return type(X)(np.where(np.isnan(values), model, values), schema=X.columns)
    values = np.ma.filled(
        np.ma.asarray(X, dtype=np.result_type(np.asarray(X).dtype, np.float32)), np.nan
    )
    return np.where(np.isnan(values), model, values).astype(values.dtype, copy=False)
