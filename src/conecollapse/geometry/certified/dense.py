"""Which dense points are rays: a cheap witness, then the search, then float64.

1. `frame`: round coordinates.
2. `lead`: one product proves the points that lead in their own direction.
3. `search`: the others, each approximated by points that exceed it.
4. `witness`: functionals that were found are confirmed in the original coordinates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conecollapse._types import FloatArray, IntArray, Progress
from conecollapse.certificates import Metric
from conecollapse.geometry.certified.cost import Budget, lead_time, warn_of_rest
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.lead import led_by_themselves
from conecollapse.geometry.certified.proof import Decisions
from conecollapse.geometry.certified.search import RAY, REDUNDANT, UNDECIDED, search
from conecollapse.geometry.certified.witness import confirm


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
    budget = budget or Budget.endless()
    if not budget.take(lead_time(*U.shape)):
        return known
    frame = Frame.of(U)
    asked = known.undecided_among(share)
    if not any(isinstance(family, Metric) for family in known.families):
        led = led_by_themselves(frame, tol, share, progress)
        known = known.add(led.take(np.flatnonzero(known.undecided[led.of])))
        asked = known.undecided_among(share)
    if not budget.is_endless or not len(asked):
        return known
    status = np.where(known.undecided, UNDECIDED, np.where(known.sure, RAY, REDUNDANT))
    warn_of_rest(known.undecided, U)
    found = search(frame, status, asked, progress)
    rays = np.array(sorted(found.functional), np.int64)
    functionals = np.array([found.functional[int(i)] for i in rays]).reshape(len(rays), frame.dim)
    G, proven = confirm(functionals @ frame.T.T, rays, U, frame.sums, tol)
    inside = {i: (S, h * frame.sums[i] / frame.sums[S]) for i, (S, h) in found.combination.items()}
    known = replace(known, combination=known.combination | inside)
    return known.add_vectors(rays[proven], G[proven])
