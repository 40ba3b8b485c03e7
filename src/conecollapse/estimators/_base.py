"""What all factorizing estimators share: parameters, the way from a table to attributes, and what a
fitted model does with samples. The maths is in `conecollapse.factorization`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Stopping
from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, IntArray
from conecollapse.affinity import Precomputed, Source
from conecollapse.affinity.kinds import resolve
from conecollapse.clusters import NO_CLUSTER, TopFeature, cluster_sizes, largest_first, top_features
from conecollapse.estimators._estimator import Estimator, check_is_fitted, running
from conecollapse.estimators._fitted import Fitted, Problem, Solution, decode, labels_of
from conecollapse.estimators._labels import NOTHING_KNOWN, KnownLabels
from conecollapse.estimators._prepared import (
    Prepared,
    check_table,
    feature_names_of,
    generator,
    in_dtype,
    outside,
    prepare,
    warn_of_samples,
)
from conecollapse.estimators._sklearn import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from conecollapse.factorization.nmf.encoders import LeastSquares, with_encodings
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Table

Method = Callable[[Table, AnyArray, AnyArray], Factorization]  # from a start to the factors

EMPTY_SAMPLES = "kept in place, with zero encodings and the label {!r}, which means no cluster"


@dataclass(eq=False, repr=False)
class BaseNMF(Estimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The interface of every factorization: ``X ~ embedding_ @ components_``, and a cluster for
    each sample.

    `fit` takes dense and sparse arrays, data frames, AnnData objects, what
    `conecollapse.io.read_table` and `conecollapse.io.open_table` return, and Dask arrays. Names
    of features come with the table, or beside it by ``feature_names``.

    Parameters
    ----------
    n_components : int
        The rank r: number of components, and of clusters.
    affinity : None, "knn", "diffusion", "precomputed" or an object of `conecollapse.affinity`
        What is factorized: the table X, a graph of its samples, or X itself as a graph. The words
        are shorthands for ``KNN()``, ``Diffusion()`` and ``Precomputed()``.
    init : str, pair (W, H) or array of labels
        "random", "nndsvd", "nndsvda", "nndsvdar", "spectral" (k-means on the spectral embedding),
        or "auto": nndsvda, or random where the rank exceeds a side of X.
    n_init : int
        Number of starts; the smallest objective is kept, and of starts that end within 1e-5 of it
        the first.
    tol : float
        Relative change of the objective in one iteration that ends the run.
    max_iter : int
        Most iterations of a run. One that ends there warns, unless its objective is at most ``tol``
        as a share of ``|X|^2``: where a table has exactly the rank r it falls for ever.
    random_state : int, Generator, RandomState or None
        Random seed. A `numpy.random.Generator` is used as it is, and goes on from where it was.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook. If True,
        the objective of every tenth iteration is printed instead; if False, nothing is.
    callback : callable, optional
        Called as ``callback(n_iter, objective)`` after each iteration of every start; a true answer
        ends that run.
    n_jobs : int, optional
        Most threads to use; all by default.

    Attributes
    ----------
    labels_ : (n_samples,) array
        The component with the largest weighted encoding, `label_weights_` times `embedding_`; -1
        for a sample without any. Components are numbered by the number of their samples, largest
        first.
    embedding_ : (n_samples, r) array
        The factor W: the encodings of the training samples.
    components_ : (r, n_features) array
        The factor H; on a graph, (r, n_samples).
    label_weights_ : (r,) array
        What makes the columns of `embedding_` comparable: the lengths of the rows of `components_`.
    profiles_ : (r, n_features) array
        The mean sample of each cluster; `top_features` lists what distinguishes them.
    reconstruction_err_, relative_err_ : float
        ``|X - W H|``, and that over ``|X|``.
    history_ : array
        The objective of the start and after every iteration, as a share of ``|X|^2`` (of the sum of
        X for the divergence).
    n_iter_, converged_, status_ : int, bool, str
        How the best run ended, the last as a sentence.

    Notes
    -----
    They are not tagged as scikit-learn clusterers, because that tag promises to take negative
    numbers.
    """

    n_components: int = 2
    _: KW_ONLY
    affinity: Any = None
    init: Any = "auto"
    n_init: int = 1
    tol: float = 1e-5
    max_iter: int = 500
    random_state: Any = None

    _iterates = True
    # whether the method itself joins samples with their neighbours: a sample of zeros has none, and
    # is left out
    _compares_samples: ClassVar[bool] = False
    # whether each component must have a sample of its own
    _needs_every_sample: ClassVar[bool] = False

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Factorize ``X`` (n_samples, n_features).

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X. `HierarchicalNMF`, `AlternatingNMF`,
        `MultiplicativeNMF` and `SparseNMF` take weights of entries and samples; others refuse them.
        """
        samples_are = EMPTY_SAMPLES.format(NO_CLUSTER)
        return self._fit(prepare(self, X, feature_names, layer, samples_are=samples_are))

    @running
    def fit_predict(
        self, X: Any, y: Any = None, *, feature_names: Any = None, layer: str | None = None
    ) -> AnyArray:
        """Factorize ``X`` and return `labels_`."""
        return self.fit(X, y, feature_names=feature_names, layer=layer).labels_

    @running
    def fit_transform(
        self, X: Any, y: Any = None, *, feature_names: Any = None, layer: str | None = None
    ) -> AnyArray:
        """Factorize ``X`` and return the encodings of its samples: `embedding_`, or `transform` of
        ``X`` where the method's own factor is no encoding."""
        self.fit(X, y, feature_names=feature_names, layer=layer)
        return self.embedding_ if self._fitted.is_encoding else self.transform(X)

    def _pose(self, data: Prepared, known: KnownLabels) -> Problem:
        """The table that is factorized, after a check of the parameters."""
        affinity = resolve(self.affinity)
        is_graph = self._compares_samples or (affinity is not None and affinity.is_graph)
        if is_graph and not data.table.in_memory and not self._compares_samples:
            raise InvalidInputError(
                "a graph of samples needs the whole table in memory, and X is"
                f" {data.table.kind}; use GraphCCNMF."
            )
        self._check_parameters(data, is_graph=is_graph)
        kept = np.flatnonzero(~data.empty) if is_graph else None
        samples = data.table if kept is None or not data.empty.any() else data.table.rows(kept)
        source = (
            Source(samples) if affinity is None else affinity.source(samples, self.n_components)
        )
        constraints = known.constraints
        labels = None if constraints is None else constraints.labels
        if constraints is not None and kept is not None and data.empty.any():
            constraints = constraints.of(kept)
        return Problem(data, source, kept, constraints, labels, known.names)

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        """The best of ``n_init`` runs of the method, with W by least squares."""
        init = problem.start(self.init, self.n_components)
        starts = Starts(self.n_components, init, self.n_init, rng)
        result = best_of_starts(self._method(problem), problem.table, starts)
        encoder = LeastSquares(result.H)
        result = with_encodings(result, problem.table, encoder)
        return Solution(result, encoder, row_lengths(result.H))

    def _method(self, problem: Problem) -> Method:
        """The pure function ``method(X, W, H)`` with its arguments, which are checked here."""
        raise NotImplementedError

    def _stopping(self) -> Stopping:
        return {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "callback": self._report_iteration,
        }

    def _order(self, problem: Problem, solution: Solution) -> IntArray:
        """The components by the numbers of their samples, largest first, after those that keep
        their places."""
        if solution.order is not None:
            return solution.order
        W, weight = solution.result.W, problem.data.sample_weight
        counted = W if weight is None else W * np.sqrt(weight)[:, None]
        order = largest_first(
            labels_of(W, solution.label_weights),
            row_lengths(counted.T) * row_lengths(solution.result.H),
            weight,
        )
        return np.concatenate([np.arange(solution.n_first), order[order >= solution.n_first]])

    def _set_factors(self, problem: Problem, solution: Solution, order: IntArray) -> None:
        data, source, result = problem.data, problem.source, solution.result
        W, H = np.ascontiguousarray(result.W[:, order]), result.H[order]
        unit = 1.0 if source.is_graph else data.unit
        self.label_weights_ = solution.label_weights[order]
        self._fitted = Fitted(
            H,
            data.unit,
            solution.encoder,
            self.label_weights_,
            source.forget(),
            skips_empty=problem.kept is not None,
            code_unit=solution.code_unit,
            is_encoding=solution.is_encoding,
            names=problem.names,
            fixed=solution.fixed,
            weighted_by=data.weighted_by,
            order=order,
        )
        W = problem.among_all(W.T).T
        W[data.empty] = 0
        self.labels_: AnyArray = labels_of(W, self.label_weights_)
        H = problem.among_all(H) if source.is_graph else H
        unit_H = unit / solution.code_unit
        self.embedding_ = in_dtype(
            W * solution.code_unit if solution.code_unit != 1 else W, data.dtype
        )
        self.components_ = in_dtype(H * unit_H if unit_H != 1 else H, data.dtype)
        self.history_ = result.history / result.scale
        self.n_iter_, self.converged_, self.status_ = result.n_iter, result.converged, result.status
        norm2 = problem.table.squared_norm if result.norm2 is None else result.norm2
        self.reconstruction_err_ = float(np.sqrt(result.error * data.weight_unit)) * float(unit)
        self.relative_err_ = float(np.sqrt(result.error / norm2))

    def _set_profiles(self, data: Prepared) -> None:
        """The mean sample of each cluster; zeros for a cluster without samples."""
        members = np.zeros((data.n_samples, self.n_components))
        rows = np.flatnonzero(self.labels_ != NO_CLUSTER)
        weight = data.sample_weight
        members[rows, self.labels_[rows]] = 1.0 if weight is None else weight[rows]
        self.profiles_ = in_dtype(data.table.group_means(members) * data.unit, data.dtype)
        self._sizes = cluster_sizes(self.labels_, self.n_components)

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:
        """Attributes of this estimator alone."""

    def _fit(self, data: Prepared, known: KnownLabels = NOTHING_KNOWN) -> Self:
        """From the checked table to the attributes."""
        problem = self._pose(data, known)
        solution = self._solve(problem, generator(self.random_state))
        order = self._order(problem, solution)
        self._set_factors(problem, solution, order)
        self._set_own(problem, solution, order)
        self._set_profiles(data)
        self.labels_ = data.table.wrap(self._fitted.name(self.labels_))
        # an error that goes to zero changes by more than tol of itself at every step; no warning is
        # needed when a step changes the fit by at most tol of the data
        if not self.converged_ and np.ptp(self.history_[-2:]) > self.tol > 0:
            warnings.warn(
                f"{type(self).__name__} {self.status_}.", ConvergenceWarning, stacklevel=outside()
            )
        return self

    def top_features(self, n_features: int = 10, names: Any = None) -> list[list[TopFeature]]:
        """For each cluster the features that distinguish it: column, name, and mean inside it minus
        the largest mean elsewhere.

        Ranked by that difference, so features that are large everywhere do not lead every list.
        Works on graphs too, where ``components_`` is over samples. ``names`` are those of the
        features; by default the names of the columns that `fit` saw, else x0, x1, ...
        """
        check_is_fitted(self)
        count = check_count(n_features, "n_features")
        return top_features(self.profiles_, feature_names_of(self, names), count)

    @running
    def transform(self, X: Any) -> AnyArray:
        """Encodings of samples, known or new: the non-negative least-squares solution over the
        components."""
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        return in_dtype(self._fitted.encode(table), table.dtype)

    @running
    def predict(self, X: Any) -> AnyArray:
        """The component with the largest weighted encoding of each sample; -1 for a sample without
        any, such as one of zeros."""
        check_is_fitted(self)
        return self._predict(check_table(self, X, reset=False))

    def _predict(self, table: Table) -> AnyArray:
        labels = self._fitted.predict(table)
        warn_of_samples(~table.filled, EMPTY_SAMPLES.format(self._fitted.no_cluster))
        return table.wrap(labels)

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples (rows of the graph, where an affinity is used) from encodings:
        ``X @ components_``."""
        check_is_fitted(self)
        return decode(X, self.components_, lowest=0)

    @running
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2``
        with the best W >= 0; at most 1."""
        check_is_fitted(self)
        return self._fitted.score(check_table(self, X, reset=False))

    def _check_parameters(self, data: Prepared, *, is_graph: bool) -> None:
        r = check_count(self.n_components, "n_components")
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        if not (
            isinstance(self.tol, (int, float, np.integer, np.floating)) and 0 <= self.tol < np.inf
        ):
            raise InvalidInputError(f"tol must be a number >= 0; got {self.tol!r}.")
        counts = ~data.empty if self._needs_every_sample or is_graph else np.ones(data.n_samples)
        limit = int(counts.sum())
        which = " that are not all zero" if limit < data.n_samples else ""
        if data.sample_weight is not None:
            limit, which = int((data.sample_weight > 0).sum()), " whose weight is above zero"
        if r > limit:
            raise InvalidInputError(
                f"n_components = {r}, but X has only n_samples = {limit}{which}; ask for at most"
                " that many."
            )

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> dict[str, str]:
        return {
            "samples by cluster": ", ".join(str(size) for size in self._sizes),
            "relative error": f"{self.relative_err_:.4g}",
            "iterations": self.status_,
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed" or isinstance(
            self.affinity, Precomputed
        )
        return tags


def orthogonality_line(orthogonality: float) -> dict[str, str]:
    """How far from orthonormal a factor is, for a summary."""
    return {"orthogonality, max |A'A - I|": f"{orthogonality:.2g}"}
