"""What `SeparableNMF` and `MinVolumeNMF` share: samples in, components and abundances out. The
maths is in `conecollapse.factorization`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.certificates import Verdict
from conecollapse.estimators._estimator import Estimator, check_is_fitted, running
from conecollapse.estimators._fitted import Fitted, decode
from conecollapse.estimators._prepared import (
    Prepared,
    check_table,
    in_dtype,
    prepare,
)
from conecollapse.estimators._sklearn import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from conecollapse.factorization.mixtures.feature_noise import feature_noise
from conecollapse.factorization.mixtures.starts import shares
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.factorization.nmf.encoders import Divergence, Encoder, ScaledLeastSquares
from conecollapse.geometry.selections import chosen_cone
from conecollapse.tables import Equations, Table

FEATURE_NOISE = ("auto", "equal")
EMPTY_SAMPLES = "kept in place, with zero abundances"


@dataclass(eq=False, repr=False)
class MixtureNMF(Estimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The interface of the estimators for mixtures; see them for what the parameters mean."""

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

    @running
    def fit_transform(
        self, X: Any, y: Any = None, *, feature_names: Any = None, layer: str | None = None
    ) -> AnyArray:
        """Find the components of ``X`` and return the abundances of its samples, `embedding_`."""
        self.fit(X, y, feature_names=feature_names, layer=layer)
        return self.embedding_

    @running
    def transform(self, X: Any, *, sum_to_one: bool | None = None) -> AnyArray:
        """Abundances of samples, known or new: how much of each component, by non-negative least
        squares.

        With ``sum_to_one=True`` they are shares, as `shares_` are; the default is the estimator's
        own ``sum_to_one``.
        """
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        W = self._fitted.encode(table)
        as_shares = self.sum_to_one if sum_to_one is None else sum_to_one
        return in_dtype(self._shares(W) if as_shares else W, table.dtype)

    def inverse_transform(self, X: Any) -> AnyArray:
        """Samples from abundances: ``X @ components_``; from shares, samples of another
        brightness."""
        check_is_fitted(self)
        return decode(X, self.components_, lowest=None)

    @running
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2``
        with the best W >= 0; at most 1."""
        check_is_fitted(self)
        return self._fitted.score(check_table(self, X, reset=False))

    def verify(self, X: Any) -> Verdict:
        """Check, without a solver, that every sample of the training data ``X`` is as near to the
        cone of the components as stated."""
        check_is_fitted(self)
        table = check_table(self, X, reset=False).divided(self._fitted.unit)
        return self.cone_.verify(self._cone_points(table))

    def _prepare(self, X: Any, feature_names: Any, layer: str | None) -> Prepared:
        """The checked table, which is in memory and large enough."""
        data = prepare(self, X, feature_names, layer, samples_are=EMPTY_SAMPLES)
        if not data.table.in_memory:
            name = type(self).__name__
            raise InvalidInputError(
                f"{name} needs the whole table in memory, and X is {data.table.kind}; pass a part"
                " of its samples."
            )
        asked: Any = self.n_components
        r = 1 if asked == "auto" else check_count(asked, "n_components")
        for count, name in ((data.n_samples, "n_samples"), (data.n_features, "n_features")):
            if r > count:
                raise InvalidInputError(
                    f"n_components = {r}, but X has only {name} = {count}; ask for at most that"
                    " many."
                )
        return data

    def _shares(self, W: AnyArray) -> AnyArray:
        return shares(W, self._fitted.components / self.feature_noise_)

    def _learn(
        self,
        data: Prepared,
        H: FloatArray,
        noise: FloatArray,
        left_out: BoolArray,
        *,
        fixed: int = 0,
        chosen: IntArray | None = None,
        encoder: Encoder | None = None,
        amounts: FloatArray | None = None,
    ) -> IntArray:
        """Set the components H by mass, largest first (after the ``fixed`` first ones), and all
        that follows from them; their order. ``chosen`` are the points that they are, and
        ``amounts`` those of the samples where they are not what the encoder gives."""
        if encoder is None:
            is_squared = getattr(self, "loss", "frobenius") == "frobenius"
            encoder = ScaledLeastSquares(H, noise) if is_squared else Divergence(H)
        W = Fitted(H, 1.0, encoder).encode(data.table) if amounts is None else amounts
        mass = W.sum(axis=0) * H.sum(axis=1)
        mass[:fixed] = np.inf
        order = np.argsort(-mass, kind="stable")
        W, H = np.ascontiguousarray(W[:, order]), np.ascontiguousarray(H[order])
        W[data.empty] = 0.0
        self._fitted = Fitted(H, data.unit, encoder, order=order)
        self.feature_noise_, self.outliers_ = noise, left_out
        equations, lengths = data.table.row_equations(H), data.table.row_lengths
        nearest = _squared_errors(equations, lengths, solve_rows(equations.G, equations.C))
        self.residuals_ = np.sqrt(nearest) / np.where(lengths > 0, lengths, 1.0)
        self.shares_ = in_dtype(self._shares(W), data.dtype)
        self.embedding_ = self.shares_ if self.sum_to_one else in_dtype(W, data.dtype)
        self.components_ = in_dtype(H * data.unit if self._components_scale else H, data.dtype)
        error = float(np.sqrt(_squared_errors(equations, lengths, W).sum()))
        self.reconstruction_err_ = error * data.unit
        self.relative_err_ = error / float(np.sqrt(data.table.squared_norm))
        rays = np.arange(len(H)) if chosen is None else chosen[order]
        self.cone_ = chosen_cone(self._cone_points(data.table), rays)
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


def read_feature_noise(points: Points, r: int, sizes: Any) -> FloatArray:
    """The parameter ``feature_noise``: the noise of each feature of points that are not zero, in
    units of the median; ones where all features count alike."""
    m = points.shape[1]
    if isinstance(sizes, str):
        if sizes not in FEATURE_NOISE:
            raise InvalidInputError(
                f"feature_noise must be one of {', '.join(FEATURE_NOISE)}, or an array; got"
                f" {sizes!r}."
            )
        return feature_noise(points, r) if sizes == "auto" else np.ones(m)
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.shape != (m,) or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise InvalidInputError(
            f"feature_noise has shape {sizes.shape}; expected {m} positive finite numbers, one for"
            " each feature."
        )
    return np.asarray(sizes / np.median(sizes))


def _squared_errors(equations: Equations, lengths: FloatArray, W: AnyArray) -> FloatArray:
    """``|x - w H|^2`` of each sample."""
    cross, model = np.einsum("ij,ij->i", equations.C, W), np.einsum("ij,ij->i", W @ equations.G, W)
    return np.asarray(np.maximum(lengths**2 - 2 * cross + model, 0.0))
