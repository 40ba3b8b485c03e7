"""`ConsensusNMF`: one set of components that many runs agree on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._base import BaseNMF
from conecollapse.estimators._estimator import check_is_fitted, running
from conecollapse.estimators._fitted import Problem, Solution, labels_of
from conecollapse.estimators._prepared import Prepared, outside
from conecollapse.factorization.nmf.encoders import Divergence, LeastSquares, with_encodings
from conecollapse.factorization.nmf.hals import hals
from conecollapse.factorization.nmf.kl import kl, kl_by_squares
from conecollapse.factorization.nmf.mu import LOSSES
from conecollapse.factorization.resampling.consensus import agreement, stability
from conecollapse.factorization.resampling.many_runs import Checkpoint, Run, many_runs, reporter
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Table

RANDOM = ("random", "nndsvdar", "spectral")  # starts that differ from run to run
LAST = 0.1  # of tol ends the last factorization
MOST_SAMPLES = 20_000  # of which `consensus_` is formed: 3.2 GB


@dataclass(eq=False, repr=False, kw_only=True)
class ConsensusNMF(BaseNMF):
    """NMF that gives the same components every time: what many runs from random starts agree on.

    The components of all runs are compared. Those without counterparts in other runs are left out,
    the others are grouped, and the median of each group is the start of a last factorization
    (`conecollapse.factorization.resampling.consensus`; Kotliar et al. 2019 do the same for gene
    programs). A run depends on its number and on ``random_state`` only: the result is the same for
    any number of threads, bit for bit, and the same on other machines up to rounding.

    Parameters
    ----------
    n_components : int
        The rank r.
    n_runs : int
        Number of runs.
    loss : {"frobenius", "kullback-leibler"}
        The squared error, or the divergence for counts, which takes about four times as long.
    max_distance : float
        A component of a run is an outlier if its mean distance from the nearest 30 % of ``n_runs``
        others exceeds this; between components of unit length, so from 0 to 1.4.
    init : {"random", "nndsvdar", "spectral"}
        Starts of the runs.
    n_init : int
        Number of starts in each run.
    tol : float
        Relative change of the objective in an iteration that ends a run; the last factorization
        ends at a tenth of it.
    max_iter : int
        Most iterations of a run.
    random_state : int, RandomState or None
        Random seed; the default is fixed.
    n_jobs : int, optional
        Most threads to use; the runs are spread over them.
    checkpoint : path, optional
        A folder that keeps the runs as they end, as plain arrays. With the same folder, data and
        parameters, `fit` goes on where it was stopped, and a larger ``n_runs`` adds runs.
        ``random_state`` must be an integer.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook. If True, a
        line is printed after each tenth of the runs instead; if False, nothing is.
    callback : callable, optional
        Called as ``callback(n_runs_done, objective)`` after each run; a true answer ends the runs,
        and the consensus is of those done.
    affinity
        As in `BaseNMF`, which also lists the other attributes.

    Attributes
    ----------
    components_ : (r, n_features) array
        The components, largest mass first: the sum of what they contribute to the samples.
    stability_ : (r,) array
        For each component the mean cosine with its counterpart in every run, matched one to one; 1
        where all runs found it.
    consensus_ : (n_samples, n_samples) array
        Share of the runs in which two samples have the same label. Formed when it is asked for.
    run_labels_ : (n_runs, n_samples) array
        The labels of the samples in each run; the numbers mean something else in each.
    run_errors_ : (n_runs,) array
        The objective that each run ended with, as a share of ``|X|^2`` (of the sum of X for the
        divergence).
    n_outliers_ : int
        Components of runs that were left out, of ``n_runs * r``.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import ConsensusNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((60, 3)) @ np.kron(np.eye(3), np.ones((1, 4))) + 0.1 * rng.random((60, 12))
    >>> model = ConsensusNMF(3, n_runs=10).fit(X)
    >>> bool(model.stability_.min() > 0.99), model.n_outliers_
    (True, 0)
    """

    init: Any = "random"
    random_state: Any = 0
    n_runs: int = 100
    loss: str = "frobenius"
    max_distance: float = 0.5
    checkpoint: Any = None

    @running
    def fit(
        self, X: Any, y: Any = None, *, feature_names: Any = None, layer: str | None = None
    ) -> Self:
        """Run ``n_runs`` factorizations of ``X`` (n_samples, n_features), and find what they agree
        on. The arguments are those of `BaseNMF.fit`."""
        # products of BLAS may differ in the last bit with its number of threads
        with serial_blas():
            return super().fit(X, y, feature_names=feature_names, layer=layer)

    @property
    def consensus_(self) -> FloatArray:
        """Share of the runs in which two samples have the same label."""
        check_is_fitted(self)
        n = self.run_labels_.shape[1]
        if n > MOST_SAMPLES:
            raise InvalidInputError(
                f"consensus_ of {n} samples would have {n * n} entries; use consensus_of(rows) for"
                f" at most {MOST_SAMPLES} of them."
            )
        return self.consensus_of(np.arange(n))

    def consensus_of(self, rows: Any) -> FloatArray:
        """`consensus_` of some samples, given by their numbers."""
        check_is_fitted(self)
        labels = self.run_labels_[:, np.asarray(rows)]
        n_runs, n = labels.shape
        run, sample = np.nonzero(labels != NO_CLUSTER)
        place = run * self.n_components + labels[run, sample]
        members = sp.csr_array(
            (np.ones(len(place)), (sample, place)), shape=(n, n_runs * self.n_components)
        )
        return np.asarray((members @ members.T).toarray() / n_runs)

    def _check_parameters(self, data: Prepared, *, is_graph: bool) -> None:
        super()._check_parameters(data, is_graph=is_graph)
        if self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")
        check_count(self.n_runs, "n_runs")
        check_positive(self.max_distance, "max_distance")
        if not isinstance(self.init, str) or self.init not in RANDOM:
            got = repr(self.init) if isinstance(self.init, str) else f"a {type(self.init).__name__}"
            raise InvalidInputError(
                f"init must be one of {', '.join(RANDOM)}, so that the runs differ; got {got}."
            )
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, PathLike)):
            raise InvalidInputError(
                f"checkpoint must be the path of a folder; got {self.checkpoint!r}."
            )
        if self.checkpoint is not None and not isinstance(self.random_state, (int, np.integer)):
            raise InvalidInputError(
                "a checkpoint needs an integer as random_state, to go on as before; got"
                f" {self.random_state!r}."
            )

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        table, is_squared = problem.table, self.loss == "frobenius"
        method = partial(
            hals if is_squared else kl_by_squares, tol=self.tol, max_iter=self.max_iter
        )
        seed = int(rng.integers(2**31 - 1))

        def run(i: int) -> Run:
            own = np.random.default_rng([seed, i])
            starts = Starts(self.n_components, self.init, self.n_init, own)
            found = best_of_starts(method, table, starts)
            labels = labels_of(found.W, row_lengths(found.H))
            return Run(np.asarray(found.H, np.float64), labels, found.objective / found.scale)

        report = reporter("ConsensusNMF", "runs", self.n_runs, self.verbose, self.callback)
        runs = list(many_runs(run, self.n_runs, self._open(table), report).values())
        agreed = agreement(
            np.array([one.H for one in runs]),
            np.array([one.objective for one in runs]),
            float(self.max_distance),
        )
        if not agreed.enough:
            warnings.warn(
                f"the runs do not agree on {self.n_components} components, so that outliers were"
                " kept; ask for fewer components.",
                stacklevel=outside(),
            )
        start = (LeastSquares if is_squared else Divergence)(agreed.H)(table)
        last: Callable[..., Factorization] = hals if is_squared else kl
        result = last(table, start, agreed.H, tol=LAST * self.tol, max_iter=self.max_iter)
        encoder = LeastSquares(result.H) if is_squared else Divergence(result.H)
        if isinstance(encoder, LeastSquares):
            result = with_encodings(result, table, encoder)
        mass = result.W.sum(axis=0) * result.H.sum(axis=1)
        return Solution(
            result,
            encoder,
            row_lengths(result.H),
            is_encoding=is_squared,
            order=np.argsort(-mass, kind="stable"),
            own=(runs, agreed),
        )

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:  # noqa: ARG002
        runs, agreed = solution.own
        self.run_labels_ = np.array([run.labels for run in runs])
        self.run_errors_ = np.array([run.objective for run in runs])
        self.n_outliers_ = int(agreed.is_outlier.sum())
        components = np.array([run.H for run in runs])
        self.stability_ = stability(components, solution.result.H)[order]

    def _open(self, table: Table) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        names = ("n_components", "loss", "init", "n_init", "tol", "max_iter", "random_state")
        parameters = {
            name: value.item() if hasattr(value := getattr(self, name), "item") else value
            for name in names
        }
        return Checkpoint(
            self.checkpoint,
            table,
            parameters,
            ((self.n_components, table.shape[1]), (table.shape[0],)),
        )

    def _summary(self) -> dict[str, str]:
        stable = ", ".join(f"{value:.3f}" for value in self.stability_)
        return {
            **super()._summary(),
            "runs": f"{len(self.run_errors_)}",
            "stability by component": stable,
        }
