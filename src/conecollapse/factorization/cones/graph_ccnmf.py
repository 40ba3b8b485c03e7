r"""CC-NMF of a diffused table, with everything chosen from the data and nothing from labels:
`GraphCCNMF`.

1. Identical samples are merged into one, with weight the square root of their number. Of a table
   that does not fit into memory the samples are represented by coordinates
   (`conecollapse.affinity.sketch`), and it counts as dense in step 3.
2. Views give graphs of shared neighbours. The one with the smaller eigengap ratio for r clusters is
   taken (`conecollapse.affinity.views`), for counts the one whose clusters predict best
   (`conecollapse.affinity.counts`). Neighbours of more than 20,000 samples are approximate
   (`conecollapse.affinity.neighbors`).
3. The graph is diffused, :math:`P = (I - aN)^{-1}`. Sparse tables that are compared by their
   features: the points of the cone are the columns of P B, B the samples with unit rows, and the
   rows of P B are brought to unit length. Others: B is the identity, so they are the columns of P.
4. EM-ONMF of the weighted rays, from k-means on the spectral embedding, several starts, the best
   objective.

**The cone.** P is invertible, and so is the scaling of rows; an invertible map takes extreme rays
to extreme rays. So the rays of P B are the images of those of B: the cone of the columns of B is
all that stage 1 has to find. A quick cone does: a point that it leaves open may or may not be a
ray, and is kept as one. Where B is the identity, all columns are rays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp

from conecollapse._iterate import Stopping
from conecollapse._linalg import is_sparse, unit_columns, unit_rows
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse
from conecollapse.affinity.graphs import SELF_LOOP, diffused, neighbor_rows
from conecollapse.affinity.neighbors import are_mostly_zeros, as_compared
from conecollapse.affinity.sketch import GATHERED, SAMPLE_ROWS, gathered, random_rows
from conecollapse.affinity.views import N_NEIGHBORS, Choice, Samples, choose_view
from conecollapse.factorization.cones.ccnmf import data_cone, ray_weights, weighted_rays
from conecollapse.factorization.initial_factors import spectral_embedding
from conecollapse.factorization.orthogonal import prepared
from conecollapse.factorization.orthogonal.clamped import ClampedClusters, Judgement
from conecollapse.factorization.orthogonal.constraints import Constraints
from conecollapse.factorization.orthogonal.evidence import Seeds, diffused_labels, pooled, ridge
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.factorization.result import Factorization
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.invertible import part_of_invertible
from conecollapse.tables import (
    CsrTable,
    DenseTable,
    DiffusedTable,
    Table,
    as_blocked,
    as_table,
    stored,
)
from conecollapse.tables.diffused import N_PROBES

DAMPING = 0.6  # share that each step of the diffusion keeps; 0.5 to 0.8 give the same clusters
# shares with which samples are diffused for the evidence of labels, and labels themselves
FAR, FARTHER = 0.9, 0.99
ACCURACY = 1e-4  # of the diffusion where it is applied and not formed
# samples up to which the diffusion is formed; with more of them applying it is faster
FORMED_N = 600
MANY_SAMPLES = 5000  # beyond this, half of the starts do
FEW_PROBES = 64  # and so many random vectors for the lengths of rows, to about 12 %
LEAST_SAMPLES = 2  # times r: with fewer distinct samples copies are left alone
CONE_TOL = 1e-8  # of the cone of the axes, which is exact


@dataclass(frozen=True)
class GraphFactorization:
    """What was chosen, and the factors of the diffused rays."""

    choice: Choice
    representatives: IntArray  # one sample for each set of identical ones
    group: IntArray  # (n_samples,) the set of each sample
    embedding: AnyArray  # (n_representatives, r) in which the starts were made
    A: AnyArray  # (n_samples, r) orthonormal
    S: AnyArray  # (r, c) of the weighted rays
    table: Table  # the weighted, diffused rays of the representatives, (n_representatives, c)
    cone: Cone  # of the columns of B
    placement: Placement
    stage2: Factorization
    judgement: Judgement | None = None  # of the representatives, where there are labels


@dataclass(frozen=True)
class Placement:
    """Where new samples stand among the diffused rays; it keeps the training samples of the view
    and r numbers for each of them."""

    choice: Choice
    damping: float
    n_neighbors: int
    images: AnyArray  # (n_representatives, r): P B S' of the training samples
    # (n_features, r) for sparse tables: what a sample's own entries add; None where B is the
    # identity
    loads: AnyArray | None
    judgement: Judgement | None = None  # of the training samples, where there are labels

    def placed(self, X: Table) -> tuple[AnyArray, Sparse]:
        """Rows of new samples in the diffused table times the loadings, their own entries and those
        of their neighbours diffused; and the nearest training samples as rows of a binary array.

        With its neighbours' edges ``N_new`` a new sample has the row ``b + a N_new P B``.
        """
        choice = self.choice
        samples = choice.view.of(stored(X, sparse=choice.is_sparse).array)
        k = min(self.n_neighbors, choice.samples.shape[0])
        near = neighbor_rows(samples, choice.samples, k, metric=choice.view.metric)
        edges = sp.csr_array(
            near @ sp.diags_array(1 / np.sqrt(k * np.maximum(choice.degrees, SELF_LOOP)))
        )
        C = self.damping * np.asarray(edges @ self.images)
        if self.loads is not None:
            C = C + np.asarray(unit_rows(samples)[0] @ self.loads)
        return np.asarray(C, np.float64), near

    def decide(self, scores: AnyArray, near: Sparse) -> FloatArray:
        """Log-probabilities of the clusters for new samples from their scores and the evidence of
        their neighbours.

        How long a new sample's row is, is not known. So the largest share of its square that a
        cluster explains is taken to be that of its neighbours.
        """
        assert self.judgement is not None
        k = np.maximum(np.asarray(near.sum(axis=1)), 1.0)
        best = np.maximum(scores.max(axis=1, keepdims=True), np.finfo(float).tiny)
        peaks = (near @ self.judgement.peaks / k)[:, None]
        return self.judgement.decide(
            peaks * np.square(np.maximum(scores, 0) / best),
            (near @ self.judgement.evidence) / k[:, None],
        )


@dataclass(frozen=True)
class GraphOptions:
    """How samples are compared and joined, how far they are diffused, and what is held in
    memory."""

    view: str | int = "auto"
    n_neighbors: int = N_NEIGHBORS
    neighbors: str = "auto"
    damping: float = DAMPING
    formed: int = FORMED_N  # samples up to which the diffusion is formed
    gathered: int = GATHERED  # entries up to which a table is read into memory
    sample_rows: int = SAMPLE_ROWS  # samples that stand for a table beyond that


def graph_ccnmf(
    X: Table,
    starts: Starts,
    graph: GraphOptions | None = None,
    *,
    weighting: str = "mass",
    solver: str = "em",
    cone: Callable[[Table], Cone] = data_cone,
    constraints: Constraints | None = None,
    **stopping: Unpack[Stopping],
) -> GraphFactorization:
    """The recipe above on checked data; ``cone`` makes the cone of the columns of B for sparse
    tables. ``constraints`` need "em"."""
    graph, r, rng = graph or GraphOptions(), starts.r, starts.rng
    samples, representatives, group = distinct_samples(X, r, rng, graph)
    copies = np.bincount(group)
    choice = choose_view(
        samples,
        r,
        rng,
        view=graph.view,
        n_neighbors=graph.n_neighbors,
        neighbors=graph.neighbors,
    )
    # EM on rows scaled by the root of their mass, itself the root of their number
    row_weights = np.asarray(copies**0.25, np.float64)
    of_features = choice.is_sparse and choice.has_entries
    diffuse = _diffused_features if of_features else _diffused_graph
    rays = diffuse(choice, row_weights, weighting, graph, cone)
    embedding = spectral_embedding(rays.table, r, rng) if of_features else choice.places
    clamped = (
        None
        if constraints is None
        else _clamped(rays.table, choice, embedding, constraints.merged(group), stopping)
    )
    run = clamped or prepared(solver, rays.table, **stopping)
    init, n_init = starts.init, starts.n_init
    starts = replace(
        starts,
        init=np.asarray(init)[representatives] if np.shape(init) == group.shape else init,
        n_init=n_init if len(representatives) <= MANY_SAMPLES else max(1, n_init // 2),
        embedding=embedding,
        weights=np.sqrt(copies),
    )
    stage2 = best_of_starts(run, rays.table, starts)
    A = unit_columns((stage2.W / row_weights[:, None]).astype(X.dtype)[group])
    judgement = None if clamped is None else clamped.judgement(stage2)
    placement = Placement(
        choice,
        graph.damping,
        graph.n_neighbors,
        rays.images(stage2.H),
        rays.loads(stage2.H),
        judgement,
    )
    return GraphFactorization(
        choice,
        representatives,
        group,
        embedding,
        A,
        stage2.H,
        rays.table,
        rays.cone,
        placement,
        stage2,
        judgement,
    )


def _clamped(
    table: Table, choice: Choice, embedding: AnyArray, constraints: Constraints, stopping: Stopping
) -> ClampedClusters:
    """EM-ONMF under constraints, with evidence where there are labels."""
    evidence = None
    if constraints.n_classes:
        seeds = Seeds.of(constraints.labels)
        evidence = graph_evidence(choice.N, choice.samples, embedding, seeds)
    return ClampedClusters(table, constraints, evidence, **stopping)


def graph_evidence(N: Sparse, samples: Points, embedding: AnyArray, seeds: Seeds) -> FloatArray:
    """What labels say: ridges on the embedding and on the diffused samples, and the labels
    diffused."""
    B = samples if is_sparse(samples) else samples - samples.mean(axis=0)
    B = unit_rows(B)[0].astype(np.float32)
    far = DiffusedTable(N, FAR, B, unit_rows=True, accuracy=ACCURACY, dtype=np.float32)
    tables = as_table(embedding.astype(np.float32)), far
    logs = [ridge(table, seeds).logs(table) for table in tables]
    return pooled([*logs, diffused_labels(N, FARTHER, seeds, ACCURACY)])


@dataclass(frozen=True)
class _Rays:
    """The weighted, diffused rays, and how loadings S are carried over to samples."""

    table: Table
    cone: Cone
    weights: FloatArray  # (c,) of the columns of B that are rays: d_k / length
    row_weights: FloatArray
    n_features: int | None = None  # the columns of B; None where B is the identity
    diffused: DiffusedTable | None = None  # the table, where B is not the identity

    def images(self, S: AnyArray) -> AnyArray:
        """``P B S'`` with the rows as long as the diffusion leaves them."""
        if self.diffused is not None:
            return self.diffused.unscaled_times(S.T)
        return self.table @ S.T / self.row_weights.astype(self.table.dtype)[:, None]

    def loads(self, S: AnyArray) -> AnyArray | None:
        """What a sample's own row of B adds to its product with S; nothing where B is the identity,
        since only the sample itself has its column."""
        if self.n_features is None:
            return None
        loads = np.zeros((self.n_features, len(S)), np.float32)
        loads[self.cone.ray_indices] = self.weights[:, None] * S.T
        return loads


