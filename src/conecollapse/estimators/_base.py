"""What all factorizing estimators share: input, restarts, labels, new samples. The maths is in `conecollapse.factorization`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_norms
from conecollapse._types import AnyArray, IntArray, Points
from conecollapse.estimators._affinity import Input, make_input
from conecollapse.estimators._summary import SummaryMixin
from conecollapse.estimators._tables import check_table, generator, warn_of_empty
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.data import Factorization, squared_error, squared_norm
from conecollapse.factorization.onmf import orthogonality


class BaseNMF(SummaryMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: ``X ~ embedding_ @ components_`` and ``labels_``, the component that says most about each sample.

    They are not tagged as scikit-learn clusterers, because that tag promises to take negative numbers.
    """

    _is_orthogonal = False  # whether W has unit columns, so that its entries can be compared as they are
    _needs_every_sample = False  # whether each component must have a sample of its own

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
        empty = warn_of_empty(self, X)
        self._check_parameters(X, int((~empty).sum()))
        self._input = self._make_input(X)
        self._set_factors(self._factorize(self._input.table, generator(self.random_state)))
        return self

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
        return self._encode(self._input.rows(check_table(self, X, reset=False)))

    def predict(self, X: Any) -> IntArray:
        """The component that says most about each sample."""
        encodings = self.transform(X)
        return self._labels(np.asarray(encodings))

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples (rows of the graph, where an affinity is used) from encodings: ``X @ components_``."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2`` with the best W >= 0; at most 1."""
        check_is_fitted(self)
        rows = self._input.rows(check_table(self, X, reset=False))
        H = self.components_
        W = solve_rows(H @ H.T, np.asarray(rows @ H.T))
        norm2 = squared_norm(rows)
        return 1.0 - squared_error(norm2, rows @ H.T, W, W.T @ W, H @ H.T) / norm2 if norm2 > 0 else 1.0

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

    def _encode(self, rows: Points) -> AnyArray:
        H = self.components_
        return solve_rows(H @ H.T, np.asarray(rows @ H.T))

    def _set_factors(self, result: Factorization) -> None:
        self.embedding_ = result.W
        self.components_ = result.H
        self.labels_ = self._labels(result.W)
        self.history_ = result.history
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.status_ = result.status
        self.reconstruction_err_ = self._error(result)
        if self._is_orthogonal:
            self.orthogonality_ = orthogonality(result.W)
        if not result.converged and self.tol > 0:
            warnings.warn(f"{type(self).__name__} {result.status}.", ConvergenceWarning, stacklevel=3)

    def _error(self, result: Factorization) -> float:
        """``|X - W H|``: the objective may hold penalties, or be another loss."""
        X, W, H = self._input.table, result.W, result.H
        return float(np.sqrt(squared_error(squared_norm(X), X @ H.T, W, W.T @ W, H @ H.T)))

    def _labels(self, W: AnyArray) -> IntArray:
        """Columns of an orthogonal factor compare as they are, others by the length of what they contribute, ``w_ik |h_k|``."""
        scale = np.ones(W.shape[1]) if self._is_orthogonal else row_norms(self.components_)
        labels: IntArray = (W * scale).argmax(axis=1).astype(np.int64)
        return labels

    def _check_parameters(self, X: Points, n_filled: int) -> None:
        r = check_count(self.n_components, "n_components")
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        if not (isinstance(self.tol, (int, float, np.integer, np.floating)) and 0 <= self.tol < np.inf):
            raise InvalidInputError(f"tol must be a number >= 0; got {self.tol!r}.")
        limit = n_filled if self._needs_every_sample else X.shape[0]
        if r > limit:
            held = " that are not all zero" if limit < X.shape[0] else ""
            raise InvalidInputError(f"n_components = {r}, but X has only n_samples = {limit}{held}; ask for at most that many.")

    def _start(self, table: Points) -> Any:
        """``init``, or what "auto" means here."""
        if isinstance(self.init, str) and self.init == "auto":
            return "nndsvda" if self.n_components <= min(table.shape) else "random"
        return self.init

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> dict[str, str]:
        sizes = np.bincount(self.labels_, minlength=self.components_.shape[0])
        norm = np.sqrt(squared_norm(self._input.table))
        rows = {
            "samples by cluster": ", ".join(str(size) for size in sizes),
            "relative error": f"{self.reconstruction_err_ / norm:.4g}",
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
