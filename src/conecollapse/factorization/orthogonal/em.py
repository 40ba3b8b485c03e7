r"""EM-ONMF (Pompili, Gillis, Absil & Glineur 2014): orthogonal NMF as clustering of directions.

Orthonormal columns of a non-negative A have disjoint supports: each sample belongs to one cluster.
With unit directions :math:`s_k` the best coefficient of sample i in cluster k is its score
:math:`x_i \cdot s_k`, and

.. math:: \|X - A S\|^2 = \|X\|^2 - \sum_i (x_i \cdot s_{k(i)})^2 .

So: give each sample to the direction with the largest score; turn each direction to
:math:`s_k \propto \sum_{i \in k} a_i x_i` with :math:`a_i` the scores, one step of the power method
towards the cluster's leading singular vector. Both raise the sum, so the objective never rises, and
orthogonality is exact.

Everything follows from :math:`T = X X^T A`: the squared length of :math:`X^T a_k` is
:math:`a_k^T T_k`, and the scores are T over these lengths. Where X is wide, :math:`X X^T` is formed
once and a step costs nothing that depends on the number of features. Three rules settle what the
theory leaves open: a sample keeps its cluster unless another is better by more than rounding; an
empty cluster takes the sample that fits worst from a cluster that can spare it, which cannot raise
the objective; a zero sample stays where it started, with the coefficient zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import scipy.sparse as sp

from conecollapse._iterate import MAX_ITER, Stopping, Trace, iterate
from conecollapse._linalg import unit_columns
from conecollapse._types import AnyArray, BoolArray, IntArray
from conecollapse.factorization.initial_factors import SMALL_SIDE
from conecollapse.factorization.orthogonal.trials import promising
from conecollapse.factorization.restarts import SAME_OBJECTIVE, first_of_best
from conecollapse.factorization.result import Factorization, rounding_of
from conecollapse.tables import Equations, Table

LARGEST_GRAM = 2**26  # entries up to which X X' may be formed: 512 MiB
# features for each sample from which on X X' pays where it is not needed for the starts too
WIDE_FROM = 2
# further steps, at most, until no sample changes its cluster: `predict` then agrees with the labels
# of the training samples
SETTLING = 20
TRIAL = 3  # steps of every start before the worse half is given up
FINALISTS = 3  # starts that are not given up
FEW_ENTRIES = 2**17  # of a sparse table, up to which the same holds
# up to so many, a dense product takes less time than the sparse one that leaves out its zeros
FEW_CLUSTERS = 16
# objectives that differ by less than this share of |X|^2 count as one when starts are compared
ALIKE = 1e-9
# another cluster must be better by this share of the sample's length (float64; the square root of
# eps in float32)
TIE = 1e-12


@dataclass(frozen=True)
class State:
    labels: IntArray
    scores: AnyArray  # (n,) of each sample in its own cluster
    objective: float


def em(
    X: Table,
    W: AnyArray,
    H: AnyArray | None = None,  # noqa: ARG001 - every method takes a start (W, H); here the argmax of W is one
    *,
    gram: AnyArray | None = None,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ A S`` with exactly disjoint supports, from the clusters that the largest entry in each
    row of W says.

    ``gram`` is `gram_matrix(X)` when the caller has it already.
    """
    return Clusters(X, gram, **stopping).best_of([W.argmax(axis=1)], W.shape[1])