def _diffused_features(
    choice: Choice, row_weights: FloatArray, weighting: str, graph: GraphOptions, make_cone: Any
) -> _Rays:
    """The features of a sparse table, diffused, with rows of unit length."""
    B = CsrTable(sp.csr_array(unit_rows(choice.samples)[0]))
    cone = make_cone(B)
    lengths = B.column_lengths
    V = sp.csr_array(cone.point_coefficients.T @ sp.diags_array(lengths))
    d = ray_weights(V, weighting, np.float32)
    base = weighted_rays(cone, d, np.float32).array
    table = DiffusedTable(
        choice.N,
        graph.damping,
        base,
        row_weights=row_weights,
        unit_rows=True,
        accuracy=ACCURACY,
        dtype=np.float32,
    )
    weights = d / lengths[cone.ray_indices]
    return _Rays(table, cone, weights, row_weights, B.shape[1], table)


def _diffused_graph(
    choice: Choice,
    row_weights: FloatArray,
    weighting: str,
    graph: GraphOptions,
    make_cone: Any,  # noqa: ARG001
) -> _Rays:
    """The columns of the diffusion, as they are or at unit length: B is the identity, and its cone
    the orthant."""
    N, damping = choice.N, graph.damping
    n = N.shape[0]
    axes = sp.csr_array(sp.eye_array(n))
    cone = Cone(axes, part_of_invertible(axes, CONE_TOL).whole()[1])
    if n <= graph.formed:
        P = diffused(N, damping)
        weights = np.ones(n) if weighting == "mass" else 1 / np.linalg.norm(P, axis=0)
        table: Table = DenseTable(P * weights * row_weights[:, None])
        return _Rays(table, cone, weights, row_weights)
    weights = np.ones(n)
    if weighting != "mass":
        weights = 1 / DiffusedTable(N, damping, accuracy=ACCURACY, dtype=np.float32).column_lengths
    base = sp.csr_array(sp.diags_array(weights)).astype(np.float32)
    n_probes = N_PROBES if n <= MANY_SAMPLES else FEW_PROBES  # lengths only break ties here
    table = DiffusedTable(
        N,
        damping,
        base,
        row_weights=row_weights,
        accuracy=ACCURACY,
        n_probes=n_probes,
        dtype=np.float32,
    )
    return _Rays(table, cone, weights, row_weights)


