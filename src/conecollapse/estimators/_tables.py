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

SAFE = {"float64": (1e-30, 1e30), "float32": (1e-4, 1e4)}  # largest entries with which sixth powers and their sums stay in range
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


def divided(X: Points, unit: Any) -> Points:
    """``X / unit``, and X itself when that is 1."""
    if unit == 1:
        return X
    return X.divided(float(unit)) if isinstance(X, BlockedTable) else X / unit


def _check_unique_columns(X: Any) -> None:
    """Names that two columns of a frame share would be refused by scikit-learn in words of its own."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidInputError(f"X has two columns named {twice!r}; rename one, or pass X.to_numpy().")


def warn_of_empty(X: Points, samples_are: str, estimator: Any) -> BoolArray:
    """Warn of samples and features that are all zero, and say what becomes of such samples; which samples they are."""
    if isinstance(X, BlockedTable):
        rows, columns = ~X.survey.filled, X.survey.lengths == 0
    elif sp.issparse(X):
        rows, columns = np.diff(X.indptr) == 0, np.bincount(X.indices, minlength=X.shape[1]) == 0
    else:
        rows, columns = ~X.any(axis=1), ~X.any(axis=0)
    if rows.all():
        raise InvalidInputError("X is zero everywhere; there is nothing to factorize.")
    if rows.any():
        warnings.warn(f"{_listed(np.flatnonzero(rows), 'sample')} only zeros: {samples_are}.", EmptyDataWarning, stacklevel=3)
    if columns.any():
        names = getattr(estimator, "feature_names_in_", None)
        listed = _listed(np.flatnonzero(columns), "feature", names)
        warnings.warn(f"{listed} only zeros: kept in place, as zeros.", EmptyDataWarning, stacklevel=3)
    return rows


def safe_unit(X: Points) -> float:
    """A power of two by which to divide X so that no square or product of squares is lost; 1 for ordinary data."""
    peak = X.survey.peak if isinstance(X, BlockedTable) else float(X.max()) if not sp.issparse(X) or X.nnz else 0.0
    low, high = SAFE[X.dtype.name]
    return 1.0 if low <= peak <= high or peak == 0 else float(2.0 ** np.floor(np.log2(peak)))


def _listed(which: IntArray, what: str, names: AnyArray | None = None) -> str:
    shown = ", ".join(str(i) if names is None else repr(str(names[i])) for i in which[:NAMED])
    more = f" and {len(which) - NAMED} more" if len(which) > NAMED else ""
    return f"{what} {shown} of X holds" if len(which) == 1 else f"{what}s {shown}{more} of X hold"


def generator(random_state: Any) -> np.random.Generator:
    """scikit-learn's ``random_state`` as a modern generator."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
