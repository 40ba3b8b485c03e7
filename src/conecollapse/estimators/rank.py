"""How many components? Answers for clusters and for components of a plain NMF, at each candidate
rank. (For mixtures `Unmixing` counts them.)"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags

from conecollapse._checks import as_matrix, check_callable, check_count, first_nan
from conecollapse._errors import EmptyDataWarning, InvalidInputError
from conecollapse._linalg import is_sparse
from conecollapse._progress import showing, teller
from conecollapse._threads import limit_threads
from conecollapse._types import IntArray
from conecollapse.estimators._base import BaseNMF
from conecollapse.estimators._prepared import generator, named, safe_unit, unmasked, warn_of_empty
from conecollapse.estimators.ccnmf import GraphCCNMF
from conecollapse.estimators.nmf import HierarchicalNMF
from conecollapse.estimators.orthogonal import OrthogonalNMF
from conecollapse.factorization.resampling.rank_of_clusters import (
    SHARE,
    consensus,
    counts_of_cells,
    eigengap,
    prediction,
    stability,
)
from conecollapse.factorization.resampling.rank_of_components import heldout, residual
from conecollapse.factorization.resampling.rank_selection import RankSelection
from conecollapse.tables import Table, as_table, recognised
from conecollapse.tables.incomplete import incomplete_table

METHODS = (
    "auto",
    "prediction",
    "stability",
    "eigengap",
    "heldout",
    "consensus",
    "residual",
)
ENOUGH_SAMPLES = 2000  # larger tables are represented by this many random samples


def select_rank(
    X: Any,
    candidates: Iterable[int] = range(2, 11),
    method: str = "auto",
    *,
    estimator: Any = None,
    n_runs: int = 10,
    random_state: Any = None,
    verbose: bool | None = None,
    callback: Callable[[int, int], object] | None = None,
    n_jobs: int | None = None,
) -> RankSelection:
    """Choose ``n_components`` without labels.

    Of a table with more than 2000 samples, 2000 random ones are used. No method depends on the unit
    of X: a table whose largest entry is beyond 1e30 or below 1e-30 is divided by a power of two
    first, and ``scores`` that are errors are those of the divided table.

    Parameters
    ----------
    X : (n_samples, n_features) array, or anything that the estimators take
        With "heldout", NaN in a dense table is a missing entry; the other methods refuse it.
    candidates : iterable of int
        Ranks to try.
    method : {"auto", "prediction", "stability", "eigengap", "heldout", "consensus", "residual"}
        - *auto*: "prediction" for counts of cells if no estimator is given, else "stability".
        - *prediction*: for counts of cells. Chosen: the rank whose clusters, by k-means of the
          principal components of `conecollapse.affinity.counts`, best predict each sample's counts
          from the other samples of its cluster; the scores are nats for each count. It takes no
          estimator, and seconds where the others take minutes. Directions that draw out most
          clusters alike, such as those of batches, are left out first.
        - *stability*: pairs of random subsamples of 80 % are clustered, and the adjusted Rand index
          of the two clusterings on the samples they share is averaged. Chosen: the rank with the
          largest average; ``ties`` are those within a standard error of it.
        - *eigengap*: for `GraphCCNMF`. The matrix of a graph that falls into r clusters has r
          eigenvalues near 1, and the next is smaller. Chosen: the rank after which the eigenvalues
          fall most, in the view in which they do; the scores are these gaps. It fits nothing, and
          ``estimator`` gives the parameters of the graph.
        - *heldout*: the error on entries that were held out, dealt at random into ``n_runs`` folds;
          for whole numbers the Kullback-Leibler divergence, as for counts. Chosen: the smallest
          rank within one standard error of the best, compared fold by fold; these are the ``ties``.
          It takes no estimator. Missing entries are neither fitted nor held out. Of more than 2000
          features the 2000 with the largest variance are used.
        - *consensus* (Brunet et al. 2004): how often two samples share a cluster over restarts; the
          score is the cophenetic correlation of that matrix, 1 when all runs agree. Chosen: the
          largest rank before it falls most.
        - *residual* (Frigyesi & Hoglund 2008): the error against the rank, beside that of the same
          data with each feature shuffled over the samples. Chosen: the last rank whose gain exceeds
          the gain on shuffled data.
    estimator : estimator, optional
        Any clusterer with a parameter ``n_components`` or ``n_clusters`` and a method
        ``fit_predict``, scikit-learn's for example; for "residual" it needs
        ``reconstruction_err_``, too, and for "eigengap" a `GraphCCNMF`. By default `OrthogonalNMF`
        from random starts, `HierarchicalNMF` for "residual" and `GraphCCNMF` for "eigengap".
    n_runs : int
        Pairs of subsamples, folds, restarts, or shuffles.
    random_state : int, Generator, RandomState or None
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook; True prints
        a line for each fit, False nothing.
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
    ranks = _read_ranks(candidates, method)
    _check_runs(method, n_runs, estimator)
    check_callable(callback, "callback")
    rng = generator(random_state)
    base = estimator if estimator is not None else _default(method)
    if not hasattr(base, "get_params"):
        raise InvalidInputError(
            f"estimator must be an estimator such as HierarchicalNMF(); got {base!r:.60}."
        )
    if method == "residual" and not isinstance(base, BaseNMF):
        raise InvalidInputError(
            f"residual compares the errors of factorizations, and {type(base).__name__} is none;"
            " use stability."
        )
    table = _table(X, method)
    _check_reach(table, ranks, method, base)
    warn_of_empty(table, "kept in place", None)
    table = _in_range(_enough(table, base, rng))
    with showing("select_rank", verbose), limit_threads(n_jobs), warnings.catch_warnings():
        # said above, and subsamples have more of them
        warnings.simplefilter("ignore", EmptyDataWarning)
        if method == "prediction" or (method == "auto" and estimator is None):
            cells = counts_of_cells(table, int(ranks[-1]), rng)
            if cells is not None:
                return prediction(cells, ranks, Fits(base, "prediction", len(ranks), callback))
            if method == "prediction":
                raise InvalidInputError(
                    "prediction is for counts of cells: whole numbers that are mostly sampling"
                    " noise, without the bursts of words; use stability."
                )
        method = "stability" if method == "auto" else method
        if method == "eigengap":
            return eigengap(table, ranks, base, rng)
        if method == "heldout":
            return heldout(
                table, ranks, n_runs, rng, Fits(base, method, len(ranks) * n_runs, callback)
            )
        choose, fits = {
            "stability": (stability, 2),
            "consensus": (consensus, 1),
            "residual": (residual, 1),
        }[method]
        total = len(ranks) * (fits * n_runs + (method == "residual"))
        return choose(table, ranks, Fits(base, method, total, callback), n_runs, rng)


