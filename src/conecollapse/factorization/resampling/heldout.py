r"""How many components, by entries that were held out: the error on entries that a factorization
has not seen.

The known entries are dealt at random into folds. For each fold the others are factorized with those
of the fold missing (`conecollapse.tables.masked`), and the model is compared with them. With too
few components the error is that of what is not explained; with too many it rises again, because
noise is fitted. The error is the squared error, or for counts the divergence, which is minus the
log-likelihood of Poisson counts up to a constant.

*The model is mixed with a simpler one.* Where noise is strong or counts are few, a factorization of
the right rank can predict worse than one of rank 1 or 2, because it fits noise, too; and for counts
it predicts 0 for many entries, where one count costs an infinite divergence. So the model is mixed
with the one in which rows and columns are independent,

.. math:: (1 - s)\, W H + s\, \hat X, \qquad s \in [0, 1],

and for each rank and fold s is the share with the smallest error on entries that were held out
(Jelinek and Mercer's deleted interpolation); the error is convex in s. So that s does not see the
entries it is judged by, each half of a fold is predicted with the share of the other half. A
factorization that predicts no better than the independent model gets s = 1, and so the error of
that model.

*Why entries and not counts are held out.* Each count can instead be split at random, one part to
fit and one to compare. If the counts are Poisson's the parts are independent, but if their variance
is larger the noise of an entry is in both, and too many components are chosen.

*Nested starts.* Rank r + 1 begins from the components of rank r and one that fits best what they
leave, :math:`\max(X - W H, 0)`, so that a path of ranks costs little more than its last.

*One standard error.* Folds differ in difficulty, so ranks are compared fold by fold: chosen is the
smallest rank whose mean difference from the best one is at most one standard error of these
differences. The ranks for which this holds are tied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import kl_div

from conecollapse._linalg import TINY
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.factorization.initial_factors import initialize
from conecollapse.factorization.nmf.hals import hals
from conecollapse.factorization.nmf.kl import kl
from conecollapse.tables import MaskedTable
from conecollapse.tables.guessed import rank_one_guess

ROUNDS = 10  # of power iteration for the component that is added
TOL, MOST = 1e-4, 200  # of each factorization
# stands for squares that are all zero, whatever the unit of the data
LEAST = float(np.finfo(np.float64).tiny)


class HeldOut(NamedTuple):
    """The choice and the curve behind it."""

    chosen: int  # index of the rank
    tied: BoolArray
    errors: FloatArray  # (ranks, folds), each over the number of entries
    spread: FloatArray  # standard error of the difference from the best


def hold_out(
    X: FloatArray,
    known: BoolArray,
    ranks: IntArray,
    n_folds: int,
    rng: np.random.Generator,
    *,
    divergence: bool,
    told: Callable[[], None],
) -> HeldOut:
    """The errors on held-out entries of a dense array at increasing ``ranks``; ``told`` is called
    after each fit.

    Entries that are not ``known`` are zero in X. They are neither fitted nor held out.
    """
    fold = np.full(X.shape, -1)
    fold[known] = rng.permutation(int(known.sum())) % n_folds
    errors = np.array(
        [
            _path(X, known & (fold != f), fold == f, ranks, rng, divergence, told)
            for f in range(n_folds)
        ]
    ).T
    return HeldOut(*_smallest_near_best(errors), errors, _spread(errors))


def _smallest_near_best(errors: FloatArray) -> tuple[int, BoolArray]:
    tied = errors.mean(axis=1) - errors.mean(axis=1).min() <= _spread(errors)
    return int(np.argmax(tied)), tied


def _spread(errors: FloatArray) -> FloatArray:
    best = int(errors.mean(axis=1).argmin())
    differences = errors - errors[best]
    return differences.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])


def _path(
    X: FloatArray,
    seen: BoolArray,
    held_out: BoolArray,
    ranks: IntArray,
    rng: np.random.Generator,
    divergence: bool,
    told: Callable[[], None],
) -> list[float]:
    """The error on the entries of one fold at each rank."""
    table = MaskedTable.of(np.where(seen, X, 0.0), seen.astype(np.float64))
    # of a feature: where few entries are known, a model may go far beyond
    largest = table.values.array.max(axis=0)
    x, independent = X[held_out], np.outer(*rank_one_guess(table.values, table.weights))[held_out]
    method, errors = (kl if divergence else hals), []
    W, H = initialize(
        table, int(ranks[0]), "nndsvda" if ranks[0] <= min(X.shape) else "random", rng
    )
    for r in ranks:
        while len(H) < r:
            W, H = _grown(X, seen, W, H)
        result = method(table, W, H, tol=TOL, max_iter=MOST)
        W, H = result.W, result.H
        model = np.minimum(W @ H, largest)[held_out]
        errors.append(_mixed_error(x, model, independent, divergence))
        told()
    return errors


def _grown(X: FloatArray, seen: BoolArray, W: AnyArray, H: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The factors with one more component, for the known entries that lie above the model."""
    excess = np.where(seen, np.maximum(X - W @ H, 0.0), 0.0)
    h = excess[np.square(excess).sum(axis=1).argmax()]
    for _ in range(ROUNDS):
        w = excess @ h / max(float(h @ h), LEAST)
        h = excess.T @ w / max(float(w @ w), LEAST)
    return np.column_stack((W, w)), np.vstack((H, h))


def _mixed_error(
    x: FloatArray, model: FloatArray, independent: FloatArray, divergence: bool
) -> float:
    """The mean error of mixtures of both models, for each half of the entries in the proportion
    that is best for the other half."""
    error, share = (
        (_divergence, _share_by_divergence) if divergence else (_squares, _share_by_squares)
    )
    total = 0.0
    for half, other in (
        (slice(0, None, 2), slice(1, None, 2)),
        (slice(1, None, 2), slice(0, None, 2)),
    ):
        s = share(x[other], model[other], independent[other])
        total += error(x[half], (1 - s) * model[half] + s * independent[half])
    return total / len(x)


def _squares(x: FloatArray, model: FloatArray) -> float:
    return float(np.square(x - model).sum())


def _divergence(x: FloatArray, model: FloatArray) -> float:
    return float(kl_div(x, np.maximum(model, TINY * TINY)).sum())


def _share_by_squares(x: FloatArray, model: FloatArray, independent: FloatArray) -> float:
    d = independent - model
    return float(np.clip((x - model) @ d / max(float(d @ d), LEAST), 0.0, 1.0))


def _share_by_divergence(x: FloatArray, model: FloatArray, independent: FloatArray) -> float:
    found = minimize_scalar(
        lambda s: _divergence(x, (1 - s) * model + s * independent), bounds=(0, 1), method="bounded"
    )
    return float(found.x) if found.fun < _divergence(x, independent) else 1.0
