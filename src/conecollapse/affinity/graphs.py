r"""Graphs of samples as inputs of a factorization: nearest neighbours, and their diffusion.

A factorization of the table X sees features; one of a graph of its samples sees neighbourhoods, and
is often the better clustering. The symmetric graph G of k nearest neighbours is a non-negative n x
n matrix and may take the place of X. So may its *diffusion*

.. math:: M = (I - a N)^{-1} = I + a N + a^2 N^2 + \dots, \qquad N = D^{-1/2} G D^{-1/2},

which also counts the neighbours of neighbours, with weights that fall by a at each step. M is
dense. For few samples it is formed; for many it is applied (`conecollapse.tables.diffused`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph

from conecollapse._checks import as_matrix, as_points, check_finite, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._types import FloatArray, IntArray, Points, Sparse
from conecollapse.affinity.neighbors import as_compared, metric_of, nearest
from conecollapse.tables import DenseTable, DiffusedTable, Table, as_table

__all__ = ["check_graph", "diffused_graph", "knn_graph", "n_parts", "neighbor_rows", "normalized"]

WEIGHTS = ("binary", "cosine", "local", "shared")
DENSE_N = 3000  # samples up to which a diffusion is formed: 72 MiB and less than a second
# distances computed to tie small parts to the rest; samples of the rest they are tied to at least
TIED_PAIRS, FEWEST_TIES = 2**28, 1000
# weight of a sample with itself: an isolated one then has a degree, and no other notices
SELF_LOOP = 1e-6


def knn_graph(
    X: Points,
    n_neighbors: int = 5,
    *,
    metric: str = "auto",
    weights: str = "binary",
    neighbors: str = "auto",
) -> Sparse:
    r"""The symmetric graph of nearest neighbours: i and j are joined when either is among the
    other's k nearest.

    Parameters
    ----------
    X : (n_samples, n_features) array or CSR array
    n_neighbors : int
        Neighbours of each sample, itself not counted.
    metric : {"auto", "euclidean", "cosine"}
        "auto" is cosine where at most a tenth of the entries are not zero (text), else Euclidean.
    weights : {"binary", "cosine", "local", "shared"}
        1; the cosine of the two samples; the self-tuning kernel
        :math:`\exp(-d_{ij}^2 / \sigma_i \sigma_j)` with :math:`\sigma_i` the distance to the k-th
        neighbour (Zelnik-Manor & Perona 2004); or the share of neighbours that the two have in
        common, :math:`|N_i \cap N_j| / (k + 1)`, each sample counted among its own neighbours.
    neighbors : {"auto", "exact", "approximate"}
        "auto" is exact for up to 20,000 samples and for tables that are mostly zeros, else
        approximate (about 97 % of them are found).

    Returns
    -------
    (n_samples, n_samples) CSR array
        Symmetric, non-negative, with an empty diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> knn_graph(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]), 1).toarray().astype(
    ...     int
    ... )
    array([[0, 1, 0, 0],
           [1, 0, 0, 0],
           [0, 0, 0, 1],
           [0, 0, 1, 0]])
    """
    X = as_matrix(X, "X")
    check_finite(X, "X")
    return graph_of(as_compared(as_table(X)).array, n_neighbors, metric, weights, neighbors)


def graph_of(samples: Points, n_neighbors: int, metric: str, weights: str, search: str) -> Sparse:
    """`knn_graph` of samples as `as_compared` has them."""
    index, distance = nearest(
        samples, samples, n_neighbors, metric, exclude_self=True, search=search
    )
    directed = _weigh(index, distance, samples.shape[0], weights, metric_of(samples, metric))
    return sp.csr_array(directed.maximum(directed.T))


def neighbor_rows(X: Points, samples: Points, n_neighbors: int, *, metric: str = "auto") -> Sparse:
    """For each row of ``X`` its nearest ``samples``, as rows of a binary CSR array: where new
    samples stand in a known graph."""
    index, _ = nearest(X, samples, n_neighbors, metric, exclude_self=False)
    n, k = index.shape
    return sp.csr_array(
        (np.ones(n * k), index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, samples.shape[0])
    )


def _weigh(index: IntArray, distance: FloatArray, n: int, weights: str, metric: str) -> Sparse:
    """The directed graph with its weights."""
    k = index.shape[1]
    rows, columns = np.repeat(np.arange(n), k), index.ravel()
    if weights == "binary":
        values = np.ones(n * k)
    elif weights == "cosine":
        if metric != "cosine":
            raise InvalidInputError(
                'weights="cosine" needs metric="cosine"; for Euclidean neighbours use "local",'
                ' "shared" or "binary".'
            )
        values = np.maximum(1 - np.square(distance).ravel() / 2, 0.0)
    elif weights == "local":
        sigma = distance[:, -1]
        scale = np.maximum(sigma[rows] * sigma[columns], np.finfo(np.float64).tiny)
        values = np.exp(-np.minimum(np.square(distance).ravel() / scale, 700.0))
    elif weights == "shared":
        own = sp.csr_array((np.ones(n * k), (rows, columns)), shape=(n, n)) + sp.eye_array(n)
        values = shared_counts(sp.csr_array(own), rows, columns) / (k + 1)
    else:
        raise InvalidInputError(f"weights must be one of {', '.join(WEIGHTS)}; got {weights!r}.")
    return sp.csr_array((values, (rows, columns)), shape=(n, n))


def shared_counts(own: Sparse, rows: IntArray, columns: IntArray, block: int = 2**18) -> FloatArray:
    """For each pair of rows of a binary matrix the number of columns that they share."""
    parts = [
        np.asarray(
            own[rows[a : a + block]].multiply(own[columns[a : a + block]]).sum(axis=1)
        ).ravel()
        for a in range(0, len(rows), block)
    ]
    return np.concatenate(parts)


def normalized(G: Sparse, self_loop: float = SELF_LOOP) -> Sparse:
    """``N = D^-1/2 (G + self_loop I) D^-1/2``: symmetric, with eigenvalues in [-1, 1]."""
    G = sp.csr_array(G + self_loop * sp.eye_array(G.shape[0]))
    root = sp.diags_array(1 / np.sqrt(np.asarray(G.sum(axis=1)).ravel()))
    return sp.csr_array(root @ G @ root)


def n_parts(G: Sparse) -> int:
    """Number of connected parts."""
    return int(csgraph.connected_components(G, directed=False, return_labels=False))


def tie_small_parts(
    G: Sparse, X: Points, smallest: float, n_neighbors: int, metric: str
) -> tuple[Sparse, int]:
    """``G`` with every sample in a part of fewer than ``smallest`` samples joined to its nearest
    samples outside such parts.

    New edges have the least weight that shared neighbours give, ``1 / (k + 1)``. Also the number of
    samples so tied. Where that would be more than `TIED_PAIRS` distances, the nearest are sought
    among random samples outside such parts.
    """
    _, part = csgraph.connected_components(G, directed=False)
    is_small = np.bincount(part)[part] < smallest
    small, rest = np.flatnonzero(is_small), np.flatnonzero(~is_small)
    if not len(small) or len(rest) <= n_neighbors:
        return G, 0
    if len(small) * len(rest) > TIED_PAIRS:
        rest = np.sort(
            np.random.default_rng(0).choice(
                rest, min(max(TIED_PAIRS // len(small), FEWEST_TIES), len(rest)), replace=False
            )
        )
    near, _ = nearest(X[small], X[rest], n_neighbors, metric, exclude_self=False)
    rows, columns = np.repeat(small, n_neighbors), rest[near.ravel()]
    ties = sp.csr_array((np.full(len(rows), 1 / (n_neighbors + 1)), (rows, columns)), shape=G.shape)
    return sp.csr_array(G.maximum(ties).maximum(ties.T)), len(small)


def check_graph(G: Points, name: str = "X") -> Sparse:
    """``G`` as a CSR array; refused unless square and symmetric."""
    if G.shape[0] != G.shape[1]:
        raise InvalidInputError(f"{name} has shape {G.shape}; a graph of samples is square.")
    G = sp.csr_array(G)
    gap = abs(G - G.T)
    if gap.nnz and gap.max() > 1e-8 * max(abs(G).max(), 0.0):
        gap = gap.tocoo()
        at = int(gap.data.argmax())
        i, j = int(gap.row[at]), int(gap.col[at])
        raise InvalidInputError(
            f"{name} is not symmetric: entry ({i}, {j}) is {G[i, j]:.6g} and entry ({j}, {i}) is"
            f" {G[j, i]:.6g}; use G.maximum(G.T)."
        )
    return G


def diffused_graph(
    G: Sparse, damping: float = 0.8, *, dtype: Any = np.float64, formed: int = DENSE_N
) -> Table:
    """``(I - damping N)^-1`` of a symmetric graph as a table: formed for up to so many samples,
    beyond that applied."""
    damping = check_positive(damping, "damping", below=1.0)
    N = normalized(check_graph(as_points(G, "G", needs="a graph needs weights >= 0"), "G"))
    return (
        DiffusedTable(N, damping, dtype=dtype)
        if N.shape[0] > formed
        else DenseTable(diffused(N, damping).astype(dtype))
    )


def diffused(N: Sparse, damping: float) -> FloatArray:
    """``(I - damping N)^-1`` as an array, symmetric and non-negative to the last bit."""
    M = scipy.linalg.inv(np.eye(N.shape[0]) - damping * N.toarray())
    return np.asarray(np.maximum((M + M.T) / 2, 0.0))