def _read_ranks(candidates: Iterable[int], method: str) -> IntArray:
    """The candidates, increasing, for a method that is known."""
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if not isinstance(candidates, Iterable):
        raise InvalidInputError(
            f"candidates must be several ranks, such as range(2, 11); got {candidates!r}."
        )
    ranks = np.array(sorted({check_count(r, "each candidate") for r in candidates}))
    if not len(ranks):
        raise InvalidInputError("candidates is empty; name at least one rank.")
    if ranks[0] == 1 and method in ("auto", "prediction", "stability", "consensus"):
        raise InvalidInputError(
            f"rank 1 puts all samples together, so {method} says nothing of it; start at 2."
        )
    return ranks


def _check_runs(method: str, n_runs: int, estimator: Any) -> None:
    """Refuse what the method cannot use."""
    if check_count(n_runs, "n_runs") == 1 and method in ("heldout", "consensus"):
        raise InvalidInputError(
            f"{method} compares {'folds' if method == 'heldout' else 'runs'}; n_runs must be at"
            " least 2."
        )
    if method in ("heldout", "prediction") and estimator is not None:
        raise InvalidInputError(
            f"{method} works by itself and takes no estimator; leave it out, or use stability."
        )
    if method == "eigengap" and not isinstance(estimator, (GraphCCNMF, type(None))):
        raise InvalidInputError(
            f"eigengap looks at the graph of a GraphCCNMF; got {type(estimator).__name__}; use"
            " stability."
        )


