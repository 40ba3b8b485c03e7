r"""Functionals as witnesses: shifted below zero on all other points, in float64 and in the original
coordinates.

*The shift.* On the slice :math:`q = u / \sum u` a functional a with :math:`a \cdot q_i > a \cdot
q_j` for all other j proves that point i is a ray. For any t between the largest of the other values
and the point's own, the vector :math:`g = a - t` has the signs of a witness: :math:`g \cdot u_i >
0` and :math:`g \cdot u_j \le 0`. It proves the distance :math:`g \cdot u_i / \|g\|`, so one product
of the functionals with the points confirms many rays at once (`confirm`).

*The lift.* A functional f on the support of :math:`u_i` that is not positive on the points with
their support inside it becomes a witness off the support: ``-L`` there, with L so large that the
mass of every other point off the support outweighs what f gives it (`needed_lift`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._linalg import dense_entries, row_norms
from conecollapse._nnls.active_set import ActiveSetResult, active_set, active_set_sparse
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

EPS = float(np.finfo(np.float64).eps)
# a proven distance must exceed tol by this factor, so that the checker's rounding cannot refuse it
CLEAR = 1.01
# unit functionals and shifts of at most 1 in steps of this have differences that float32 holds
# exactly
GRID = 2.0**-22
LIFT_MARGIN = 2.0  # a lift is this many times what is needed, so that rounding cannot undo it
# relative to |f|: costs next to nothing of the proven distance, and swallows rounding
LEAST_LIFT = 1e-3


def confirm(
    A: FloatArray, own: IntArray, U: Points, sums: FloatArray, tol: float, grid: float = GRID
) -> tuple[FloatArray, BoolArray]:
    """Shift each functional (row of A, about point ``own``) below zero on all other points; True
    where it then proves > tol.

    Half-way between the second largest value and the point's own is safest against rounding; where
    that is too short for ``tol``, the shift is just above the second largest. Where 22 binary
    digits of a are enough, g has no more than float32 holds, so that a certificate can store it in
    half the room; with ``grid=0`` that is not tried.
    """
    A = A / np.maximum(row_norms(A), np.finfo(np.float64).tiny)[:, None]
    needed = CLEAR * tol + 4 * (U.shape[1] + 2) * EPS
    G = np.empty_like(A)
    proven = np.zeros(len(A), bool)
    step = max(1, dense_entries(U) // U.shape[0])  # every thread has a block of products

    def attempt(which: IntArray, grid: float) -> IntArray:
        """Shift the functionals ``which``; those that then prove too little, but might prove more
        in more digits."""
        F = np.round(A[which] / grid) * grid if grid else A[which]
        values = (np.asarray((U @ F.T).T) if sp.issparse(U) else F @ U.T) / sums
        here = np.arange(len(which))
        lead = values[here, own[which]]
        values[here, own[which]] = -np.inf
        second = values.max(axis=1)
        G[which], proven[which] = _shift(F, (lead, second), sums, sums[own[which]], needed, grid)
        # values on the slice change by half a step of the grid at most
        return which[~proven[which] & (lead - second > -grid)]

    def work(first: int, last: int) -> None:
        for a in range(first, last, step):
            left = np.arange(a, min(a + step, last))
            if grid:
                left = attempt(left, grid)
            if len(left):
                attempt(left, 0.0)

    with serial_blas():
        for_ranges(work, len(A), smallest=16)
    return G, proven


def _shift(
    A: FloatArray,
    leads: tuple[FloatArray, FloatArray],
    sums: FloatArray,
    own_sums: FloatArray,
    needed: float,
    grid: float,
) -> tuple[FloatArray, BoolArray]:
    """`confirm` for some rows, by ``leads``: their values at their own points, and the largest at
    others. With a ``grid`` the shifts are rounded up to multiples of it."""
    lead, second = leads
    tight = least_shift(second, sums, A.shape[1])
    G, proven = np.empty_like(A), np.zeros(len(A), bool)
    for t in (np.maximum((lead + second) / 2, tight), tight):
        t = np.ceil(t / grid) * grid if grid else t
        shifted = A - t[:, None]
        distance = (lead - t) * own_sums / np.maximum(row_norms(shifted), EPS)
        G[~proven] = shifted[~proven]
        proven |= distance > needed
        if proven.all():
            break
    return G, proven


def least_shift(highest: FloatArray, sums: FloatArray, n: int) -> FloatArray:
    """A t from which on ``g = a - t`` is below zero on all points of the slice with
    ``a . q <= highest``, rounding included.

    A checker's rounding is at most (n + 2) roundoffs of ``|g| <= |a| + |t| sqrt(n)``, with unit a;
    we leave room for twice that.
    """
    return highest + 2 * (n + 2) * EPS * (1 + np.sqrt(n) * np.abs(highest)) / sums.min()


@kernel
def needed_lift(value, blur, outside):  # type: ignore[no-untyped-def]
    """The lift for a point to which the functional gives ``value``, up to ``blur``, and whose mass
    off the support is at least ``outside``."""
    return (LIFT_MARGIN * max(value, 0.0) + blur) / max(outside, 1e-300)


def project(U: Points, targets: FloatArray, **restriction: Any) -> ActiveSetResult:
    """Active set of each target over the rows of ``U``, dense or sparse."""
    return (active_set_sparse if sp.issparse(U) else active_set)(U, targets, **restriction)
