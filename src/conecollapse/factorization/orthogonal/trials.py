r"""Where EM-ONMF starts: the most promising of many clusterings, tried in few coordinates.

With :math:`Z = U \Sigma` the samples in the r leading left singular vectors, :math:`Z Z^T` is the
best approximation of :math:`X X^T` of rank r, and a step of EM-ONMF on Z costs r columns in place
of all features. All starts take their steps on Z together, one product for all of them.

Two kinds of clusters are tried, because neither is best everywhere: those of k-means on the rows of
Z at unit length, in which every sample counts the same, and those that EM-ONMF on Z makes of them,
in which samples count by the squares of their lengths. The best of each go on to X itself, where
the objective decides.

The constants were chosen by the objective and the time on digits and on seven of the paper's sets
together (AMLALL, DUKE, KHAN, MED, UMIST, CITESEER, 7SECTORS), with none left out and on no
synthetic data.
"""

from __future__ import annotations

import numpy as np

from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.factorization.initial_factors import leading_coordinates, unit_vectors
from conecollapse.factorization.kmeans import lloyd, seeds, sums
from conecollapse.tables import Table

KMEANS_STEPS = 10  # of k-means; starts need not settle
EM_STEPS = 20
SETTLED = 1e-5  # relative change of the objective that ends a trial
BY_KMEANS, BY_EM = 1, 1  # how many go on
# trials whose objectives differ by less than this share of the squared norm count as one
ALIKE = 1e-6


def promising(
    X: Table, r: int, n_starts: int, rng: np.random.Generator, gram: AnyArray | None = None
) -> list[IntArray]:
    """The labels of the few starts, out of ``n_starts``, from which EM-ONMF of X should run;
    ``gram`` is X X' where it is at hand."""
    # in float64: rounding in float32 would lead to other clusters on another processor
    Z = np.asarray(leading_coordinates(X, r, rng, gram), np.float64)
    E = unit_vectors(Z)
    with serial_blas():  # products this small lose more than they gain by a second thread
        labels, within = lloyd(E, E[seeds(E, r, n_starts, rng)], max_iter=KMEANS_STEPS)
        tried, objective = try_em(Z, labels, r)
    by_kmeans = labels[distinct(within, BY_KMEANS, ALIKE * len(E))]
    by_em = tried[distinct(objective, BY_EM, ALIKE * float(np.square(Z).sum()))]
    return list({_partition(start): start for start in reversed([*by_kmeans, *by_em])}.values())[
        ::-1
    ]


def _partition(labels: IntArray) -> bytes:
    """The same for clusterings that differ in the numbers of their clusters only."""
    _, first, member = np.unique(labels, return_index=True, return_inverse=True)
    return bytes(first[member].astype(np.int64))


def try_em(Z: AnyArray, labels: IntArray, r: int) -> tuple[IntArray, FloatArray]:
    """EM-ONMF of Z from the clusters of each start (S, n): clusters, and objectives up to a
    constant."""
    labels, live = labels.copy(), np.arange(len(labels))
    scores = np.tile(np.sqrt(np.einsum("ij,ij->i", Z, Z)), (len(labels), 1))
    objective = np.full(len(labels), np.inf)
    norm2 = float(np.square(Z, dtype=np.float64).sum())
    for _ in range(EM_STEPS):
        directions = sums(scores[live], labels[live], r, Z).reshape(len(live) * r, -1)
        lengths = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        directions /= np.where(lengths > 0, lengths, 1.0)[:, None]
        table = (Z @ directions.T).reshape(len(Z), len(live), r)
        new = table.argmax(axis=2)
        scores[live] = np.maximum(
            np.take_along_axis(table, new[:, :, None], axis=2)[:, :, 0], 0.0
        ).T
        labels[live] = new.T
        now = norm2 - np.square(scores[live], dtype=np.float64).sum(axis=1)
        falls = objective[live] - now > SETTLED * np.abs(now)
        objective[live] = now
        live = live[falls]
        if not len(live):
            break
    return labels, objective


def distinct(objective: FloatArray, count: int, gap: float) -> IntArray:
    """The places of the ``count`` smallest objectives, in their own order; of those that are within
    ``gap`` of the smallest the first stands for all.

    Examples
    --------
    >>> distinct(np.array([3.0, 1.0, 1.1, 2.0]), 2, 0.5)
    array([1, 3])
    """
    kept, left = np.zeros(0, np.int64), np.array(objective)
    while len(kept) < count and left.min() < np.inf:
        alike = np.flatnonzero(left <= left.min() + gap)
        kept, left[alike] = np.append(kept, alike[0]), np.inf
    return np.sort(kept)
