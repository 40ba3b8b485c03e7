r"""Views for counts: cells with molecular barcodes, words of texts.

How large a sample is, the depth of a cell or the length of a text, says nothing of its kind, and
most of the variance of small counts is sampling noise. A view that does not know this groups
samples by their size. With :math:`s_i` the sum of sample i and :math:`p_j` the share of feature j
in all counts, :math:`\mu_{ij} = s_i p_j` is what is expected where all samples are alike.

**Counts?** Entries are whole, and for half of the features with a mean below 1 and at least ten
counts,

.. math:: f_j = \frac{1}{n - 1} \sum_i \frac{(x_{ij} - \mu_{ij})^2}{\mu_{ij}} < 2 ,

so that at least half of their variance is sampling noise: f is 1 if all of it is. Molecules in
cells and words in texts have 1 to 2, reads in cells and pixels 4 and more.

Samples that were scaled to one sum, and the logarithms log(1 + x) of these, show what they were
counted from: the smallest entry of a sample is one count. They are counts too, and give the same
clusters.

**residuals.** Counts of one kind of sample vary more than by sampling: their variance is
:math:`\mu + \varphi \mu^2`. As :math:`f_j = 1 + \varphi \bar\mu_j`, each feature says what
:math:`\varphi` is, and the median, weighted by the means, is of features that do not tell kinds
apart, since most do not. The view has the principal components of

.. math:: r_{ij} = \frac{x_{ij} - \mu_{ij}}{\sqrt{\mu_{ij} + \varphi \mu_{ij}^2}} ,

cut off at 10 (Lause, Berens & Kobak 2021), of the 3000 features with the largest mean: in others
there is too little to see. **log pcs** has those of :math:`\log(1 + 10^4 x_{ij} / s_i)`, of the
2000 features of largest variance, which is common practice for cells.

As many components are kept as have a larger singular value than any component of the same table
with each feature shuffled over the samples: the others are noise, and noise hides neighbours. These
views are for cells, where :math:`\varphi` is 0.1 to 1.5. Words come in bursts: theirs is 4 and
more, and they keep the views for sparse tables.

**The choice.** Clusters are good if they predict. How much better a sample's counts are predicted
by the *others* of its cluster than by all others, in nats,

.. math:: g_i = \sum_j x_{ij} \log \frac{(o_{ij} + b\, q_{ij}) / (m_i + b)}{q_{ij}} ,

with :math:`o_{ij}` the counts of the others of the cluster, :math:`m_i` their sum, and q the shares
in all other samples, which weigh as much as b counts. b is the one of `PRIORS` with the largest
:math:`\sum_i g_i`. No sample takes part in its own prediction, so that clusters of noise gain
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse

COUNT_VIEWS = ("residuals", "log pcs")
NOISE = 2.0  # f up to which at least half of the variance is sampling noise
FEWEST_COUNTS = 10  # of a feature whose f says something
BURSTY = 2.0  # phi from which counts are like those of words
FURTHEST = 10.0  # residuals beyond are cut off: one molecule where none is expected may be one
N_FEATURES = {"residuals": 3000, "log pcs": 2000}
N_COMPONENTS = 50  # at most, which is common practice
DEPTH = 1e4  # to which samples are scaled before the logarithm, as scanpy does
SHUFFLED = 3  # singular values of the shuffled table that are computed, for the first
PRIORS = 10.0 ** np.arange(1, 9, 1.5)
FORMS = ("counts", "scaled", "logarithms")  # of counts
NEAR = 1e-3  # share by which what was counted may differ from whole numbers, in float32
AT_ONCE = 2**22  # entries that are measured at once, in 32 MiB


def sizes(X: Points) -> FloatArray:
    """The sum of each sample."""
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()


def are_counts(X: Points) -> bool:
    """Whether the entries are whole, and mostly sampling noise in features of small mean."""
    n = X.shape[0]
    totals = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
    low = np.flatnonzero((totals >= FEWEST_COUNTS) & (totals < n))
    if not len(low) or X.max() <= 1 or not _are_whole(X):  # presence and absence are not counted
        return False
    some = sp.csr_array(X[:, low], dtype=np.float64)
    noise = _noise(some, sizes(X), totals[low], float(totals.sum()))
    return bool(np.median(noise) < NOISE)


def _are_whole(X: Points) -> bool:
    step = max(1, AT_ONCE // X.shape[1])
    parts = (sp.csr_array(X[a : a + step]).data for a in range(0, X.shape[0], step))
    return all(bool((part == np.floor(part)).all()) for part in parts)


def form_of_counts(X: Points) -> str | None:
    """Which of `FORMS` the counts in X have; None if X holds none."""
    if are_counts(X):
        return "counts"
    if _are_whole(X[:1]):
        return None
    for form in FORMS[1:]:
        # large numbers are no logarithms: these are infinite, and no whole number is near
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = _scaled_to_one(X, form)
            near = np.abs(scaled.data - np.rint(scaled.data)) <= NEAR * scaled.data
        if near.all() and are_counts(as_counts(X, form)):
            return form
    return None


def as_counts(X: Points, form: str) -> Sparse:
    """The counts as a CSR array in float64, without stored zeros."""
    found = _scaled_to_one(X, form)
    if form != "counts":
        found.data = np.rint(found.data)
    return found


def _scaled_to_one(X: Points, form: str) -> Sparse:
    """Each sample, without the logarithm, in units of its smallest entry."""
    found = sp.csr_array(X, dtype=np.float64, copy=True)
    found.eliminate_zeros()
    if form == "counts":
        return found
    if form == "logarithms":
        found.data = np.expm1(found.data)
    counts = np.diff(found.indptr)
    filled = counts > 0
    smallest = np.ones(len(counts))
    smallest[filled] = np.minimum.reduceat(found.data, found.indptr[:-1][filled])
    found.data /= np.repeat(smallest, counts)
    return found


def _noise(X: Sparse, size: FloatArray, totals: FloatArray, mass: float) -> FloatArray:
    """f of features with these totals, of samples of this size and all counts together."""
    mu = np.repeat(size, np.diff(X.indptr)) * totals[X.indices] / mass
    # where x is zero the summand is mu, and all mu of a feature add up to its total
    excess = np.bincount(X.indices, np.square(X.data - mu) / mu - mu, minlength=X.shape[1])
    return np.asarray((excess + totals) / max(X.shape[0] - 1, 1))


@dataclass(frozen=True)
class Counts:
    """Some samples of a table of counts, and which of its samples they are."""

    X: Sparse  # CSR, float64, without stored zeros
    places: IntArray
    form: str = "counts"  # that the table has

    @cached_property
    def totals(self) -> FloatArray:
        """The sum of each feature."""
        return np.asarray(self.X.sum(axis=0)).ravel()

    @cached_property
    def dispersion(self) -> float:
        """phi: the median over features, weighted by their means."""
        X, totals = self.X, self.totals
        noise = _noise(X, sizes(X), totals, float(totals.sum()))
        seen = np.flatnonzero(totals >= FEWEST_COUNTS)
        mean = totals[seen] / X.shape[0]
        phi = (noise[seen] - 1) / mean
        order = np.argsort(phi, kind="stable")
        weight = np.cumsum(mean[order])
        return max(float(phi[order][np.searchsorted(weight, weight[-1] / 2)]), 0.0)


@dataclass(frozen=True)
class CountView:
    """Principal components of counts; made from some samples, applied to any."""

    name: str
    features: IntArray
    shares: FloatArray  # of these features in all counts
    dispersion: float
    mean: FloatArray | None = None  # of the values, which is subtracted
    directions: FloatArray | None = None  # (n_features, d)
    form: str = "counts"  # of the samples that it is applied to

    metric: Literal["euclidean"] = "euclidean"

    @staticmethod
    def of_counts(name: str, counts: Counts) -> CountView:
        """The view of this name, from these samples."""
        X, totals = counts.X, counts.totals
        weight = totals if name == "residuals" else _variance_of_logs(X)
        features = np.sort(np.argsort(-weight, kind="stable")[: N_FEATURES[name]])
        shares = totals[features] / max(float(totals.sum()), 1.0)
        view = CountView(name, features, shares, counts.dispersion)
        values = view.values(X)
        mean = values.mean(axis=0)
        values -= mean
        directions = leading(values)
        return replace(view, mean=mean, directions=directions, form=counts.form)

    def of(self, X: Points) -> AnyArray:
        """The coordinates of samples in the components."""
        assert self.directions is not None
        assert self.mean is not None
        step = max(1, AT_ONCE // len(self.features))
        return np.concatenate(
            [
                (self.values(as_counts(X[a : a + step], self.form)) - self.mean) @ self.directions
                for a in range(0, X.shape[0], step)
            ]
        )

    def values(self, X: Points) -> FloatArray:
        """Residuals, or logarithms, of the features of the view, from counts."""
        size = np.maximum(sizes(X), np.finfo(float).tiny)[:, None]
        x = np.asarray(as_dense(X[:, self.features]), np.float64)
        if self.name == "log pcs":
            return np.log1p(DEPTH * x / size)
        mu = np.maximum(size * self.shares, np.finfo(float).tiny)
        return np.clip((x - mu) / np.sqrt(mu + self.dispersion * mu**2), -FURTHEST, FURTHEST)


def _variance_of_logs(X: Sparse) -> FloatArray:
    Z = sp.csr_array(sp.diags_array(DEPTH / np.maximum(sizes(X), 1.0)) @ X)
    Z.data = np.log1p(Z.data)
    squares = Z.copy()
    squares.data **= 2
    return np.asarray(squares.mean(axis=0)).ravel() - np.asarray(Z.mean(axis=0)).ravel() ** 2


def leading(values: FloatArray) -> FloatArray:
    """The principal directions of centred values that exceed those of the shuffled ones, as
    columns; two at least."""
    from sklearn.utils.extmath import randomized_svd

    most = min(N_COMPONENTS, *values.shape)
    _, lengths, directions = randomized_svd(values, most, random_state=0)
    shuffled = np.random.default_rng(0).permuted(values, axis=0)
    noise = randomized_svd(shuffled, min(SHUFFLED, most), random_state=0)[1][0]
    return np.ascontiguousarray(directions[: max(int((lengths > noise).sum()), 2)].T)


def prediction_gains(X: Sparse, labels: IntArray, n_clusters: int) -> FloatArray:
    """g of each sample, in nats: how much better its counts are predicted by the others of its
    cluster than by all others.

    Examples
    --------
    >>> X = sp.csr_array(np.kron(np.eye(2), np.full((3, 2), 9.0)))
    >>> bool(prediction_gains(X, np.repeat([0, 1], 3), 2).sum() > 0)
    True
    """
    n, m = X.shape
    size, totals = sizes(X), np.asarray(X.sum(axis=0)).ravel()
    members = sp.csr_array((np.ones(n), (labels, np.arange(n))), shape=(n_clusters, n))
    sums = (members @ X).toarray()
    row, x = np.repeat(np.arange(n), np.diff(X.indptr)), X.data
    q = (totals[X.indices] - x + 1) / (totals.sum() - size[row] + m)
    others = (sums[labels[row], X.indices] - x) / q
    mass = sums.sum(axis=1)[labels[row]] - size[row]
    gains = [
        np.bincount(row, x * np.log((others + prior) / (mass + prior)), minlength=n)
        for prior in PRIORS
    ]
    return np.asarray(max(gains, key=np.sum))
