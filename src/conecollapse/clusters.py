"""What labels say about a table: sizes of clusters, and the features that distinguish each from the
others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse

HALF = 0.5  # document that is added to counts, so that no share is zero
N_WORDS = 10  # of a topic that are listed
NO_CLUSTER = -1  # label of a sample that has nothing of any component


class TopFeature(NamedTuple):
    """A feature of a cluster: its column in X, its name, and its mean in the cluster minus its
    largest mean in another."""

    column: int
    name: str
    lead: float


def cluster_sizes(labels: Any, n_clusters: int, sample_weight: AnyArray | None = None) -> AnyArray:
    """Samples in each cluster, or the sum of their weights; those without one are not counted."""
    labels = np.asarray(labels)
    kept = labels != NO_CLUSTER
    weights = None if sample_weight is None else sample_weight[kept]
    return np.bincount(labels[kept], weights, minlength=n_clusters)


def cluster_means(X: Points, labels: Any, n_clusters: int) -> FloatArray:
    """The mean sample of each cluster in float64, (n_clusters, n_features); zeros for a cluster
    without samples."""
    labels = np.asarray(labels)
    rows = np.flatnonzero(labels != NO_CLUSTER)
    weights = 1.0 / cluster_sizes(labels, n_clusters)[labels[rows]]
    members = sp.csr_array((weights, (labels[rows], rows)), shape=(n_clusters, len(labels)))
    means = members @ X.astype(np.float64)
    return np.asarray(means.toarray() if sp.issparse(means) else means)


def largest_elsewhere(profiles: AnyArray, k: int) -> Any:
    """For each feature its largest mean in a cluster other than k; 0 where there is no other."""
    others = np.delete(profiles, k, axis=0)
    return others.max(axis=0) if len(others) else 0


def top_features(profiles: AnyArray, names: Any, count: int) -> list[list[TopFeature]]:
    """For each row of means the features that lead the other rows most, largest lead first."""
    lists = []
    for k, profile in enumerate(profiles):
        lead = profile - largest_elsewhere(profiles, k)
        lists.append(
            [
                TopFeature(int(j), str(names[j]), float(lead[j]))
                for j in np.argsort(-lead, kind="stable")[:count]
            ]
        )
    return lists


def topic_words(
    counts: Sparse, labels: IntArray, vocabulary: AnyArray, n_topics: int, n_words: int = N_WORDS
) -> list[list[str]]:
    """For each topic the words with the largest :math:`p \\log (p / q)`, see `conecollapse.texts`.

    Examples
    --------
    >>> X = sp.csr_array([[1, 1, 0], [2, 0, 0], [0, 1, 1], [0, 0, 3]])
    >>> topic_words(X, np.array([0, 0, 1, 1]), np.array(["a", "b", "c"]), 2, 1)
    [['a'], ['c']]
    """
    known = np.flatnonzero(labels != NO_CLUSTER)
    members = sp.csr_array(
        (np.ones(len(known)), (labels[known], known)), shape=(n_topics, counts.shape[0])
    )
    holds = sp.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    inside = (members @ holds).toarray()
    sizes = np.bincount(labels[known], minlength=n_topics)[:, None]
    p = (inside + HALF) / (sizes + 1)
    q = (inside.sum(axis=0) - inside + HALF) / (sizes.sum() - sizes + 1)
    # a topic of all documents has no others to differ from: the words most of its documents hold
    score = np.where(inside > 0, np.where(sizes < sizes.sum(), p * np.log(p / q), p), -np.inf)
    order = np.argsort(-score, axis=1, kind="stable")[:, :n_words]
    return [
        [str(vocabulary[j]) for j in best if row[j] > 0]
        for row, best in zip(score, order, strict=True)
    ]


def largest_first(
    labels: IntArray, masses: AnyArray, sample_weight: AnyArray | None = None
) -> IntArray:
    """The order of clusters by their number of samples, largest first; equal ones by mass, then as
    they stand."""
    sizes = cluster_sizes(labels, len(masses), sample_weight)
    return np.lexsort((np.arange(len(masses)), -masses, -sizes))
