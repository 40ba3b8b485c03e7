"""What a factorization is of: the table itself, or a graph of its samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, Points, Sparse
from conecollapse.blocks import BlockedTable
from conecollapse.factorization.data import squared_norm
from conecollapse.graphs import SELF_LOOP, check_graph, diffusion, knn_graph, n_parts, neighbor_rows

AFFINITIES = ("knn", "diffusion", "precomputed")
BLOCK = 1024  # new samples whose rows in a diffusion are formed at a time


@dataclass(frozen=True)
class Input:
    """The matrix to factorize, and where new samples stand in it."""

    table: Points
    affinity: str | None
    samples: Points = None  # kept where new samples have to find their neighbours
    degrees: AnyArray | None = None
    n_neighbors: int = 0
    metric: str = "auto"
    damping: float = 0.0

    @property
    def is_table(self) -> bool:
        """Whether the samples themselves are factorized, so that their scale is that of the factors."""
        return self.affinity in (None, "precomputed")

    def forget(self) -> Input:
        """Without the matrix, where new samples do not need it: a fitted model does not hold on to its data."""
        return self if self.affinity == "diffusion" else replace(self, table=None)

    def product(self, X: Points, B: AnyArray) -> AnyArray:
        """``R @ B`` for the rows R that new samples have in the table; of a diffusion they are never formed."""
        if self.is_table:
            return np.asarray(X @ B)
        near = self._neighbours(X)
        return np.asarray(near @ (B if self.affinity == "knn" else self.damping * (self.table @ B)))

    def squared_norm(self, X: Points) -> float:
        """Sum of the squares of these rows."""
        if self.is_table:
            return squared_norm(X)
        near = self._neighbours(X)
        if self.affinity == "knn":
            return squared_norm(near)
        blocks = (self.table.T @ near[a : a + BLOCK].toarray().T for a in range(0, X.shape[0], BLOCK))
        return self.damping**2 * sum(squared_norm(np.ascontiguousarray(block)) for block in blocks)

    def rows(self, X: Points) -> Points:
        """The rows themselves, for losses that look at entries."""
        return X if self.is_table else self.product(X, np.eye(self.samples.shape[0], dtype=X.dtype))

    def _neighbours(self, X: Points) -> Sparse:
        """Edges from new samples to known ones; for a diffusion scaled as in N.

        A new sample joined to its neighbours has the row ``a N_new M`` in ``(I - a N)^-1``, apart from its own column.
        """
        near = neighbor_rows(X, self.samples, self.n_neighbors, metric=self.metric)
        if self.affinity == "knn":
            return near.astype(X.dtype)
        scale = 1 / np.sqrt(self.n_neighbors * np.asarray(self.degrees))
        return sp.csr_array(near @ sp.diags_array(scale)).astype(X.dtype)


def make_input(X: Points, affinity: Any, *, n_neighbors: int, metric: str, damping: float, n_components: int) -> Input:
    """The input that ``affinity`` asks for."""
    if affinity is None:
        return Input(X, None)
    if isinstance(X, BlockedTable):
        raise InvalidInputError(f"affinity={affinity!r} needs the whole table in memory; a table in blocks is factorized as it is.")
    if affinity not in AFFINITIES:
        raise InvalidInputError(f"affinity must be None or one of {', '.join(AFFINITIES)}; got {affinity!r}.")
    G = check_graph(X) if affinity == "precomputed" else knn_graph(X, n_neighbors, metric=metric)
    _warn_of_parts(G, n_components)
    n = G.shape[0]
    if affinity == "precomputed" and n > 2 and G.nnz == n * (n - 1) and not G.diagonal().any():
        warnings.warn("X joins every pair of samples and none with itself: if it holds distances, pass similarities instead.", stacklevel=4)
    if affinity == "precomputed":
        return Input(X, affinity)
    if affinity == "knn":
        return Input(G.astype(X.dtype), affinity, X, None, n_neighbors, metric)
    degrees = np.asarray(G.sum(axis=1)).ravel() + SELF_LOOP
    return Input(diffusion(G, damping, dtype=X.dtype), affinity, X, degrees, n_neighbors, metric, damping)


def _warn_of_parts(G: Any, n_components: int) -> None:
    parts = n_parts(G)
    if parts > n_components:
        warnings.warn(
            f"the graph of samples falls into {parts} parts that no edge joins, more than n_components = {n_components}; "
            "clusters will mix unrelated parts. Raise n_neighbors or n_components.",
            stacklevel=5,
        )
