"""`prepare`: weight and scale a table before it is clustered; the same input gives the same
bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument
from conecollapse._linalg import row_norms
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.io import TableFile
from conecollapse.io.matrix import HIGHLY_VARIABLE


def _unit_samples(X: Points) -> Points:
    return _rows_divided(X, row_norms(X))


def _totals(X: Points) -> FloatArray:
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()


def _median_total(X: Points) -> FloatArray:
    filled = _totals(X)[_totals(X) > 0]
    return np.array(np.median(filled) if len(filled) else 1.0)


def _sum_samples(X: Points, total: AnyArray | None = None) -> Points:
    """All samples get the median of the totals as their total, which keeps the scale of the
    data."""
    return _rows_divided(X, _totals(X) / (_median_total(X) if total is None else total))


def _peaks(X: Points) -> AnyArray:
    peaks = X.max(axis=0)
    peaks = peaks.toarray().ravel() if sp.issparse(peaks) else np.asarray(peaks)
    return np.where(peaks > 0, peaks, 1).astype(X.dtype)


def _max_features(X: Points, peaks: AnyArray | None = None) -> Points:
    peaks = _peaks(X) if peaks is None else peaks
    if not sp.issparse(X):
        return X / peaks
    return sp.csr_array((X.data / peaks[X.indices], X.indices, X.indptr), shape=X.shape)


def _log(X: Points) -> Points:
    return X.log1p() if sp.issparse(X) else np.log1p(X)


NORMALIZATIONS: dict[str, Callable[..., Points]] = {
    "unit-samples": _unit_samples,  # every sample has length 1
    # every sample has the same total: sequencing depth, length of a document
    "sum-samples": _sum_samples,
    "max": _max_features,  # the largest value of every feature is 1
    "log": _log,  # log(1 + x)
    # counts of cells: the same depth for each, then the logarithm
    "cells": lambda X, total=None: _log(_sum_samples(X, total)),
}
# what new samples need of those that were prepared: the second argument of the normalization
CONSTANTS: dict[str, Callable[[Points], AnyArray]] = {
    "sum-samples": _median_total,
    "max": _peaks,
    "cells": _median_total,
}


# what run.json says of it, as `conecollapse.runs.verifying.has_form` takes it
FORM_OF_PREPARATION = {
    "normalize": (None, str, [str]),
    "tfidf": bool,
    "features": (None, HIGHLY_VARIABLE),
}


def prepare(
    table: TableFile,
    normalize: str | Sequence[str] | None = None,
    tfidf: bool = False,
    features: str | None = None,
) -> TableFile:
    """``table`` weighted by TF-IDF, normalized and restricted to some features, in this order;
    unchanged if nothing is asked for.

    Parameters
    ----------
    table : TableFile
    normalize : None, "unit-samples", "sum-samples", "max", "log", "cells", or several of them
        Each sample to length 1; each sample to the same total; each feature to a largest value of
        1; log(1 + x); or, for counts of cells, the same total and then the logarithm. Several are
        applied in this order.
    tfidf : bool
        Weight counts of words as `conecollapse.datasets.tfidf` does.
    features : None or "highly_variable"
        All features, or those that the source marks; normalized are all of them.

    Returns
    -------
    TableFile
        With ``preparation`` recorded, and ``raw`` the table that was passed, with these features.

    Examples
    --------
    >>> from conecollapse.io import read_table
    >>> prepare(read_table([[3.0, 4.0], [0.0, 2.0]]), "unit-samples").X
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    steps = _steps(normalize)
    for step in steps:
        if step not in NORMALIZATIONS:
            raise InvalidInputError(
                f"{argument('normalize')} must be one of {', '.join(NORMALIZATIONS)}; got {step!r}."
            )
    if features not in (None, HIGHLY_VARIABLE):
        raise InvalidInputError(f"features must be None or {HIGHLY_VARIABLE!r}; got {features!r}.")
    columns = chosen_features(table.marked, features is not None)
    if not steps and not tfidf and columns is None:
        return table
    X, constants = table.X, {}
    if tfidf:
        from conecollapse.datasets.texts import weigh_words, word_weights

        constants["tfidf"] = word_weights(X)
        X = weigh_words(X, constants["tfidf"])
    for place, step in enumerate(steps):
        known = [CONSTANTS[step](X)] if step in CONSTANTS else []
        constants |= {f"{place}": one for one in known}
        X = NORMALIZATIONS[step](X, *known)
    said = steps[0] if len(steps) == 1 else steps or None
    done = {"normalize": said, "tfidf": tfidf}
    if columns is None:
        return replace(table, X=X, preparation=done, raw=table, constants=constants)
    names = table.features[columns]
    raw = replace(table, X=table.X[:, columns], feature_names=names, marked=None)
    done |= {"features": features}
    return replace(raw, X=X[:, columns], preparation=done, raw=raw, constants=constants)


def _steps(normalize: str | Sequence[str] | None) -> list[str]:
    return [normalize] if isinstance(normalize, str) else list(normalize or [])


def prepare_new(
    X: Points, constants: Mapping[str, AnyArray], *, normalize: Any = None, tfidf: bool = False
) -> Points:
    """New samples as `prepare` made those of the table that the ``constants`` are of."""
    if tfidf:
        from conecollapse.datasets.texts import weigh_words

        X = weigh_words(X, constants["tfidf"])
    for place, step in enumerate(_steps(normalize)):
        known = [constants[f"{place}"]] if f"{place}" in constants else []
        X = NORMALIZATIONS[step](X, *known)
    return X


def chosen_features(marked: BoolArray | None, wanted: bool | None) -> IntArray | None:
    """The features to use, of which the source has ``marked`` some as highly variable; None for all
    of them. By default (None) the marked ones are used if there are marks."""
    if wanted is False or (wanted is None and marked is None):
        return None
    if marked is None:
        raise InvalidInputError(
            f"no feature is marked: var has no column {HIGHLY_VARIABLE!r}; compute it first, or use"
            " all features."
        )
    if not marked.any():
        raise InvalidInputError(
            f"no feature is highly variable: var[{HIGHLY_VARIABLE!r}] is False everywhere; compute"
            " it again, or use all features."
        )
    return np.flatnonzero(marked)


def _rows_divided(X: Points, by: AnyArray) -> Points:
    """Rows divided by these numbers; rows of zeros stay."""
    divisors = np.where(by > 0, by, 1).astype(X.dtype)
    if not sp.issparse(X):
        return X / divisors[:, None]
    return sp.csr_array(
        (X.data / np.repeat(divisors, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape
    )
