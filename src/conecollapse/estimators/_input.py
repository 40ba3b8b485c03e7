"""The input of an estimator as a checked table, with warnings about rows and columns that are all zero."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from conecollapse._checks import as_points
from conecollapse._errors import EmptyDataWarning, InvalidInputError
from conecollapse._types import AnyArray, BoolArray, IntArray
from conecollapse.tables import Table, as_table, recognised

SAFE = (1e-30, 1e30)  # largest entries with which sixth powers and their sums stay in range
NAMED = 5  # how many empty rows or columns a warning names


def check_table(estimator: Any, X: Any, *, reset: bool) -> Table:
    """``X`` as a table of float64 or float32, finite and non-negative, in scikit-learn's manner."""
    table = recognised(X)
    if table is not None and not table.in_memory:
        return _checked(estimator, table.checked(), reset)
    X = X if table is None else table.array
    _check_unique_columns(X)
    X = validate_data(estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
    try:
        return as_table(as_points(X, "X", needs=f"{type(estimator).__name__} needs X >= 0: undo a logarithm, shift or clip"))
    except InvalidInputError as error:
        if "negative" not in str(error):
            raise
        raise InvalidInputError(f"Negative values in data: {error}") from None


def _checked(estimator: Any, table: Table, reset: bool) -> Table:
    """The table, with its number of features noted or compared."""
    if reset:
        estimator.n_features_in_ = table.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif table.shape[1] != estimator.n_features_in_:
        raise InvalidInputError(
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features as input."
        )
    return table


def check_range(X: Table, working: Table, unit: float) -> None:
    """Refuse samples and features that are lost in the working table because others are so much larger."""
    if unit == 1 or not X.in_memory:
        return
    lines = (("sample", X.filled, working.filled), ("feature", X.filled_columns, working.filled_columns))
    for what, before, after in lines:
        for i in np.flatnonzero(before & ~after)[:1]:
            raise InvalidInputError(
                f"{what} {i} of X is more than 1e300 times smaller than the largest entry of X, beyond what floating point can compare; "
                f"rescale the {what}s, or drop it."
            )


def in_dtype(array: AnyArray, dtype: Any) -> AnyArray:
    """``array`` in ``dtype``; in float64 where ``dtype`` could not hold its largest entries."""
    fits = array.size == 0 or float(np.abs(array).max()) <= float(np.finfo(dtype).max)
    return array.astype(dtype, copy=False) if fits else array


def _check_unique_columns(X: Any) -> None:
    """Names that two columns of a frame share would be refused by scikit-learn in words of its own."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidInputError(f"X has two columns named {twice!r}; rename one, or pass X.to_numpy().")


def warn_of_empty(X: Table, samples_are: str, estimator: Any) -> BoolArray:
    """Warn of samples and features that are all zero, and say what becomes of such samples; which samples they are."""
    rows, columns = ~X.filled, ~X.filled_columns
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


def safe_unit(X: Table) -> float:
    """A power of two by which to divide X so that no square or product of squares is lost; 1 for ordinary data."""
    low, high = SAFE
    return 1.0 if low <= X.peak <= high or X.peak == 0 else float(2.0 ** np.floor(np.log2(X.peak)))


def _listed(which: IntArray, what: str, names: AnyArray | None = None) -> str:
    shown = ", ".join(str(i) if names is None else repr(str(names[i])) for i in which[:NAMED])
    more = f" and {len(which) - NAMED} more" if len(which) > NAMED else ""
    return f"{what} {shown} of X holds" if len(which) == 1 else f"{what}s {shown}{more} of X hold"


def generator(random_state: Any) -> np.random.Generator:
    """scikit-learn's ``random_state`` as a modern generator."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
