"""The stages of a cone for a share of its points: what one of several workers decides, and what one
of them concludes from the decisions of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import combination_rows
from conecollapse._types import BoolArray, FloatArray, IntArray, Points, Progress, Sparse
from conecollapse.certificates import Metric, Support, Vectors, Witnesses
from conecollapse.geometry.certified.budget import Budget
from conecollapse.geometry.certified.confirm import confirm
from conecollapse.geometry.certified.dense import _lead_in_own_direction
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.proof import Known, Proof
from conecollapse.geometry.certified.search import RAY, UNDECIDED, search
from conecollapse.geometry.certified.settle import settle
from conecollapse.geometry.certified.small import rows_for, small_problems
from conecollapse.geometry.certified.support import MOSTLY_FILLED, _by_supports, _witness_rows

MAX_DOUBLINGS = 50
NEGLIGIBLE = 1e-18


@dataclass(frozen=True)
class Decisions:
    """Witnesses of rays and combinations of other points, by their rows; some are in neither."""

    families: tuple[Witnesses, ...]
    combination: dict[int, tuple[IntArray, FloatArray]]

    @classmethod
    def join(cls, parts: Sequence[Decisions]) -> Decisions:
        combination: dict[int, tuple[IntArray, FloatArray]] = {}
        for part in parts:
            combination |= part.combination
        return cls(tuple(family for part in parts for family in part.families), combination)


def decide(
    U: Points, tol: float, share: IntArray | None = None, progress: Progress = None
) -> Decisions:
    """Decide the rows ``share`` of the unit leaders U over all rows."""
    share = np.arange(U.shape[0]) if share is None else share
    if sp.issparse(U) and U.nnz > MOSTLY_FILLED * U.shape[0] * U.shape[1]:
        U = U.toarray()
    is_mine = np.zeros(U.shape[0], bool)
    is_mine[share] = True
    work = _sparse if sp.issparse(U) else _dense
    found = work(U, tol, is_mine, progress)
    families = tuple(family.take(np.flatnonzero(is_mine[family.of])) for family in found.families)
    return Decisions(families, found.combination)


def _dense(U: FloatArray, tol: float, is_mine: BoolArray, progress: Progress) -> Decisions:
    frame = Frame.of(U)
    leads, proven, offset = _lead_in_own_direction(frame, U, tol, Budget.endless(), progress)
    led = np.flatnonzero(proven)
    metric = Metric(led, frame.T.astype(np.float32), frame.centre, offset[led])
    status = np.where(leads, RAY, UNDECIDED)
    by_lead = np.flatnonzero(leads & ~proven & is_mine)
    along = frame.Z[by_lead] @ frame.T.T
    frame = frame.for_search()
    share = np.flatnonzero((status == UNDECIDED) & is_mine)
    found = search(frame, status, progress, share)
    searched = np.array(sorted(found.functional), np.int64)
    claimed = np.concatenate([by_lead, searched])
    A = np.vstack(
        [
            along,
            np.array([found.functional[int(i)] for i in searched]).reshape(-1, frame.Z.shape[1])
            @ frame.T.T,
        ]
    )
    G, sure = confirm(A, claimed, U, frame.sums, tol)
    combination = {
        i: (S, h * frame.sums[i] / frame.sums[S])
        for i, (S, h) in found.combination.items()
        if is_mine[i]
    }
    return Decisions((metric, Vectors(claimed[sure], G[sure])), combination)


def _sparse(U: Sparse, tol: float, is_mine: BoolArray, progress: Progress) -> Decisions:  # noqa: ARG001
    lists = Lists.of(U)
    known = _by_supports(U, lists, tol, Budget.endless())
    left = known.undecided & is_mine
    todo = lists.by_size[left[lists.by_size]].astype(np.int64)
    small = small_problems(lists, rows_for(lists, todo), todo, np.ones(len(left), bool), tol)
    rays = np.array(sorted(small.functional), np.int64)
    combination = {i: c for i, c in known.combination.items() if is_mine[i]} | small.combination
    support = Support(rays, *_witness_rows(rays, small, U.shape[1]))
    return Decisions((*known.families, support), combination)


def conclude(U: Points, tol: float, decisions: Decisions, progress: Progress = None) -> Proof:
    """The proof from the decisions about all rows of U."""
    sure = np.zeros(U.shape[0], bool)
    for family in decisions.families:
        sure[family.of] = True
    combination = over_sure(decisions.combination, sure)
    families = decisions.families
    known = Known(sure, combination, families)
    sums = np.asarray(U.sum(axis=1)).ravel()
    settled = settle(U, sums, tol, sure, combination, progress)
    return Proof.of_settled(settled, {}, U.shape[1], known=known)


def over_sure(
    combination: dict[int, tuple[IntArray, FloatArray]], sure: BoolArray
) -> dict[int, tuple[IntArray, FloatArray]]:
    r"""Combinations over points that are no rays become combinations over sure rays.

    With :math:`u = C u + R\,rays`, :math:`u = (I - C)^{-1} R\,rays` and
    :math:`(I - C)^{-1} = \prod_k (I + C^{2^k})`, and the inverse exists and is non-negative.
    """
    rows = np.array([i for i in combination if not sure[i]], np.int64)
    H = combination_rows([combination[int(i)] for i in rows], len(sure))
    C = sp.csr_array(H[:, rows])
    R = sp.csr_array(H - sp.csr_array((C.data, rows[C.indices], C.indptr), shape=H.shape))
    R.eliminate_zeros()
    for _ in range(MAX_DOUBLINGS):
        C.data[C.data < NEGLIGIBLE] = 0.0
        C.eliminate_zeros()
        if not C.nnz:
            break
        R, C = sp.csr_array(R + C @ R), sp.csr_array(C @ C)
    R.sort_indices()
    ptr = R.indptr
    return {
        int(i): (R.indices[a:b].astype(np.int64), R.data[a:b])
        for i, a, b in zip(rows, ptr[:-1], ptr[1:], strict=True)
    }
