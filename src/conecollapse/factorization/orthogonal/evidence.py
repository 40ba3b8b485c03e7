r"""What a few labels say about all other samples: probabilities of the classes, from several
sources that are tested on the labels.

**Diffusion** over a graph N: :math:`f_k = (I - aN)^{-1} e_k`, with :math:`e_k` ones for the
labelled samples of class k, each class divided by its total (so that no class gains from labels
with many neighbours). **Ridge regression** of the indicators of the classes on the samples of a
table at unit length, labels weighted so that all classes count the same. Rows are centred at the
mean of the labelled ones, with these weights, which is what an intercept does. The mean of all rows
is known better, but is near the largest class where classes are of different sizes; so it is the
centre only with less than two labels for each class.

Scores of different kinds become comparable by *sharpening*: probabilities are proportional to exp(t
score), with t such that the largest probability of a sample is 0.7 on average.

The sources are pooled by a logistic model: :math:`q_{ik} \propto \exp(\sum_e w_e \log p^e_{ik})`
with weights :math:`w_e \ge 0`. They are learned from labels that are left out: up to three times a
part of the labels of each class is left out, every source is asked again without them, and the
weights make the labels left out most likely, with a normal prior of deviation 1 around given
weights of sum 1. A source that finds them counts more than one that does not; the weights are large
together, and the probabilities near 0 and 1, if the labels left out are found well. If they are
found badly the weights still sum to 1, and it is for the clusters to count more
(`conecollapse.factorization.orthogonal.clamped`). With one label for each class nothing can be left
out, and the weights are the given ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Sparse
from conecollapse.factorization.orthogonal.constraints import UNKNOWN
from conecollapse.tables import DiffusedTable, Table

CONFIDENCE = 0.7  # mean of the largest probability of a sample after sharpening
STEEPEST = 1e6  # of exp(t score): where scores are equal no t makes them sure
LEAST_SCORE = 1e-12  # share of the largest score of a diffusion that counts as none
RIDGE = 0.1  # share of the mean squared length
# labels for each class, on average, from which on their mean is known well enough to be the centre
# of the ridge
SEVERAL = 2
LEAST_WEIGHT = 1e-3  # of a source
FOLDS = 3  # parts of the labels that are left out in turn, at most
FLOOR = 1e-3  # added to probabilities, so that no evidence rules a class out
BLOCK = 256  # labelled samples at once
# for the evidence; of more, so many are taken, in turn from all classes. All are clamped.
MOST_LABELS = 2000
MOST_PRODUCTS = 2**25  # of samples with labelled samples that are kept: 128 MiB in float32
SEEN = 2000  # samples from which sharpness is found
# of the interval of twelve decades in which sharpness is looked for: then it is known to 1e-6 of
# itself
HALVINGS = 26


@dataclass(frozen=True)
class Seeds:
    """Labelled samples, in order, and their classes 0, 1, ..., r - 1."""

    index: IntArray
    classes: IntArray
    n_classes: int

    @classmethod
    def of(cls, labels: IntArray) -> Seeds:
        """From labels of all samples, `UNKNOWN` where there is none; at most `MOST_LABELS` of
        them."""
        index = np.flatnonzero(labels != UNKNOWN)
        index = np.sort(index[np.argsort(_turns(labels[index]), kind="stable")[:MOST_LABELS]])
        return cls(index, labels[index], int(labels.max()) + 1)

    @property
    def indicator(self) -> FloatArray:
        """(n_labels, n_classes) ones at the class of each label."""
        return np.eye(self.n_classes)[self.classes]

    def folds(self) -> list[BoolArray]:
        """Which labels are left out together: some of each class, never the only one of a class.

        Examples
        --------
        >>> [
        ...     left.astype(int).tolist()
        ...     for left in Seeds(np.arange(6), np.array([0, 1, 0, 2, 1, 0]), 3).folds()
        ... ]
        [[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]]
        """
        has_company = np.bincount(self.classes, minlength=self.n_classes)[self.classes] > 1
        turns = _turns(self.classes) % FOLDS
        return [left for k in range(FOLDS) if (left := (turns == k) & has_company).any()]

    def spread(self, values: AnyArray, n: int) -> AnyArray:
        """Values of the labelled samples as rows among zeros of n samples."""
        rows = np.zeros((n, values.shape[1]), values.dtype)
        rows[self.index] = values
        return rows

    def units(self, scale: AnyArray) -> Iterator[tuple[slice, sp.csr_array]]:
        """The unit vectors of the labelled samples times ``scale`` (n_samples,) as columns, `BLOCK`
        at a time."""
        for a in range(0, len(self.index), BLOCK):
            part = slice(a, min(a + BLOCK, len(self.index)))
            rows = self.index[part]
            yield (
                part,
                sp.csr_array(
                    (scale[rows], (rows, np.arange(len(rows)))), shape=(len(scale), len(rows))
                ),
            )


def _turns(classes: IntArray) -> IntArray:
    """0 for the first of each class, 1 for the second, ..."""
    turns = np.zeros(len(classes), np.int64)
    for k in np.unique(classes):
        own = classes == k
        turns[own] = np.arange(own.sum())
    return turns


class Source(Protocol):
    """Something that tells classes from labels."""

    def logs(self, kept: BoolArray) -> AnyArray:
        """(n_samples, n_classes) logarithms of probabilities, from the labels kept."""


@dataclass(frozen=True)
class Evidence:
    """Probabilities of the classes for every sample, (n_samples, n_classes), and the weights of the
    sources."""

    probabilities: AnyArray
    weights: FloatArray = field(default_factory=lambda: np.ones(1))


def pooled(
    sources: Sequence[Source], seeds: Seeds, prior: Sequence[float] | None = None
) -> Evidence:
    """The sources together, weighted by how well they find labels that are left out; by ``prior``
    (None: all the same) if none can be."""
    folds = seeds.folds()
    logs = [np.stack([source.logs(~left) for source in sources]) for left in folds]
    weights = (
        np.full(len(sources), 1 / len(sources)) if prior is None else np.asarray(prior, np.float64)
    )
    if folds:
        left_out = np.concatenate(
            [L[:, seeds.index[left]] for L, left in zip(logs, folds, strict=True)], axis=1
        )
        weights = learned_weights(
            left_out, np.concatenate([seeds.classes[left] for left in folds]), weights
        )
    everything = np.stack([source.logs(np.ones(len(seeds.index), bool)) for source in sources])
    return Evidence(pool(everything, weights), weights)


def pool(logs: AnyArray, weights: FloatArray) -> FloatArray:
    """Probabilities from the logarithms of several sources, (n_sources, n_samples, n_classes)."""
    return probabilities(np.tensordot(weights, logs, 1))


def learned_weights(logs: AnyArray, classes: IntArray, prior: FloatArray) -> FloatArray:
    """The weights that make the classes of some samples most likely, with a normal prior around
    some weights.

    They sum to 1 or more.

    Examples
    --------
    >>> right, blind = np.log([[0.8, 0.2], [0.2, 0.8]]), np.log([[0.5, 0.5], [0.5, 0.5]])
    >>> learned_weights(np.stack([right, blind]), np.array([0, 1]), np.array([0.5, 0.5])).round(2)
    array([1.03, 0.5 ])
    """
    rows = np.arange(len(classes))

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        P = pool(logs, w)
        slopes = P.copy()
        slopes[rows, classes] -= 1
        value = (
            -np.log(np.maximum(P[rows, classes], np.finfo(float).tiny)).sum()
            + np.square(w - prior).sum() / 2
        )
        return float(value), np.einsum("eik,ik->e", logs, slopes) + w - prior

    bounds = [(LEAST_WEIGHT, None)] * len(logs)
    w = np.asarray(
        scipy.optimize.minimize(
            loss, np.maximum(prior, LEAST_WEIGHT), jac=True, bounds=bounds, method="L-BFGS-B"
        ).x
    )
    return w / min(float(w.sum()), 1.0)


class Diffusion:
    """The diffusion of labels over a normalised graph."""

    def __init__(self, N: Sparse, damping: float, seeds: Seeds, accuracy: float) -> None:
        self.seeds, self.n = seeds, N.shape[0]
        self.solve = DiffusedTable(
            N, damping, accuracy=accuracy, n_probes=1, dtype=np.float32
        ).solve
        # of each label alone
        self.masses = self.solve(np.ones((self.n, 1), np.float32))[seeds.index, 0].astype(
            np.float64
        )

    def logs(self, kept: BoolArray) -> AnyArray:
        Y = self.seeds.indicator * kept[:, None]
        scores = self.solve(self.seeds.spread(Y, self.n).astype(np.float32)).astype(
            np.float64
        ) * _inverse(self.masses @ Y)
        return sharpened(
            np.log(np.maximum(scores, LEAST_SCORE * max(float(scores.max()), np.finfo(float).tiny)))
        )


@dataclass(frozen=True)
class Linear:
    """Scores of the ridge for samples of unit length: ``x @ weights + offset``; ``sharpness`` and
    ``power`` make them probabilities."""

    weights: FloatArray  # (n_features, n_classes)
    offset: FloatArray  # (n_classes,)
    sharpness: float = 1.0
    power: float = 1.0  # its weight in the pool

    def probabilities(self, X: Table) -> FloatArray:
        """Of samples, known or new."""
        return probabilities(self.power * self.logs(self.scores(X)))

    def logs(self, scores: AnyArray) -> FloatArray:
        """Logarithms of the probabilities that scores give."""
        return np.log(probabilities(self.sharpness * scores) + FLOOR)

    def scores(self, X: Table) -> FloatArray:
        """Before sharpening."""
        return (
            np.asarray(X @ self.weights.astype(X.dtype), np.float64)
            * _inverse(X.row_lengths)[:, None]
            + self.offset
        )


class Ridge:
    """Ridge regression on the rows of a table at unit length."""

    def __init__(self, X: Table, seeds: Seeds) -> None:
        self.X, self.seeds = X, seeds
        n, n_labels = X.shape[0], len(seeds.index)
        self.scale = _inverse(X.row_lengths)[:, None]
        # (n_features, 1), of the rows at unit length
        self.mean = np.asarray(X.T @ (self.scale / n).astype(X.dtype), np.float64)
        self.m = (np.asarray(X @ self.mean.astype(X.dtype), np.float64) * self.scale)[:, 0]
        self.has_several = n_labels >= SEVERAL * seeds.n_classes
        K = np.empty((n_labels, n_labels))
        # of all rows with labelled ones
        self.products = np.empty((n, n_labels), X.dtype) if n * n_labels <= MOST_PRODUCTS else None
        for part, E in seeds.units(self.scale[:, 0].astype(X.dtype)):
            products = np.asarray(X @ np.asarray(as_dense(X.T @ E))) * self.scale
            K[:, part] = products[seeds.index]
            if self.products is not None:
                self.products[:, part] = products
        self.K = K

    def logs(self, kept: BoolArray) -> AnyArray:
        if self.products is None:
            linear = self.linear(kept)
            return linear.logs(linear.scores(self.X)).astype(np.float32)
        alpha, of_mean, offset = self._dual(kept)
        return sharpened(self.products @ alpha + self.m[:, None] * of_mean + offset)

    def linear(self, kept: BoolArray) -> Linear:
        """The weights that the labels kept give."""
        X, (alpha, of_mean, offset) = self.X, self._dual(kept)
        weights = np.asarray(
            X.T @ (self.scale * self.seeds.spread(alpha, X.shape[0])).astype(X.dtype), np.float64
        )
        linear = Linear(weights + self.mean * of_mean, offset)
        return replace(linear, sharpness=sharpness(linear.scores(X)))

    def _dual(self, kept: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """How much of each labelled row the weights of each class hold (none of labels that are not
        kept), how much of the mean of all rows, and the offset.
        """
        classes, Y = self.seeds.classes[kept], self.seeds.indicator[kept]
        K = self.K[np.ix_(kept, kept)]
        balance = Y.sum(axis=0)[classes]
        # as a mean of labelled rows
        centre = 1 / balance / (1 / balance).sum() if self.has_several else np.zeros(len(K))
        at = K @ centre if self.has_several else self.m[self.seeds.index[kept]]
        length2 = at @ centre if self.has_several else self.m.mean()
        K = K - at[:, None] - at + length2
        K[np.diag_indices_from(K)] += (
            max(RIDGE * float(np.trace(K)) / len(K), np.finfo(np.float32).eps)
            * balance
            * (1 / balance).mean()
        )
        solved = np.linalg.solve(K, Y - 1 / self.seeds.n_classes)
        total = solved.sum(axis=0)
        alpha = np.zeros((len(kept), self.seeds.n_classes))
        alpha[kept] = solved - np.outer(centre, total)
        return (
            alpha,
            np.zeros_like(total) if self.has_several else -total,
            length2 * total - at @ solved,
        )


def sharpened(scores: AnyArray) -> AnyArray:
    """Logarithms of probabilities with the mean confidence `CONFIDENCE`."""
    return np.log(probabilities(sharpness(scores) * scores) + FLOOR).astype(np.float32)


def sharpness(scores: AnyArray) -> float:
    """The t with which the largest of the probabilities proportional to exp(t scores) is
    `CONFIDENCE` on average.

    Examples
    --------
    >>> t = sharpness(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> round(float(1 / (1 + np.exp(-t))), 3)
    0.7
    """
    scores = scores[:: max(1, len(scores) // SEEN)]
    behind = scores - scores.max(axis=1, keepdims=True)
    low, high = 1 / STEEPEST, STEEPEST
    for _ in range(HALVINGS):
        t = float(np.sqrt(low * high))
        if float((1 / np.exp(t * behind).sum(axis=1)).mean()) < CONFIDENCE:
            low = t
        else:
            high = t
    return t


def probabilities(scores: AnyArray) -> FloatArray:
    """Rows proportional to exp(scores) that sum to one."""
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def _inverse(values: AnyArray) -> FloatArray:
    """1 / values; 0 for zeros."""
    return np.where(values > 0, 1 / np.where(values > 0, values, 1.0), 0.0)
