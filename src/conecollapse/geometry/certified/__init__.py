"""The exact rays of a set of points, each claim with its proof.

`certify` scales the points, sets zeros aside, merges colinear points and hands the leaders of their groups to the method that
fits: `dense` or, when zeros are many, `support`.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import dense_rows, merge_colinear, take_rows
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray, Points, Progress
from conecollapse.certificates import Certificate
from conecollapse.geometry.certified.dense import prove_dense
from conecollapse.geometry.certified.given import prove_given
from conecollapse.geometry.certified.proof import Proof, single_ray
from conecollapse.geometry.certified.support import prove_sparse

MOSTLY_FILLED = 0.1  # density above which supports say little about which points can represent which
FEW_ENTRIES = 2**20  # points below this size gain nothing from BLAS threads, whose spinning then costs more than it saves
COARSER = 10.0  # the next tolerance that is tried where rounding has spoiled a proof
COARSEST = 1e-3
DENSE_POINTS = 2**27  # entries up to which a mostly filled sparse matrix may be made dense

__all__ = ["certify", "group"]


def group(U: Points, lengths: FloatArray, tol: float) -> tuple[IntArray, IntArray]:
    """Leader of each unit row (-1 for zero rows), and the leaders themselves."""
    nonzero = np.flatnonzero(lengths)
    if not len(nonzero):
        raise InvalidInputError(f"all {U.shape[0]} points are zero; a cone needs at least one point that is not.")
    leader = np.full(U.shape[0], -1, np.int64)
    leader[nonzero] = nonzero[merge_colinear(take_rows(U, nonzero), tol)]
    return leader, np.flatnonzero(leader == np.arange(U.shape[0]))


def certify(U: Points, lengths: FloatArray, tol: float, rays: IntArray | None = None, progress: Progress = None) -> Certificate:
    """Certificate of the cone of the unit rows ``U`` (``lengths`` 0 marks zero points).

    With ``rays`` the claim to prove is given: these points, leaders of their groups, are the rays. Otherwise they are found. Where
    rounding spoils the proof of a ray near ``tol``, the cone is certified at a larger tolerance, with a warning.
    """
    wanted = tol
    while True:
        leader, leaders = group(U, lengths, tol)
        V = take_rows(U, leaders)
        with serial_blas() if V.shape[0] * V.shape[1] < FEW_ENTRIES else nullcontext():
            proof = _prove(V, tol, None if rays is None else np.intersect1d(leaders, rays, return_indices=True)[1], progress)
        if proof.is_proven:
            break
        tol *= COARSER
        if tol > COARSEST:
            raise InvalidInputError("the points are too ill conditioned: rounding hides whether some of them are rays.")
    if tol > wanted:
        warnings.warn(
            f"rounding hides distances near {wanted:.0e} between these points; the cone is certified at tol = {tol:.0e} instead.",
            stacklevel=3,
        )
    return proof.certificate(U, leaders, leader, tol)


def _prove(V: Points, tol: float, rays: IntArray | None, progress: Progress) -> Proof:
    if V.shape[0] == 1:
        return single_ray(dense_rows(V, np.zeros(1, np.int64))[0])
    if rays is not None:
        return prove_given(V, rays, tol)
    if not sp.issparse(V):
        return prove_dense(V, tol, progress)
    entries = V.shape[0] * V.shape[1]
    if V.nnz > MOSTLY_FILLED * entries and entries <= DENSE_POINTS:
        return prove_dense(V.toarray(), tol, progress)
    return prove_sparse(V, tol, progress)