def _check_reach(table: Table, ranks: IntArray, method: str, base: Any) -> None:
    """Refuse ranks that the samples do not allow, and methods that a graph does not."""
    smallest = table.shape[0]
    if method in ("auto", "stability"):
        smallest = int(SHARE * smallest)
    if ranks[-1] > smallest:
        raise InvalidInputError(
            f"candidate {ranks[-1]} exceeds the number of samples that"
            f" {'stability' if method == 'auto' else method} works with, {smallest}; lower it."
        )
    if method == "residual" and get_tags(base).input_tags.pairwise:
        raise InvalidInputError(
            "residual shuffles features, and a graph has none; use stability or consensus."
        )


def _default(method: str) -> Any:
    if method == "residual":
        return HierarchicalNMF(tol=1e-4, max_iter=200)
    if method == "eigengap":
        return GraphCCNMF()
    if method == "consensus":
        return OrthogonalNMF(init="random", n_init=1)  # what is asked is whether starts agree
    return OrthogonalNMF(n_init=3)


def _table(X: Any, method: str) -> Table:
    """The checked table; one that is not in memory is read in blocks when it is needed."""
    values = named(X).X
    known = recognised(values)
    if known is not None and not known.in_memory:
        return known.checked()
    array = as_matrix(unmasked(values if known is None else known.array), "X")
    missing = first_nan(array)
    if missing is not None and (method != "heldout" or is_sparse(array)):
        row, column = missing
        raise InvalidInputError(
            f'X has NaN at row {row}, column {column}; of the methods only "heldout" can use'
            " missing values, in a dense table."
        )
    return incomplete_table(
        array,
        None,
        unstored=False,
        is_new=False,
        needs="NMF needs X >= 0",
    )


def _enough(X: Table, base: Any, rng: np.random.Generator) -> Table:
    """The table, or a random part of its samples; in memory."""
    at_hand = X.in_memory or not X.is_complete
    if at_hand and (X.shape[0] <= ENOUGH_SAMPLES or get_tags(base).input_tags.pairwise):
        return X
    chosen = np.sort(rng.permutation(X.shape[0])[:ENOUGH_SAMPLES])
    return X.rows(chosen) if at_hand else _gathered(X, chosen)


def _in_range(X: Table) -> Table:
    """The table in a unit in which no square or product of squares is lost."""
    unit = safe_unit(X)
    return X if unit == 1 else X.divided(unit)


def _gathered(X: Table, rows: IntArray) -> Table:
    """These samples, in memory, of a table in blocks."""
    found, first = [], 0
    for part in X.in_parts():
        last = first + part.shape[0]
        found.append(part.array[rows[(rows >= first) & (rows < last)] - first])
        first = last
    return as_table(sp.csr_array(sp.vstack(found)) if X.is_sparse else np.vstack(found))


class Fits:
    """Fits of one estimator at several ranks, counted."""

    def __init__(
        self, base: Any, method: str, total: int, callback: Callable[[int, int], object] | None
    ) -> None:
        self.base, self.total, self.callback = base, total, callback
        known = base.get_params()
        self.rank = next((name for name in ("n_components", "n_clusters") if name in known), "")
        if not self.rank or not hasattr(base, "fit_predict"):
            raise InvalidInputError(
                f"{type(base).__name__} is no clusterer with a parameter n_components or n_clusters"
                " and a method fit_predict; pass one."
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
        return clone(self.base).set_params(
            **{self.rank: int(r)}, **({"random_state": seed} if self.is_random else {})
        )

    def say(self, done: int = 0) -> None:
        self.done += done
        if self.tell is not None:
            self.tell(f"{self.method}, fits", self.done, self.total)
        if self.callback is not None and self.done:
            self.callback(self.done, self.total)
