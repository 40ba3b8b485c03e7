r"""CC-NMF of a diffused table, with everything chosen from the data and nothing from labels: ``CCNMF(affinity="auto")``.

1. Identical samples are one sample, of mass the square root of their number: no crowd of copies rules a cluster.
2. Two views give two graphs of shared neighbours; the one that is least loose for r clusters is taken (`views`).
3. The graph is diffused, :math:`P = (I - aN)^{-1}`. Dense tables: the points of the cone are the columns of P. Sparse tables: those of
   P B, B the samples with unit rows, and the rows of P B are brought to unit length.
4. EM-ONMF of the weighted rays, from k-means on the spectral embedding, several starts, the best objective.

**The cone.** P is invertible, and so is the scaling of rows; an invertible map takes extreme rays to extreme rays. So the rays of P B
are the images of those of B: the certified cone of the features themselves is all that stage 1 has to find, and an epsilon-cone of few
rays is chosen there too. For dense tables B is the identity: all columns of P are rays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import unit_rows
from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.factorization.ccnmf import column_lengths, data_cone, ray_weights, weighted_rays
from conecollapse.factorization.data import Factorization
from conecollapse.factorization.inits import spectral_embedding
from conecollapse.factorization.onmf import prepared
from conecollapse.factorization.onmf.multiplicative import unit_columns
from conecollapse.factorization.restarts import best_of_starts
from conecollapse.factorization.views import N_NEIGHBORS, Choice, as_stored, choose_view
from conecollapse.geometry.cone import Cone
from conecollapse.graphs import DENSE_N, SELF_LOOP, Diffusion, diffused, neighbor_rows

DAMPING = 0.6  # share that each step of the diffusion keeps; 0.5 to 0.8 give the same clusters
ACCURACY = 1e-4  # of the diffusion where it is applied and not formed
MANY_SAMPLES = 5000  # beyond this, half of the starts do
LEAST_SAMPLES = 2  # times r: with fewer distinct samples copies are left alone


@dataclass(frozen=True)
class AutoFactorization:
    """What was chosen, and the factors of the diffused rays."""

    choice: Choice
    representatives: IntArray  # one sample for each set of identical ones
    group: IntArray  # (n_samples,) the set of each sample
    embedding: AnyArray  # (n_representatives, r) in which the starts were made
    A: AnyArray  # (n_samples, r) orthonormal
    S: AnyArray  # (r, c) of the weighted rays
    table: Points  # the weighted, diffused rays of the representatives, (n_representatives, c)
    cone: Cone | None  # of the features, for sparse tables
    weights: FloatArray  # (c,) from features to weighted rays: d_k / length
    row_weights: FloatArray  # (n_representatives,)
    stage2: Factorization


@dataclass(frozen=True)
class Placement:
    """Where new samples stand among the diffused rays; it keeps the training samples of the view and r numbers for each of them."""

    choice: Choice
    images: AnyArray  # (n_representatives, r): P B S' of the training samples
    rays: IntArray | None  # for sparse tables: which features, and their share of a sample's own entries
    loads: AnyArray | None  # (c, r)

    @classmethod
    def of(cls, found: AutoFactorization) -> Placement:
        """From what was found."""
        table, St = found.table, found.S.T
        if found.cone is None:
            images = table @ St / (1.0 if not isinstance(table, Diffusion) or table.rows is None else table.rows)
            return cls(found.choice, images if isinstance(table, Diffusion) else images / found.row_weights[:, None], None, None)
        return cls(found.choice, table.solve(np.asarray(table.base @ St)), found.cone.ray_indices, found.weights[:, None] * St)

    def products(self, X: Points) -> AnyArray:
        """Rows of new samples in the diffused table times the loadings: their own entries, and those of their neighbours diffused.

        With its neighbours' edges ``N_new`` a new sample has the row ``b + a N_new P B``.
        """
        choice = self.choice
        samples = choice.view.of(as_stored(X, choice.is_sparse))
        k = min(N_NEIGHBORS, choice.samples.shape[0])
        near = neighbor_rows(samples, choice.samples, k, metric=choice.view.metric)
        edges = sp.csr_array(near @ sp.diags_array(1 / np.sqrt(k * np.maximum(choice.degrees, SELF_LOOP))))
        C = DAMPING * np.asarray(edges @ self.images)
        if self.rays is not None:
            C = C + np.asarray(unit_rows(samples)[0][:, self.rays] @ self.loads)
        return np.asarray(C, np.float64)


def auto_ccnmf(
    X: Points,
    n_components: int,
    *,
    solver: str = "em",
    init: Any = "spectral",
    n_init: int = 10,
    cone: Any = data_cone,
    weighting: str = "mass",
    tol: float = 1e-6,
    max_iter: int = 100,
    rng: np.random.Generator,
    damping: float = DAMPING,
    n_neighbors: int = N_NEIGHBORS,
    which: int | None = None,
) -> AutoFactorization:
    """The recipe above on checked data; ``cone`` makes the cone of the columns of a sparse table.

    The last three arguments are for experiments: what happens with other constants, or with one view instead of the better of two.
    """
    representatives, group = distinct_samples(X, n_components)
    copies = np.bincount(group)
    choice = choose_view(X[representatives], n_components, rng, n_neighbors=n_neighbors, which=which)
    row_weights = np.asarray(copies**0.25, np.float64)  # EM on rows scaled by the root of their mass, itself the root of their number
    found: Cone | None = None
    if choice.is_sparse:
        B = sp.csr_array(unit_rows(choice.samples)[0])
        found = cone(B)
        lengths = column_lengths(B)
        V = sp.csr_array(found.point_coefficients.T @ sp.diags_array(lengths))
        d = ray_weights(V, weighting, np.float32)
        weights = d / lengths[found.ray_indices]
        base = weighted_rays(found, d, np.float32)
        table: Points = Diffusion(choice.N, damping, base, row_weights=row_weights, unit_rows=True, accuracy=ACCURACY, dtype=np.float32)
        embedding = spectral_embedding(table, n_components, rng)
    else:
        table, weights = _diffused_graph(choice, row_weights, weighting, damping)
        embedding = unit_rows(choice.vectors)[0]
    run = prepared(solver, table, tol=tol, max_iter=max_iter)
    n_starts = n_init if len(representatives) <= MANY_SAMPLES else max(1, n_init // 2)
    stage2 = best_of_starts(run, table, n_components, init, n_starts, rng, embedding=embedding, weights=np.sqrt(copies))
    A = unit_columns((stage2.W / row_weights[:, None]).astype(X.dtype)[group])
    return AutoFactorization(choice, representatives, group, embedding, A, stage2.H, table, found, weights, row_weights, stage2)


def _diffused_graph(choice: Choice, row_weights: FloatArray, weighting: str, damping: float) -> tuple[Points, FloatArray]:
    """The columns of the diffusion, as they are or at unit length, and their weights."""
    N = choice.N
    if N.shape[0] <= DENSE_N:
        P = diffused(N, damping)
        lengths = np.linalg.norm(P, axis=0)
        weights = np.ones(len(lengths)) if weighting == "mass" else 1 / lengths
        return P * weights * row_weights[:, None], weights
    whole = Diffusion(N, damping, accuracy=ACCURACY, dtype=np.float32)
    weights = np.ones(N.shape[0]) if weighting == "mass" else 1 / whole.row_lengths
    base = sp.csr_array(sp.diags_array(weights)).astype(np.float32)
    return Diffusion(N, damping, base, row_weights=row_weights, accuracy=ACCURACY, dtype=np.float32), weights


def distinct_samples(X: Points, n_components: int) -> tuple[IntArray, IntArray]:
    """One sample for each set of identical ones, in order, and the set of each sample; all of them when few would be left.

    Examples
    --------
    >>> import numpy as np
    >>> distinct_samples(np.array([[1.0], [2.0], [1.0], [3.0], [4.0]]), 1)
    (array([0, 1, 3, 4]), array([0, 1, 0, 2, 3]))
    """
    n = X.shape[0]
    if sp.issparse(X):
        rows = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    else:
        rows = [row.tobytes() for row in np.ascontiguousarray(X)]
    first: dict[bytes, int] = {}
    group = np.array([first.setdefault(row, len(first)) for row in rows])
    if len(first) <= LEAST_SAMPLES * n_components:
        return np.arange(n), np.arange(n)
    representatives = np.full(len(first), -1)
    representatives[group[::-1]] = np.arange(n)[::-1]
    return representatives, group
