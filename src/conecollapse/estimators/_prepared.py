"""The input of an estimator: unwrapped, checked, named and brought into a working unit once.

`prepare` makes the record that the steps of a `fit` pass on; `check_table` checks new samples.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from conecollapse._checks import check_array, check_no_text, first_nan, non_negative
from conecollapse._errors import (
    ConeCollapseError,
    EmptyDataWarning,
    InvalidInputError,
    UnexpectedArgumentError,
    first_of,
)
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.estimators._estimator import WITH_WEIGHTS
from conecollapse.io import TableFile, TableSource, open_table
from conecollapse.io.matrix import as_names, is_anndata, stored_at
from conecollapse.tables import Table, as_table, recognised

SAFE = (1e-30, 1e30)  # largest entries with which sixth powers and their sums stay in range
NAMED = 5  # how many empty rows or columns a warning names
SHOWN = 300  # characters of a message of scikit-learn's, which may paste a table


@dataclass(frozen=True)
class Prepared:
    """A checked table, and what the steps of a fit ask about it."""

    table: Table  # over `unit`, so that no square or product of squares is lost
    unit: float  # a power of two; 1 for ordinary data
    peak: float  # the largest entry of X
    dtype: np.dtype[Any]  # of X
    is_rounded: bool  # whether X may carry the rounding of float32
    empty: BoolArray  # which samples are all zero
    feature_names: AnyArray | None = None
    sample_weight: FloatArray | None = None  # over `weight_unit`
    weight_unit: float = 1.0
    weighted_by: str = ""  # what makes entries count differently, for messages

    @property
    def n_samples(self) -> int:
        return self.table.shape[0]

    @property
    def n_features(self) -> int:
        return self.table.shape[1]


def prepare(
    estimator: Any, X: Any, feature_names: Any, layer: str | None, *, samples_are: str
) -> Prepared:
    """What `fit` was given. ``samples_are`` says what becomes of samples of zeros, in a warning."""
    table = check_table(estimator, remember_layer(estimator, X, feature_names, layer), reset=True)
    return prepare_table(estimator, table, samples_are)


def prepare_table(estimator: Any, X: Table, samples_are: str) -> Prepared:
    """A checked table in its working unit; warns of samples and features that are all zero."""
    empty = warn_of_empty(X, samples_are, estimator)
    unit = safe_unit(X)
    working = X.divided(unit)
    check_range(X, working, unit)
    names = getattr(estimator, "feature_names_in_", None)
    return Prepared(working, unit, X.peak, X.dtype, X.is_rounded, empty, names)


class Named(NamedTuple):
    """A table as it was passed, without its wrapping: an array, a sparse array, a frame or a
    `Table`, and names if they are known."""

    X: Any
    feature_names: AnyArray | None = None
    sample_names: AnyArray | None = None


def named(X: Any, feature_names: Any = None, layer: str | None = None) -> Named:
    """What a `TableFile`, an AnnData object or an opened file holds, with its names;
    ``feature_names`` replaces them."""
    found = X if isinstance(X, Named) else _unwrapped(X, layer)
    if feature_names is None:
        return found
    names, n_features = (
        as_names(feature_names, "features"),
        getattr(found.X, "shape", (0, len(feature_names)))[-1],
    )
    if len(names) != n_features:
        raise InvalidInputError(
            f"feature_names has {len(names)} names, but X has {n_features} features; give one for"
            " each."
        )
    return found._replace(
        X=found.X.to_numpy() if hasattr(found.X, "iloc") else found.X, feature_names=names
    )


def _unwrapped(X: Any, layer: str | None) -> Named:
    if is_anndata(X):
        from conecollapse.io.h5ad import in_memory

        values = open_table(X, layer=layer) if stored_at(X) is not None else in_memory(X, layer)
        return Named(values, *(as_names(names, "names") for names in (X.var_names, X.obs_names)))
    if layer is not None:
        raise InvalidInputError(
            f"layer={layer!r} is for AnnData objects; leave it out for {type(X).__name__}."
        )
    if isinstance(X, TableFile):
        return Named(X.X, X.feature_names, X.sample_names)
    return (
        Named(X, getattr(X, "feature_names", None), getattr(X, "sample_names", None))
        if isinstance(X, (Table, TableSource))
        else Named(X)
    )


def values_of(estimator: Any, X: Any, *, reset: bool = False) -> Named:
    """What ``X`` holds, without its wrapping: of an AnnData object the layer that the estimator was
    fitted to. Features are in the order of `fit`."""
    found = named(X, layer=getattr(estimator, "_layer", None) if is_anndata(X) else None)
    order = None if reset else feature_order(estimator, found.X, found.feature_names)
    if order is None:
        return found
    names = None if found.feature_names is None else found.feature_names[order]
    return Named(_columns(found.X, order), names, found.sample_names)


def feature_order(estimator: Any, X: Any, names: AnyArray | None = None) -> IntArray | None:
    """The columns of ``X`` in the order of the features of `fit`, by their names; None where that
    is their order, or names are not known. Missing and additional features are named."""
    names = getattr(X, "columns", None) if names is None else names
    known = getattr(estimator, "feature_names_in_", None)
    if names is None or known is None or not all(isinstance(name, str) for name in names):
        return None
    have, want = list(map(str, names)), list(map(str, known))
    place = {name: j for j, name in enumerate(have)}
    if have == want or len(place) < len(have):  # copies are refused elsewhere
        return None
    lines = ""  # as scikit-learn has them
    for what, some in (
        ("unseen at fit time", sorted(place.keys() - set(want))),
        ("seen at fit time, yet now missing", sorted(set(want) - place.keys())),
    ):
        if some:
            rest = ["..."] if len(some) > NAMED else []
            lines += "\n- ".join([f"Feature names {what}:", *some[:NAMED], *rest]) + "\n"
    if lines:
        raise InvalidInputError(
            "The feature names should match those that were passed during fit.\n"
            f"{lines}Add, drop or rename these features of X; their order does not matter."
        )
    return np.array([place[name] for name in want])


def _columns(X: Any, order: IntArray) -> Any:
    """The columns of a frame, an array or a table in this order."""
    if hasattr(X, "columns"):
        return X[[X.columns[j] for j in order]]
    table = recognised(X)
    if table is not None and not table.in_memory:
        raise InvalidInputError(
            f"the features of X have another order than in `fit`, and X is {table.kind}; write them"
            " in the order of `fit`."
        )
    return X[:, order] if table is None else table.array[:, order]


@contextmanager
def our_errors(X: Any = None) -> Iterator[None]:
    """What scikit-learn refuses, as an error of this package, in one line of ordinary length; text
    in ``X`` is named by its place."""
    try:
        yield
    except ConeCollapseError:
        raise
    except (ValueError, TypeError) as error:
        check_no_text(X)
        kind = InvalidInputError if isinstance(error, ValueError) else UnexpectedArgumentError
        raise kind(shorten(str(error), SHOWN, placeholder=" ...")) from error


def remember_layer(estimator: Any, X: Any, feature_names: Any, layer: str | None) -> Named:
    """`named`, for `fit`: the layer is that of later tables, too."""
    estimator._layer = layer
    return named(X, feature_names, layer)


def check_table(estimator: Any, X: Any, *, reset: bool) -> Table:
    """``X`` as a table of float64 or float32, finite and non-negative, in scikit-learn's manner,
    with its names noted or compared."""
    found = check_input(estimator, X, reset=reset)
    if isinstance(found, Table):
        return found
    missing = first_nan(found)
    if missing is not None:
        row, column = missing
        raise InvalidInputError(
            f"X has NaN at row {row}, column {column}; {type(estimator).__name__} cannot use"
            f" missing values. {WITH_WEIGHTS} can, and their `impute` fills them in."
        )
    return as_table(non_negative(found, needs_of(estimator)))


def check_input(estimator: Any, X: Any, *, reset: bool) -> Table | Points:
    """``X`` with its names noted or compared: a checked table if it is not in memory, else a dense
    array or a CSR array of float64 or float32, in which NaN may stand for missing entries.
    """
    X, names, _ = values_of(estimator, X, reset=reset)
    table = recognised(X)
    if table is not None and not table.in_memory:
        return _checked(estimator, table.checked(), reset, names)
    X = X if table is None else table.array
    _check_unique_columns(X)
    check_array(X, "X")
    X = unmasked(X)
    with without_question_of_names(estimator, X, reset=reset), our_errors(X):
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
            ensure_all_finite=False,
        )
    _check_names(estimator, names, reset)
    return X


def unmasked(X: Any) -> Any:
    """``X``, with NaN for the masked entries of one of NumPy's masked arrays."""
    return (
        np.ma.filled(X.astype(np.float64 if X.dtype.kind != "f" else X.dtype), np.nan)
        if np.ma.isMaskedArray(X)
        else X
    )


