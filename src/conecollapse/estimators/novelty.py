"""`ConeNovelty`: is a new sample a mixture of trusted ones, and if not, by which features?"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from conecollapse._errors import InvalidInputError, argument
from conecollapse._linalg import unit_rows
from conecollapse._progress import report
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.estimators._estimator import Estimator, check_is_fitted, running
from conecollapse.estimators._fitted import ExplainsSamples
from conecollapse.estimators._prepared import (
    check_table,
    generator,
    remember_layer,
    warn_of_samples,
)
from conecollapse.estimators._sklearn import BaseEstimator, OutlierMixin
from conecollapse.factorization.cones.novelty import Trusted, threshold
from conecollapse.geometry.nearest import NOTHING, Terms, witnesses

AUTO = 0.05  # the share of false alarms that contamination="auto" allows
# ranks samples inside the cone, and hardly changes distances from it: docs/novelty.md compares
LOCALITY = 0.02


@dataclass(eq=False, repr=False)
class ConeNovelty(ExplainsSamples, Estimator, OutlierMixin, BaseEstimator):
    r"""Novelty detection: how far a sample lies from the cone of trusted samples.

    The cone holds all mixtures of trusted samples with weights that are not negative. The distance
    of a sample is measured relative to its length: 0 for a mixture, 1 for a sample that has no
    feature in common with any trusted one. The scale of a sample does not matter.

    Parameters
    ----------
    contamination : "auto" or float
        The share of ordinary samples that may be called novel, above 0 and at most 0.5; "auto" is
        0.05. It sets `offset_`: each trusted sample is judged by the cone of the *others*, and the
        threshold is the corresponding quantile of these distances.
    locality : float
        Price of mixing, at least 0 and below 1. With 0 every mixture of trusted samples is as good
        as another. The larger it is, the more a mixture of trusted samples that are far apart
        counts as novel; towards 1 only the nearest trusted sample counts. The default hardly
        changes distances from the cone, but ranks samples inside it: with few features and many
        trusted samples, most samples are inside. See `conecollapse.geometry.nearest`.
    noise : "auto" or float
        Share of the squared length of a trusted sample that is noise, at least 0 and below 1. The
        more noise, the more are mixtures of many trusted samples preferred, in which it averages
        out. "auto" estimates it from the distances of trusted samples from the cone of the others.
        With 0, and a locality of 0, the score is the distance from the cone itself.
    tol : float
        `partial_fit` does not keep samples whose distance from those kept is at most this, so that
        a stream needs little memory.
    random_state : int, Generator, RandomState or None
        Random seed; the default is fixed. It chooses the trusted samples that `noise_` and
        `offset_` are computed from, where there are more than 200 and 1000 of them.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook; True prints
        a line for each stage, False nothing.
    callback : callable, optional
        Called as ``callback(stage, done, total)`` at each stage of `fit`.
    n_jobs : int, optional
        Most threads to use; all by default.

    Attributes
    ----------
    offset_ : float
        Minus the threshold: ``decision_function = score_samples - offset_``. After `partial_fit` it
        is computed when it is first used.
    distances_ : array
        The distance of trusted samples from the cone of the others, sorted; of 1000 of them, chosen
        at random, where there are more.
    noise_ : float
        The number that ``noise`` stands for.
    n_trusted_ : int
        Number of trusted samples; those that are zero are left out.

    Notes
    -----
    *False alarms.* Let the trusted samples and a new one be exchangeable (drawn independently from
    one distribution, say). Then the new one is called novel with a probability of at most
    ``max(contamination, 1 / (m + 1))``, where m is the number of `distances_`. For the distance of
    sample i from the cone of the others never grows when the new sample joins these; with the new
    sample among them, all distances are exchangeable, so the new one exceeds the quantile of all of
    them with at most that probability; and the quantile of `distances_` is at least as large. This
    is exact for a given ``noise``; "auto" takes it from the same samples, which matters little.

    `predict` judges samples as new ones. The trusted samples themselves lie in the cone;
    `fit_predict` judges each of them by the others.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import ConeNovelty
    >>> trusted = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.1, 0.0]])
    >>> detector = ConeNovelty(locality=0, noise=0).fit(trusted)
    >>> detector.score_samples([[3.0, 1.0, 0.0], [3.0, 0.0, 4.0]]).round(3) + 0.0
    array([ 0. , -0.8])
    >>> detector.predict([[3.0, 1.0, 0.0], [3.0, 0.0, 4.0]])
    array([ 1, -1])
    >>> [
    ...     (feature.name, round(feature.amount, 3))
    ...     for feature in detector.explain([[3.0, 0.0, 4.0]])[0]
    ... ]
    [('x2', 4.0)]
    """

    contamination: Any = "auto"
    _: KW_ONLY
    locality: float = LOCALITY
    noise: Any = "auto"
    tol: float = NOTHING
    random_state: Any = 0

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Take the rows of ``X`` (n_samples, n_features) as the trusted samples.

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X.
        """
        self._check_parameters()
        U = self._unit_samples(remember_layer(self, X, feature_names, layer), reset=True)
        self._trusted = Trusted.of(U, self._seed)
        self.n_trusted_ = U.shape[0]
        report("noise", 0, 2)
        self.noise_ = self._read_noise()
        report("calibration", 1, 2)
        # None after `partial_fit`, until it is asked for
        self._calibration: FloatArray | None = self._trusted.calibrate(self._terms)
        return self

    @running
    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Trust these samples, too. Samples within ``tol`` of those known already are counted, but
        not kept."""
        if not hasattr(self, "n_trusted_"):
            return self.fit(X)
        self._check_parameters()
        U = self._unit_samples(X, reset=False)
        self._trusted = self._trusted.joined(U, Terms(self.locality), self.tol)
        self.n_trusted_ += U.shape[0]
        self.noise_ = self._read_noise()
        self._calibration = None
        return self

    @running
    def score_samples(self, X: Any) -> FloatArray:
        """Minus the distance of each sample: 0 for a mixture of trusted samples, down to -1; lower
        is more of a novelty.

        A sample of zeros belongs to every cone; its score is 0, with a warning.
        """
        new = self._judged(X)[0]
        return -self._trusted.distances(new, self._terms)

    def decision_function(self, X: Any) -> FloatArray:
        """``score_samples`` minus `offset_`: negative for novel samples."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> IntArray:
        """-1 for novel samples, 1 for the others."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @running
    def fit_predict(
        self, X: Any, y: Any = None, *, feature_names: Any = None, layer: str | None = None
    ) -> IntArray:
        """Fit to ``X``, and judge each of its samples by the cone of the others: -1 for those that
        stand out, 1 for the rest. The arguments are those of `fit`."""
        self.fit(X, y, feature_names=feature_names, layer=layer)
        every = np.arange(self._trusted.count)
        stands_out = self._trusted.leave_one_out(every, self._terms) > -self.offset_
        judged = np.ones(len(self._filled), int)
        judged[np.flatnonzero(self._filled)[stands_out]] = -1
        return judged

    def witness_samples(self, X: Any) -> FloatArray:
        """Each sample minus the nearest point of the cone, (n_samples, n_features), in the units of
        ``X``; zero for samples in the cone.

        The vector g separates the sample x from the cone (Moreau): ``g . x = |g|^2``, while
        ``g . t <= 0`` for every trusted sample t.
        """
        Y, lengths = self._judged(X)
        return witnesses(self._trusted.samples, Y, self._trusted.gram) * lengths[:, None]

    @property
    def distances_(self) -> FloatArray:
        """Sorted distances of trusted samples from the cone of the others."""
        check_is_fitted(self, "n_trusted_")
        if self._calibration is None:
            self._calibration = self._trusted.calibrate(self._terms)
        return self._calibration

    @property
    def offset_(self) -> float:
        """Minus the threshold, which follows from ``contamination``."""
        distances = self.distances_
        kept = self._trusted.count
        return 0.0 - threshold(distances, self._share, self.n_trusted_, kept)

    @property
    def _share(self) -> float:
        """The share of false alarms that is allowed."""
        return AUTO if isinstance(self.contamination, str) else float(self.contamination)

    @property
    def _terms(self) -> Terms:
        return Terms(float(self.locality), self.noise_ / (1 - self.noise_))

    def _read_noise(self) -> float:
        return self._trusted.estimate_noise() if self.noise == "auto" else float(self.noise)

    def _unit_samples(self, X: Any, *, reset: bool) -> Points:
        """Trusted samples that are not zero, with unit length."""
        table = check_table(self, X, reset=reset)
        self._filled = table.filled
        if not self._filled.any():
            raise InvalidInputError(
                "all trusted samples are zero, and their cone holds nothing but zero; pass at least"
                " one trusted sample that is not zero."
            )
        warn_of_samples(~self._filled, "left out of the trusted samples", self)
        U: Points = unit_rows(table.array)[0]
        return U if self._filled.all() else U[np.flatnonzero(self._filled)]

    def _judged(self, X: Any) -> tuple[Points, FloatArray]:
        """New samples with unit length, in the trusted ones' kind of storage, and their lengths."""
        check_is_fitted(self, "n_trusted_")
        table = check_table(self, X, reset=False)
        warn_of_samples(
            ~table.filled, "such a sample belongs to every cone, so its distance is 0", self
        )
        Y, lengths = unit_rows(table.array)
        return Y, lengths

    def _check_parameters(self) -> None:
        share = self.contamination
        if share != "auto" and not (
            isinstance(share, (float, int, np.number)) and 0 < share <= 0.5
        ):
            raise InvalidInputError(
                f"{argument('contamination')} must be 'auto' or a number above 0 and at most 0.5;"
                f" got {share!r}."
            )
        for name, value in (
            ("locality", self.locality),
            ("noise", 0 if self.noise == "auto" else self.noise),
            ("tol", self.tol),
        ):
            if not (isinstance(value, (float, int, np.number)) and 0 <= value < 1):
                raise InvalidInputError(
                    f"{argument(name)} must be a number of at least 0 and below 1; got {value!r}."
                )
        seed = generator(self.random_state).integers(2**31 - 1)
        is_seed = isinstance(self.random_state, (int, np.integer))
        self._seed = int(self.random_state if is_seed else seed)

    def _summary(self) -> dict[str, str]:
        return {
            "trusted samples": f"{self.n_trusted_}, {self._trusted.count} of them kept",
            "novel": f"distance above {-self.offset_:.3g}",
        }
