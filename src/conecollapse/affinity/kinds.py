"""Affinities: what is factorized in place of the table, and where new samples stand in it.

An affinity is an object with scikit-learn's parameters, so that ``affinity__n_neighbors`` can be
searched over. `Affinity.source` makes of a table what is factorized: a `Source`, which also places
new samples.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from conecollapse._errors import InvalidInputError
from conecollapse._types import IntArray, Sparse
from conecollapse.affinity.graphs import (
    DENSE_N,
    SELF_LOOP,
    check_graph,
    diffused_graph,
    graph_of,
    n_parts,
    neighbor_rows,
)
from conecollapse.affinity.neighbors import as_compared
from conecollapse.tables import CsrTable, ProductTable, Table

SHORTHANDS = ("knn", "diffusion", "precomputed")


@dataclass(frozen=True)
class Source:
    """The table to factorize: X itself, or a graph of its samples."""

    table: Table | None  # None once it is forgotten
    # whether the columns are samples, so that the factors do not have the scale of X
    is_graph: bool = False

    def place(self, X: Table) -> Table:
        """The rows that samples, known or new, have in the table."""
        return X

    def forget(self) -> Source:
        """Without the table, where new samples do not need it: a fitted model does not hold on to
        its data."""
        return replace(self, table=None)


class Affinity(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the affinities."""

    is_graph = True  # of neighbours: a sample of zeros has none, and is left out

    @abstractmethod
    def source(self, X: Table, n_components: int) -> Source:
        """What is factorized for the samples X."""


class Precomputed(Affinity):
    """X is a symmetric graph of samples already, (n_samples, n_samples)."""

    is_graph = False

    def source(self, X: Table, n_components: int) -> Source:
        G = check_graph(X.array)
        n = G.shape[0]
        _warn_of_parts(G, n_components)
        if n > 2 and G.nnz == n * (n - 1) and not G.diagonal().any():
            warnings.warn(
                "X joins every pair of samples and none with itself: if it holds distances, pass"
                " similarities instead.",
                stacklevel=5,
            )
        return Source(X)


class KNN(Affinity):
    """The symmetric graph of nearest neighbours: two samples are joined when either is among the
    other's nearest.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each sample, itself not counted.
    metric : {"auto", "euclidean", "cosine"}
        "auto" is cosine where at most a tenth of the entries are not zero (text), else Euclidean.
    neighbors : {"auto", "exact", "approximate"}
        "auto" is exact for up to 20,000 samples and for tables that are mostly zeros, else
        approximate (about 97 % of them are found).

    Examples
    --------
    >>> from conecollapse import CCNMF, affinity
    >>> CCNMF(2, affinity=affinity.KNN(n_neighbors=3)).get_params()["affinity__n_neighbors"]
    3
    """

    def __init__(self, n_neighbors: int = 5, metric: str = "auto", neighbors: str = "auto") -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.neighbors = neighbors

    def source(self, X: Table, n_components: int) -> Source:
        samples, G = self._graph(X, n_components)
        return _Neighbours(CsrTable(G.astype(X.dtype)), True, self, samples, known_samples(X))

    def _graph(self, X: Table, n_components: int) -> tuple[Table, Sparse]:
        samples = as_compared(X)
        G = graph_of(samples.array, self.n_neighbors, self.metric, "binary", self.neighbors)
        _warn_of_parts(G, n_components)
        return samples, G


class Diffusion(KNN):
    """The diffusion ``(I - damping N)^-1`` of the graph of nearest neighbours, which also counts
    the neighbours of neighbours.

    Parameters
    ----------
    n_neighbors, metric, neighbors
        As in `KNN`.
    damping : float
        The share, in (0, 1), that each further step over the graph keeps.
    """

    _formed: ClassVar[int] = DENSE_N  # samples up to which it is formed

    def __init__(
        self,
        n_neighbors: int = 5,
        metric: str = "auto",
        damping: float = 0.8,
        neighbors: str = "auto",
    ) -> None:
        super().__init__(n_neighbors, metric, neighbors)
        self.damping = damping

    def source(self, X: Table, n_components: int) -> Source:
        samples, G = self._graph(X, n_components)
        degrees = np.asarray(G.sum(axis=1)).ravel() + SELF_LOOP
        table = diffused_graph(G, self.damping, dtype=X.dtype, formed=self._formed)
        return _Diffused(table, True, self, samples, known_samples(X), degrees)


