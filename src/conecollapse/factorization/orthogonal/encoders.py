"""Encoders of orthogonal factorizations: samples over clusters, over the rays of a cone, and over a
diffused graph; and how a few labels decide between clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.affinity.kinds import find, known_samples
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.factorization.orthogonal.clamped import ClampedClusters, Judgement, for_clusters
from conecollapse.factorization.orthogonal.constraints import UNKNOWN
from conecollapse.factorization.orthogonal.evidence import Linear, probabilities
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Equations, Table

Decide = Callable[[AnyArray], AnyArray]  # from scores to what the cluster is chosen by


@dataclass(frozen=True)
class LabelRule:
    """How labels and scores together choose the clusters of new samples."""

    judgement: Judgement
    linear: Linear
    places: dict[bytes, int]  # of the labelled samples
    labels: IntArray  # of these

    @classmethod
    def of(
        cls, X: Table, clamped: ClampedClusters | None, found: Factorization
    ) -> LabelRule | None:
        """For labelled samples of X; None without labels."""
        judgement = None if clamped is None else clamped.judgement(found)
        if clamped is None or clamped.linear is None or judgement is None:
            return None
        labels = clamped.constraints.labels
        labelled = np.flatnonzero(labels != UNKNOWN) if X.in_memory else np.zeros(0, int)
        places = known_samples(X.rows(labelled)) if len(labelled) else {}
        return cls(judgement, clamped.linear, places, labels[labelled])

    def decision(self, rows: Table, lengths: FloatArray) -> Decide:
        """What chooses the clusters of these rows from their scores; ``lengths`` are those of the
        rows as they are scored."""
        q = probabilities(self.linear.logs(rows))
        evidence = for_clusters(q, self.judgement.memberships.shape[1])
        safe = np.where(lengths > 0, lengths, 1.0)[:, None]
        index = find(rows, self.places) if self.places else np.full(len(safe), -1)

        def decide(scores: AnyArray) -> AnyArray:
            logs = self.judgement.decide(np.square(np.maximum(scores, 0) / safe), evidence)
            # a sample identical to a labelled one has its label
            logs[index >= 0, self.labels[index[index >= 0]]] = np.inf
            return logs

        return decide


@dataclass(frozen=True)
class OneCluster:
    """The one cluster that explains most of a sample, with its least-squares coefficient."""

    H: AnyArray
    rule: LabelRule | None = None

    def __call__(self, rows: Table) -> AnyArray:
        decide = None if self.rule is None else self.rule.decision(rows, rows.row_lengths)
        return one_cluster_codes(rows.row_equations(self.H), decide)


@dataclass(frozen=True)
class OverRays:
    """Over the loadings S of weighted rays: ``min |u D - a S D|``, where u holds the entries of a
    sample on the rays."""

    S: AnyArray  # (r, c)
    squares: FloatArray  # (c,) of D
    lengths: FloatArray  # (c,) of the columns of the table that the rays are
    rays: IntArray  # (c,) which columns these are
    n_columns: int
    is_disjoint: bool  # whether each sample belongs to one cluster
    rule: LabelRule | None = None

    def __call__(self, rows: Table) -> AnyArray:
        S = self.S.astype(np.float64)
        basis = np.zeros((self.n_columns, len(S)))
        basis[self.rays] = (S * (self.squares / self.lengths)).T
        equations = Equations((S * self.squares) @ S.T, rows @ basis)
        if not self.is_disjoint:
            return solve(equations)
        if self.rule is None:
            return one_cluster_codes(equations)
        on_rays = rows.columns(self.rays, np.sqrt(self.squares) / self.lengths)
        return one_cluster_codes(equations, self.rule.decision(rows, on_rays.row_lengths))


@dataclass(frozen=True)
class OverGraph:
    """The rows of A for known samples; others are joined to their nearest known ones."""

    S: AnyArray  # (r, c)
    A: AnyArray  # (n_samples, r)
    places: dict[bytes, int]  # of the known samples
    placement: Any  # `graph_ccnmf.Placement`
    is_disjoint: bool

    def __call__(self, rows: Table) -> AnyArray:
        return np.concatenate([self._encode(part) for part in rows.in_parts()])

    def _encode(self, rows: Table) -> AnyArray:
        index = find(rows, self.places)
        codes = np.zeros((len(index), len(self.S)))
        codes[index >= 0] = self.A[index[index >= 0]]
        new = np.flatnonzero(index < 0)
        if not len(new):
            return codes
        S = self.S.astype(np.float64)
        products, near = self.placement.placed(rows.rows(new))
        equations, decide = Equations(S @ S.T, products), None
        if self.placement.judgement is not None:
            decide = partial(self.placement.decide, near=near)
        codes[new] = one_cluster_codes(equations, decide) if self.is_disjoint else solve(equations)
        return codes


def one_cluster_codes(equations: Equations, decide: Decide | None = None) -> AnyArray:
    """For each row the one component that explains most of it, with its least-squares coefficient:
    the model of disjoint supports.

    ``decide`` may take the place of the scores when the component is chosen; it is a function of
    them.
    """
    squares = np.diag(equations.G)
    lengths = np.sqrt(squares)
    scores = np.divide(equations.C, lengths, out=np.zeros_like(equations.C), where=lengths > 0)
    best = (scores if decide is None else decide(scores)).argmax(axis=1)
    rows = np.arange(len(best))
    codes = np.zeros_like(equations.C)
    codes[rows, best] = np.maximum(scores[rows, best], 0) / np.where(
        lengths[best] > 0, lengths[best], 1.0
    )
    return codes
