"""What all factorizing estimators share: input, labels, new samples. The maths is in
`conecollapse.factorization`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from conecollapse._checks import as_matrix, check_count, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Stopping
from conecollapse._linalg import SAME, row_lengths
from conecollapse._progress import teller
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.affinity import Precomputed, Source
from conecollapse.affinity.kinds import resolve
from conecollapse.clusters import NO_CLUSTER, TopFeature, cluster_sizes, largest_first, top_features
from conecollapse.estimators._estimator import Estimator, running
from conecollapse.estimators._prepared import (
    check_range,
    check_table,
    generator,
    in_dtype,
    remember_layer,
    safe_unit,
    warn_of_empty,
    warn_of_samples,
)
from conecollapse.estimators._sklearn import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from conecollapse.factorization.data import Factorization
from conecollapse.factorization.inits import is_components, is_pair
from conecollapse.factorization.onmf import orthogonality
from conecollapse.factorization.restarts import best_of_starts
from conecollapse.factorization.rows import solve
from conecollapse.tables import Equations, Table

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
    # whether `orthogonality_` is reported, and W stays as the method left it
    _is_orthogonal = False
    _needs_every_sample = False  # whether each component must have a sample of its own
    # whether its graph of samples can be had from a table that is not in memory
    _reads_blocks = False
    _encodings_scale = False  # whether W scales with the data, rather than H
    _sample_weight: ClassVar[FloatArray | None] = None  # in `fit` of an estimator that takes them

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Any:
        """Factorize ``X`` (n_samples, n_features).

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X. `HierarchicalNMF`, `AlternatingNMF`,
        `MultiplicativeNMF` and `SparseNMF` take weights of entries and samples; others refuse them.
        """
        return self._fit(
            check_table(self, remember_layer(self, X, feature_names, layer), reset=True)
        )

    def _fit(self, X: Table) -> Any:
        empty = warn_of_empty(X, self._zeros_are(), self)
        affinity = resolve(self.affinity)
        self._joins_neighbours = self._compares_samples or (
            affinity is not None and affinity.is_graph
        )
        if self._joins_neighbours and not X.in_memory and not self._reads_blocks:
            raise InvalidInputError(
                f"a graph of samples needs the whole table in memory, and X is {X.kind}; use"
                " GraphCCNMF."
            )
        self._check_parameters(X, int((~empty).sum()))
        self._n_samples, self._dtype, self._has_rounding = X.shape[0], X.dtype, X.is_rounded
        self._unit, self._peak = safe_unit(X), X.peak
        working = X.divided(self._unit)
        check_range(X, working, self._unit)
        self._on_graph = np.flatnonzero(~empty) if self._joins_neighbours else None
        samples = (
            working.rows(self._on_graph) if self._on_graph is not None and empty.any() else working
        )
        source = (
            Source(samples) if affinity is None else affinity.source(samples, self.n_components)
        )
        assert source.table is not None
        result = self._factorize(source.table, generator(self.random_state))
        self._set_factors(self._numbered(result, source.table), source, empty)
        self._source = source.forget()
        self.profiles_ = self._profiles(working)
        self._sizes = cluster_sizes(self.labels_, len(self.components_))
        self.labels_: Any = X.wrap(self._named(self.labels_))
        return self

    @property
    def _compares_samples(self) -> bool:
        """Whether the method itself joins samples with their neighbours. A sample of zeros has
        none, and is left out."""
        return False

    def _profiles(self, table: Table) -> AnyArray:
        """Mean sample of each cluster; zero for clusters without samples."""
        r = len(self.components_)
        members = np.zeros((table.shape[0], r))
        rows = np.flatnonzero(self.labels_ != NO_CLUSTER)
        members[rows, self.labels_[rows]] = (
            1.0 if self._sample_weight is None else self._sample_weight[rows]
        )
        return in_dtype(table.group_means(members) * self._unit, self._dtype)

    def top_features(self, n_features: int = 10, names: Any = None) -> list[list[TopFeature]]:
        """For each cluster the features that distinguish it: column, name, and mean inside it minus
        the largest mean elsewhere.

        Ranked by that difference, so features that are large everywhere do not lead every list.
        Works on graphs too, where ``components_`` is over samples. ``names`` are those of the
        features; by default the names of the columns that `fit` saw, else x0, x1, ...
        """
        check_is_fitted(self)
        count = check_count(n_features, "n_features")
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        names = [f"x{j}" for j in range(self.n_features_in_)] if names is None else names
        if len(names) != self.n_features_in_:
            raise InvalidInputError(
                f"there are {len(names)} names for {self.n_features_in_} features; give one for"
                " each."
            )
        return top_features(self.profiles_, names, count)

    def fit_predict(self, X: Any, y: Any = None, **how: Any) -> IntArray:
        """Factorize ``X`` and return `labels_`. ``how`` are arguments of `fit`."""
        labels: IntArray = self.fit(X, y, **how).labels_
        return labels

    def fit_transform(self, X: Any, y: Any = None, **how: Any) -> AnyArray:
        """Factorize ``X`` and return the encodings of its samples: `embedding_`, or `transform` of
        ``X`` where the method's own factor is no encoding. ``how`` are arguments of `fit`.
        """
        encodings: AnyArray = self.fit(X, y, **how).embedding_
        return encodings if self._embedding_encodes else self.transform(X)

    @property
    def _embedding_encodes(self) -> bool:
        """Whether `embedding_` is what `transform` gives for the training samples."""
        return True

    @running
    def transform(self, X: Any) -> AnyArray:
        """Encodings of samples, known or new: the non-negative least-squares solution over the
        components."""
        check_is_fitted(self)
        return self._transformed(check_table(self, X, reset=False))

    def _transformed(self, X: Table) -> AnyArray:
        codes = self._encodings(X)[0]
        return in_dtype(codes * self._unit if self._encodings_scale else codes, X.dtype)

    @running
    def predict(self, X: Any) -> IntArray:
        """The component with the largest weighted encoding of each sample; -1 for a sample without
        any, such as one of zeros."""
        check_is_fitted(self)
        return self._predicted(check_table(self, X, reset=False))

    def _predicted(self, table: Table) -> IntArray:
        codes, empty = self._encodings(table)
        warn_of_samples(empty, self._zeros_are())
        labels: IntArray = table.wrap(self._named(self._labels(codes, self.label_weights_)))
        return labels

    def _zeros_are(self) -> str:
        """What becomes of samples that are all zero, for a warning."""
        return EMPTY_SAMPLES.format(NO_CLUSTER)

    def _named(self, labels: IntArray) -> AnyArray:
        """Numbers of components as `labels_` and `predict` return them."""
        return labels

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples (rows of the graph, where an affinity is used) from encodings:
        ``X @ components_``."""
        check_is_fitted(self)
        codes = as_matrix(X, "X")
        check_finite(codes, "X")
        if codes.min() < 0:
            raise InvalidInputError(f"X has {codes.min():.6g}; encodings must be >= 0.")
        if codes.shape[1] != len(self.components_):
            raise InvalidInputError(
                f"X has {codes.shape[1]} columns; expected {len(self.components_)}, one for each"
                " component."
            )
        samples = np.asarray(codes.astype(np.float64) @ self.components_)
        return in_dtype(samples, np.result_type(codes, self.components_))

    @running
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2``
        with the best W >= 0; at most 1."""
        check_is_fitted(self)
        return self._scored(check_table(self, X, reset=False))

    def _scored(self, X: Table) -> float:
        working = self._working(X)[0]
        if working is None:
            return 1.0
        rows = self._source.place(working)
        equations, norm2 = rows.row_equations(self._H), rows.squared_norm
        return 1.0 - equations.error(norm2, solve(equations)) / norm2 if norm2 > 0 else 1.0

    def _working(self, X: Table) -> tuple[Table | None, BoolArray]:
        """Checked samples in the unit of `fit`, and which of them are not all zero: on a graph only
        these, None if there are none."""
        filled = X.filled
        if not filled.any():
            return None, filled
        with np.errstate(over="ignore"):
            working = X.divided(self._unit)
        if not np.isfinite(working.peak):
            raise InvalidInputError(
                "X is so much larger than the samples of `fit` that, in their unit, it leaves the"
                " range of floating point."
            )
        return (
            working.rows(np.flatnonzero(filled))
            if self._joins_neighbours and not filled.all()
            else working
        ), filled

    def _encodings(self, X: Table) -> tuple[AnyArray, BoolArray]:
        """Encodings of checked samples in the unit of the working table, and which samples are all
        zero: their encodings are zero."""
        working, filled = self._working(X)
        codes = np.zeros((X.shape[0], len(self._H)))
        if working is not None:
            found = self._encode(self._source.place(working))
            codes[filled if len(found) == filled.sum() else slice(None)] = found
        if not np.isfinite(codes).all():
            raise InvalidInputError(
                "X is so much larger than the samples of `fit` that its encodings leave the range"
                " of floating point."
            )
        return codes, ~filled

    def _factorize(self, table: Table, rng: np.random.Generator) -> Factorization:
        """The best of ``n_init`` runs of the method."""
        return best_of_starts(
            self._method(table), table, self.n_components, self._start(table), self.n_init, rng
        )

    def _method(self, table: Table) -> Method:
        """The pure function ``method(X, W, H)`` with its arguments, which are checked here."""
        raise NotImplementedError

    def _stopping(self) -> Stopping:
        return {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "callback": self._report_iteration,
            "progress": teller(),
        }

    def _encode(self, rows: Table) -> AnyArray:
        """The codes over H of rows of the table that is factorized."""
        return self._codes(rows.row_equations(self._H))

    def _codes(self, equations: Equations, start: AnyArray | None = None) -> AnyArray:
        """The codes from their normal equations; the sets of positive entries of ``start`` are
        tried first."""
        return solve(equations, start)

    def _numbered(self, result: Factorization, table: Table) -> Factorization:
        """The factors with W as `transform` has it, and components numbered by the sizes of their
        clusters."""
        self._H = result.H
        result = self._encoded(result, table)
        weights = self._label_weights()
        counted = result.W
        if self._sample_weight is not None:
            counted = counted * np.sqrt(self._sample_weight)[:, None]
        order = self._order(
            self._labels(result.W, weights), row_lengths(counted.T) * row_lengths(result.H)
        )
        self._H = result.H[order]
        self.label_weights_ = weights[order]
        self._renumber(order)
        return replace(result, W=np.ascontiguousarray(result.W[:, order]), H=self._H)

    def _encoded(self, result: Factorization, table: Table) -> Factorization:
        """The factors with W as `transform` has it, where that is an encoding."""
        if not self._embedding_encodes or self._is_orthogonal:
            return result
        equations = table.row_equations(result.H)
        W = self._codes(equations, result.W)
        return replace(result, W=W, error=equations.error(table.squared_norm, W))

    def _order(self, labels: IntArray, masses: AnyArray) -> IntArray:
        """The components by the numbers of their samples, largest first."""
        return largest_first(labels, masses, self._sample_weight)

    def _renumber(self, order: IntArray) -> None:
        """Further factors of a method in this order of components."""

    def _set_factors(self, result: Factorization, source: Source, empty: BoolArray) -> None:
        assert source.table is not None
        unit = 1.0 if source.is_graph else self._unit
        unit_W, unit_H = (unit, 1.0) if self._encodings_scale else (1.0, unit)
        W = self._among_samples(result.W.T, len(empty)).T
        W[empty] = 0
        H = self._among_samples(result.H, len(empty)) if source.is_graph else result.H
        self.embedding_ = in_dtype(W * unit_W if unit_W != 1 else W, self._dtype)
        self.components_ = in_dtype(H * unit_H if unit_H != 1 else H, self._dtype)
        self.labels_ = self._labels(W, self.label_weights_)
        self.history_ = result.history / result.scale
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.status_ = result.status
        error = float(np.sqrt(result.error))
        self.reconstruction_err_ = error * float(unit)
        self.relative_err_ = error / np.sqrt(
            source.table.squared_norm if result.norm2 is None else result.norm2
        )
        if self._is_orthogonal:
            self.orthogonality_ = orthogonality(result.W)
        # where no more than tol of the data is left to explain, no further step changes the fit by
        # more than that
        if not result.converged and self.history_[-1] > self.tol > 0:
            warnings.warn(
                f"{type(self).__name__} {result.status}.", ConvergenceWarning, stacklevel=4
            )

    def _among_samples(self, on_graph: AnyArray, n_samples: int) -> AnyArray:
        """Columns for the samples on the graph, with columns of zeros for those that are left out
        of it."""
        if self._on_graph is None or len(self._on_graph) == n_samples:
            return on_graph
        columns = np.zeros((len(on_graph), n_samples), on_graph.dtype)
        columns[:, self._on_graph] = on_graph
        return columns

    @staticmethod
    def _labels(W: AnyArray, weights: AnyArray) -> IntArray:
        shares = W * weights
        nearly = (1 - SAME) * shares.max(axis=1, keepdims=True)
        labels: IntArray = (shares >= nearly).argmax(axis=1).astype(np.int64)
        labels[~W.any(axis=1)] = NO_CLUSTER
        return labels

    def _label_weights(self) -> AnyArray:
        """What makes columns of W comparable: the length of what they contribute is
        ``w_ik |h_k|``."""
        return row_lengths(self._H)

    def _check_parameters(self, X: Table, n_filled: int) -> None:
        r = check_count(self.n_components, "n_components")
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        if not (
            isinstance(self.tol, (int, float, np.integer, np.floating)) and 0 <= self.tol < np.inf
        ):
            raise InvalidInputError(f"tol must be a number >= 0; got {self.tol!r}.")
        limit = n_filled if self._needs_every_sample or self._joins_neighbours else X.shape[0]
        held = " that are not all zero" if limit < X.shape[0] else ""
        if self._sample_weight is not None:
            limit, held = int((self._sample_weight > 0).sum()), " whose weight is above zero"
        if r > limit:
            raise InvalidInputError(
                f"n_components = {r}, but X has only n_samples = {limit}{held}; ask for at most"
                " that many."
            )

    def _start(self, table: Table) -> Any:
        """``init``, or what "auto" means here; a pair (W, H) in the units of the table."""
        if isinstance(self.init, str) and self.init == "auto":
            return "nndsvda" if self.n_components <= min(table.shape) else "random"
        if is_pair(self.init) and self._unit != 1 and not self._joins_neighbours:
            W, H = (np.asarray(part) for part in self.init)
            return (W / self._unit, H) if self._encodings_scale else (W, H / self._unit)
        return self._init_on_graph()

    def _init_on_graph(self) -> Any:
        """``init`` without the samples that are left out of the graph."""
        kept = self._on_graph
        if kept is None or isinstance(self.init, str):
            return self.init
        if is_pair(self.init):
            W, H = (as_matrix(part, "init") for part in self.init)
            return of_samples(W, kept, self._n_samples), of_samples(H.T, kept, self._n_samples).T
        if is_components(self.init):
            return of_samples(as_matrix(self.init, "init").T, kept, self._n_samples).T
        return of_samples(np.asarray(self.init), kept, self._n_samples)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> dict[str, str]:
        rows = {
            "samples by cluster": ", ".join(str(size) for size in self._sizes),
            "relative error": f"{self.relative_err_:.4g}",
            "iterations": self.status_,
        }
        if self._is_orthogonal:
            rows["orthogonality, max |A'A - I|"] = f"{self.orthogonality_:.2g}"
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed" or isinstance(
            self.affinity, Precomputed
        )
        return tags


def of_samples(part: Any, kept: IntArray, n_samples: int) -> Any:
    """The rows of a start for these samples; one of another shape is refused later."""
    return part[kept] if part.ndim and part.shape[0] == n_samples else part


def one_cluster_codes(
    equations: Equations, decide: Callable[[AnyArray], AnyArray] | None = None
) -> AnyArray:
    """For each row the one component that explains most of it, with its least-squares coefficient:
    the model of disjoint supports.

    ``decide`` may take the place of the scores when the component is chosen; it is a function of
    them.
    """
    squares = np.diag(equations.G)
    lengths = np.sqrt(squares)
    scores = np.divide(equations.C, lengths, out=np.zeros_like(equations.C), where=lengths > 0)
    best = (scores if decide is None else decide(scores)).argmax(axis=1)
    rows = np.arange(len(best))
    codes = np.zeros_like(equations.C)
    codes[rows, best] = np.maximum(scores[rows, best], 0) / np.where(
        lengths[best] > 0, lengths[best], 1.0
    )
    return codes