class Clusters:
    """EM-ONMF of one table from several starts, which share what does not depend on the start.

    All starts take `TRIAL` steps, and of those that have come to the same objective one goes on.
    Then the half with the smaller objectives takes as many again, and so on until `FINALISTS` are
    left, which run to their end. Objectives only fall, and a start that is behind after its first
    steps rarely overtakes: `benchmarks/bench_ccnmf.py` compares the result with that of all starts
    run to their end.
    """

    def __init__(
        self, X: Table, gram: AnyArray | None = None, **stopping: Unpack[Stopping]
    ) -> None:
        self.X = X
        self.gram = gram_matrix(self.X) if gram is None else gram
        self.norm2, self.lengths = self.X.squared_norm, self.X.row_lengths
        self.stopping = stopping
        self.max_iter = stopping.get("max_iter", MAX_ITER)

    def __call__(self, X: Table, W: AnyArray, H: AnyArray) -> Factorization:  # noqa: ARG002 - as every method, for its own table
        return self.best_of([W.argmax(axis=1)], W.shape[1])

    def best_of(self, starts: Iterable[IntArray], r: int) -> Factorization:
        """The factorization with the smallest objective that these clusterings lead to."""
        limit = TRIAL
        tried = [self._run(self._start(labels, r), r, limit) for labels in starts]
        runs = list({self._place(run): run for run in reversed(tried)}.values())[::-1]
        while len(runs) > FINALISTS and limit < self.max_iter:
            places = sorted(range(len(runs)), key=lambda i: (self._place(runs[i]), i))
            limit *= 2
            runs = [
                self._run(runs[i], r, limit)
                for i in sorted(places[: max(len(runs) // 2, FINALISTS)])
            ]
        ended = [self._run(run, r, self.max_iter) for run in runs]
        rounding = SAME_OBJECTIVE * float(np.finfo(self.X.dtype).eps) * self.norm2
        return self._settled(first_of_best(ended, lambda run: (run.state.objective, rounding)), r)

    def promising(self, r: int, n_starts: int, rng: np.random.Generator) -> list[IntArray]:
        """Labels to start from: the best of many that few coordinates are enough to try."""
        return promising(self.X, r, n_starts, rng, self.gram)

    def _place(self, run: Trace[State]) -> int:
        return round(run.state.objective / (ALIKE * self.norm2))

    def _start(self, labels: IntArray, r: int) -> Trace[State]:
        state = self._measure(*self._fill_empty(labels, self.lengths.astype(self.X.dtype), r), r)
        return Trace(state, np.array([state.objective]), False, "")

    def _run(self, run: Trace[State], r: int, limit: int) -> Trace[State]:
        """The run with up to ``limit`` steps in all."""
        if run.converged or run.stopped:
            return run
        stopping: Stopping = {**self.stopping, "max_iter": min(limit, self.max_iter)}
        return iterate(
            lambda s: self._measure(s.labels, s.scores, r),
            run.state,
            rounding=rounding_of(self.X, self.norm2),
            stage="EM-ONMF",
            history=run.history,
            **stopping,
        )

    def _measure(self, labels: IntArray, scores: AnyArray, r: int) -> State:
        """Directions from the clusters, then every sample to its best direction."""
        table = self._table(labels, scores, r)
        new = self._choose(table, labels)
        scores = np.maximum(table[np.arange(len(new)), new], 0)
        new, scores = self._fill_empty(new, scores, r)
        return State(new, scores, max(self.norm2 - self._gain(new, scores), 0.0))

    def _table(self, labels: IntArray, scores: AnyArray, r: int) -> AnyArray:
        """Scores of every sample in every cluster; -1 in clusters without any."""
        if self.gram is None:
            T = self.X @ (self.X.T @ _one_per_row(self.X, labels, scores, r))
        else:
            A = np.zeros((len(labels), r), scores.dtype)
            A[np.arange(len(labels)), labels] = scores
            T = self.gram @ A
        squares = np.bincount(
            labels, weights=scores * T[np.arange(len(labels)), labels], minlength=r
        )
        table = T / np.sqrt(np.where(squares > 0, squares, 1.0)).astype(T.dtype)
        table[:, squares <= 0] = -1
        return np.asarray(table)

    def _choose(self, table: AnyArray, labels: IntArray) -> IntArray:
        """The cluster with the largest score, the present one on a tie."""
        rows = np.arange(len(labels))
        best = table.argmax(axis=1)
        tie = TIE if table.dtype == np.float64 else float(np.sqrt(np.finfo(table.dtype).eps))
        better = table[rows, best] > table[rows, labels] + tie * self.lengths
        return np.where(better, best, labels)

    def _fill_empty(self, labels: IntArray, scores: AnyArray, r: int) -> tuple[IntArray, AnyArray]:
        """Give each empty cluster the worst-fitted sample that its cluster can spare; alone, a
        sample fits with its whole length."""
        alive = self.lengths > 0
        counts = np.bincount(labels[alive], minlength=r)
        return self._give(labels, scores, counts, alive)

    def _give(
        self, labels: IntArray, scores: AnyArray, counts: IntArray, movable: BoolArray
    ) -> tuple[IntArray, AnyArray]:
        """Give each cluster without samples one of these."""
        empty = np.flatnonzero(counts == 0)
        if not len(empty):
            return labels, scores
        labels, scores, counts = labels.copy(), scores.copy(), counts.copy()
        misfit = np.where(movable, self.lengths**2 - np.square(scores, dtype=np.float64), -1.0)
        worst = iter(np.argsort(-misfit, kind="stable"))
        for k in empty:
            for i in worst:
                if movable[i] and counts[labels[i]] > 1:
                    counts[labels[i]] -= 1
                    labels[i], scores[i] = k, self.lengths[i]
                    counts[k] = 1
                    break
        return labels, scores

    def _gain(self, labels: IntArray, scores: AnyArray) -> float:  # noqa: ARG002
        """What the clusters explain of the squared norm."""
        return float(np.sum(np.square(scores, dtype=np.float64)))

    def _settled(self, run: Trace[State], r: int) -> Factorization:
        """The factors, after further steps until no sample changes its cluster."""
        state = run.state
        for _ in range(SETTLING):
            further = self._measure(state.labels, state.scores, r)
            is_settled = (further.labels == state.labels).all()
            state = further
            if is_settled:
                break
        A, S = disjoint_factors(self.X, state.labels, state.scores, r)
        objective = max(self.norm2 - float(np.sum(np.square(S, dtype=np.float64))), 0.0)
        return Factorization.of(A, S, objective, run, self.norm2)


def disjoint_factors(
    X: Table, labels: IntArray, scores: AnyArray, r: int
) -> tuple[AnyArray, AnyArray]:
    """A with unit columns of disjoint supports in proportion to ``scores``, and ``S = A'X``, the
    best S for it."""
    A = np.zeros((len(labels), r), scores.dtype)
    A[np.arange(len(labels)), labels] = scores
    A = unit_columns(A)
    return A, np.asarray((X.T @ _one_per_row(X, labels, A[np.arange(len(labels)), labels], r)).T)


def disjoint_error(X: Table, A: AnyArray, H: AnyArray) -> float:
    """``|X - A H|^2`` for A with at most one entry in each row: one pass over X, whatever the
    rank."""
    labels = A.argmax(axis=1)
    AtX = np.asarray(X.T @ _one_per_row(X, labels, A[np.arange(len(labels)), labels], A.shape[1]))
    return Equations(A.T @ A, AtX).error(X.squared_norm, np.ascontiguousarray(H.T))


def gram_matrix(X: Table) -> AnyArray | None:
    """``X X'`` where X is dense and wide enough for that to pay, else None."""
    n, m = X.shape
    if X.is_sparse or n > m or (m < WIDE_FROM * n and n > SMALL_SIDE) or n * n > LARGEST_GRAM:
        return None
    K = X.gram()
    return None if K is None else K.astype(X.dtype, copy=False)


def _one_per_row(X: Table, labels: IntArray, scores: AnyArray, r: int) -> AnyArray | sp.csr_array:
    """The matrix with the scores in the columns that the labels say; dense where its product with X
    is faster so."""
    n = len(labels)
    if r > FEW_CLUSTERS or (X.is_sparse and X.n_entries > FEW_ENTRIES):
        return sp.csr_array((scores, labels, np.arange(n + 1)), shape=(n, r))
    A = np.zeros((n, r), scores.dtype)
    A[np.arange(n), labels] = scores
    return A
