r"""EM-ONMF with what is known beforehand: clamped samples, groups of samples, groups that are kept
apart, and evidence for the others.

EM-ONMF (`conecollapse.factorization.orthogonal.em`) maximises the sum of squared scores
:math:`z_{ik}^2`, :math:`z_{ik} = x_i \cdot s_k`. Here the sum is

.. math:: \sum_i z_{i k(i)}^2 + \frac{|x_i|^2}{t} \log q_{i k(i)} ,

with :math:`q_{ik}` a probability of class k for sample i that the labels give
(`conecollapse.factorization.orthogonal.evidence`), over the clusterings in which labelled samples
have their class, and groups and pairs are as they must. A step gives each group its best allowed
cluster while those it is kept apart from stay where they are, so this sum never falls. The first
step begins with the class of largest :math:`q_{ik}` for each sample.

The probabilities :math:`p_{ik} \propto \exp(t z_{ik}^2 / |x_i|^2)` say what the clusters alone
would choose. Their sharpness is t = c t', with t' such that the largest of them is 0.7 on average
for the clusters that are found without labels, as it is for a source of evidence. c is the *trust*
in the clusters. The product :math:`p_{ik} q_{ik}`, scaled to sum to one, is the membership of
sample i.

*Named clusters*. Of the clusters that are found without labels each class takes one, so that the
sum of

.. math:: \frac{1}{n_k} \#\{\text{labels of class } k \text{ in cluster } j\} + \sum_{i \text{ in }
   j} q_{ik} \Big/ \sum_i q_{ik}

over all classes k and their clusters j is largest (a linear assignment). The trust follows from the
share s of the labels that are in the cluster with their name, beyond the one in r that any clusters
find: c is the geometric mean of 8, with the weight :math:`(s - 1/r) / (1 - 1/r)`, and 1/4. If s is
1/r or less, c is 1/4: the clusters have nothing to do with the classes. With more clusters than
classes the first step begins with the named clusters, and those that are left stand for classes
that no label names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from scipy.optimize import linear_sum_assignment

from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Stopping, Trace, iterate
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.factorization.orthogonal.constraints import UNKNOWN, Constraints
from conecollapse.factorization.orthogonal.em import Clusters, State, disjoint_factors
from conecollapse.factorization.orthogonal.evidence import (
    FLOOR,
    Linear,
    Seeds,
    pooled,
    probabilities,
    ridge,
    sharpness,
)
from conecollapse.factorization.restarts import SAME_OBJECTIVE, first_of_best
from conecollapse.factorization.result import Factorization, rounding_of
from conecollapse.tables import Table

# trust in clusters, relative to one source of evidence: where named clusters find all labels, and
# where they find no more than any clusters would
GUIDED, DOUBTED = 8.0, 0.25
TIE = 1e-6  # another cluster must be better by this share of the squared lengths


@dataclass(frozen=True)
class Judgement:
    """What decides between clusters, with a row for each sample and a column for each cluster."""

    memberships: FloatArray  # probabilities, one for the class of a labelled sample
    chosen: BoolArray  # True for the cluster taken, also where it explains nothing of the sample
    evidence: FloatArray  # of the labels alone
    peaks: FloatArray  # (n_samples,) the largest share of its square that one cluster explains
    sharpness: float

    def decide(self, shares: AnyArray, evidence: AnyArray) -> FloatArray:
        """Log-probabilities, up to a constant for each row, from shares of squares and evidence of
        any samples.

        A cluster that explains nothing of a sample is taken only if none explains any of it.
        """
        logs = self.sharpness * shares + np.log(evidence + FLOOR)
        return np.where((shares > 0) | ~(shares > 0).any(axis=1, keepdims=True), logs, -np.inf)


class ClampedClusters(Clusters):
    """EM-ONMF of one table under constraints, and evidence for the classes, (n_samples, n_classes),
    where there are labels; ``linear`` is the rule that labels give for new samples."""

    def __init__(
        self,
        X: Table,
        constraints: Constraints,
        evidence: FloatArray | None = None,
        linear: Linear | None = None,
        **stopping: Unpack[Stopping],
    ) -> None:
        super().__init__(X, **stopping)
        self.constraints, self.evidence, self.linear = constraints, evidence, linear

    @classmethod
    def of(
        cls, X: Table, table: Table, constraints: Constraints | None, **stopping: Unpack[Stopping]
    ) -> ClampedClusters | None:
        """For ``table``, with evidence from a ridge on the rows of X; None without constraints."""
        if constraints is None:
            return None
        if not constraints.n_classes:
            return cls(table, constraints, **stopping)
        linear = ridge(X, Seeds.of(constraints.labels))
        return cls(table, constraints, pooled([linear.logs(X)]), linear, **stopping)

    def best_of(self, starts: Iterable[IntArray], r: int) -> Factorization:
        """The factorization with the smallest objective that these clusterings lead to; with labels
        the one that begins with them."""
        if self.evidence is None:
            self._bonus = np.zeros((self.X.shape[0], r))
        else:
            starts = [self._use_evidence(self.evidence, starts, r)]
        rounding = SAME_OBJECTIVE * float(np.finfo(self.X.dtype).eps) * self.norm2
        best = first_of_best(
            (self._iterate(labels, r) for labels in starts),
            lambda run: (run.state.objective, rounding),
        )
        self.labels = best.state.labels
        A, S = disjoint_factors(self.X, self.labels, best.state.scores, r)
        error = max(self.norm2 - float(np.sum(np.square(S, dtype=np.float64))), 0.0)
        return Factorization.of(A, S, best.state.objective, best, self.norm2, error)

    def _use_evidence(self, q: FloatArray, starts: Iterable[IntArray], r: int) -> IntArray:
        """Let it count beside clusters as sharp as those without labels; where to begin."""
        plain = Clusters(self.X, self.gram, **self.stopping).best_of(starts, r)
        known = np.flatnonzero(self.constraints.labels != UNKNOWN)
        labels = self.constraints.labels[known]
        votes = q / np.maximum(q.sum(axis=0), np.finfo(float).tiny)
        votes[known, labels] += 1 / np.bincount(labels)[labels]
        named = matched(plain.W.argmax(axis=1), votes, r)
        trust = trust_of(float((named[known] == labels).mean()), r)
        self.sharpness = trust * sharpness(self._shares(self._scores(plain.H)))
        self._log_evidence = np.log(for_clusters(q, r) + FLOOR)
        self._bonus = np.square(self.lengths)[:, None] * self._log_evidence / self.sharpness
        return np.asarray(q.argmax(axis=1)) if q.shape[1] == r else named

    def judgement(self, found: Factorization) -> Judgement | None:
        """How the samples were judged, if there was evidence."""
        if self.evidence is None:
            return None
        shares = self._shares(self._scores(found.H))
        p = probabilities(self.sharpness * shares + self._log_evidence)
        labels, clusters = self.constraints.labels, np.arange(p.shape[1])
        known = labels != UNKNOWN
        p[known] = labels[known, None] == clusters
        evidence = for_clusters(self.evidence, p.shape[1])
        chosen = self.labels[:, None] == clusters
        return Judgement(p, chosen, evidence, shares.max(axis=1), self.sharpness)

    def _scores(self, H: AnyArray) -> AnyArray:
        """Of every sample in the directions of the rows of H."""
        lengths = np.linalg.norm(H, axis=1)
        return np.asarray(self.X @ H.T.astype(self.X.dtype)) / np.where(lengths > 0, lengths, 1.0)

    def _shares(self, scores: AnyArray) -> FloatArray:
        lengths = np.where(self.lengths > 0, self.lengths, 1.0)
        return np.square(np.maximum(scores, 0.0) / lengths[:, None], dtype=np.float64)

    def _iterate(self, labels: IntArray, r: int) -> Trace[State]:
        """The run that begins with the allowed clustering nearest to ``labels``."""
        start = self._measure(self._feasible(labels, r), self.lengths.astype(self.X.dtype), r)
        return iterate(
            lambda s: self._measure(s.labels, s.scores, r),
            start,
            rounding=rounding_of(self.X, self.norm2),
            stage="EM-ONMF",
            **self.stopping,
        )

    def _gain(self, labels: IntArray, scores: AnyArray) -> float:
        return super()._gain(labels, scores) + float(
            self._bonus[np.arange(len(labels)), labels].sum()
        )

    def _choose(self, table: AnyArray, labels: IntArray) -> IntArray:
        """The best allowed cluster of each group, the present one on a tie."""
        known = self.constraints
        each = np.square(np.maximum(table, 0), dtype=np.float64) + self._bonus
        gain = np.asarray(known.members @ each)
        tie = TIE * np.asarray(known.members @ np.square(self.lengths))
        now = np.zeros(len(gain), np.int64)
        now[known.group] = labels
        rows, best = np.arange(len(gain)), gain.argmax(axis=1)
        free = known.group_labels == UNKNOWN
        free[list(known.apart)] = False
        now = np.where(free & (gain[rows, best] > gain[rows, now] + tie), best, now)
        for g, others in known.apart.items():
            allowed = gain[g].copy()
            allowed[now[others]] = -np.inf
            best_of_g = int(allowed.argmax())
            if allowed[best_of_g] > allowed[now[g]] + tie[g]:
                now[g] = best_of_g
        return now[known.group]

    def _feasible(self, labels: IntArray, r: int) -> IntArray:
        """The clustering nearest to ``labels`` that a greedy search finds among the allowed ones,
        the most restricted groups first."""
        known = self.constraints
        votes = np.asarray(known.members @ np.eye(r)[labels])
        now = np.where(known.group_labels == UNKNOWN, votes.argmax(axis=1), known.group_labels)
        left = set(known.apart)
        now[list(left)] = UNKNOWN
        while left:
            taken = {
                g: np.unique(now[known.apart[g]][now[known.apart[g]] != UNKNOWN]) for g in left
            }
            g = max(left, key=lambda g: (len(taken[g]), len(known.apart[g]), -g))
            if len(taken[g]) >= r:
                sample = int(np.flatnonzero(known.group == g)[0])
                raise InvalidInputError(
                    f"no cluster is left for sample {sample}: cannot_link keeps it apart from"
                    f" samples of all n_components = {r} clusters; ask for more components, or drop"
                    " some pairs."
                )
            votes[g, taken[g]] = -1
            now[g] = votes[g].argmax()
            left.remove(g)
        return np.asarray(now[known.group])

    def _fill_empty(self, labels: IntArray, scores: AnyArray, r: int) -> tuple[IntArray, AnyArray]:
        """Give each empty cluster the worst-fitted sample that nothing is known of and that its
        cluster can spare."""
        known = self.constraints
        alone = np.bincount(known.group)[known.group] == 1
        alone &= (known.labels == UNKNOWN) & (self.lengths > 0)
        alone[np.isin(known.group, list(known.apart))] = False
        return self._give(labels, scores, np.bincount(labels, minlength=r), alone)


def for_clusters(q: AnyArray, r: int) -> FloatArray:
    """Probabilities of r clusters from those of fewer classes: a cluster that no label names is as
    likely as a class is by chance."""
    n, n_classes = q.shape
    return np.hstack([q * (n_classes / r), np.full((n, r - n_classes), 1 / r)])


def trust_of(share: float, r: int) -> float:
    """The trust in clusters, of which this share of the labels has the name.

    Examples
    --------
    >>> [round(trust_of(share, 4), 2) for share in (1.0, 0.625, 0.25, 0.0)]
    [8.0, 1.41, 0.25, 0.25]
    """
    weight = max((share - 1 / r) / (1 - 1 / r), 0.0)
    return float(GUIDED**weight * DOUBTED ** (1 - weight))


def matched(labels: IntArray, q: AnyArray, r: int) -> IntArray:
    """The clusters renumbered so that the first ones agree with the classes as well as one cluster
    for each class can.

    Examples
    --------
    >>> matched(
    ...     np.array([2, 2, 0, 1]), np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), 3
    ... )
    array([0, 0, 2, 1])
    """
    mass = np.zeros((r, q.shape[1]))
    np.add.at(mass, labels, q)
    clusters, classes = linear_sum_assignment(-mass)
    number = np.full(r, UNKNOWN)
    number[clusters] = classes
    number[number == UNKNOWN] = np.arange(q.shape[1], r)
    return np.asarray(number[labels])
