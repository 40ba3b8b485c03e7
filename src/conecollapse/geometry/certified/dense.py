"""The certified cone of dense points, stage by stage.

1. `frame`: round coordinates.
2. `products`: one symmetric product proves the points that lead in their own direction.
3. `search`: an active set for each of the others.
4. `settle`: float64, original coordinates, all points.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import CACHED
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray, Progress
from conecollapse.certificates import Metric
from conecollapse.geometry.certified.budget import (
    VARIANCE,
    VARIANCE_ENTRY,
    Budget,
    lead_time,
    variance_time,
)
from conecollapse.geometry.certified.confirm import CLEAR, EPS, confirm
from conecollapse.geometry.certified.estimate import warn_of_rest
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.products import leading_products
from conecollapse.geometry.certified.proof import Known, Proof, all_open
from conecollapse.geometry.certified.search import RAY, REDUNDANT, UNDECIDED, search
from conecollapse.geometry.certified.settle import settle
from conecollapse.geometry.certified.variance import led_by_variance


def prove_dense(
    U: FloatArray,
    tol: float,
    progress: Progress = None,
    *,
    budget: Budget | None = None,
    known: Known | None = None,
    multiply: bool = True,
) -> Proof:
    """Rays of two or more unit rows ``U``, no two of them colinear, with witnesses and
    combinations.

    Where there is a limit to the ``budget``, what the product does not prove within it is left
    open. What is ``known`` is not proven again; without ``multiply`` the product, which made it
    known, is left out.
    """
    m, n = U.shape
    known = known or Known(np.zeros(m, bool), {}, ())
    undecided = known.undecided
    budget = budget or Budget.endless()
    if not budget.take(lead_time(m, n)):
        return _by_variance(U, tol, known, budget)
    frame = Frame.of(U)
    families: tuple[Metric, ...] = ()
    lead, by_product = known.sure.copy(), known.sure.copy()
    if multiply:
        leads, proven, offset = _lead_in_own_direction(frame, U, tol, budget, progress)
        led = np.flatnonzero(proven & undecided)
        families = (Metric(led, frame.T.astype(np.float32), frame.centre, offset[led]),)
        lead |= leads & undecided
        by_product[led] = True
    if not budget.is_endless:
        settled = settle(U, frame.sums, tol, by_product, known.combination, progress, "quick")
        return Proof.of_settled(settled, {}, n, *families, known=known)
    status = np.where(lead, RAY, np.where(undecided, UNDECIDED, REDUNDANT))
    warn_of_rest(status == UNDECIDED, U)
    by_lead = np.flatnonzero(lead & ~by_product)
    led_along = frame.Z[by_lead] @ frame.T.T
    frame = frame.for_search()
    found = search(frame, status, progress)
    searched = np.array(sorted(found.functional), np.int64)
    claimed = np.concatenate([by_lead, searched])
    A = np.vstack(
        [
            led_along,
            np.array([found.functional[int(i)] for i in searched]).reshape(-1, frame.Z.shape[1])
            @ frame.T.T,
        ]
    )
    G, proven = confirm(A, claimed, U, frame.sums, tol)
    sure = by_product.copy()
    sure[claimed[proven]] = True
    combination = dict(known.combination)
    combination |= {
        i: (S, h * frame.sums[i] / frame.sums[S]) for i, (S, h) in found.combination.items()
    }
    settled = settle(U, frame.sums, tol, sure, combination, progress)

    witness = dict(zip(claimed[proven].tolist(), G[proven], strict=True))
    return Proof.of_settled(settled, witness, n, *families, known=known)


def _by_variance(U: FloatArray, tol: float, known: Known, budget: Budget) -> Proof:
    """A quick cone where round coordinates cost too much: points that lead in their own direction
    in the metric ``diag(1 / variance)``."""
    m, n = U.shape
    each = variance_time(m, n)
    n_asked = int((budget.left - VARIANCE - VARIANCE_ENTRY * m * n) / each)
    if n_asked <= 0:
        return all_open(m, n)
    sums = U.sum(axis=1)
    sure, asked = known.sure.copy(), np.flatnonzero(known.undecided)[:n_asked]
    budget.spend(VARIANCE + VARIANCE_ENTRY * m * n + each * len(asked))
    led = led_by_variance(U, sums, asked, tol, once=True)
    sure[list(led)] = True
    return Proof.of_settled(
        settle(U, sums, tol, sure, known.combination, None, "quick"), led, n, known=known
    )


def _lead_in_own_direction(
    frame: Frame, U: FloatArray, tol: float, budget: Budget, progress: Progress
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Points that lead in their own direction, those for which the shared metric proves it well,
    and its offsets.

    The offset of ``T z_i`` is half-way between the point's own value and the next, or just above
    the next where that proves too little. Where rounding in ``T T' (q - centre)`` could matter at
    that scale the functional is left to be confirmed as an explicit vector.
    """
    Z, (m, n) = frame.Z, U.shape
    # |z|^2 and |T z|^2: the columns of T are orthogonal with lengths scale
    own, stretched = np.empty(m), np.empty(m)

    def measure(start: int, stop: int) -> None:
        for a in range(start, stop, 256):
            rows = slice(a, min(a + 256, stop))
            squares = Z[rows] ** 2
            own[rows] = squares.sum(axis=1)
            stretched[rows] = squares @ frame.scale**2

    for_ranges(measure, m, smallest=max(256, CACHED // n))
    largest, error = leading_products(Z, frame.single, own, budget, progress)
    lead = own - largest
    rounding = 32 * EPS * (n + frame.scale.max() / frame.scale.min()) / frame.spread
    centred, total = Z @ (frame.T.T @ frame.centre), Z @ frame.T.sum(axis=0)

    def proven_from(shift: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Offsets ``shift`` above the next point's value, the lengths of the witnesses
        ``T z - offset``, and the distances proven."""
        offset = largest + shift + centred
        norm = np.sqrt(
            np.maximum(stretched - 2 * offset * total + n * offset**2, np.finfo(np.float64).tiny)
        )
        return offset, norm, (lead - shift) * frame.sums / norm

    offset, norm, distance = proven_from(lead / 2)
    leads, needed = lead > 2 * error, CLEAR * tol + rounding
    use_tight = leads & (distance <= needed)
    if use_tight.any():
        tight = 2 * rounding * norm / frame.sums.min()
        offset_tight, _, distance_tight = proven_from(tight)
        use_tight &= tight < lead / 2
        distance, offset = (
            np.where(use_tight, distance_tight, distance),
            np.where(use_tight, offset_tight, offset),
        )
    return leads, leads & (distance > needed), offset
