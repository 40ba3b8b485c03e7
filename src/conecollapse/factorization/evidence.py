r"""What a few labels say about all other samples: probabilities of the classes, pooled from diffusion and ridge regression.

**Diffusion** over a graph N: :math:`f_k = (I - aN)^{-1} e_k`, with :math:`e_k` ones for the labelled samples of class k, each class
divided by its total (so that no class gains from labels with many neighbours). **Ridge regression** of the indicators of the classes on
the samples of a table at unit length, centred, labels weighted so that all classes count the same.

Both have their leave-one-out predictions in closed form: at a labelled sample j the diffusion loses its own term :math:`(I -
aN)^{-1}_{jj}`, and the ridge with inverse kernel matrix C has the residual :math:`\alpha_j / C_{jj}`. So several of them are
compared on the labelled samples: each is weighted by exp(c), c the number of labelled samples it gets right without their own label
(samples whose class has no other label do not count). With one label for each class all count the same.

Scores of different kinds become comparable by *sharpening*: probabilities are proportional to exp(t score), with t such that the largest
probability of a sample is 0.7 on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse
from conecollapse.factorization.constraints import UNKNOWN
from conecollapse.tables import DiffusedTable, Table

CONFIDENCE = 0.7  # mean of the largest probability of a sample after sharpening
STEEPEST = 1e6  # of exp(t score): where scores are equal no t makes them sure
LEAST_SCORE = 1e-12  # share of the largest score of a diffusion that counts as none
RIDGE = 0.1  # share of the mean squared length
BLOCK = 256  # labelled samples at once
MOST_LABELS = 2000  # for the evidence; of more, so many are taken, in turn from all classes. All are clamped.
SEEN = 2000  # samples from which sharpness is found


@dataclass(frozen=True)
class Seeds:
    """Labelled samples, in order, and their classes 0, 1, ..., r - 1."""

    index: IntArray
    classes: IntArray
    n_classes: int

    @classmethod
    def of(cls, labels: IntArray) -> Seeds:
        """From labels of all samples, `UNKNOWN` where there is none; at most `MOST_LABELS` of them."""
        index = np.flatnonzero(labels != UNKNOWN)
        turn = np.zeros(len(index))  # the first of each class, the second of each, ...
        for k in np.unique(labels[index]):
            own = labels[index] == k
            turn[own] = np.arange(own.sum())
        index = np.sort(index[np.argsort(turn, kind="stable")[:MOST_LABELS]])
        return cls(index, labels[index], int(labels.max()) + 1)

    @property
    def indicator(self) -> FloatArray:
        """(n_labels, n_classes) ones at the class of each label."""
        return np.eye(self.n_classes)[self.classes]

    @property
    def has_company(self) -> AnyArray:
        """Which labels are not the only ones of their class."""
        return np.bincount(self.classes, minlength=self.n_classes)[self.classes] > 1

    def spread(self, values: AnyArray, n: int) -> AnyArray:
        """Values of the labelled samples as rows among zeros of n samples."""
        rows = np.zeros((n, values.shape[1]), values.dtype)
        rows[self.index] = values
        return rows

    def units(self, n: int) -> Iterator[tuple[slice, FloatArray]]:
        """The unit vectors of the labelled samples as columns, `BLOCK` at a time."""
        for a in range(0, len(self.index), BLOCK):
            part = slice(a, min(a + BLOCK, len(self.index)))
            E = np.zeros((n, part.stop - a))
            E[self.index[part], np.arange(part.stop - a)] = 1.0
            yield part, E


@dataclass(frozen=True)
class Opinion:
    """Probabilities of the classes for every sample, and the number of labelled samples that are right without their own label."""

    probabilities: FloatArray  # (n_samples, n_classes)
    n_right: int


@dataclass(frozen=True)
class Linear:
    """Scores of the ridge for samples of unit length: ``x @ weights + offset``; ``sharpness`` makes them probabilities."""

    weights: FloatArray  # (n_features, n_classes)
    offset: FloatArray  # (n_classes,)
    sharpness: float

    def probabilities(self, X: Table) -> FloatArray:
        """Of samples, known or new."""
        return probabilities(self.sharpness * self.scores(X))

    def scores(self, X: Table) -> FloatArray:
        """Before sharpening."""
        return np.asarray(X @ self.weights.astype(X.dtype), np.float64) * _inverse(X.row_lengths)[:, None] + self.offset


def pooled(opinions: list[Opinion]) -> FloatArray:
    """The mean of the probabilities with weights exp(n_right)."""
    right = np.array([opinion.n_right for opinion in opinions], float)
    weights = np.exp(right - right.max())
    return np.asarray(sum(w * opinion.probabilities for w, opinion in zip(weights / weights.sum(), opinions, strict=True)))


def by_diffusion(N: Sparse, damping: float, seeds: Seeds, accuracy: float) -> Opinion:
    """The diffusion of the labels over a normalised graph."""
    solve: Callable[[AnyArray], AnyArray] = DiffusedTable(N, damping, accuracy=accuracy, n_probes=1, dtype=np.float32).solve
    n, Y = N.shape[0], seeds.indicator
    F = np.maximum(solve(seeds.spread(Y, n).astype(np.float32)), 0).astype(np.float64)
    masses = solve(np.ones((n, 1), np.float32))[seeds.index, 0].astype(np.float64)  # of the diffusion of each label alone
    own = np.concatenate([solve(E.astype(np.float32))[seeds.index[part], np.arange(E.shape[1])] for part, E in seeds.units(n)])
    totals = masses @ Y
    without = np.maximum(totals - masses[:, None] * Y, 0.0)
    left_out = (F[seeds.index] - own[:, None] * Y) * _inverse(without)
    scores = F * _inverse(totals)
    floor = LEAST_SCORE * max(float(scores.max()), np.finfo(float).tiny)
    logs = np.log(np.maximum(scores, floor))
    return Opinion(probabilities(sharpness(logs) * logs), _n_right(left_out, seeds))


def by_ridge(X: Table, seeds: Seeds) -> tuple[Opinion, Linear]:
    """Ridge regression on the rows of X at unit length, and its weights for new samples."""
    n, Y = X.shape[0], seeds.indicator
    scale = _inverse(X.row_lengths)[:, None]
    mean = np.asarray(X.T @ (scale / n).astype(X.dtype), np.float64)  # (n_features, 1), of the rows at unit length
    m = (np.asarray(X @ mean.astype(X.dtype), np.float64) * scale)[:, 0]
    K = np.empty((len(seeds.index), len(seeds.index)))
    for part, E in seeds.units(n):
        K[:, part] = (np.asarray(X @ (X.T @ (scale * E).astype(X.dtype))) * scale)[seeds.index]
    at = m[seeds.index]
    K = K - at[:, None] - at + m.mean()
    balance = np.bincount(seeds.classes, minlength=seeds.n_classes)[seeds.classes].astype(float)
    K[np.diag_indices_from(K)] += max(RIDGE * float(np.trace(K)) / len(K), np.finfo(np.float32).eps) * balance * (1 / balance).mean()
    C = np.linalg.inv(K)
    target = Y - 1 / seeds.n_classes
    alpha = C @ target
    weights = np.asarray(X.T @ (scale * seeds.spread(alpha, n)).astype(X.dtype), np.float64) - mean * alpha.sum(axis=0)
    linear = Linear(weights, -(at - m.mean()) @ alpha, 1.0)
    scores = linear.scores(X)
    linear = Linear(linear.weights, linear.offset, sharpness(scores))
    left_out = target - alpha / np.diag(C)[:, None]
    return Opinion(probabilities(linear.sharpness * scores), _n_right(left_out, seeds)), linear


def sharpness(scores: AnyArray) -> float:
    """The t with which the largest of the probabilities proportional to exp(t scores) is `CONFIDENCE` on average.

    Examples
    --------
    >>> t = sharpness(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> round(float(1 / (1 + np.exp(-t))), 3)
    0.7
    """
    scores = scores[:: max(1, len(scores) // SEEN)]
    behind = scores - scores.max(axis=1, keepdims=True)
    low, high = 1 / STEEPEST, STEEPEST
    for _ in range(50):
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


def _n_right(left_out: AnyArray, seeds: Seeds) -> int:
    return int(((left_out.argmax(axis=1) == seeds.classes) & seeds.has_company).sum())


def _inverse(values: AnyArray) -> FloatArray:
    """1 / values; 0 for zeros."""
    return np.where(values > 0, 1 / np.where(values > 0, values, 1.0), 0.0)
