"""The leading eigenvectors of a graph, all copies of a repeated eigenvalue included.

A normalised graph has the eigenvalue 1 once for each of its parts, and Lanczos from one vector
finds one copy of each eigenvalue. A block method finds them all: subspace iteration, sped up by a
Chebyshev polynomial that is small on the unwanted interval and grows outside it. Nothing but
products with N and small factorizations, so the cost is linear in the number of edges.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse.csgraph as csgraph

from conecollapse._linalg import RowBlocks, unit_rows
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, FloatArray, Sparse

ALL_UP_TO = 600  # vertices up to which all eigenvectors are computed
DEGREE, ROUNDS = 10, 12  # of the polynomial; at most so many filters
SETTLED = 1e-4  # a round that moves no eigenvalue by more ends the iteration
ONE_VALUE = 1e-5  # eigenvalues that are closer count as one
UNSEEN = 1e-6  # rows of the vectors that are so much shorter than the longest are rounding
MARGIN = 0.98  # the filter damps up to this share of the smallest Ritz value of the block


def leading_eigenpairs(N: Sparse, k: int, rng: np.random.Generator) -> tuple[FloatArray, AnyArray]:
    """The k largest eigenvalues of a symmetric N with spectrum in [-1, 1], largest first, and their
    vectors as columns.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> values, _ = leading_eigenpairs(
    ...     sp.csr_array(np.kron(np.eye(3), np.ones((2, 2)) / 2)), 4, np.random.default_rng(0)
    ... )
    >>> values.round(6) + 0.0
    array([1., 1., 1., 0.])
    """
    n = N.shape[0]
    k = min(k, n)
    if n <= ALL_UP_TO:
        values, vectors = scipy.linalg.eigh(N.toarray(), subset_by_index=[n - k, n - 1])
        return np.minimum(values[::-1], 1.0), vectors[:, ::-1]
    # blocks this narrow gain nothing from a second thread, and lose much where other work holds a
    # core
    with serial_blas():
        return _chebyshev_iteration(N.astype(np.float32), k, min(n, k + max(16, k // 8)), rng)


def spectral_places(N: Sparse, values: FloatArray, vectors: AnyArray, r: int) -> AnyArray:
    """The rows of the first r eigenvectors at unit length; zero for samples that these do not see.

    Vectors of one eigenvalue are found in any rotation. Where these are more than fit into r, as in
    a graph with more than r parts, they are turned so that large parts come first.
    """
    same = np.abs(values - values[min(r, len(values)) - 1]) < ONE_VALUE
    if same[r:].any():
        _, part = csgraph.connected_components(N, directed=False)
        size = np.bincount(part)[part] - np.arange(len(part)) / len(part)
        V = vectors[:, same]
        vectors = vectors.copy()
        vectors[:, same] = V @ scipy.linalg.eigh(V.T @ (size[:, None] * V))[1][:, ::-1]
    places, lengths = unit_rows(vectors[:, :r])
    places[lengths <= UNSEEN * lengths.max()] = 0.0
    return np.asarray(places)


def _chebyshev_iteration(
    N: Sparse, k: int, width: int, rng: np.random.Generator
) -> tuple[FloatArray, AnyArray]:
    """Filtered subspace iteration with a block of so many columns."""
    n = N.shape[0]
    blocks = RowBlocks(N)
    Q = np.linalg.qr(rng.standard_normal((n, width)).astype(np.float32))[0]
    damped, values = 0.0, np.full(width, np.inf)
    for _ in range(ROUNDS):
        Q = np.linalg.qr(_filter(blocks, Q, damped))[0]
        H = Q.T @ (N @ Q)
        new, U = np.linalg.eigh((H + H.T) / 2)
        new, Q = new[::-1].astype(np.float64), Q @ U[:, ::-1]
        moved = np.abs(new[:k] - values[:k]).max()
        values, damped = new, max(MARGIN * float(new[-1]), 0.0)
        if moved < SETTLED:
            break
    return np.minimum(values[:k], 1.0), Q[:, :k].astype(np.float64)


def _filter(N: RowBlocks, Q: AnyArray, damped: float) -> AnyArray:
    """The Chebyshev polynomial of N that is at most 1 on [-1, damped], applied to Q."""
    half, middle = np.float32((damped + 1) / 2), np.float32((damped - 1) / 2)
    before, now = Q.copy(), np.empty_like(Q)

    def first(block: Sparse, rows: slice) -> None:
        now[rows] = (block @ Q - middle * Q[rows]) / half

    # the new vectors take the place of those before the last
    def further(block: Sparse, rows: slice) -> None:
        product = block @ now
        product -= middle * now[rows]
        product *= 2 / half
        np.subtract(product, before[rows], out=before[rows])

    N.each(first)
    for _ in range(DEGREE - 1):
        N.each(further)
        before, now = now, before
    return now
