"""Which methods run under which protocol. A method is a name and a function that makes a new model
for r clusters and a seed.

- ``ours``: `GraphCCNMF`.
- ``others``, "Other methods": k-means and spherical k-means of the samples, and spectral clustering
  of the graph below; the best of ten starts by their own objective, of three for more than 5000
  samples.
- ``graph``, "On a graph": the paper's methods on the symmetric binary graph of 5 nearest neighbours
  of the samples.
- ``printed``, "As printed": the paper's methods as it prints them, on the features (TF-IDF for
  text), one random start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._types import IntArray, Points
from conecollapse.affinity import KNN
from conecollapse.affinity.graphs import knn_graph, normalized
from conecollapse.affinity.spectrum import leading_eigenpairs
from conecollapse.estimators import (
    CCNMF,
    AlternatingNMF,
    GraphCCNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SparseNMF,
)
from conecollapse.factorization.initial_factors import kmeans_labels

N_NEIGHBORS = 5
MAX_ITER, TOL = 100, 1e-4  # of the paper's methods; the paper does not say when it stopped
# starts of the other methods, and fewer for more samples than this
STARTS, FEWER, MANY_SAMPLES = 10, 3, 5000


@dataclass(frozen=True)
class Method:
    """One column of the scoreboard."""

    protocol: str
    name: str
    make: Callable[[int, int], Any]  # (n_components, seed) -> a model with fit_predict


def _paper(affinity: Any) -> dict[str, Callable[[int, int], Any]]:
    run: dict[str, Any] = {"affinity": affinity, "max_iter": MAX_ITER, "tol": TOL}
    shared = run | {"init": "random", "n_init": 1}
    return {
        "MU": lambda r, seed: MultiplicativeNMF(r, random_state=seed, **shared),
        "ANLS": lambda r, seed: AlternatingNMF(r, random_state=seed, **shared),
        "PNMF": lambda r, seed: ProjectiveNMF(r, random_state=seed, **shared),
        "ONMF": lambda r, seed: OrthogonalNMF(r, solver="ding", random_state=seed, **shared),
        "Sparse NMF": lambda r, seed: SparseNMF(r, random_state=seed, **shared),
        "CC-NMF": lambda r, seed: CCNMF.paper(r, random_state=seed).set_params(**run),
    }


class KMeansClusters:
    """k-means of the samples, or of the samples at unit length (spherical); the best of several
    starts by its own objective."""

    def __init__(self, n_components: int, seed: int, *, spherical: bool) -> None:
        self.n_components, self.seed, self.spherical = n_components, seed, spherical

    def fit_predict(self, X: Points) -> IntArray:
        from sklearn.cluster import KMeans
        from sklearn.preprocessing import normalize

        P = _coordinates(normalize(X) if self.spherical else X)
        if not self.spherical:
            labels: IntArray = KMeans(
                self.n_components, n_init=_starts(X), random_state=self.seed
            ).fit_predict(P)
            return labels
        rng = np.random.default_rng(self.seed)
        results = [_spherical(P, self.n_components, rng) for _ in range(_starts(X))]
        return max(results, key=lambda result: result[0])[1]


def _coordinates(X: Points) -> Points:
    """Dense samples in a space of at most n dimensions: X = L Q with orthonormal rows of Q, so L
    has all their inner products."""
    if sp.issparse(X) or X.shape[0] >= X.shape[1]:
        return X
    return np.asarray(np.linalg.qr(X.T, mode="r")).T


def _starts(X: Points) -> int:
    return STARTS if X.shape[0] <= MANY_SAMPLES else FEWER


def _spherical(
    U: Points, r: int, rng: np.random.Generator, max_iter: int = 100
) -> tuple[float, IntArray]:
    """Spherical k-means (Dhillon & Modha 2001) from r random samples: the sum of cosines to the own
    mean direction, and the labels."""
    centres = U[np.sort(rng.choice(U.shape[0], r, replace=False))]
    centres = centres.toarray() if sp.issparse(centres) else centres
    labels = np.full(U.shape[0], -1)
    while True:
        cosines = np.asarray(U @ centres.T)
        new = cosines.argmax(axis=1)
        max_iter -= 1
        if (new == labels).all() or not max_iter:
            return float(cosines[np.arange(len(new)), new].sum()), new
        labels = new
        members = sp.csr_array(
            (np.ones(len(labels), U.dtype), labels, np.arange(len(labels) + 1)),
            shape=(len(labels), r),
        )
        sums = members.T @ U
        sums = sums.toarray() if sp.issparse(sums) else sums
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(lengths > 0, sums / np.where(lengths > 0, lengths, 1.0), centres)


class SpectralClusters:
    """Spectral clustering (Ng, Jordan & Weiss 2002) of the binary graph of 5 nearest neighbours;
    k-means, best of several starts."""

    def __init__(self, n_components: int, seed: int) -> None:
        self.n_components, self.seed = n_components, seed

    def fit_predict(self, X: Points) -> IntArray:
        rng = np.random.default_rng(self.seed)
        G = knn_graph(X, N_NEIGHBORS)
        _, vectors = leading_eigenpairs(normalized(G), self.n_components, rng)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        E = vectors / np.where(lengths > 0, lengths, 1.0)
        results = [kmeans_labels(E, self.n_components, rng) for _ in range(_starts(X))]
        return min(results, key=lambda labels: _within(E, labels))


def _within(E: Any, labels: IntArray) -> float:
    """Sum of squared distances from the means of the clusters."""
    return float(
        sum(
            np.square(E[labels == k] - E[labels == k].mean(axis=0)).sum() for k in np.unique(labels)
        )
    )


METHODS: tuple[Method, ...] = (
    Method("ours", "GraphCCNMF", lambda r, seed: GraphCCNMF(r, random_state=seed)),
    Method("others", "k-means", lambda r, seed: KMeansClusters(r, seed, spherical=False)),
    Method("others", "spherical k-means", lambda r, seed: KMeansClusters(r, seed, spherical=True)),
    Method("others", "spectral", SpectralClusters),
    *(Method("graph", name, make) for name, make in _paper(KNN(N_NEIGHBORS)).items()),
    *(Method("printed", name, make) for name, make in _paper(None).items()),
)
# and their titles
PROTOCOLS = {
    "ours": "Ours",
    "others": "Other methods",
    "graph": "On a graph",
    "printed": "As printed",
}
