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
from conecollapse.certificates import Certificate, Metric
from conecollapse.geometry.certified.budget import LEAST, Budget
from conecollapse.geometry.certified.dense import prove_dense
from conecollapse.geometry.certified.estimate import product_seconds, warn_if_long
from conecollapse.geometry.certified.given import prove_given
from conecollapse.geometry.certified.proof import Known, Proof, all_open, single_ray
from conecollapse.geometry.certified.shares import Decisions, conclude, decide
from conecollapse.geometry.certified.support import MOSTLY_FILLED, prove_sparse

# points below this size gain nothing from BLAS threads, whose spinning then costs more than it
# saves
FEW_ENTRIES = 2**20
COARSER = 10.0  # the next tolerance that is tried where rounding has spoiled a proof
COARSEST = 1e-3
# multiplications of a product of dense points up to which nobody has to be told that it takes long
FEW_PRODUCTS = 2**24

__all__ = ["Decisions", "certify", "certify_points", "conclude", "decide", "group"]


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
            with _blas_for(V):
                proof = prove_given(V, np.intersect1d(leaders, rays, return_indices=True)[1], tol)
        else:
            budget = Budget.quick(V, len(leader)) if effort == "quick" else Budget.endless()
            proof = _prove(
                V,
                tol,
                progress,
                budget,
                None if known is None else Known.from_certificate(known, leaders),
            )
        if proof.is_proven:
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


def _prove(V: Points, tol: float, progress: Progress, budget: Budget, known: Known | None) -> Proof:
    m, n = V.shape
    if m == 1:
        return single_ray(dense_rows(V, np.zeros(1, np.int64))[0])
    if budget.left < LEAST:
        return all_open(m, n)
    if m * float(m) * n > FEW_PRODUCTS:
        warn_if_long(
            product_seconds(V),
            f"the product of {m} points in dimension {n} with their transpose",
            "max_rays=... asks for an epsilon-cone of few rays, which takes less"
            " (Cone.approximate)",
        )
    if known is not None and not known.sure.any():
        known = None
    with _blas_for(V):
        if not sp.issparse(V):
            is_multiplied = known is not None and any(
                isinstance(family, Metric) for family in known.families
            )
            proof = prove_dense(
                V, tol, progress, budget=budget, known=known, multiply=not is_multiplied
            )
            if proof.is_proven or np.count_nonzero(V) > MOSTLY_FILLED * V.size:
                return proof
            V, known = sp.csr_array(V), None  # supports may tell what rounding hides
        return prove_sparse(V, tol, progress, budget=budget, known=known)


def _blas_for(V: Points) -> AbstractContextManager[None]:
    """BLAS on one thread where the points are few."""
    return serial_blas() if V.shape[0] * V.shape[1] < FEW_ENTRIES else nullcontext()
