"""`ConeCollapse`: the extreme rays of a table as a feature selector, and as a judge of new
samples."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from conecollapse._checks import as_matrix, check_count, check_effort, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, row_lengths, scaled_columns, unit_rows
from conecollapse._types import AnyArray, BoolArray, Effort, FloatArray, Points
from conecollapse.estimators._estimator import Estimator, check_is_fitted, cone_line, running
from conecollapse.estimators._fitted import ExplainsSamples
from conecollapse.estimators._prepared import (
    Named,
    check_table,
    in_dtype,
    our_errors,
    remember_layer,
    values_of,
    warn_of_empty,
    without_question_of_names,
)
from conecollapse.estimators._sklearn import BaseEstimator, SelectorMixin
from conecollapse.factorization.cones.ccnmf import CONES, data_cone
from conecollapse.geometry.cone import Cone
from conecollapse.io.source import ArraySource
from conecollapse.tables import Table, as_blocked
from conecollapse.tables.blocks import FileTable

NEGLIGIBLE = 1e-6  # a witness shorter than this share of the sample explains nothing


@dataclass(eq=False, repr=False)
class ConeCollapse(ExplainsSamples, Estimator, SelectorMixin, BaseEstimator):
    """The extreme rays of the cone of features (or of samples), exactly or nearly, with a
    certificate.

    With ``points="features"`` it selects the features that generate all others: `transform` keeps
    their columns, and `inverse_transform` rebuilds the rest from them. With ``points="samples"``
    the rays are samples (archetypes): `transform` gives the coefficients of a sample over them, and
    `score_samples` says how far outside the cone of known samples it lies.

    Parameters
    ----------
    method : {"certified", "paper", "approximate", "sample"}
        The exact cone by the fast certified method, by Algorithm 1 of the paper (the same rays), an
        epsilon-cone, or the rays at which random functionals are largest (`Cone.sample`), from
        which the other features cannot be rebuilt.
    effort : {"exact", "quick"}
        Of the certified method: "quick" may keep points as rays without proof that they are needed,
        see `Cone.from_points`.
    cone_tol : float
        Numerical tolerance of the exact methods.
    eta : float
        Tilt of Algorithm 1.
    max_residual, max_rays, weighting : float, int or None, "unit" or "mass"
        Of the epsilon-cone, see `Cone.approximate`.
    n_functionals : int
        Of a sample.
    points : {"features", "samples"}
    random_state : int, Generator or None
        Of a sample; nothing else is random here.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook; True prints
        a line for each step, False nothing.
    callback : callable, optional
        Called as ``callback(stage, done, total)`` now and then, possibly from a worker thread.
    n_jobs : int, optional
        Most threads to use; all by default.

    Attributes
    ----------
    cone_ : Cone
    ray_indices_ : (c,) array
        Features, or samples, that are rays.
    rays_ : (n_samples, c) or (c, n_features) array
        Unit rays: as columns when they are features, as rows when they are samples.
    coefficients_ : (c, n_features) or (n_samples, c) CSR array
        V with ``X = rays_ @ V``, or the encodings of the samples with
        ``X = coefficients_ @ rays_``.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import ConeCollapse
    >>> X = np.array(
    ...     [[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]]
    ... )  # the third feature is a combination of the others
    >>> selector = ConeCollapse().fit(X)
    >>> selector.get_support()
    array([ True,  True, False])
    >>> selector.inverse_transform(selector.transform(X))
    array([[1., 0., 1.],
           [0., 2., 1.]])
    >>> judge = ConeCollapse(points="samples").fit([[1.0, 0.0], [1.0, 1.0]])
    >>> judge.score_samples([[2.0, 1.0], [0.0, 1.0]]).round(3) + 0.0
    array([ 0.   , -0.707])
    """

    method: str = "certified"
    _: KW_ONLY
    effort: Effort = "exact"
    cone_tol: float = 1e-8
    eta: float = 0.25
    max_residual: float = 0.05
    max_rays: int | None = None
    weighting: str = "unit"
    n_functionals: int = 1024
    points: str = "features"
    random_state: Any = None

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Find the rays of ``X`` (n_samples, n_features).

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X.
        """
        self._forget()
        return self._add(remember_layer(self, X, feature_names, layer))

    @available_if(lambda self: self.method not in ("approximate", "sample"))  # type: ignore[untyped-decorator]
    @running
    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Add a block: more features of the same samples, or more samples with the same features,
        as ``points`` says.

        Cones merge exactly, rays(A u B) = rays(rays(A) u rays(B)), so blocks give the rays of the
        whole. Epsilon-cones and samples do not, so the methods "approximate" and "sample" have no
        `partial_fit`.
        """
        return self._add(X)

    def _add(self, X: Any) -> Self:
        if self.points not in ("features", "samples"):
            raise InvalidInputError(f"points must be features or samples; got {self.points!r}.")
        if self.method not in (*CONES, "sample"):
            raise InvalidInputError(
                f"method must be one of {', '.join(CONES)}, sample; got {self.method!r}."
            )
        if self.max_rays is not None and self.method != "approximate":
            raise InvalidInputError(
                f"max_rays = {self.max_rays} is for an epsilon-cone; add method='approximate', or"
                " leave it out."
            )
        check_effort(self.effort)
        known = getattr(self, "cone_", None)
        labels = _row_names(X) if self.points == "samples" else None
        X, arrived = self._checked_block(X, known)
        warn_of_empty(X, "kept in place, as zeros", arrived)
        table = X if self.points == "features" else X.transposed()  # its columns are the points
        return self._take(self._block(table), table.column_lengths, known, arrived, labels)

    def _take(
        self, block: Cone, lengths: FloatArray, known: Cone | None, arrived: Any, labels: Any
    ) -> Self:
        cone = block if known is None else known.merge(block, self.effort)
        # nothing of the model changes before this line, so a refused block leaves it as it was
        self._take_names(arrived, known)
        before: FloatArray = np.zeros(0) if known is None else self._point_lengths
        self._point_lengths: FloatArray = np.concatenate([before, lengths])
        self.cone_ = cone
        names = (
            getattr(self, "feature_names_in_", None)
            if self.points == "features"
            else (labels if known is None else None)
        )
        cone.ray_names = (
            None if names is None else np.asarray(names, dtype=object)[cone.ray_indices]
        )
        return self

    def _checked_block(self, X: Any, known: Cone | None) -> tuple[Table, Any]:
        """The block, and an estimator that has learned its width and names; `self` where the block
        must have those already known."""
        if known is not None and self.points == "samples":
            return check_table(self, X, reset=False), self
        arrived = clone(self)
        X = check_table(arrived, X, reset=True)
        if known is not None and X.shape[0] != known.dim:
            raise InvalidInputError(
                f"this block has {X.shape[0]} samples, the ones before had {known.dim}; blocks of"
                " features share their samples."
            )
        return X, arrived

    def _take_names(self, arrived: Any, known: Cone | None) -> None:
        """Count and name the features of the first block, or of one more block of features."""
        if arrived is self:
            return
        old: AnyArray | None = getattr(self, "feature_names_in_", None)
        new: AnyArray | None = getattr(arrived, "feature_names_in_", None)
        self._names_beside = arrived._names_beside
        self.n_features_in_ = arrived.n_features_in_ + (0 if known is None else known.n_points)
        if new is not None and (known is None or old is not None):
            self.feature_names_in_ = (
                new if known is None or old is None else np.concatenate([old, new])
            )
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _block(self, table: Table) -> Cone:
        if self.max_rays is not None:
            check_count(self.max_rays, "max_rays")
        if self.method == "sample":
            blocked = as_blocked(table)
            return Cone._sampled(
                FileTable(ArraySource(table.points())) if blocked is None else blocked.along(1),
                self.n_functionals,
                tol=self.cone_tol,
                random_state=self.random_state,
                hold=False,
            )
        return data_cone(
            table,
            self.method,
            tol=self.cone_tol,
            eta=self.eta,
            max_residual=self.max_residual,
            max_rays=self.max_rays,
            weighting=self.weighting,
            effort=self.effort,
        )

    def _forget(self) -> None:
        for name in ("cone_", "feature_names_in_", "n_features_in_"):
            if hasattr(self, name):
                delattr(self, name)

    @property
    def ray_indices_(self) -> AnyArray:
        """Points that are rays, increasing for the exact methods."""
        return self.cone_.ray_indices

    @property
    def rays_(self) -> Points:
        """The rays: unit columns (features) or unit rows (samples)."""
        return self.cone_.rays.T if self.points == "features" else self.cone_.rays

    @property
    def coefficients_(self) -> Any:
        """The coefficients of the points over the rays, as certified."""
        H = sp.csr_array(sp.diags_array(self._point_lengths) @ self.cone_.point_coefficients)
        return sp.csr_array(H.T) if self.points == "features" else H

    def _get_support_mask(self) -> BoolArray:
        check_is_fitted(self)
        if self.points == "samples":
            raise InvalidInputError(
                "with points='samples' the rays are samples, not features; see ray_indices_."
            )
        mask = np.zeros(self.n_features_in_, bool)
        mask[self.ray_indices_] = True
        return mask

    def transform(self, X: Any) -> AnyArray:
        """Columns of the features that are rays; with ``points="samples"`` the coefficients of each
        sample over the rays."""
        check_is_fitted(self)
        if self.points == "samples":
            X = check_table(self, X, reset=False)
            return in_dtype(np.asarray(self.cone_.coefficients(X.array)), X.dtype)
        table = values_of(self, X).X
        with without_question_of_names(self, table, reset=False), our_errors():
            return super().transform(table)

    def inverse_transform(self, X: Any) -> AnyArray:
        """All features from those that are rays, by their coefficients; with ``points="samples"``
        samples from coefficients."""
        check_is_fitted(self)
        X = as_matrix(X, "X")
        check_finite(X, "X")
        if X.shape[1] != self.cone_.n_rays:
            raise InvalidInputError(
                f"X has shape {X.shape}; expected {self.cone_.n_rays} columns, one for each ray."
            )
        return self._rebuilt(X)

    def _rebuilt(self, X: Points) -> AnyArray:
        """Whole samples from selected columns, or from coefficients."""
        if self.points == "samples":
            return np.asarray(as_dense(X @ self.rays_))
        order = np.argsort(self.ray_indices_)  # columns are selected in increasing order
        lengths = self._point_lengths
        # divided first and multiplied last: the quotient of two lengths can be out of range where
        # the samples are not
        shares = scaled_columns(X, 1 / lengths[self.ray_indices_[order]])
        return np.asarray(
            as_dense(shares @ sp.csr_array(self.cone_.point_coefficients.T)[order]) * lengths
        )

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the selected features; with ``points="samples"`` one name for each ray."""
        check_is_fitted(self)
        if self.points == "samples":
            names = self.ray_indices_ if self.cone_.ray_names is None else self.cone_.ray_names
            return np.array(
                [f"ray{name}" if self.cone_.ray_names is None else str(name) for name in names],
                dtype=object,
            )
        return super().get_feature_names_out(input_features)

    def score_samples(self, X: Any) -> FloatArray:
        """Minus the distance of each sample from the cone, as a share of its length: 0 inside, down
        to -1; lower is more of an outlier.

        With ``points="features"`` the distance is that from the sample rebuilt from its selected
        features: how far it breaks the relations between the features.
        """
        return -row_lengths(self._leaving(X))

    def witness_samples(self, X: Any) -> FloatArray:
        """Why a sample is outside: the vector to it from its nearest point in the cone, over its
        length; (n_samples, n_features).

        With ``points="samples"`` the vector g separates it (Moreau): ``g . x > 0`` while
        ``g . s <= 0`` for every sample s in the cone. Its large positive entries are the features
        by which the sample leaves the cone. Zero for samples inside.
        """
        witness = self._leaving(X)
        witness[row_lengths(witness) <= NEGLIGIBLE] = 0.0
        return witness

    def _leaving(self, X: Any) -> FloatArray:
        """What is left of each sample beyond the cone, over the sample's length."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        unit = unit_rows(as_dense(X.array))[0]
        with np.errstate(over="ignore", invalid="ignore"):
            near = (
                self.cone_.project(unit)
                if self.points == "samples"
                else self._rebuilt(unit[:, np.sort(self.ray_indices_)])
            )
        for i in np.flatnonzero(~np.isfinite(near).all(axis=1))[:1]:
            raise InvalidInputError(
                f"sample {i} of X, rebuilt from its rays, leaves the range of floating point;"
                " rescale the features."
            )
        return np.asarray(unit - near)

    def _summary(self) -> dict[str, str]:
        names = getattr(self, "feature_names_in_", None)
        first = self.ray_indices_[:10]
        named = names is not None and self.points == "features"
        return {
            "cone": cone_line(self.cone_),
            "rays": (
                ", ".join(str(names[i]) if named and names is not None else str(i) for i in first)
                + (" ..." if self.cone_.n_rays > len(first) else "")
            ),
        }


def _row_names(X: Any) -> Any:
    """The names of the samples, where the table has them."""
    inner, names = (
        (X.X, X.sample_names) if isinstance(X, Named) else (X, getattr(X, "sample_names", None))
    )
    return inner.index if hasattr(inner, "iloc") else names
