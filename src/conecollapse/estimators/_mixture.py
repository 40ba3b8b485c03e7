"""What `SeparableNMF` and `MinVolumeNMF` share: samples in, components and abundances out. The
maths is in `conecollapse.factorization`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from conecollapse._checks import as_matrix, check_count, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.certificates import Verdict
from conecollapse.estimators._input import (
    check_range,
    check_table,
    in_dtype,
    safe_unit,
    taken,
    warn_of_empty,
)
from conecollapse.estimators._running import Running, running
from conecollapse.estimators._summary import SummaryMixin
from conecollapse.estimators._tags import NonNegativeMixin
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.mixtures.feature_noise import feature_noise
from conecollapse.factorization.mixtures.starts import shares
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.subspace import outlying
from conecollapse.tables import Equations, Table

FEATURE_NOISE = ("auto", "equal")
EMPTY_SAMPLES = "kept in place, with zero abundances"


@dataclass(eq=False, repr=False)
class MixtureNMF(
    NonNegativeMixin,
    Running,
    SummaryMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The interface of the two estimators for mixtures; see them for what the parameters mean."""

    n_components: int = 2
    _: KW_ONLY
    outliers: Any = 0.0
    sum_to_one: bool = False
    feature_noise: Any = "auto"

    def fit(
        self, X: Any, y: Any = None, *, feature_names: Any = None, layer: str | None = None
    ) -> Any:
        """Find the components."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None, **how: Any) -> AnyArray:
        """Find the components of ``X`` and return the abundances of its samples, `embedding_`.
        ``how`` are arguments of `fit`."""
        abundances: AnyArray = self.fit(X, y, **how).embedding_
        return abundances

    @running
    def transform(self, X: Any, *, sum_to_one: bool | None = None) -> AnyArray:
        """Abundances of samples, known or new: how much of each component, by non-negative least
        squares.

        With ``sum_to_one=True`` they are shares, as `shares_` are; the default is the estimator's
        own ``sum_to_one``.
        """
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        W = self._abundances(table.divided(self._unit))
        as_shares = self.sum_to_one if sum_to_one is None else sum_to_one
        return in_dtype(self._shares(W) if as_shares else W, table.dtype)

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples from abundances: ``X @ components_``; from shares, samples of another
        brightness."""
        check_is_fitted(self)
        codes = as_matrix(X, "X")
        check_finite(codes, "X")
        if codes.shape[1] != len(self.components_):
            raise InvalidInputError(
                f"X has {codes.shape[1]} columns; expected {len(self.components_)}, one for each"
                " component."
            )
        return in_dtype(
            np.asarray(codes.astype(np.float64) @ self.components_),
            np.result_type(codes, self.components_),
        )

    @running
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2``
        with the best W >= 0; at most 1."""
        check_is_fitted(self)
        table = check_table(self, X, reset=False).divided(self._unit)
        equations, norm2 = table.row_equations(self._H), table.squared_norm
        return (
            1.0 - equations.error(norm2, solve_rows(equations.G, equations.C)) / norm2
            if norm2 > 0
            else 1.0
        )

    def verify(self, X: Any) -> Verdict:
        """Check, without a solver, that every sample of the training data ``X`` is as near to the
        cone of the components as stated."""
        check_is_fitted(self)
        table = check_table(self, X, reset=False).divided(self._unit)
        cone: Cone = self.cone_
        return cone.verify(self._cone_points(table))

    def _prepared(self, X: Any, feature_names: Any, layer: str | None) -> tuple[Table, BoolArray]:
        """The checked table in its working unit, and which of its samples are empty."""
        table = check_table(self, taken(self, X, feature_names, layer), reset=True)
        empty = warn_of_empty(table, EMPTY_SAMPLES, self)
        if not table.in_memory:
            name = type(self).__name__
            raise InvalidInputError(
                f"{name} needs the whole table in memory, and X is {table.kind}; pass a part of its"
                " samples."
            )
        r = check_count(self.n_components, "n_components")
        for count, name in ((table.shape[0], "n_samples"), (table.shape[1], "n_features")):
            if r > count:
                raise InvalidInputError(
                    f"n_components = {r}, but X has only {name} = {count}; ask for at most that"
                    " many."
                )
        self._unit, self._dtype = safe_unit(table), table.dtype
        working = table.divided(self._unit)
        check_range(table, working, self._unit)
        return working, empty

    def _left_out(self, points: Points, filled: BoolArray) -> BoolArray:
        """Points that take no part in the choice of components: those that are zero, and
        outliers."""
        away = ~filled
        away[filled] = outlying(points[filled], self.n_components, self.outliers)
        left = int((~away).sum())
        if left < self.n_components:
            raise InvalidInputError(
                f"n_components = {self.n_components}, but only {left} of {len(away)} points are"
                " neither zero nor outliers; ask for fewer components, or lower outliers."
            )
        return away

    def _feature_sizes(self, points: Points) -> FloatArray:
        """The noise of each feature that is not zero, in units of the median; ones where all
        features count alike."""
        m, asked = points.shape[1], self.feature_noise
        if isinstance(asked, str):
            if asked not in FEATURE_NOISE:
                raise InvalidInputError(
                    f"feature_noise must be one of {', '.join(FEATURE_NOISE)}, or an array; got"
                    f" {asked!r}."
                )
            return feature_noise(points, self.n_components) if asked == "auto" else np.ones(m)
        sizes = np.asarray(asked, dtype=np.float64)
        if sizes.shape != (m,) or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise InvalidInputError(
                f"feature_noise has shape {sizes.shape}; expected {m} positive finite numbers, one"
                " for each feature."
            )
        return np.asarray(sizes / np.median(sizes))

    def _shares(self, W: AnyArray) -> AnyArray:
        return shares(W, self._H / self.feature_noise_)

    def _abundances(self, table: Table) -> AnyArray:
        """Abundances over the components in the working unit, by least squares over features that
        are divided by their noise."""
        H = self._H / self.feature_noise_
        codes = solve_rows(H @ H.T, table.row_equations(H / self.feature_noise_).C)
        if not np.isfinite(codes).all():
            raise InvalidInputError(
                "X is so much larger than the samples of `fit` that its abundances leave the range"
                " of floating point."
            )
        return codes

    def _set_factors(
        self, table: Table, H: FloatArray, empty: BoolArray, first: int = 0
    ) -> IntArray:
        """Components by mass, largest first (after the ``first`` ones), with all that follows from
        them; their order."""
        self._H = H
        W = self._abundances(table)
        mass = W.sum(axis=0) * H.sum(axis=1)
        mass[:first] = np.inf
        order = np.argsort(-mass, kind="stable")
        W, self._H = np.ascontiguousarray(W[:, order]), np.ascontiguousarray(H[order])
        W[empty] = 0.0
        equations, lengths = table.row_equations(self._H), table.row_lengths
        nearest = _squared_errors(equations, lengths, solve_rows(equations.G, equations.C))
        self.residuals_ = np.sqrt(nearest) / np.where(lengths > 0, lengths, 1.0)
        self.shares_ = in_dtype(self._shares(W), self._dtype)
        self.embedding_ = self.shares_ if self.sum_to_one else in_dtype(W, self._dtype)
        self.components_ = in_dtype(
            self._H * self._unit if self._components_scale else self._H, self._dtype
        )
        error = float(np.sqrt(_squared_errors(equations, lengths, W).sum()))
        self.reconstruction_err_ = error * self._unit
        self.relative_err_ = error / float(np.sqrt(table.squared_norm))
        return order

    @property
    def _components_scale(self) -> bool:
        """Whether the components are in the unit of the data, rather than the abundances."""
        return True

    def _cone_points(self, table: Table) -> Points:
        """The points that `cone_` was made from."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> dict[str, str]:
        return {
            "relative error": f"{self.relative_err_:.4g}",
            "largest distance of a sample from the cone": (
                f"{float(self.residuals_.max()):.4g} of its length"
            ),
            "samples left out": str(int(self.outliers_.sum())),
            "features": (
                "of equal noise" if np.ptp(self.feature_noise_) == 0 else "divided by their noise"
            ),
        }


def _squared_errors(equations: Equations, lengths: FloatArray, W: AnyArray) -> FloatArray:
    """``|x - w H|^2`` of each sample."""
    cross, model = np.einsum("ij,ij->i", equations.C, W), np.einsum("ij,ij->i", W @ equations.G, W)
    return np.asarray(np.maximum(lengths**2 - 2 * cross + model, 0.0))
