"""Proof for rays that somebody else found: each must be clear of all other points, and every other
point inside."""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import dense_rows
from conecollapse._types import IntArray, Points
from conecollapse.geometry.certified.confirm import confirm, project
from conecollapse.geometry.certified.proof import Proof
from conecollapse.geometry.certified.settle import settle


def prove_given(U: Points, rays: IntArray, tol: float) -> Proof:
    """Witnesses for ``rays`` and combinations of them for the other rows of ``U``; near ``tol`` the
    set may be corrected."""
    sums = np.asarray(U.sum(axis=1)).ravel()
    sure = np.zeros(U.shape[0], bool)
    G, proven = confirm(project(U, dense_rows(U, rays), exclude=rays).residual, rays, U, sums, tol)
    sure[rays[proven]] = True
    others = np.setdiff1d(np.arange(U.shape[0]), rays)
    solved = project(U, dense_rows(U, others), allowed=sure)
    combination = dict(
        zip(others.tolist(), zip(solved.passive, solved.values, strict=True), strict=True)
    )
    settled = settle(U, sums, tol, sure, combination)
    return Proof.of_settled(
        settled, dict(zip(rays[proven].tolist(), G[proven], strict=True)), U.shape[1]
    )
