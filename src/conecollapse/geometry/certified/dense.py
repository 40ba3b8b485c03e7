"""The certified cone of dense points, stage by stage.

1. `frame`: round coordinates. 2. `products`: one symmetric product proves the points that lead in their own direction.
3. `search`: an active set for each of the others. 4. `settle`: float64, original coordinates, all points.
"""

from __future__ import annotations

import numpy as np

from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, Effort, FloatArray, Progress
from conecollapse.certificates import Metric
from conecollapse.geometry.certified.estimate import warn_of_rest
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.products import largest_products
from conecollapse.geometry.certified.proof import Known, Proof
from conecollapse.geometry.certified.search import RAY, REDUNDANT, UNDECIDED, search
from conecollapse.geometry.certified.settle import CLEAR, EPS, confirm, settle

HIGH_DIMENSION = 200
POWER_LOW, POWER_HIGH = 0.35, 0.5  # fully whitened products prove most; milder scaling keeps active sets shorter


def prove_dense(U: FloatArray, tol: float, progress: Progress = None, *, effort: Effort = "exact", known: Known | None = None) -> Proof:
    """Rays of two or more unit rows ``U``, no two of them colinear, with witnesses and combinations.

    With ``effort="quick"`` what the product does not prove is left open. What is ``known`` is not proven again.
    """
    n = U.shape[1]
    frame = Frame.of(U, POWER_HIGH if n >= HIGH_DIMENSION else POWER_LOW)
    if known is None:
        lead, by_product, offset = _lead_in_own_direction(frame, U, tol, progress)
        led = np.flatnonzero(by_product)
        families: tuple[Metric, ...] = (Metric(led, frame.T.astype(np.float32), frame.centre, offset[led]),)
        status = np.where(lead, RAY, UNDECIDED)
    else:
        lead = by_product = known.sure
        families = ()
        status = np.where(lead, RAY, np.where(known.undecided, UNDECIDED, REDUNDANT))
    if effort == "quick":
        settled = settle(U, frame.sums, tol, by_product, {} if known is None else known.combination, progress, effort)
        return Proof.of_settled(settled, {}, n, *families, known=known)
    warn_of_rest(status == UNDECIDED, U)
    found = search(frame, status, progress)
    functional = found.functional | {int(i): frame.Z[i] for i in np.flatnonzero(lead & ~by_product)}

    claimed = np.array(sorted(functional), np.int64)
    A = np.array([functional[int(i)] for i in claimed]).reshape(-1, frame.Z.shape[1]) @ frame.T.T
    G, proven = confirm(A, claimed, U, frame.sums, tol)
    sure = by_product.copy()
    sure[claimed[proven]] = True
    combination = {} if known is None else dict(known.combination)
    combination |= {i: (S, h * frame.sums[i] / frame.sums[S]) for i, (S, h) in found.combination.items()}
    settled = settle(U, frame.sums, tol, sure, combination, progress)

    witness = dict(zip(claimed[proven].tolist(), G[proven], strict=True))
    return Proof.of_settled(settled, witness, n, *families, known=known)


def _lead_in_own_direction(frame: Frame, U: FloatArray, tol: float, progress: Progress) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Points that lead in their own direction, those for which the shared metric proves it well, and its offsets.

    The offset of ``T z_i`` is half-way between the point's own value and the next. Where rounding in ``T T' (q - centre)`` could
    matter at that scale the functional is left to be confirmed as an explicit vector.
    """
    Z, (m, n) = frame.Z, U.shape
    own, stretched = np.empty(m), np.empty(m)  # |z|^2 and |T z|^2: the columns of T are orthogonal with lengths scale

    def measure(start: int, stop: int) -> None:
        for a in range(start, stop, 256):
            rows = slice(a, min(a + 256, stop))
            squares = Z[rows] ** 2
            own[rows] = squares.sum(axis=1)
            stretched[rows] = squares @ frame.scale**2

    for_ranges(measure, m, smallest=256)
    largest, error = largest_products(frame.single, np.sqrt(own), progress)
    half = (own - largest) / 2
    offset = largest + half + Z @ (frame.T.T @ frame.centre)
    norm2 = stretched - 2 * offset * (Z @ frame.T.sum(axis=0)) + n * offset**2  # |T z - offset|^2
    distance = half * frame.sums / np.sqrt(np.maximum(norm2, np.finfo(np.float64).tiny))
    rounding = 32 * EPS * (n + frame.scale.max() / frame.scale.min()) / frame.spread
    lead = half > error
    return lead, lead & (distance > CLEAR * tol + rounding), offset
