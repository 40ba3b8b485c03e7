"""Which dense points are rays: a cheap witness, then the search, then float64.

1. `frame`: round coordinates.
2. `lead`: one product proves the points that lead in their own direction.
3. `search`: the others, each approximated by points that exceed it.
4. `witness`: functionals that were found are confirmed in the original coordinates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conecollapse._linalg import row_norms
from conecollapse._types import FloatArray, IntArray, Progress
from conecollapse.certificates import Metric
from conecollapse.geometry.certified.cost import Budget, lead_time, warn_of_rest
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.lead import led_by_themselves
from conecollapse.geometry.certified.near import NearPoints
from conecollapse.geometry.certified.proof import Decisions
from conecollapse.geometry.certified.search import RAY, REDUNDANT, UNDECIDED, search
from conecollapse.geometry.certified.witness import confirm

# times tol: a point that comes as near to the cone of the points near it is left to `settle`
CLOSE = 10.0


def decide_dense(
    U: FloatArray,
    tol: float,
    known: Decisions,
    *,
    share: IntArray | None = None,
    budget: Budget | None = None,
    progress: Progress = None,
) -> Decisions:
    """What is ``known`` about two or more unit rows ``U``, no two of them colinear, and decisions
    about those of a ``share`` that it leaves open.

    Where there is a limit to the ``budget``, what the product does not prove within it is left
    open. The product is left out where it is known already.
    """
    budget = budget or Budget()
    if not budget.take(lead_time(*U.shape)):
        return known
    frame = Frame.of(U)
    leading = np.zeros(0, np.int64)
    if not any(isinstance(family, Metric) for family in known.families):
        led, leading = led_by_themselves(frame, tol, share, progress)
        known = known.add(led.take(np.flatnonzero(known.undecided[led.of])))
    if not budget.is_endless:
        return known
    known, asked = _ask_nearby(U, frame.sums, tol, known, known.undecided_among(share))
    leading = leading[known.undecided[leading]]
    status = np.where(known.undecided, UNDECIDED, np.where(known.sure, RAY, REDUNDANT))
    status[leading] = RAY
    warn_of_rest(status == UNDECIDED, U)
    found, combinations = search(frame, status, asked[status[asked] == UNDECIDED], progress)
    searched = np.array(sorted(found), np.int64)
    functionals = [frame.Z[i] for i in leading] + [found[int(i)] for i in searched]
    A = np.reshape(functionals, (-1, len(frame.scale)))
    rays = np.concatenate([leading, searched])
    G, proven = confirm(A @ frame.T.T, rays, U, frame.sums, tol)
    inside = {i: (S, h * frame.sums[i] / frame.sums[S]) for i, (S, h) in combinations.items()}
    known = replace(known, combination=known.combination | inside)
    return known.add_vectors(rays[proven], G[proven])


def _ask_nearby(
    U: FloatArray, sums: FloatArray, tol: float, known: Decisions, asked: IntArray
) -> tuple[Decisions, IntArray]:
    """In few dimensions the residual over the points near a point is mostly its witness. Which of
    the points ``asked`` remain to be searched: not those that are near the tolerance."""
    near = NearPoints.of(U, len(asked))
    if near is None:
        return known, asked
    R = near.residuals(asked)
    G, proven = confirm(R, asked, U, sums, tol, 0.0)
    known = known.add_vectors(asked[proven], G[proven])
    return known, asked[~proven & (row_norms(R) > CLOSE * tol)]