def needs_of(estimator: Any) -> str:
    """What the estimator needs, for a message about negative entries."""
    return f"{type(estimator).__name__} needs X >= 0: undo a logarithm, shift or clip"


def without_question_of_names(estimator: Any, X: Any, *, reset: bool) -> Any:
    """scikit-learn asks for names in every table if `fit` had them; not here, if `fit` had an array
    whose names were passed beside it."""
    if reset or hasattr(X, "columns") or not getattr(estimator, "_names_beside", False):
        return nullcontext()
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def _check_names(estimator: Any, names: AnyArray | None, reset: bool) -> None:
    """Note the names that came beside a table, or compare them with those of `fit`."""
    if reset:
        estimator._names_beside = names is not None
        if names is not None:
            estimator.feature_names_in_ = names.astype(object)
        return
    known = getattr(estimator, "feature_names_in_", None)
    if names is None or known is None or len(known) != len(names):
        return
    for j in np.flatnonzero(known.astype(str) != names.astype(str))[:1]:  # some are there twice
        raise InvalidInputError(
            f"feature {j} of X is called {str(names[j])!r}, but {str(known[j])!r} in `fit`; put the"
            " features into the same order."
        )


def by_name(estimator: Any, frame: Any, name: str) -> Any:
    """A frame beside X with its columns in the order of the features of X; names that are not
    strings do not count."""
    names, known = list(getattr(frame, "columns", ())), getattr(estimator, "feature_names_in_", ())
    if len(names) != len(known) or not all(isinstance(label, str) for label in names):
        return frame
    for lacking in sorted(set(known) - set(names))[:1]:
        raise InvalidInputError(
            f"{name} has no column for the feature {lacking!r} of X; use the names of X."
        )
    return frame if names == list(known) else frame[list(known)]


