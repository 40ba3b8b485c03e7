"""The exact rays of a set of points, each claim with its proof.

`certify` sets zeros aside, merges colinear points and hands the leaders of their groups to the
method that fits: `dense` or, where the points are sparse, `support`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import dense_rows, merge_colinear, pair_distances, take_rows, unit_rows
from conecollapse._memory import give_back
from conecollapse._threads import serial_blas
from conecollapse._types import Effort, FloatArray, IntArray, Points, Progress
from conecollapse.certificates import Certificate
from conecollapse.geometry.certified.cost import (
    LEAST,
    Budget,
    product_time,
    warn_if_long,
)
from conecollapse.geometry.certified.dense import decide_dense
from conecollapse.geometry.certified.proof import Decisions, Proof
from conecollapse.geometry.certified.settle import find_given, settle
from conecollapse.geometry.certified.supports import (
    decide_by_supports,
    is_mostly_filled,
)

# points below this size gain nothing from BLAS threads, whose spinning then costs more than it
# saves
FEW_ENTRIES = 2**20
COARSER = 10.0  # the next tolerance that is tried where rounding has spoiled a proof
COARSEST = 1e-3

__all__ = ["Decisions", "Proof", "certify", "certify_points", "conclude", "decide", "group"]


def group(U: Points, lengths: FloatArray, tol: float) -> tuple[IntArray, float]:
    """Leader of each unit row (-1 for zero rows), and how far a row is from its leader at most."""
    if not lengths.any():
        raise InvalidInputError(
            f"all {U.shape[0]} points are zero; a cone needs at least one point that is not."
        )
    leader, apart = merge_colinear(U, tol)
    leader[lengths == 0] = -1  # no unit row is within tol of a zero row
    return leader, apart


def certify(
    U: Points,
    lengths: FloatArray,
    tol: float,
    rays: IntArray | None = None,
    progress: Progress = None,
    *,
    effort: Effort = "exact",
    known: Certificate | None = None,
) -> Certificate:
    """Certificate of the cone of the unit rows ``U`` (``lengths`` 0 marks zero points).

    With ``rays`` the claim to prove is given: these points, leaders of their groups, are the rays.
    Otherwise they are found. Where rounding spoils the proof of a ray near ``tol``, the cone is
    certified at a larger tolerance, with a warning.

    With ``effort="quick"`` at most two products are spent, and what is not decided then is left
    open: all points where they are so few that their product takes no longer than scaling and
    merging them. A certificate that is ``known`` about the same points at ``tol`` is gone on from.
    """
    return _certify(lambda: (U, lengths), tol, rays, progress, effort, known)[1]


def certify_points(
    points: Points,
    tol: float,
    progress: Progress = None,
    *,
    effort: Effort = "exact",
    known: Certificate | None = None,
) -> tuple[Points, Certificate]:
    """The unit rays and the certificate of the cone of the rows of ``points``, see `certify`.

    Of the points scaled to unit length only the leaders of groups are held.
    """
    made = _certify(lambda: unit_rows(points), tol, None, progress, effort, known)
    if sp.issparse(points):
        give_back(points.nnz)
    return made


def _certify(
    unit_points: Callable[[], tuple[Points, FloatArray]],
    tol: float,
    rays: IntArray | None,
    progress: Progress,
    effort: Effort,
    known: Certificate | None,
) -> tuple[Points, Certificate]:
    wanted = tol
    while True:
        V, leaders, leader, apart = _leading(unit_points, tol, known)
        if rays is not None and len(leaders) > 1:
            given = np.intersect1d(leaders, rays, return_indices=True)[1]
            with _blas_for(V):
                proof = conclude(V, tol, find_given(V, given, tol))
        else:
            budget = Budget.quick(V, len(leader)) if effort == "quick" else Budget()
            proof = _prove(
                V,
                tol,
                progress,
                budget,
                None if known is None else Decisions.from_certificate(known, leaders),
            )
        if not proof.unproven:
            break
        known = None  # its claims are at the smaller tolerance
        tol *= COARSER
        if tol > COARSEST:
            raise InvalidInputError(
                "the points are too ill conditioned: rounding hides whether some of them are rays."
                " Scale their coordinates to similar sizes, or ask for an epsilon-cone"
                " (Cone.approximate)."
            )
    if tol > wanted:
        warnings.warn(
            f"rounding hides distances near {wanted:.0e} between these points; the cone is"
            f" certified at tol = {tol:.0e} instead.",
            stacklevel=4,
        )
    return take_rows(V, proof.rays), proof.certificate(V, leaders, leader, apart, tol)


def _leading(
    unit_points: Callable[[], tuple[Points, FloatArray]], tol: float, known: Certificate | None
) -> tuple[Points, IntArray, IntArray, float]:
    """The leaders of groups as unit rows, their numbers, the leader of each point, and how far a
    point may be from its leader."""
    U, lengths = unit_points()
    if known is None:
        leader, apart = group(U, lengths, tol)
    else:
        leader = known.leader
        members = np.flatnonzero((leader >= 0) & (leader != np.arange(len(leader))))
        apart = float(pair_distances(U, members, leader[members]).max(initial=0.0))
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    return take_rows(U, leaders), leaders, leader, apart


def _prove(
    V: Points, tol: float, progress: Progress, budget: Budget, known: Decisions | None
) -> Proof:
    m, n = V.shape
    if m == 1:
        # it is its own witness, for there is nothing to separate it from
        return Proof(np.ones(1, bool), n, witness={0: dense_rows(V, np.zeros(1, np.int64))[0]})
    if budget.left < LEAST:
        return Proof(np.ones(m, bool), n, open=np.arange(m))
    warn_if_long(
        1e-9 * product_time(V),
        f"the product of {m} points in dimension {n} with their transpose",
        "max_rays=... asks for an epsilon-cone of few rays, which takes less (Cone.approximate)",
    )
    effort: Effort = "exact" if budget.is_endless else "quick"
    with _blas_for(V):
        found = decide(V, tol, budget=budget, known=known, progress=progress)
        proof = conclude(V, tol, found, effort, progress)
        if not proof.unproven or sp.issparse(V):
            return proof
        S = sp.csr_array(V)  # supports may tell what rounding hides
        if is_mostly_filled(S):
            return proof
        return conclude(S, tol, decide(S, tol, progress=progress), effort, progress)


def decide(
    U: Points,
    tol: float,
    share: IntArray | None = None,
    *,
    known: Decisions | None = None,
    budget: Budget | None = None,
    progress: Progress = None,
) -> Decisions:
    """What is ``known`` about the unit rows ``U``, no two of them colinear, and decisions about all
    of them, or about those of a ``share``.

    Where there is a limit to the ``budget``, only what is cheap is decided (`Budget.cheap`: all of
    that). Shares can be decided at different places; `Decisions.join` puts them together.
    """
    known = known or Decisions.nothing(U.shape[0])
    decide_these = decide_by_supports if sp.issparse(U) else decide_dense
    found = decide_these(U, tol, known, share=share, budget=budget, progress=progress)
    if progress is not None and sp.issparse(U):
        progress("supports", U.shape[0], U.shape[0])
    return found


def conclude(
    U: Points,
    tol: float,
    decisions: Decisions,
    effort: Effort = "exact",
    progress: Progress = None,
) -> Proof:
    """The proof about all rows of ``U``: combinations over points that were deleted are expressed
    once more, and what is near the tolerance or undecided is settled; with ``effort="quick"`` it is
    left open."""
    if sp.issparse(U) and is_mostly_filled(U) and decisions.undecided.any():
        U = U.toarray()
    return settle(U, tol, decisions, progress, effort)


def _blas_for(V: Points) -> AbstractContextManager[None]:
    """BLAS on one thread where the points are few."""
    return serial_blas() if V.shape[0] * V.shape[1] < FEW_ENTRIES else nullcontext()
