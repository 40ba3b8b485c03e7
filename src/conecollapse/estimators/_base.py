"""What all factorizing estimators share: input, restarts, labels, new samples. The maths is in `conecollapse.factorization`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from conecollapse._checks import as_matrix, check_count, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, BoolArray, IntArray, Points
from conecollapse.blocks import BlockedTable, as_table
from conecollapse.estimators._affinity import Input, make_input
from conecollapse.estimators._summary import SummaryMixin
from conecollapse.estimators._tables import (
    NO_CLUSTER,
    carries_rounding,
    check_range,
    check_table,
    filled_lines,
    generator,
    in_dtype,
    safe_unit,
    warn_of_empty,
    warn_of_samples,
    working_table,
)
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.data import Factorization, squared_error, squared_norm
from conecollapse.factorization.inits import is_pair
from conecollapse.factorization.onmf import orthogonality

EMPTY_SAMPLES = f"kept in place, with zero encodings and the label {NO_CLUSTER}, which means no cluster"


def rival_means(profiles: AnyArray, k: int) -> Any:
    """For each feature its largest mean in a cluster other than k; 0 where there is no other."""
    others = np.delete(profiles, k, axis=0)
    return others.max(axis=0) if len(others) else 0


def cluster_sizes(labels: Any, n_clusters: int) -> IntArray:
    """Samples in each cluster; those without one are not counted."""
    labels = np.asarray(labels)
    return np.bincount(labels[labels != NO_CLUSTER], minlength=n_clusters)


def _in_range(table: Points) -> Points:
    if not isinstance(table, BlockedTable):
        check_finite(table, "X, in the unit of the samples of `fit`,")
    return table


class BaseNMF(SummaryMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: ``X ~ embedding_ @ components_`` and ``labels_``, the component that says most about each sample.

    They are not tagged as scikit-learn clusterers, because that tag promises to take negative numbers.
    """

    _is_orthogonal = False  # whether `orthogonality_` is reported
    _needs_every_sample = False  # whether each component must have a sample of its own
    _takes_blocks = False  # whether `fit` works on tables in blocks
    _encodings_scale = False  # whether W scales with the data, rather than H

    def __init__(
        self,
        n_components: int = 2,
        *,
        affinity: str | None = None,
        n_neighbors: int = 5,
        metric: str = "auto",
        damping: float = 0.8,
        init: Any = "auto",
        n_init: int = 1,
        tol: float = 1e-5,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.damping = damping
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002
        """Factorize ``X`` (n_samples, n_features)."""
        X = check_table(self, X, reset=True)
        empty = warn_of_empty(X, EMPTY_SAMPLES, self)
        self._check_parameters(X, int((~empty).sum()))
        self._n_samples, self._dtype, self._has_rounding = X.shape[0], X.dtype, carries_rounding(X)
        self._unit = safe_unit(X)
        table = working_table(X, self._unit)
        check_range(X, table, self._unit)
        self._on_graph = np.flatnonzero(~empty) if self._is_graph else None
        source = self._make_input(table[self._on_graph] if self._is_graph and empty.any() else table)
        result = self._factorize(source.table, generator(self.random_state))
        self._set_factors(result, source, empty)
        self._input = source.forget()
        self.profiles_ = self._profiles(table)
        if isinstance(X, BlockedTable):
            self.labels_: Any = X.wrap(self.labels_)
        return self

    @property
    def _is_graph(self) -> bool:
        """Whether a graph is made of the samples. A sample of zeros has no direction and no neighbours, and is left out of it."""
        return self.affinity not in (None, "precomputed")

    def _profiles(self, table: Points) -> AnyArray:
        """Mean sample of each cluster; zero for clusters without samples."""
        n, r = table.shape[0], self.components_.shape[0]
        rows = np.flatnonzero(self.labels_ != NO_CLUSTER)
        members = sp.csr_array((np.ones(len(rows)), (rows, self.labels_[rows])), shape=(n, r))
        sums = (table.T @ members.toarray()).T if isinstance(table, BlockedTable) else members.T @ table
        means = (sums.toarray() if sp.issparse(sums) else sums) / np.maximum(cluster_sizes(self.labels_, r), 1)[:, None]
        return in_dtype(np.asarray(means) * self._unit, self._dtype)

    def top_features(self, n_features: int = 10) -> list[list[tuple[str, float]]]:
        """For each cluster the features that tell it from the others: name, and mean inside it minus the largest mean elsewhere.

        Ranked by that difference, so features that are large everywhere do not lead every list. Works on graphs too, where
        ``components_`` is over samples.
        """
        check_is_fitted(self)
        count = check_count(n_features, "n_features")
        names = getattr(self, "feature_names_in_", None)
        names = np.array([f"x{j}" for j in range(self.n_features_in_)]) if names is None else names
        lists = []
        for k, profile in enumerate(self.profiles_):
            lead = profile - rival_means(self.profiles_, k)
            lists.append([(str(names[j]), float(lead[j])) for j in np.argsort(-lead, kind="stable")[:count]])
        return lists

    def fit_predict(self, X: Any, y: Any = None) -> IntArray:  # noqa: ARG002
        """Factorize ``X`` and return `labels_`."""
        labels: IntArray = self.fit(X).labels_
        return labels

    def fit_transform(self, X: Any, y: Any = None) -> AnyArray:  # noqa: ARG002
        """Factorize ``X`` and encode it by the components found, as `transform` does; `embedding_` has the method's own factor."""
        encodings: AnyArray = self.fit(X).transform(X)
        return encodings

    def transform(self, X: Any) -> AnyArray:
        """Encodings of samples, known or new: the non-negative least-squares solution over the components."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        codes = self._encodings(X)[0]
        return in_dtype(codes * self._unit if self._encodings_scale else codes, X.dtype)

    def predict(self, X: Any) -> IntArray:
        """The component that says most about each sample; -1 for a sample that has nothing of any, one of zeros among them."""
        check_is_fitted(self)
        codes, empty = self._encodings(check_table(self, X, reset=False))
        warn_of_samples(empty, EMPTY_SAMPLES)
        labels = self._labels(codes)
        table = as_table(X)
        return labels if table is None else table.wrap(labels)

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples (rows of the graph, where an affinity is used) from encodings: ``X @ components_``."""
        check_is_fitted(self)
        codes = as_matrix(X, "X")
        if codes.shape[1] != len(self.components_):
            raise InvalidInputError(f"X has {codes.shape[1]} columns; expected {len(self.components_)}, one for each component.")
        samples = np.asarray(codes.astype(np.float64) @ self.components_)
        return in_dtype(samples, np.result_type(codes, self.components_))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2`` with the best W >= 0; at most 1."""
        check_is_fitted(self)
        table, H = self._scaled(check_table(self, X, reset=False))[0], self._H
        if table is None:
            return 1.0
        C, G = self._input.product(table, H.T), H @ H.T
        W = solve_rows(G, C)
        norm2 = self._input.squared_norm(table)
        return 1.0 - squared_error(norm2, C, W, W.T @ W, G) / norm2 if norm2 > 0 else 1.0

    def _scaled(self, X: Points) -> tuple[Points | None, BoolArray]:
        """The working table of checked samples, and which samples hold anything: the others are left out of it, None if all are."""
        filled = filled_lines(X)[0]
        if not filled.any():
            return None, filled
        with np.errstate(over="ignore"):
            table = working_table(X, self._unit)
        if isinstance(table, BlockedTable) or filled.all():
            return _in_range(table), filled
        return _in_range(table[np.flatnonzero(filled)]), filled

    def _encodings(self, X: Points) -> tuple[AnyArray, BoolArray]:
        """Encodings of checked samples in the unit of the working table, and which samples are all zero: their encodings are zero."""
        table, filled = self._scaled(X)
        codes = np.zeros((X.shape[0], len(self._H)))
        if table is not None:
            found = self._encode(table)
            codes[filled if len(found) == filled.sum() else slice(None)] = found
        if not np.isfinite(codes).all():
            raise InvalidInputError("X is so much larger than the samples of `fit` that its encodings leave the range of floating point.")
        return codes, ~filled

    def _make_input(self, X: Points) -> Input:
        return make_input(
            X,
            self.affinity,
            n_neighbors=self.n_neighbors,
            metric=self.metric,
            damping=self.damping,
            n_components=self.n_components,
        )

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        raise NotImplementedError

    def _encode(self, X: Points) -> AnyArray:
        H = self._H
        return solve_rows(H @ H.T, self._input.product(X, H.T))

    def _set_factors(self, result: Factorization, source: Input, empty: BoolArray) -> None:
        unit = self._unit if source.is_table else 1.0
        unit_W, unit_H = (unit, 1.0) if self._encodings_scale else (1.0, unit)
        self._H = result.H
        W = self._among_samples(result.W.T, len(empty)).T
        W[empty] = 0
        H = result.H if source.is_table else self._among_samples(result.H, len(empty))
        self.embedding_ = in_dtype(W * unit_W if unit_W != 1 else W, self._dtype)
        self.components_ = in_dtype(H * unit_H if unit_H != 1 else H, self._dtype)
        self.labels_ = self._labels(W)
        self.history_ = result.history / result.scale
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.status_ = result.status
        error = float(np.sqrt(result.error))
        self.reconstruction_err_ = error * float(unit)
        self.relative_err_ = error / np.sqrt(squared_norm(source.table))
        if self._is_orthogonal:
            self.orthogonality_ = orthogonality(result.W)
        if not result.converged and self.tol > 0:
            warnings.warn(f"{type(self).__name__} {result.status}.", ConvergenceWarning, stacklevel=3)

    def _among_samples(self, on_graph: AnyArray, n_samples: int) -> AnyArray:
        """Columns for the samples on the graph, with columns of zeros for those that are left out of it."""
        if self._on_graph is None or len(self._on_graph) == n_samples:
            return on_graph
        columns = np.zeros((len(on_graph), n_samples), on_graph.dtype)
        columns[:, self._on_graph] = on_graph
        return columns

    def _labels(self, W: AnyArray) -> IntArray:
        labels: IntArray = (W * self._label_weights()).argmax(axis=1).astype(np.int64)
        labels[~W.any(axis=1)] = NO_CLUSTER
        return labels

    def _label_weights(self) -> AnyArray:
        """What makes columns of W comparable: the length of what they contribute is ``w_ik |h_k|``."""
        return row_lengths(self._H)

    def _check_parameters(self, X: Points, n_filled: int) -> None:
        r = check_count(self.n_components, "n_components")
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        if not (isinstance(self.tol, (int, float, np.integer, np.floating)) and 0 <= self.tol < np.inf):
            raise InvalidInputError(f"tol must be a number >= 0; got {self.tol!r}.")
        limit = n_filled if self._needs_every_sample or self._is_graph else X.shape[0]
        if r > limit:
            held = " that are not all zero" if limit < X.shape[0] else ""
            raise InvalidInputError(f"n_components = {r}, but X has only n_samples = {limit}{held}; ask for at most that many.")

    def _start(self, table: Points) -> Any:
        """``init``, or what "auto" means here; a pair (W, H) in the units of the table."""
        if isinstance(self.init, str) and self.init == "auto":
            return "nndsvda" if self.n_components <= min(table.shape) else "random"
        if is_pair(self.init) and self._unit != 1 and not self._is_graph:
            W, H = (np.asarray(part) for part in self.init)
            return (W / self._unit, H) if self._encodings_scale else (W, H / self._unit)
        return self._init_on_graph()

    def _init_on_graph(self) -> Any:
        """``init`` without the samples that are left out of the graph."""
        kept = self._on_graph
        if kept is None or isinstance(self.init, str):
            return self.init
        if is_pair(self.init):
            W, H = (np.asarray(part) for part in self.init)
            return W[kept], H[:, kept]
        return np.asarray(self.init)[kept]

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> dict[str, str]:
        sizes = cluster_sizes(self.labels_, self.components_.shape[0])
        rows = {
            "samples by cluster": ", ".join(str(size) for size in sizes),
            "relative error": f"{self.relative_err_:.4g}",
            "iterations": self.status_,
        }
        if self._is_orthogonal:
            rows["orthogonality, max |A'A - I|"] = f"{self.orthogonality_:.2g}"
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
