"""`Unmixing`: the smallest cone that explains the samples to within their noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp

from conecollapse._checks import as_array, as_points, check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, is_sparse, row_lengths, stack_rows
from conecollapse._progress import report
from conecollapse._types import FloatArray, Points
from conecollapse.estimators._estimator import check_is_fitted, running
from conecollapse.estimators._mixture import MixtureNMF
from conecollapse.estimators._prepared import Prepared, check_table, in_dtype
from conecollapse.factorization.mixtures.constraints import (
    ClosedLeastSquares,
    Constraints,
    closed_lengths,
    constrain,
)
from conecollapse.factorization.mixtures.number import count
from conecollapse.factorization.mixtures.starts import equally_long
from conecollapse.factorization.mixtures.unmixing import Unmixed, find_components
from conecollapse.factorization.nmf.encoders import ScaledLeastSquares
from conecollapse.factorization.nmf.mu import LOSSES
from conecollapse.tables import Table

SAME = 1e-6  # what rounding may add to a sum of shares
STAGES = 20  # about as many as a search has


class Explanation(NamedTuple):
    """One sample in terms of the components."""

    amounts: FloatArray  # (r,)
    shares: FloatArray  # (r,)
    parts: FloatArray  # (r, n_features): what each component contributes to the sample
    left: FloatArray  # (n_features,): the sample less all parts
    distance: float  # from the cone, as a share of the sample's length


@dataclass(eq=False, repr=False, kw_only=True)
class Unmixing(MixtureNMF):
    r"""The pure components of mixtures, and how much of each is in every sample: the smallest cone
    that explains the samples to within their noise.

    Many candidates are tried (samples that are purest by several rules, the cone of minimum volume,
    cones searched by their facets), all are improved, and one criterion, which knows no labels,
    chooses:

    .. math:: J = |X - W H|^2 / N + \log\det(H H^T)

    with N the squared noise in each direction, which is estimated. Samples may be pure or not. The
    same table gives the same components every time.

    Parameters
    ----------
    n_components : int or "auto"
        How many components; "auto" takes as few as leave nothing but independent noise, and
        `reason_` says on what the number rests.
    loss : {"frobenius", "kullback-leibler"}
        "kullback-leibler" is for tables of counts, such as mutational signatures, in which
        components may be rare: the amounts of each have a scale of their own.
    outliers : float or "auto"
        Share of the samples to leave out because they fit no mixture. "auto" leaves out those that
        stand out, and asks again after the choice. Not used for counts.
    closure : bool
        Whether the amounts of a sample sum to one, with the lengths of the components found for
        that. Excludes that samples differ in brightness.
    unimodal : {"samples", "features"} or (r,) array of bool, optional
        Components with one peak: "samples" for amounts that rise and fall once along the samples,
        as in chromatography, for all components or those marked; "features" for the components
        themselves. Excludes a second peak.
    zero_where : (n_samples, r) or (r, n_features) array of bool, optional
        Where amounts, or components, are zero. Excludes what is marked.
    fixed_components : (k, n_features) array, optional
        Known components, which come first and do not change. Excludes that they vary from sample to
        sample.
    fixed_shares : (n_samples, k) array, optional
        Known shares of the first k components: parts of the sum of a sample's amounts. Excludes
        that they are wrong.
    random_state : optional
        Taken so that a pipeline can seed all its steps; nothing is random here.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook; True prints
        a line for each stage, False nothing.
    callback : callable, optional
        Called as ``callback(stage, done, total)`` for each candidate.
    n_jobs : int, optional
        Most threads to use; all by default.

    Attributes
    ----------
    components_ : (r, n_features) array
        The components, largest total abundance first (fixed ones before the others). All have the
        median length of the samples.
    embedding_ : (n_samples, r) array
        Amounts of the components in the samples: X is about ``embedding_ @ components_``.
    shares_ : (n_samples, r) array
        The same as shares that sum to one; zero for a sample that is zero.
    n_components_ : int
        How many components.
    reason_ : str
        On what their number rests.
    candidates_ : list of (str, float)
        How each candidate was found, and its criterion J; the best first.
    spread_ : (r, n_features) array
        How far apart the candidates within one unit of J are, in the unit of `components_`: what
        the data leave open, beside the noise.
    corners_ : {"samples", "features"}
        Whether the components were found from samples or, with few samples and many features, from
        the features that occur in one component only.
    residuals_ : (n_samples,) array
        Distance of each sample from the cone of the components, as a share of its length.
    cone_ : Cone
        The cone of the components, with a certificate of how far each sample lies outside; `verify`
        checks it.
    outliers_ : (n_samples,) array of bool
        Samples that were left out; zero samples among them.
    feature_noise_ : (n_features,) array
        The noise that features were divided by, in units of its median; ones where they count
        alike.
    noise_ : float
        N as a share of the squared norm of the samples.
    reconstruction_err_, relative_err_ : float
        ``|X - W H|``, and that over ``|X|``.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import Unmixing
    >>> pure = np.array([[6.0, 3.0, 0.0, 1.0], [0.0, 2.0, 5.0, 3.0], [1.0, 0.0, 1.0, 4.0]])
    >>> shares = np.random.default_rng(0).dirichlet([1, 1, 1], 300)
    >>> shares = shares[shares.max(axis=1) < 0.8]  # no sample is nearly pure
    >>> model = Unmixing(n_components=3).fit(shares @ pure)
    >>> model.components_.shape, model.shares_.shape == shares.shape
    ((3, 4), True)
    """

    n_components: Any = field(default="auto", kw_only=False)
    loss: str = "frobenius"
    outliers: Any = "auto"
    closure: bool = False
    unimodal: Any = None
    zero_where: Any = None
    fixed_components: Any = None
    fixed_shares: Any = None
    random_state: Any = None
    sum_to_one: ClassVar[bool] = False  # type: ignore[misc]
    feature_noise: ClassVar[str] = "auto"  # type: ignore[misc]

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Find the components of ``X`` (n_samples, n_features), or of a list of tables that have
        the components in common: their samples are then stacked in this order.

        ``feature_names`` are the names of the features of an array, and ``layer`` is the layer of
        an AnnData object to use instead of X.
        """
        if self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_count(self.n_components, "n_components", or_auto=True)
        data = self._prepare(_stack(X), feature_names, layer)
        points = data.table.array.astype(np.float64, copy=False)
        self.n_components_, self.reason_ = self._count(points, data)
        known = self._read_constraints(data)
        found = self._find(points, data)
        self.candidates_, self.corners_ = list(found.candidates), found.corners
        self.noise_ = found.noise
        kept = data.table.rows(np.flatnonzero(~found.left_out))
        H, W = equally_long(kept, found.H), None
        if known.has_any:
            W, H = constrain(np.asarray(as_dense(points)), H, known)
        if self.closure:
            H, W = self._close(kept, H, found.feature_noise), None
        fixed = 0 if known.fixed is None else len(known.fixed)
        order = self._learn(
            data,
            H,
            found.feature_noise,
            found.left_out,
            fixed=len(H) if known.keeps_order else fixed,
            encoder=ClosedLeastSquares(H, found.feature_noise) if self.closure else None,
            amounts=W,
        )
        if known.has_any or self.closure:  # shares are parts of the amounts themselves
            sums = np.maximum(self.embedding_.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            self.shares_ = in_dtype(self.embedding_ / sums, data.dtype)
        longer = row_lengths(H) / row_lengths(found.H) * data.unit
        self.spread_ = in_dtype((found.spread * longer[:, None])[order], data.dtype)
        return self

    @staticmethod
    def _close(kept: Table, H: FloatArray, noise: FloatArray) -> FloatArray:
        """The components with the lengths for amounts that sum to one."""
        W = np.asarray(ScaledLeastSquares(H, noise)(kept), np.float64)
        return np.asarray(H / closed_lengths(W)[:, None])

    def _read_constraints(self, data: Prepared) -> Constraints:
        """The parameters that say what is known, checked."""
        r, n, m = self.n_components_, data.n_samples, data.n_features
        self._check_together()
        known = Constraints(fixed=self._read_fixed(data.unit), closure=bool(self.closure))
        if self.zero_where is not None:
            mask = np.asarray(self.zero_where)
            if mask.dtype != bool or mask.shape not in ((n, r), (r, m)):
                raise InvalidInputError(
                    f"zero_where has shape {mask.shape} and type {mask.dtype}; expected bool, and"
                    f" ({n}, {r}) for amounts or ({r}, {m}) for components."
                )
            absent = np.flatnonzero(mask.all(axis=0 if mask.shape == (n, r) else 1))
            if len(absent):
                raise InvalidInputError(
                    f"zero_where leaves nothing of component {absent[0]}: True marks entries that"
                    " are zero; leave some of it False, or ask for fewer components."
                )
            if mask.shape == (n, r):
                known = replace(known, zero_amounts=mask)
            else:
                known = replace(known, zero_entries=mask)
        if self.fixed_shares is not None:
            known = replace(known, shares=self._read_shares(n, r))
        if self.unimodal is None:
            return known
        if isinstance(self.unimodal, str) and self.unimodal == "features":
            return replace(known, peaks_of_components=True)
        has_peak = np.asarray(self.unimodal)
        if isinstance(self.unimodal, str) and self.unimodal == "samples":
            has_peak = np.ones(r, bool)
        if has_peak.dtype != bool or has_peak.shape != (r,):
            raise InvalidInputError(
                f"unimodal must be 'samples', 'features', or {r} values of True and False, one for"
                f" each component; got {self.unimodal!r}."
            )
        return replace(known, peaks_of_amounts=has_peak)

    def _check_together(self) -> None:
        """Refuse parameters of which one would have to be broken for the other."""
        amounts = {"zero_where": self.zero_where, "unimodal": self.unimodal}
        shares = {"fixed_shares": self.fixed_shares}
        name = "closure=True" if self.closure else "fixed_shares"
        if not self.closure and self.fixed_shares is None:
            return
        for other, value in (amounts | shares if self.closure else amounts).items():
            if value is not None:
                raise InvalidInputError(
                    f"{name} and {other} cannot be kept at the same time; leave one of them out."
                )

    def _read_shares(self, n: int, r: int) -> FloatArray:
        shares = np.asarray(as_points(self.fixed_shares, "fixed_shares", needs="shares are >= 0"))
        shares = shares.astype(np.float64)
        if shares.shape[0] != n or shares.shape[1] > r or shares.sum(axis=1).max() > 1 + SAME:
            raise InvalidInputError(
                f"fixed_shares has shape {shares.shape} and a largest sum of"
                f" {float(shares.sum(axis=1).max()):.4g}; expected {n} rows that sum to at most 1,"
                f" and at most {r} columns."
            )
        return shares

    def explain(self, x: Any) -> Explanation:
        """One sample in terms of the components: amounts, shares, what each contributes, and what
        none explains."""
        check_is_fitted(self)
        table = check_table(self, np.atleast_2d(as_array(as_dense(x), "x")), reset=False)
        if table.shape[0] != 1:
            raise InvalidInputError(
                f"x holds {table.shape[0]} samples; explain takes one, such as X[0]."
            )
        W = np.asarray(self._fitted.encode(table), np.float64)
        sample = np.asarray(as_dense(table.array), np.float64)[0]
        parts = W[0][:, None] * np.asarray(self.components_, np.float64)
        left = sample - parts.sum(axis=0)
        length = float(np.linalg.norm(sample))
        distance = float(np.linalg.norm(left)) / length if length > 0 else 0.0
        return Explanation(W[0], np.asarray(self._shares(W))[0], parts, left, distance)

    def _count(self, points: Points, data: Prepared) -> tuple[int, str]:
        if self.n_components == "auto":
            is_counts = self.loss != "frobenius"
            outliers = 0 if is_counts else self.outliers
            filled = points[np.flatnonzero(~data.empty)]
            number = count(filled, is_counts=is_counts, outliers=outliers)
            return number.r, number.reason
        return check_count(self.n_components, "n_components"), "n_components was given"

    def _find(self, points: Points, data: Prepared) -> Unmixed:
        done = 0

        def told(stage: str) -> None:
            nonlocal done
            done += 1
            report(stage, min(done, STAGES - 1), STAGES)

        return find_components(
            points,
            ~data.empty,
            self.n_components_,
            is_counts=self.loss != "frobenius",
            outliers=self.outliers,
            fixed=self._read_fixed(data.unit),
            told=told,
        )

    def _read_fixed(self, unit: float) -> FloatArray | None:
        if self.fixed_components is None:
            return None
        needs = "components must be >= 0"
        fixed = as_dense(as_points(self.fixed_components, "fixed_components", needs=needs))
        r, m = self.n_components_, self.n_features_in_
        if fixed.shape[1] != m or len(fixed) > r or not fixed.any(axis=1).all():
            raise InvalidInputError(
                f"fixed_components has shape {fixed.shape}; expected at most n_components ="
                f" {r} rows, none of them zero, and {m} columns."
            )
        return np.asarray(fixed / unit, np.float64)

    def _cone_points(self, table: Table) -> Points:
        samples = table.array.astype(np.float64, copy=False)
        return stack_rows(self._fitted.components, samples, like=samples)

    def _summary(self) -> dict[str, str]:
        name, J = self.candidates_[0]
        return {
            "components": f"{self.n_components_}: {self.reason_}",
            "chosen": f"{name}, J = {J:.4g}, of {len(self.candidates_)} candidates",
            "found from": self.corners_,
            **super()._summary(),
        }


def _stack(X: Any) -> Any:
    """A list of tables as one table; anything else as it is."""
    if not isinstance(X, (list, tuple)) or not X or any(np.ndim(part) != 2 for part in X):
        return X
    widths = sorted({part.shape[1] for part in X})
    if len(widths) > 1:
        raise InvalidInputError(
            f"the tables of X have {', '.join(map(str, widths))} features; tables with common"
            " components need the same features."
        )
    if all(hasattr(part, "iloc") for part in X):
        for i, part in enumerate(X):
            missing = [str(name) for name in X[0].columns if name not in part.columns]
            if missing:
                raise InvalidInputError(
                    f"table {i} of X has no feature {missing[0]!r}, which table 0 has; tables with"
                    " common components need the same features."
                )
        return pd.concat(X)
    return sp.vstack(X, "csr") if any(is_sparse(part) for part in X) else np.vstack(X)
