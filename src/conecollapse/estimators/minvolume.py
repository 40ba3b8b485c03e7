"""`MinVolumeNMF`: the components of mixtures that need not contain pure samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from conecollapse._checks import as_points, check_count, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._iterate import TOL, Stopping
from conecollapse._linalg import as_dense, scaled_columns, stack_rows
from conecollapse._types import BoolArray, FloatArray, Points
from conecollapse.estimators._estimator import running
from conecollapse.estimators._mixture import MixtureNMF, read_feature_noise
from conecollapse.estimators._prepared import outside
from conecollapse.factorization.mixtures.minvolume_kl import TOL as COUNTS_TOL
from conecollapse.factorization.mixtures.minvolume_kl import VOLUME as COUNTS_VOLUME
from conecollapse.factorization.mixtures.minvolume_kl import unmix_counts
from conecollapse.factorization.mixtures.starts import VOLUME, Mixture, equally_long, unmix
from conecollapse.factorization.mixtures.unmixing import leave_out
from conecollapse.factorization.nmf.mu import LOSSES
from conecollapse.tables import Table


@dataclass(eq=False, repr=False, kw_only=True)
class MinVolumeNMF(MixtureNMF):
    r"""The components of mixtures, as the smallest cone that holds the samples up to noise; no pure
    samples are needed.

    .. math:: \min_{W, H \ge 0,\ H 1 = 1}\ \|X - W H\|^2 + \lambda \log\det(I + H H^T / \delta)

    over samples that are divided by the root of their length, and features that are divided by
    their noise where that is called for. It starts from samples (the greedy cone, SPA) and is the
    same in every run.

    Parameters
    ----------
    n_components : int
        How many components; at most the rank of X.
    loss : {"frobenius", "kullback-leibler"}
        The squared error, or the divergence for counts.
    volume : "auto" or float
        What a unit of the logarithm of the volume is worth, in units of the noise: :math:`\lambda`
        is this number times the squared noise in each direction of the subspace of the components,
        which is estimated from the residual of that subspace. "auto" is 1, the value for samples
        that are spread evenly over the mixtures. With the divergence it is this number times the
        divergence for each component, and "auto" is 0.003. Larger values give a tighter cone.
    outliers : float or "auto"
        Share of the samples to leave out because they fit no mixture: those furthest from the best
        r-dimensional subspace. "auto" leaves out those that stand out.
    sum_to_one : bool
        Whether abundances are given as shares, which sum to one: each component's part of a sample,
        by the lengths of the contributions. The brightness of a sample is then no part of its
        abundances.
    feature_noise : {"auto", "equal"} or (n_features,) array
        How large the noise of each feature is, up to a common factor; features are divided by it.
        "auto" estimates it, and divides only if what is left then looks like independent noise, as
        in counts; in measured spectra it seldom does. The divergence needs none.
    fixed_components : (k, n_features) array, optional
        Known components, which are held; they come first.
    tol : "auto" or float
        Relative change of the objective in an iteration that ends the run (three times in a row,
        for the squared error). "auto" is 1e-5, and 1e-4 with the divergence: counts that are fitted
        longer than their noise supports lose components again.
    max_iter : int
        Most iterations with all samples.
    random_state : optional
        Taken so that a pipeline can seed all its steps; nothing is random here.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook. If True,
        the objective of every tenth iteration is printed instead; if False, nothing is.
    callback : callable, optional
        Called as ``callback(n_iter, objective)`` after each iteration with all samples; a true
        answer ends the run.
    n_jobs : int, optional
        Most threads to use; all by default.

    Attributes
    ----------
    components_ : (r, n_features) array
        The components, largest total abundance first (held ones before the others). All have the
        median length of the samples.
    embedding_ : (n_samples, r) array
        Abundances of the samples over `components_`, by least squares or by the divergence.
    shares_ : (n_samples, r) array
        The same as shares that sum to one; zero for a sample that is zero.
    feature_noise_ : (n_features,) array
        The noise that features were divided by, in units of its median; ones where they count
        alike.
    residuals_ : (n_samples,) array
        Distance of each sample from the cone of the components, as a share of its length.
    cone_ : Cone
        The cone of the components: of the points "components, then samples" the first r are its
        rays, and its certificate says how far the others lie outside. `verify` checks it;
        ``cone_.residuals`` measures further samples.
    outliers_ : (n_samples,) array of bool
        Samples that were left out; zero samples among them.
    volume_ : float
        The number that ``volume`` stands for.
    noise_ : float
        Squared noise in each direction of the subspace of the components, as a share of the squared
        norm. With the divergence, its share of the sum of X.
    start_ : str
        The start that led to the smallest objective.
    history_ : array
        The objective with all samples at the start and after every iteration, as a share of
        ``|X|^2`` (of the sum of X for the divergence). It never rises.
    n_iter_, converged_, status_ : int, bool, str
        How the run ended, the last as a sentence.
    reconstruction_err_, relative_err_ : float
        ``|X - W H|``, and that over ``|X|``.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import MinVolumeNMF
    >>> pure = np.array([[6.0, 3.0, 0.0, 1.0], [0.0, 2.0, 5.0, 3.0]])
    >>> share = np.linspace(0.1, 0.9, 9)[
    ...     :, None
    ... ]  # the purest samples hold 10 % of the other component
    >>> model = MinVolumeNMF(2).fit(share * pure[0] + (1 - share) * pure[1])
    >>> cosines = (
    ...     model.components_
    ...     @ pure.T
    ...     / np.outer(*(np.linalg.norm(A, axis=1) for A in (model.components_, pure)))
    ... )
    >>> bool(cosines.max(axis=1).min() > 0.99)
    True
    """

    loss: str = "frobenius"
    volume: Any = "auto"
    fixed_components: Any = None
    tol: Any = "auto"
    max_iter: int = 300
    random_state: Any = None

    _iterates = True

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Find the components of ``X`` (n_samples, n_features).

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X.
        """
        data = self._prepare(X, feature_names, layer)
        points = data.table.array
        left_out = leave_out(points, ~data.empty, self.n_components, self.outliers)
        kept = data.table.rows(np.flatnonzero(~left_out))
        is_squared = self.loss == "frobenius"  # the divergence weighs features itself
        noise = (
            read_feature_noise(kept.array, self.n_components, self.feature_noise)
            if is_squared
            else np.ones(data.n_features)
        )
        mixture = self._unmix(scaled_columns(points, 1 / noise), noise, left_out)
        self.volume_, self.noise_, self.start_ = mixture.volume, mixture.noise, mixture.start
        result = mixture.result
        self.history_ = result.history / result.scale
        self.n_iter_, self.converged_, self.status_ = result.n_iter, result.converged, result.status
        if not result.converged:
            warnings.warn(
                f"MinVolumeNMF {result.status}.", ConvergenceWarning, stacklevel=outside()
            )
        fixed = 0 if self.fixed_components is None else len(self.fixed_components)
        H = equally_long(kept, result.H * noise)
        self._learn(data, H, noise, left_out, fixed=fixed)
        return self

    def _unmix(self, points: Points, noise: FloatArray, left_out: BoolArray) -> Mixture:
        if self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")
        is_squared = self.loss == "frobenius"
        volume = _number(self.volume, "volume", VOLUME if is_squared else COUNTS_VOLUME)
        stopping: Stopping = {
            "tol": _number(self.tol, "tol", TOL if is_squared else COUNTS_TOL),
            "max_iter": check_count(self.max_iter, "max_iter"),
            "callback": self._report_iteration,
        }
        fixed = self._read_fixed(noise)
        if is_squared:
            return unmix(
                points,
                self.n_components,
                volume=volume,
                held=fixed,
                left_out=left_out,
                **stopping,
            )
        return unmix_counts(
            points, self.n_components, volume=volume, held=fixed, left_out=left_out, **stopping
        )

    def _read_fixed(self, noise: FloatArray) -> FloatArray | None:
        if self.fixed_components is None:
            return None
        fixed = as_dense(
            as_points(self.fixed_components, "fixed_components", needs="components must be >= 0")
        ).astype(np.float64)
        if (
            fixed.shape[1] != self.n_features_in_
            or len(fixed) > self.n_components
            or not fixed.any(axis=1).all()
        ):
            raise InvalidInputError(
                f"fixed_components has shape {fixed.shape}; expected at most n_components ="
                f" {self.n_components} rows, none of them zero, and {self.n_features_in_} columns."
            )
        return np.asarray(fixed / noise)

    def _cone_points(self, table: Table) -> Points:
        return stack_rows(self._fitted.components, table.array, like=table.array)


def _number(value: Any, name: str, automatic: float) -> float:
    return automatic if isinstance(value, str) and value == "auto" else check_positive(value, name)
