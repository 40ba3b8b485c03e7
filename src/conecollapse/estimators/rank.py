"""How many components? Four answers that users of NMF know, and one for mixtures, from fits at each candidate rank."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import get_tags

from conecollapse._checks import as_points, check_callable, check_count
from conecollapse._errors import EmptyDataWarning, InvalidInputError
from conecollapse._linalg import as_dense
from conecollapse._progress import showing, teller
from conecollapse._threads import limit_threads
from conecollapse._types import FloatArray, IntArray
from conecollapse.estimators._input import generator, named, warn_of_empty
from conecollapse.estimators.nmf import HierarchicalNMF, OrthogonalNMF
from conecollapse.factorization.counting import CLEAR, count_components
from conecollapse.factorization.heldout import hold_out
from conecollapse.tables import Table, as_table, recognised

METHODS = ("stability", "heldout", "consensus", "residual", "mixture")
SHARE = 0.8  # of the samples in each subsample of "stability"
PLATEAU = 0.001  # cophenetic correlations closer than this are the same
MOST_SAMPLES = 1000  # for "consensus": its matrix and tree are of this many samples at most
ENOUGH_FEATURES = 2000  # for "heldout"
ENOUGH_SAMPLES = 2000  # larger tables are represented by this many random samples


@dataclass(frozen=True)
class RankSelection:
    """The rank chosen and what a figure of the choice needs."""

    rank: int
    method: str
    candidates: IntArray
    scores: FloatArray  # one for each candidate; larger is better, except that "residual" and "heldout" list errors
    spread: FloatArray  # standard error of each score; for "heldout" of its difference from the best
    reference: FloatArray | None  # "residual": the relative errors for shuffled data
    reason: str
    ties: tuple[int, ...] = ()  # "stability" and "heldout": the candidates that cannot be told from the best, the rank chosen among them


def select_rank(
    X: Any,
    candidates: Iterable[int] = range(2, 11),
    method: str = "stability",
    *,
    estimator: Any = None,
    n_runs: int = 10,
    random_state: Any = None,
    verbose: bool | None = None,
    callback: Callable[[int, int], object] | None = None,
    n_jobs: int | None = None,
) -> RankSelection:
    """Choose ``n_components`` without labels.

    Of a table with more than 2000 samples, 2000 random ones are used.

    Parameters
    ----------
    X : (n_samples, n_features) array, or anything that the estimators take
    candidates : iterable of int
        Ranks to try.
    method : {"stability", "heldout", "consensus", "residual", "mixture"}
        - *stability*: pairs of random subsamples of 80 % are clustered, and the adjusted Rand index of the two clusterings on the samples
          they share is averaged. Chosen: the rank with the largest average; ``ties`` are those within a standard error of it.
        - *heldout*: the error on entries that were held out, dealt at random into ``n_runs`` folds; for whole numbers the Kullback-Leibler
          divergence, as for counts. Chosen: the smallest rank within one standard error of the best, compared fold by fold; these are the
          ``ties``. It takes no estimator. Of more than 2000 features the 2000 with the largest variance are used.
        - *consensus* (Brunet et al. 2004): how often two samples share a cluster over restarts; the score is the cophenetic correlation
          of that matrix, 1 when all runs agree. Chosen: the largest rank before it falls most.
        - *residual* (Frigyesi & Hoglund 2008): the error against the rank, beside that of the same data with each feature shuffled over
          the samples. Chosen: the last rank whose gain exceeds the gain on shuffled data.
        - *mixture*: for spectra and other mixtures. Chosen: the last rank at which the components of `MinVolumeNMF` lie clear of each
          other's cone, by at least 0.12; the scores are these distances. ``reason`` also says what the elbow of the volume of these
          components, the singular values and an estimate of the noise suggest, and whether the four disagree.
    estimator : estimator, optional
        Any clusterer with a parameter ``n_components`` or ``n_clusters`` and a method ``fit_predict``, scikit-learn's for example; for
        "residual" it needs ``reconstruction_err_``, too. By default `OrthogonalNMF` from random starts, and `HierarchicalNMF` for
        "residual".
    n_runs : int
        Pairs of subsamples, folds, restarts, or shuffles.
    random_state : int, Generator, RandomState or None
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook; True prints a line for each fit, False nothing.
    callback : callable, optional
        Called as ``callback(done, total)`` after each fit.
    n_jobs : int, optional
        Most threads to use; all by default.

    Returns
    -------
    RankSelection

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.kron(np.eye(3), np.ones((20, 4))) + 0.1 * rng.random((60, 12))
    >>> select_rank(X, [2, 3, 4, 5], random_state=0).rank
    3
    """
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if not isinstance(candidates, Iterable):
        raise InvalidInputError(f"candidates must be several ranks, such as range(2, 11); got {candidates!r}.")
    ranks = np.array(sorted({check_count(r, "each candidate") for r in candidates}))
    if not len(ranks):
        raise InvalidInputError("candidates is empty; name at least one rank.")
    if ranks[0] == 1 and method in ("stability", "consensus"):
        raise InvalidInputError(f"rank 1 puts all samples together, so {method} says nothing of it; start at 2.")
    if check_count(n_runs, "n_runs") == 1 and method == "heldout":
        raise InvalidInputError("heldout compares folds; n_runs must be at least 2.")
    if method == "heldout" and estimator is not None:
        raise InvalidInputError("heldout factorizes by itself and takes no estimator; leave it out, or use stability.")
    check_callable(callback, "callback")
    rng = generator(random_state)
    base = estimator if estimator is not None else _default(method)
    table = _table(X)
    smallest = int(SHARE * table.shape[0]) if method == "stability" else table.shape[0]
    if ranks[-1] > smallest:
        raise InvalidInputError(f"candidate {ranks[-1]} exceeds the {smallest} samples that {method} works with; lower it.")
    if method == "residual" and get_tags(base).input_tags.pairwise:
        raise InvalidInputError("residual shuffles features, and a graph has none; use stability or consensus.")
    warn_of_empty(table, "kept in place", None)
    table = _enough(table, base, rng)
    with showing("select_rank", verbose), limit_threads(n_jobs), warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyDataWarning)  # said above, and subsamples have more of them
        if method == "mixture":
            return _mixture(table, ranks)
        if method == "heldout":
            return _heldout(table, ranks, n_runs, rng, _Fits(base, method, len(ranks) * n_runs, callback))
        choose, fits = {"stability": (_stability, 2), "consensus": (_consensus, 1), "residual": (_residual, 1)}[method]
        total = len(ranks) * (fits * n_runs + (method == "residual"))
        return choose(table, ranks, _Fits(base, method, total, callback), n_runs, rng)


def _default(method: str) -> Any:
    if method == "residual":
        return HierarchicalNMF(tol=1e-4, max_iter=200)
    if method == "consensus":
        return OrthogonalNMF(init="random", n_init=1)  # what is asked is whether starts agree
    return OrthogonalNMF(n_init=3)


class _Fits:
    """Fits of one estimator at several ranks, counted."""

    def __init__(self, base: Any, method: str, total: int, callback: Callable[[int, int], object] | None) -> None:
        self.base, self.total, self.callback = base, total, callback
        known = base.get_params()
        self.rank = next((name for name in ("n_components", "n_clusters") if name in known), "")
        if not self.rank or not hasattr(base, "fit_predict"):
            raise InvalidInputError(
                f"{type(base).__name__} is no clusterer with a parameter n_components or n_clusters and a method fit_predict; pass one."
            )
        self.is_random = "random_state" in known
        self.is_pairwise = bool(get_tags(base).input_tags.pairwise)
        self.done, self.tell, self.method = 0, teller(), method
        self.say()

    def model(self, r: int, rng: np.random.Generator, X: Table) -> Any:
        """Fitted to ``X`` at rank ``r``."""
        model = self._of_rank(r, rng).fit(X.array)
        self.say(done=1)
        return model

    def labels(self, r: int, rng: np.random.Generator, X: Table) -> IntArray:
        """The clusters of ``X`` at rank ``r``."""
        labels = np.asarray(self._of_rank(r, rng).fit_predict(X.array))
        self.say(done=1)
        return labels

    def _of_rank(self, r: int, rng: np.random.Generator) -> Any:
        seed = int(rng.integers(2**31 - 1))
        return clone(self.base).set_params(**{self.rank: int(r)}, **({"random_state": seed} if self.is_random else {}))

    def say(self, done: int = 0) -> None:
        self.done += done
        if self.tell is not None:
            self.tell(f"{self.method}, fits", self.done, self.total)
        if self.callback is not None and self.done:
            self.callback(self.done, self.total)


def _table(X: Any) -> Table:
    """The checked table; one that is not in memory is read in blocks when it is needed."""
    values = named(X).X
    known = recognised(values)
    if known is not None and not known.in_memory:
        return known.checked()
    return as_table(as_points(values if known is None else known.array, "X", needs="NMF needs X >= 0"))


def _enough(X: Table, base: Any, rng: np.random.Generator) -> Table:
    """The table, or a random part of its samples; in memory."""
    if X.in_memory and (X.shape[0] <= ENOUGH_SAMPLES or get_tags(base).input_tags.pairwise):
        return X
    chosen = np.sort(rng.permutation(X.shape[0])[:ENOUGH_SAMPLES])
    return X.rows(chosen) if X.in_memory else _gathered(X, chosen)


def _gathered(X: Table, rows: IntArray) -> Table:
    """These samples, in memory, of a table in blocks."""
    found, first = [], 0
    for part in X.in_parts():
        last = first + part.shape[0]
        found.append(part.array[rows[(rows >= first) & (rows < last)] - first])
        first = last
    return as_table(sp.csr_array(sp.vstack(found)) if X.is_sparse else np.vstack(found))


def _mixture(X: Table, ranks: IntArray) -> RankSelection:
    filled = X.rows(np.flatnonzero(X.filled))
    counts = count_components(filled.array.astype(np.float64, copy=False), ranks)
    others = {"elbow of the volume": counts.volume, "singular values": counts.spectrum, "noise": counts.noise}
    said = ", ".join(
        f"the {what} suggest{'' if what == 'singular values' else 's'} {count}" for what, count in others.items() if count is not None
    )
    agree = set(others.values()) <= {counts.clearance, None}
    reason = f"the last rank whose components lie clear of each other by {CLEAR:g}; {said}{'' if agree else ': they disagree'}"
    return RankSelection(counts.clearance, "mixture", ranks, counts.clearances, np.zeros(len(ranks)), None, reason)


def _heldout(X: Table, ranks: IntArray, n_folds: int, rng: np.random.Generator, fits: _Fits) -> RankSelection:
    filled = X.rows(np.flatnonzero(X.filled))
    array = as_dense(filled.columns(np.flatnonzero(filled.filled_columns)).array).astype(np.float64)
    if array.shape[1] > ENOUGH_FEATURES:
        array = array[:, np.sort(np.argsort(-array.var(axis=0), kind="stable")[:ENOUGH_FEATURES])]
    counts = bool((array == np.rint(array)).all())
    found = hold_out(array, ranks, n_folds, rng, divergence=counts, told=lambda: fits.say(done=1))
    ties = tuple(int(r) for r in ranks[found.tied])
    rank, what = int(ranks[found.chosen]), "divergence" if counts else "squared error"
    reason = f"the smallest rank whose {what} on held-out entries is within one standard error of the best{_tied(rank, ties)}"
    return RankSelection(rank, "heldout", ranks, found.errors.mean(axis=1), found.spread, None, reason, ties)


def _tied(rank: int, ties: tuple[int, ...]) -> str:
    others = [str(r) for r in ties if r != rank]
    return f"; tied with {', '.join(others)}" if others else ""


def _stability(X: Table, ranks: IntArray, fits: _Fits, n_runs: int, rng: np.random.Generator) -> RankSelection:
    n = X.shape[0]
    size = int(SHARE * n)
    agreement = np.empty((len(ranks), n_runs))
    for run in range(n_runs):
        a, b = (np.sort(rng.permutation(n)[:size]) for _ in range(2))
        shared, in_a, in_b = np.intersect1d(a, b, return_indices=True)
        parts = [X.rows(rows).columns(rows) if fits.is_pairwise else X.rows(rows) for rows in (a, b)]
        for k, r in enumerate(ranks):
            first, second = (fits.labels(r, rng, part) for part in parts)
            agreement[k, run] = adjusted_rand_score(first[in_a], second[in_b]) if len(shared) else 0.0
    scores = agreement.mean(axis=1)
    spread = agreement.std(axis=1, ddof=1) / np.sqrt(n_runs) if n_runs > 1 else np.zeros(len(ranks))
    best = int(scores.argmax())
    ties = tuple(int(r) for r in ranks[scores[best] - scores <= spread[best]])
    reason = f"the largest mean adjusted Rand index of two subsamples, {scores[best]:.3f}{_tied(int(ranks[best]), ties)}"
    return RankSelection(int(ranks[best]), "stability", ranks, scores, spread, None, reason, ties)


def _consensus(X: Table, ranks: IntArray, fits: _Fits, n_runs: int, rng: np.random.Generator) -> RankSelection:
    n = X.shape[0]
    kept = np.sort(rng.permutation(n)[:MOST_SAMPLES])
    scores = np.empty(len(ranks))
    for k, r in enumerate(ranks):
        together = np.zeros((len(kept), len(kept)))
        for _ in range(n_runs):
            labels = fits.labels(r, rng, X)[kept]
            together += labels[:, None] == labels
        scores[k] = cophenetic_correlation(together / n_runs)
    high = np.flatnonzero(scores >= scores.max() - PLATEAU)
    falls = np.flatnonzero(scores[high[0] :] < scores.max() - PLATEAU) + high[0]
    chosen = int(falls[0] - 1) if len(falls) else int(high[0])
    where = "the last before it falls" if len(falls) else "the first, as it does not fall"
    reason = f"of the ranks with a cophenetic correlation near the best, {scores.max():.3f}, {where}"
    return RankSelection(int(ranks[chosen]), "consensus", ranks, scores, np.zeros(len(ranks)), None, reason)


def cophenetic_correlation(consensus: FloatArray) -> float:
    """Correlation of the distances 1 - consensus with those of their average-linkage tree; 1 when all pairs are 0 or 1."""
    distance = squareform(1 - consensus, checks=False)
    if not len(distance) or np.ptp(distance) == 0:
        return 1.0
    tree = cophenet(linkage(distance, "average"))
    return float(np.corrcoef(distance, tree)[0, 1])


def _residual(X: Table, ranks: IntArray, fits: _Fits, n_runs: int, rng: np.random.Generator) -> RankSelection:
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
    reason = "the last rank whose fall of the relative error exceeds that on the same data with each feature shuffled"
    return RankSelection(rank, "residual", ranks, errors, spread, reference, reason)


def _relative_error(model: Any, X: Table) -> float:
    return float(model.relative_err_) if hasattr(model, "relative_err_") else float(model.reconstruction_err_) / np.sqrt(X.squared_norm)
