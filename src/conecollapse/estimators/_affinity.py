"""What a factorization is of: the table itself, or a graph of its samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, Points
from conecollapse.graphs import SELF_LOOP, check_graph, diffusion, knn_graph, n_parts, neighbor_rows

AFFINITIES = ("knn", "diffusion", "precomputed")
BLOCK = 1024  # new samples placed in a diffusion at a time


@dataclass(frozen=True)
class Input:
    """The matrix to factorize, and where new samples stand in it."""

    table: Points
    affinity: str | None
    samples: Points | None = None  # kept where new samples have to find their neighbours
    degrees: AnyArray | None = None
    n_neighbors: int = 0
    metric: str = "auto"
    damping: float = 0.0

    def rows(self, X: Points) -> Points:
        """Rows of the table for new samples: themselves, or their nearest training samples in the graph."""
        if self.affinity in (None, "precomputed"):
            return X
        near = neighbor_rows(X, self.samples, self.n_neighbors, metric=self.metric).astype(self.table.dtype)
        if self.affinity == "knn":
            return near
        # a new sample joined to its neighbours has the row a N_new M in (I - a N)^-1, apart from its own column
        assert self.degrees is not None
        weights = near @ sp.diags_array(1 / np.sqrt(self.n_neighbors * self.degrees).astype(self.table.dtype))
        blocks = [(self.table.T @ weights[a : a + BLOCK].toarray().T).T for a in range(0, X.shape[0], BLOCK)]
        return np.asarray(self.damping * np.vstack(blocks)).astype(self.table.dtype)


def make_input(X: Points, affinity: Any, *, n_neighbors: int, metric: str, damping: float, n_components: int) -> Input:
    """The input that ``affinity`` asks for."""
    if affinity is None:
        return Input(X, None)
    if affinity not in AFFINITIES:
        raise InvalidInputError(f"affinity must be None or one of {', '.join(AFFINITIES)}; got {affinity!r}.")
    G = check_graph(X) if affinity == "precomputed" else knn_graph(X, n_neighbors, metric=metric)
    _warn_of_parts(G, n_components)
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
            stacklevel=4,
        )