@dataclass(frozen=True)
class _Neighbours(Source):
    """Rows of the graph of nearest neighbours. A new sample is joined to its nearest known ones."""

    affinity: Any = None
    samples: Any = None
    known: dict[bytes, int] | None = None  # where a sample stands that is identical to a known one

    def place(self, X: Table) -> Table:
        index = find(X, self.known or {})
        rows = self._rows_of_known(index)
        new = np.flatnonzero(index < 0)
        if len(new):
            near = neighbor_rows(
                as_compared(X.rows(new), self.samples.is_sparse).array,
                self.samples.array,
                self.affinity.n_neighbors,
                metric=self.affinity.metric,
            )
            spread = sp.csr_array(
                (np.ones(len(new)), (new, np.arange(len(new)))), shape=(len(index), len(new))
            )
            rows = rows + spread @ self._edges(near)
        return self._table_of(sp.csr_array(rows).astype(X.dtype))

    def _rows_of_known(self, index: IntArray) -> Sparse:
        assert self.table is not None
        return selector(index, self.samples.shape[0]) @ self.table.array

    def _edges(self, near: Sparse) -> Sparse:
        return near

    def _table_of(self, rows: Sparse) -> Table:
        return CsrTable(rows)

    def forget(self) -> Source:
        return self


@dataclass(frozen=True)
class _Diffused(_Neighbours):
    """Rows of the diffusion M. A new sample joined to its neighbours has the row ``a N_new M``,
    apart from its own column."""

    degrees: Any = None

    def _rows_of_known(self, index: IntArray) -> Sparse:
        return selector(index, self.samples.shape[0])

    def _edges(self, near: Sparse) -> Sparse:
        scale = self.affinity.damping / np.sqrt(
            self.affinity.n_neighbors * np.asarray(self.degrees)
        )
        return sp.csr_array(near @ sp.diags_array(scale))

    def _table_of(self, rows: Sparse) -> Table:
        assert self.table is not None
        return ProductTable(rows, self.table)


def resolve(affinity: Any) -> Affinity | None:
    """The affinity that an argument means; None for the table itself."""
    if affinity is None or isinstance(affinity, Affinity):
        return affinity
    if isinstance(affinity, str) and affinity in SHORTHANDS:
        return {"knn": KNN, "diffusion": Diffusion, "precomputed": Precomputed}[affinity]()  # type: ignore[return-value]
    hint = (
        " The recipe that chooses a graph by itself is GraphCCNMF."
        if isinstance(affinity, str) and affinity == "auto"
        else ""
    )
    raise InvalidInputError(
        f"affinity must be None, one of {', '.join(SHORTHANDS)}, or an object such as"
        f" affinity.KNN(n_neighbors=5); got {affinity!r}.{hint}"
    )


def known_samples(X: Table) -> dict[bytes, int]:
    """For each distinct sample where it first stands."""
    known: dict[bytes, int] = {}
    for i, key in enumerate(X.row_keys()):
        known.setdefault(key, i)
    return known


def find(X: Table, known: dict[bytes, int]) -> IntArray:
    """Where each sample stands among the known ones; -1 for new ones."""
    return np.array([known.get(key, -1) for key in X.row_keys()], np.int64)


def selector(index: IntArray, n: int) -> Sparse:
    """A CSR array that picks row ``index[i]`` for row i, and nothing where that is -1."""
    rows = np.flatnonzero(index >= 0)
    return sp.csr_array((np.ones(len(rows)), (rows, index[rows])), shape=(len(index), n))


def _warn_of_parts(G: Sparse, n_components: int) -> None:
    parts = n_parts(G)
    if parts > n_components:
        warnings.warn(
            f"the graph of samples falls into {parts} parts that no edge joins, more than"
            f" n_components = {n_components}; clusters will mix unrelated parts. Raise n_neighbors"
            " or n_components.",
            stacklevel=6,
        )
