r"""What a few labels say about all other samples: probabilities of the classes, from several
sources.

**Diffusion** over a graph N: :math:`f_k = (I - aN)^{-1} e_k`, with :math:`e_k` ones for the
labelled samples of class k, each class divided by its total (so that no class gains from labels
with many neighbours). **Ridge regression** of the indicators of the classes on the samples of a
table at unit length, labels weighted so that all classes count the same. Rows are centred at the
mean of the labelled ones, with these weights, which is what an intercept does. The mean of all rows
is known better, but is near the largest class where classes are of different sizes; so it is the
centre only with less than two labels for each class.

Scores of different kinds become comparable by *sharpening*: probabilities are proportional to exp(t
score), with t such that the largest probability of a sample is 0.7 on average. Sources are then
pooled by the geometric mean of their probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse
from conecollapse.factorization.orthogonal.constraints import UNKNOWN
from conecollapse.tables import DiffusedTable, Table

CONFIDENCE = 0.7  # mean of the largest probability of a sample after sharpening
STEEPEST = 1e6  # of exp(t score): where scores are equal no t makes them sure
LEAST_SCORE = 1e-12  # share of the largest score of a diffusion that counts as none
RIDGE = 0.1  # share of the mean squared length
# labels for each class, on average, from which on their mean is known well enough to be the centre
# of the ridge
SEVERAL = 2
FLOOR = 1e-3  # added to probabilities, so that no evidence rules a class out
BLOCK = 256  # labelled samples at once
# for the evidence; of more, so many are taken, in turn from all classes. All are clamped.
MOST_LABELS = 2000
SEEN = 2000  # samples from which sharpness is found
# of the interval of twelve decades in which sharpness is looked for: then it is known to 1e-6 of
# itself
HALVINGS = 26


@dataclass(frozen=True)
class Seeds:
    """Labelled samples, in order, and the indicator of their classes, (n_labels, n_classes)."""

    index: IntArray
    indicator: FloatArray

    @classmethod
    def of(cls, labels: IntArray) -> Seeds:
        """From labels of all samples, `UNKNOWN` where there is none; at most `MOST_LABELS` of
        them."""
        index = np.flatnonzero(labels != UNKNOWN)
        turns = np.zeros(len(index), np.int64)  # 0 for the first label of each class, 1 ...
        for k in np.unique(labels[index]):
            own = labels[index] == k
            turns[own] = np.arange(own.sum())
        index = np.sort(index[np.argsort(turns, kind="stable")[:MOST_LABELS]])
        return cls(index, np.eye(int(labels.max()) + 1)[labels[index]])

    def spread(self, values: AnyArray, n: int) -> AnyArray:
        """Values of the labelled samples as rows among zeros of n samples."""
        rows = np.zeros((n, values.shape[1]), values.dtype)
        rows[self.index] = values
        return rows


def pooled(logs: Sequence[AnyArray]) -> FloatArray:
    """Probabilities of the classes, (n_samples, n_classes), from the logarithms of several sources:
    their geometric mean."""
    return probabilities(np.mean(logs, axis=0))


def diffused_labels(N: Sparse, damping: float, seeds: Seeds, accuracy: float) -> AnyArray:
    """The logarithms that the diffusion of labels over a normalised graph gives."""
    n, Y = N.shape[0], seeds.indicator
    solve = DiffusedTable(N, damping, accuracy=accuracy, n_probes=1, dtype=np.float32).solve
    masses = solve(np.ones((n, 1), np.float32))[seeds.index, 0].astype(np.float64)  # of each label
    scores = solve(seeds.spread(Y, n).astype(np.float32)) * _inverse(masses @ Y)
    least = LEAST_SCORE * max(float(scores.max()), np.finfo(float).tiny)
    return sharpened(np.log(np.maximum(scores, least)))


@dataclass(frozen=True)
class Linear:
    """Scores of the ridge for samples of unit length: ``x @ weights + offset``; ``sharpness`` makes
    them probabilities."""

    weights: FloatArray  # (n_features, n_classes)
    offset: FloatArray  # (n_classes,)
    sharpness: float = 1.0

    def logs(self, X: Table) -> FloatArray:
        """The logarithms that samples, known or new, get."""
        return np.log(probabilities(self.sharpness * self.scores(X)) + FLOOR)

    def scores(self, X: Table) -> FloatArray:
        """Before sharpening."""
        products = np.asarray(X @ self.weights.astype(X.dtype), np.float64)
        return products * _inverse(X.row_lengths)[:, None] + self.offset


def ridge(X: Table, seeds: Seeds) -> Linear:
    """Ridge regression of the classes on the rows of a table at unit length."""
    n, index, Y = X.shape[0], seeds.index, seeds.indicator
    scale = _inverse(X.row_lengths)
    sizes = Y.sum(axis=0)
    balance = Y @ sizes  # the number of labels of each one's class
    centre = np.full(n, 1 / n)  # as a mean of rows
    if len(index) >= SEVERAL * len(sizes):
        centre = np.zeros(n)
        centre[index] = 1 / balance / (1 / balance).sum()

    def combined(shares: AnyArray) -> FloatArray:
        """These combinations of rows, as columns."""
        return np.asarray(X.T @ (scale[:, None] * shares).astype(X.dtype), np.float64)

    middle = combined(centre[:, None])
    at = np.asarray(X @ middle.astype(X.dtype), np.float64)[index, 0] * scale[index]
    length2 = float(np.square(middle).sum())
    K = _labelled_products(X, index, scale) - at[:, None] - at + length2
    share = max(RIDGE * float(np.trace(K)) / len(K), float(np.finfo(np.float32).eps))
    K[np.diag_indices_from(K)] += share * balance * (1 / balance).mean()
    solved = np.linalg.solve(K, Y - 1 / len(sizes))
    total = solved.sum(axis=0)
    linear = Linear(
        combined(seeds.spread(solved, n)) - middle * total, length2 * total - at @ solved
    )
    return replace(linear, sharpness=sharpness(linear.scores(X)))


def _labelled_products(X: Table, index: IntArray, scale: FloatArray) -> FloatArray:
    """The products of the labelled rows, at unit length, with each other."""
    K = np.empty((len(index), len(index)))
    for a in range(0, len(index), BLOCK):
        rows = index[a : a + BLOCK]
        units = sp.csr_array(
            (scale[rows].astype(X.dtype), (rows, np.arange(len(rows)))), (X.shape[0], len(rows))
        )
        products = np.asarray(X @ np.asarray(as_dense(X.T @ units)))
        K[:, a : a + BLOCK] = products[index] * scale[index, None]
    return K


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