def _checked(estimator: Any, table: Table, reset: bool, names: AnyArray | None) -> Table:
    """The table, with its number of features noted or compared."""
    if reset:
        estimator.n_features_in_ = table.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif table.shape[1] != estimator.n_features_in_:
        raise InvalidInputError(
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting"
            f" {estimator.n_features_in_} features as input."
        )
    _check_names(estimator, names, reset)
    return table


def check_range(X: Table, working: Table, unit: float) -> None:
    """Refuse samples and features that are lost in the working table because others are so much
    larger."""
    if unit == 1 or not X.in_memory:
        return
    lines = (
        ("sample", X.filled, working.filled),
        ("feature", X.filled_columns, working.filled_columns),
    )
    for what, before, after in lines:
        for i in np.flatnonzero(before & ~after)[:1]:
            raise InvalidInputError(
                f"{what} {i} of X is more than 1e300 times smaller than the largest entry of X,"
                f" beyond what floating point can compare; rescale the {what}s, or drop it."
            )


def feature_names_of(estimator: Any, names: Any = None) -> AnyArray:
    """The names given, else those that the estimator knows, else x0, x1, ..."""
    n = estimator.n_features_in_
    names = getattr(estimator, "feature_names_in_", None) if names is None else names
    if names is None:
        return np.array([f"x{j}" for j in range(n)])
    if len(names) != n:
        raise InvalidInputError(
            f"there are {len(names)} names for {n} features; give one for each."
        )
    return np.asarray(names)


def in_dtype(array: AnyArray, dtype: Any) -> AnyArray:
    """``array`` in ``dtype``; in float64 where ``dtype`` could not hold its largest entries."""
    fits = array.size == 0 or float(np.abs(array).max()) <= float(np.finfo(dtype).max)
    return array.astype(dtype, copy=False) if fits else array


def _check_unique_columns(X: Any) -> None:
    """Names that two columns of a frame share would be refused by scikit-learn in words of its
    own."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidInputError(
            f"X has two columns named {twice!r}; rename one, or pass X.to_numpy()."
        )


def warn_of_empty(X: Table, samples_are: str, estimator: Any) -> BoolArray:
    """Warn of samples and features that are all zero, and say what becomes of such samples; which
    samples they are."""
    rows, columns = ~X.filled, ~X.filled_columns
    if rows.all():
        raise InvalidInputError("X is zero everywhere; there is nothing to factorize.")
    warn_of_samples(rows, samples_are, estimator)
    if columns.any() and not _is_known(estimator, "features"):
        names = getattr(estimator, "feature_names_in_", None)
        listed = _listed(np.flatnonzero(columns), "feature", names)
        warnings.warn(
            f"{listed} only zeros: kept in place, as zeros.", EmptyDataWarning, stacklevel=outside()
        )
    return rows


def warn_of_samples(empty: BoolArray, samples_are: str, estimator: Any = None) -> None:
    """Name the samples that are all zero, and say what becomes of them."""
    if empty.any() and not _is_known(estimator, "samples"):
        warnings.warn(
            f"{_listed(np.flatnonzero(empty), 'sample')} only zeros: {samples_are}.",
            EmptyDataWarning,
            stacklevel=outside(),
        )


def outside() -> int:
    """The ``stacklevel`` of a warning that points to the first caller outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        "conecollapse."
    ):
        level, frame = level + 1, frame.f_back
    return level


def _is_known(estimator: Any, subject: str) -> bool:
    """Whether a copy of the model, such as that of another fold, has warned of it."""
    return hasattr(estimator, "_note_warning") and estimator._note_warning(
        subject, estimator.n_features_in_
    )


def safe_unit(X: Table) -> float:
    """A power of two by which to divide X so that no square or product of squares is lost; 1 for
    ordinary data."""
    return safe_power(X.peak)


def safe_power(peak: float) -> float:
    """A power of two near the largest of some numbers; 1 where that is ordinary, or zero."""
    low, high = SAFE
    return 1.0 if low <= peak <= high or peak == 0 else float(2.0 ** np.floor(np.log2(peak)))


def _listed(which: IntArray, what: str, names: AnyArray | None = None) -> str:
    shown = first_of(which if names is None else [repr(str(names[i])) for i in which], NAMED)
    return f"{what} {shown} of X holds" if len(which) == 1 else f"{what}s {shown} of X hold"


def generator(random_state: Any) -> np.random.Generator:
    """scikit-learn's ``random_state`` as a modern generator; a generator is used as it is, and goes
    on from where it was."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    with our_errors():
        return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