def distinct_samples(
    X: Table, n_components: int, rng: np.random.Generator, graph: GraphOptions | None = None
) -> tuple[Samples, IntArray, IntArray]:
    """One sample for each set of identical ones, which these are, in order, and the set of each
    sample.

    Of a table that is not in memory and too large to be read into it, the samples are coordinates
    (`conecollapse.affinity.sketch`).
    """
    blocked = as_blocked(X)
    if blocked is None:
        representatives, group = identical(X.row_keys(), n_components)
        mostly_zeros = are_mostly_zeros(X.n_entries, X.shape)
        entries = as_compared(X.rows(representatives), mostly_zeros).array
        return Samples(entries, mostly_zeros), representatives, group
    blocked, graph = blocked.along(0), graph or GraphOptions()
    mostly_zeros = are_mostly_zeros(blocked.n_entries, blocked.shape)
    n_stored = blocked.n_entries if mostly_zeros else int(np.prod(blocked.shape))
    if n_stored <= graph.gathered:
        return distinct_samples(gathered(blocked), n_components, rng)
    representatives, group = identical(blocked.row_keys(), n_components)
    chosen, rows = random_rows(blocked, rng, graph.sample_rows)
    some = stored(as_table(rows), sparse=mostly_zeros).array
    samples = Samples(some, mostly_zeros, blocked, representatives, group[chosen])
    return samples, representatives, group


def identical(keys: list[bytes], n_components: int) -> tuple[IntArray, IntArray]:
    """One place for each distinct key, in order, and the number of each key; all of them when few
    would be left.

    Examples
    --------
    >>> identical([b"1", b"2", b"1", b"3", b"4"], 1)
    (array([0, 1, 3, 4]), array([0, 1, 0, 2, 3]))
    """
    n = len(keys)
    first: dict[bytes, int] = {}
    group = np.array([first.setdefault(key, len(first)) for key in keys])
    if len(first) <= LEAST_SAMPLES * n_components:
        return np.arange(n), np.arange(n)
    representatives = np.full(len(first), -1)
    representatives[group[::-1]] = np.arange(n)[::-1]
    return representatives, group
