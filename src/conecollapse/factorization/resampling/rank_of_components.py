"""How many components of a plain NMF: by held-out entries and by shuffled data."""

from __future__ import annotations

from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import BoolArray, FloatArray, IntArray
from conecollapse.factorization.resampling.heldout import hold_out
from conecollapse.factorization.resampling.rank_selection import Fits, RankSelection, tied
from conecollapse.tables import Table

ENOUGH_FEATURES = 2000  # for "heldout"
ALL_WHOLE = 2.0**53  # from here on every float64 is a whole number, so that being one says nothing


def heldout(
    X: Table, ranks: IntArray, n_folds: int, rng: np.random.Generator, fits: Fits
) -> RankSelection:
    """The smallest rank that predicts held-out entries nearly best."""
    array, known = _entries(X)
    if known.sum() < 2 * n_folds:
        raise InvalidInputError(
            f"heldout needs two entries in each fold, but there are {known.sum()} for {n_folds}"
            " folds; lower n_runs."
        )
    counts = bool((array == np.rint(array)).all() and array.max() < ALL_WHOLE)
    found = hold_out(
        array, known, ranks, n_folds, rng, divergence=counts, told=lambda: fits.say(done=1)
    )
    ties = tuple(int(r) for r in ranks[found.tied])
    rank, what = int(ranks[found.chosen]), "divergence" if counts else "squared error"
    reason = (
        f"the smallest rank whose {what} on held-out entries is within one standard error of the"
        f" best{tied(rank, ties)}"
    )
    return RankSelection(
        rank, "heldout", ranks, found.errors.mean(axis=1), found.spread, None, reason, ties
    )


def _entries(X: Table) -> tuple[FloatArray, BoolArray]:
    """The entries of samples and features that are not all zero, and which of them are known; the
    others are zero."""
    array, known = X.known_entries()
    array = array.astype(np.float64)
    rows, columns = np.flatnonzero(X.filled), np.flatnonzero(X.filled_columns)
    array, known = (np.take(part[rows], columns, axis=1) for part in (array, known))
    if array.shape[1] > ENOUGH_FEATURES:
        mean = array.sum(axis=0) / known.sum(axis=0)
        variance = np.square(array - mean, where=known, out=np.zeros_like(array)).sum(
            axis=0
        ) / known.sum(axis=0)
        columns = np.sort(np.argsort(-variance, kind="stable")[:ENOUGH_FEATURES])
        array, known = array[:, columns], known[:, columns]
    shown = known.any(axis=1)  # a sample may be known in other features only
    return array[shown], known[shown]


def residual(
    X: Table, ranks: IntArray, fits: Fits, n_runs: int, rng: np.random.Generator
) -> RankSelection:
    """The last rank that explains more than it does on shuffled data."""
    errors = np.array([_relative_error(fits.model(r, rng, X), X) for r in ranks])
    shuffled = np.empty((n_runs, len(ranks)))
    for run in range(n_runs):
        Y = X.shuffled(rng)
        shuffled[run] = [_relative_error(fits.model(r, rng, Y), Y) for r in ranks]
    reference = shuffled.mean(axis=0)
    gains, noise = errors[:-1] - errors[1:], reference[:-1] - reference[1:]
    better = np.flatnonzero(gains > noise)
    rank = int(ranks[better[-1] + 1]) if len(better) else int(ranks[0])
    spread = shuffled.std(axis=0, ddof=1) / np.sqrt(n_runs) if n_runs > 1 else np.zeros(len(ranks))
    reason = (
        "the last rank whose fall of the relative error exceeds that on the same data with each"
        " feature shuffled"
    )
    return RankSelection(rank, "residual", ranks, errors, spread, reference, reason)


def _relative_error(model: Any, X: Table) -> float:
    return (
        float(model.relative_err_)
        if hasattr(model, "relative_err_")
        else float(model.reconstruction_err_) / np.sqrt(X.squared_norm)
    )
