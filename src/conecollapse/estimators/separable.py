"""`SeparableNMF`: components that are samples, or features, of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, dense_rows, scaled_columns
from conecollapse._progress import report
from conecollapse._types import FloatArray, Points
from conecollapse.estimators._estimator import running
from conecollapse.estimators._mixture import MixtureNMF, read_feature_noise
from conecollapse.estimators._prepared import generator
from conecollapse.factorization.mixtures.separable import select
from conecollapse.factorization.mixtures.unmixing import leave_out
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.geometry.separable_bound import Guarantee, guarantee
from conecollapse.tables import Table


@dataclass(eq=False, repr=False, kw_only=True)
class SeparableNMF(MixtureNMF):
    """Mixtures of pure samples that are among the samples: finds them, and how much of each is in
    every sample.

    ``X ~ embedding_ @ components_`` where the components are rows of X (``points="samples"``), such
    as the purest pixels of a scene. With ``points="features"`` r columns of X, called anchors,
    generate the others: on a table of word co-occurrences they are anchor words, and the components
    are topics.

    Parameters
    ----------
    n_components : int
        How many components; at most the rank of X.
    method : {"nearest", "cone", "spa", "snpa", "xray", "vca"}
        How points are chosen: those nearest to the components of `MinVolumeNMF`, which use all
        samples; or the greedy cone (each time the point furthest from the cone of those before),
        successive projection, successive non-negative projection, XRAY, or vertex component
        analysis (which is random), which look at extremes.
    scaling : {"raw", "sum", "length"}
        Whether extremes are looked for among points as they are, scaled to sum one, or scaled to
        unit length.
    points : {"samples", "features"}
        What is chosen.
    outliers : float or "auto"
        Share of the points to leave out of the choice because they fit no mixture: those furthest
        from the best r-dimensional subspace. "auto" leaves out those that stand out.
    sum_to_one : bool
        Whether abundances are given as shares, which sum to one: each component's part of a sample,
        by the lengths of the contributions. The brightness of a sample is then no part of its
        abundances.
    feature_noise : {"auto", "equal"} or (n_features,) array
        How large the noise of each feature is, up to a common factor; features are divided by it.
        "auto" estimates it, and divides only if what is left then looks like independent noise, as
        in counts; in measured spectra it seldom does. Not used with ``points="features"``.
    random_state : int, Generator, RandomState or None
        Random seed of ``method="vca"``.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook; True prints
        a line for each stage, False nothing.
    callback : callable, optional
        Called as ``callback(stage, done, total)`` at each stage.
    n_jobs : int, optional
        Most threads to use; all by default.

    Attributes
    ----------
    ray_indices_ : (r,) array
        The samples, or features, that were chosen.
    components_ : (r, n_features) array
        The chosen samples, largest total abundance first; for features the weights V in
        ``X ~ X[:, ray_indices_] @ V``.
    embedding_ : (n_samples, r) array
        Abundances of the samples, by least squares over `components_`.
    shares_ : (n_samples, r) array
        The same as shares that sum to one; zero for a sample that is zero.
    feature_noise_ : (n_features,) array
        The noise that features were divided by, in units of its median; ones where they count
        alike.
    residuals_ : (n_samples,) array
        Distance of each sample from the cone of the components, as a share of its length.
    cone_ : Cone
        The cone of the chosen points, with a certificate of the largest distance of any point from
        it; `verify` checks it.
    guarantee_ : Guarantee
        What the theorem on noisy mixtures says about these points, or that it says nothing.
    outliers_ : (n_points,) array of bool
        Points that were left out of the choice; zero points among them.
    reconstruction_err_, relative_err_ : float
        ``|X - W H|``, and that over ``|X|``.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import SeparableNMF
    >>> X = np.array(
    ...     [[4.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    ... )
    >>> model = SeparableNMF(3).fit(X)
    >>> sorted(model.ray_indices_.tolist())
    [0, 2, 4]
    >>> bool(model.relative_err_ < 1e-6)
    True
    """

    method: str = "nearest"
    scaling: str = "raw"
    points: str = "samples"
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
        """Choose the components among the samples (or features) of ``X`` (n_samples, n_features).

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X.
        """
        if self.points not in ("samples", "features"):
            raise InvalidInputError(f"points must be samples or features; got {self.points!r}.")
        data, of_samples = self._prepare(X, feature_names, layer), self.points == "samples"
        points = self._cone_points(data.table)
        filled = ~data.empty if of_samples else data.table.filled_columns
        report("outliers", 0, 3)
        left_out = leave_out(points, filled, self.n_components, self.outliers)
        places = np.flatnonzero(~left_out)
        usable = points[places]
        report("choosing points", 1, 3)
        noise = (
            read_feature_noise(usable, self.n_components, self.feature_noise)
            if of_samples
            else np.ones(self.n_features_in_)
        )
        compared = scaled_columns(usable, 1 / noise) if of_samples else usable
        chosen = select(
            compared, self.n_components, self.method, self.scaling, generator(self.random_state)
        )
        indices = places[chosen]
        rays = dense_rows(points, indices).astype(np.float64)
        report("abundances", 2, 3)
        H = rays if of_samples else self._weights(points, rays)
        self.ray_indices_ = indices[self._learn(data, H, noise, left_out, chosen=indices)]
        self.guarantee_ = self._guarantee(usable, rays)
        return self

    @staticmethod
    def _weights(points: Points, rays: FloatArray) -> FloatArray:
        """Coefficients of every point over the chosen ones, as columns."""
        V = solve_rows(rays @ rays.T, np.asarray(points @ rays.T, np.float64))
        return np.ascontiguousarray(V.T)

    def _guarantee(self, usable: Points, rays: FloatArray) -> Guarantee:
        sums = np.asarray(usable.sum(axis=1)).ravel()
        lengths = self.cone_.residuals(usable) * np.sqrt(
            np.asarray(as_dense(usable * usable).sum(axis=1)).ravel()
        )
        applies = self.method == "cone" and self.scaling == "sum"
        return guarantee(
            rays / rays.sum(axis=1, keepdims=True), float((lengths / sums).max()), applies=applies
        )

    def _cone_points(self, table: Table) -> Points:
        return table.array if self.points == "samples" else table.points()

    @property
    def _components_scale(self) -> bool:
        return self.points == "samples"

    def _summary(self) -> dict[str, str]:
        names = getattr(self, "feature_names_in_", None) if self.points == "features" else None
        shown = ", ".join(
            str(i) if names is None else str(names[i]) for i in self.ray_indices_[:10]
        )
        return {
            f"chosen {self.points}": shown + (" ..." if len(self.ray_indices_) > 10 else ""),
            "chosen by": self.method,
            **super()._summary(),
            "guarantee": self.guarantee_.sentence,
        }
