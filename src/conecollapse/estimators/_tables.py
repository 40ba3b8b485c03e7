"""The table that an estimator gets: checked, with a word about rows and columns that hold nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from conecollapse._checks import as_points
from conecollapse._errors import EmptyDataWarning, InvalidInputError
from conecollapse._types import AnyArray, BoolArray, IntArray, Points
from conecollapse.blocks import BlockedTable, as_table

SAFE = (1e-30, 1e30)  # largest entries with which sixth powers and their sums stay in range
WHOLE = 2.0**24  # up to here float32 holds every whole number
NO_CLUSTER = -1  # label of a sample that no component says anything about
NAMED = 5  # how many empty rows or columns a warning names


def check_table(estimator: Any, X: Any, *, reset: bool) -> Points:
    """``X`` as a dense or CSR array of float64 or float32, finite and non-negative, in scikit-learn's manner."""
    table = as_table(X)
    if table is not None:
        return _checked_blocks(estimator, table, reset)
    _check_unique_columns(X)
    X = validate_data(estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
    try:
        return as_points(X, "X", needs=f"{type(estimator).__name__} needs X >= 0: undo a logarithm, shift or clip")
    except InvalidInputError as error:
        if "negative" not in str(error):
            raise
        raise InvalidInputError(f"Negative values in data: {error}") from None


def _checked_blocks(estimator: Any, table: BlockedTable, reset: bool) -> BlockedTable:
    """A table in blocks, in those from which its cone can be had; looking at its survey checks every entry."""
    if not getattr(estimator, "_takes_blocks", False):
        raise InvalidInputError(f"{type(estimator).__name__} needs the whole table in memory; CCNMF and ConeCollapse take blocks.")
    _ = table.survey
    if reset:
        estimator.n_features_in_ = table.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif table.shape[1] != estimator.n_features_in_:
        raise InvalidInputError(
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features as input."
        )
    return table.oriented()


def working_table(X: Points, unit: float) -> Points:
    """``X / unit`` in float64 and in one layout, so that the same numbers give the same factors however they are stored.

    X itself where it is so already. A table in blocks is converted block by block when it is visited.
    """
    if isinstance(X, BlockedTable):
        return X if unit == 1 and X.dtype == np.float64 else X.divided(unit)
    table: Points = X.astype(np.float64, copy=False) if sp.issparse(X) else np.ascontiguousarray(X, np.float64)
    if unit == 1:
        return table
    exponent = int(np.frexp(unit)[1]) - 1  # of the power of two: to divide by the smallest ones, SciPy and old NumPy form their inverses
    if not sp.issparse(table):
        return np.ldexp(table, -exponent)
    scaled = table.copy()
    scaled.data = np.ldexp(table.data, -exponent)
    return scaled


def check_range(X: Points, table: Points, unit: float) -> None:
    """Refuse samples and features that are lost in the working table because others are so much larger."""
    if unit == 1 or isinstance(X, BlockedTable):
        return
    for what, before, after in zip(("sample", "feature"), filled_lines(X), filled_lines(table), strict=True):
        for i in np.flatnonzero(before & ~after)[:1]:
            raise InvalidInputError(
                f"{what} {i} of X is more than 1e300 times smaller than the largest entry of X, beyond what floating point can compare; "
                f"rescale the {what}s, or drop it."
            )


def in_dtype(array: AnyArray, dtype: Any) -> AnyArray:
    """``array`` in ``dtype``; in float64 where ``dtype`` could not hold its largest entries."""
    fits = array.size == 0 or float(np.abs(array).max()) <= float(np.finfo(dtype).max)
    return array.astype(dtype, copy=False) if fits else array


def carries_rounding(X: Points) -> bool:
    """Whether the entries of X may have been rounded to float32: they are of that type, and not all are whole numbers."""
    if X.dtype != np.float32 or isinstance(X, BlockedTable):
        return bool(X.dtype == np.float32)
    data = X.data if sp.issparse(X) else X
    return not (float(data.max(initial=0.0)) <= WHOLE and bool((np.rint(data) == data).all()))


def _check_unique_columns(X: Any) -> None:
    """Names that two columns of a frame share would be refused by scikit-learn in words of its own."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidInputError(f"X has two columns named {twice!r}; rename one, or pass X.to_numpy().")


def warn_of_empty(X: Points, samples_are: str, estimator: Any) -> BoolArray:
    """Warn of samples and features that are all zero, and say what becomes of such samples; which samples they are."""
    rows, columns = (~lines for lines in filled_lines(X))
    if rows.all():
        raise InvalidInputError("X is zero everywhere; there is nothing to factorize.")
    warn_of_samples(rows, samples_are, stacklevel=4)
    if columns.any():
        names = getattr(estimator, "feature_names_in_", None)
        listed = _listed(np.flatnonzero(columns), "feature", names)
        warnings.warn(f"{listed} only zeros: kept in place, as zeros.", EmptyDataWarning, stacklevel=3)
    return rows


def warn_of_samples(empty: BoolArray, samples_are: str, *, stacklevel: int = 3) -> None:
    """Name the samples that are all zero, and say what becomes of them."""
    if empty.any():
        warnings.warn(f"{_listed(np.flatnonzero(empty), 'sample')} only zeros: {samples_are}.", EmptyDataWarning, stacklevel=stacklevel)


def filled_lines(X: Points) -> tuple[BoolArray, BoolArray]:
    """Which samples, and which features, hold anything."""
    if isinstance(X, BlockedTable):
        return X.survey.filled, X.survey.lengths > 0
    if sp.issparse(X):
        held = X.data != 0
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[held]
        return np.bincount(rows, minlength=X.shape[0]) > 0, np.bincount(X.indices[held], minlength=X.shape[1]) > 0
    return X.any(axis=1), X.any(axis=0)


def safe_unit(X: Points) -> float:
    """A power of two by which to divide X so that no square or product of squares is lost; 1 for ordinary data."""
    peak = X.survey.peak if isinstance(X, BlockedTable) else float(X.max()) if not sp.issparse(X) or X.nnz else 0.0
    low, high = SAFE
    return 1.0 if low <= peak <= high or peak == 0 else float(2.0 ** np.floor(np.log2(peak)))


def _listed(which: IntArray, what: str, names: AnyArray | None = None) -> str:
    shown = ", ".join(str(i) if names is None else repr(str(names[i])) for i in which[:NAMED])
    more = f" and {len(which) - NAMED} more" if len(which) > NAMED else ""
    return f"{what} {shown} of X holds" if len(which) == 1 else f"{what}s {shown}{more} of X hold"


def generator(random_state: Any) -> np.random.Generator:
    """scikit-learn's ``random_state`` as a modern generator."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
