"""What all factorizing estimators share: input, restarts, labels, new samples. The maths is in `conecollapse.factorization`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from conecollapse._checks import as_matrix, check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_norms
from conecollapse._types import AnyArray, IntArray, Points
from conecollapse.blocks import BlockedTable, as_table
from conecollapse.estimators._affinity import Input, make_input
from conecollapse.estimators._summary import SummaryMixin
from conecollapse.estimators._tables import check_table, divided, generator, safe_unit, warn_of_empty
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.data import Factorization, squared_error, squared_norm
from conecollapse.factorization.inits import is_pair
from conecollapse.factorization.onmf import orthogonality


def rival_means(profiles: AnyArray, k: int) -> Any:
    """For each feature its largest mean in a cluster other than k; 0 where there is no other."""
    others = np.delete(profiles, k, axis=0)
    return others.max(axis=0) if len(others) else 0


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
        keeps_zeros = self.affinity in (None, "precomputed")
        empty = warn_of_empty(X, "kept in place" + (", with zero encodings and the label 0" if keeps_zeros else ""), self)
        self._check_parameters(X, int((~empty).sum()))
        self._unit = X.dtype.type(safe_unit(X))
        source = self._make_input(divided(X, self._unit))
        result = self._factorize(source.table, generator(self.random_state))
        if keeps_zeros and empty.any():
            result.W[empty] = 0
        self._set_factors(result, source)
        self._input = source.forget()
        self.profiles_ = self._profiles(X)
        if isinstance(X, BlockedTable):
            self.labels_: Any = X.wrap(self.labels_)
        return self

    def _profiles(self, X: Points) -> AnyArray:
        """Mean sample of each cluster; zero for clusters without samples."""
        n, r = X.shape[0], self.components_.shape[0]
        members = sp.csr_array((np.ones(n, X.dtype), self.labels_, np.arange(n + 1)), shape=(n, r))
        sums = (X.T @ members.toarray()).T if isinstance(X, BlockedTable) else members.T @ X
        counts = np.maximum(np.bincount(self.labels_, minlength=r), 1)[:, None]
        return np.asarray((sums.toarray() if sp.issparse(sums) else sums) / counts).astype(X.dtype)

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
        codes = self._encode(self._scaled(X))
        return codes * self._unit if self._encodings_scale else codes

    def predict(self, X: Any) -> IntArray:
        """The component that says most about each sample."""
        labels = self._labels(np.asarray(self.transform(X)))
        table = as_table(X)
        return labels if table is None else table.wrap(labels)

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples (rows of the graph, where an affinity is used) from encodings: ``X @ components_``."""
        check_is_fitted(self)
        codes = as_matrix(X, "X")
        if codes.shape[1] != len(self.components_):
            raise InvalidInputError(f"X has {codes.shape[1]} columns; expected {len(self.components_)}, one for each component.")
        return np.asarray(codes @ self.components_)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2`` with the best W >= 0; at most 1."""
        check_is_fitted(self)
        X, H = self._scaled(X), self._H
        C, G = self._input.product(X, H.T), H @ H.T
        W = solve_rows(G, C)
        norm2 = self._input.squared_norm(X)
        return 1.0 - squared_error(norm2, C, W, W.T @ W, G) / norm2 if norm2 > 0 else 1.0

    def _scaled(self, X: Any) -> Points:
        X = check_table(self, X, reset=False)
        return divided(X, self._unit)

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

    def _set_factors(self, result: Factorization, source: Input) -> None:
        unit = self._unit if source.is_table else self._unit.dtype.type(1)
        unit_W, unit_H = (unit, 1) if self._encodings_scale else (1, unit)
        self._H = result.H
        self.embedding_ = result.W * unit_W if unit_W != 1 else result.W
        self.components_ = result.H * unit_H if unit_H != 1 else result.H
        self.labels_ = self._labels(result.W)
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

    def _labels(self, W: AnyArray) -> IntArray:
        labels: IntArray = (W * self._label_weights()).argmax(axis=1).astype(np.int64)
        return labels

    def _label_weights(self) -> AnyArray:
        """What makes columns of W comparable: the length of what they contribute is ``w_ik |h_k|``."""
        return row_norms(self._H)

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
        """``init``, or what "auto" means here; a pair (W, H) in the units of the table."""
        if isinstance(self.init, str) and self.init == "auto":
            return "nndsvda" if self.n_components <= min(table.shape) else "random"
        if is_pair(self.init) and self._unit != 1 and self.affinity in (None, "precomputed"):
            W, H = (np.asarray(part) for part in self.init)
            return (W / self._unit, H) if self._encodings_scale else (W, H / self._unit)
        return self.init

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> dict[str, str]:
        sizes = np.bincount(np.asarray(self.labels_), minlength=self.components_.shape[0])
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
