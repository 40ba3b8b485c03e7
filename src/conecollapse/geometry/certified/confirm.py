r"""Functionals as witnesses: shifted below zero on all other points, in float64 and in the original
coordinates.

On the slice :math:`q = u / \sum u` a functional a with :math:`a \cdot q_i > a \cdot q_j` for all
other j proves that point i is a ray. For any t between the largest of the other values and the
point's own, the vector :math:`g = a - t` has the signs of a witness: :math:`g \cdot u_i > 0` and
:math:`g \cdot u_j \le 0`. It proves the distance :math:`g \cdot u_i / \|g\|`, so one product of the
functionals with the points confirms many rays at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import CACHED, dense_entries, row_norms
from conecollapse._nnls.active_set import ActiveSetResult, active_set, active_set_sparse
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.geometry.certified.products import UNIT_ROUNDOFF_32

EPS = float(np.finfo(np.float64).eps)
# a proven distance must exceed tol by this factor, so that the checker's rounding cannot refuse it
CLEAR = 1.01
# unit functionals and shifts of at most 1 in steps of this have differences that float32 holds
# exactly
GRID = 2.0**-22
MANY = 64  # functionals for which it is worth while to round all points to float32

Leads = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray, FloatArray | float]]


def confirm(
    A: FloatArray,
    own: IntArray,
    U: Points,
    sums: FloatArray,
    tol: float,
    grid: float = GRID,
    *,
    once: bool = False,
) -> tuple[FloatArray, BoolArray]:
    """Shift each functional (row of A, about point ``own``) below zero on all other points; True
    where it then proves > tol.

    On the slice ``q = u / sums`` a shift by ``t`` is ``a - t``: with t between the second largest
    value and the point's own, ``g = a - t`` has the signs a witness needs. Half-way is safest
    against rounding; where that is too short for ``tol``, t is taken just above the second largest.
    Where 22 binary digits of a are enough, g has no more than float32 holds, so that a certificate
    can store it in half the room; with ``grid=0`` that is not tried. Such functionals are
    multiplied in float32 first, as long as that proves most of them. What is not proven then is
    tried in more digits, unless each functional may be multiplied ``once`` only.
    """
    A = A / np.maximum(row_norms(A), np.finfo(np.float64).tiny)[:, None]
    needed = CLEAR * tol + 4 * (U.shape[1] + 2) * EPS
    G = np.empty_like(A)
    proven = np.zeros(len(A), bool)
    step = max(1, dense_entries(U) // U.shape[0])  # every thread has a block of products
    in_double = partial(_leads, U, sums)
    in_single = (
        partial(_leads_single, _single_slice(U, sums), sums)
        if grid and (once or len(A) >= MANY) and not sp.issparse(U)
        else None
    )

    def attempt(which: IntArray, leads: Leads, grid: float) -> IntArray:
        """Shift the functionals ``which``; those that then prove too little, but might prove more
        in more digits."""
        F = np.round(A[which] / grid) * grid if grid else A[which]
        lead, second, error = leads(F, own[which])
        G[which], proven[which] = _shift(
            F, (lead - error, second + error), sums, sums[own[which]], needed, grid
        )
        # values on the slice change by half a step of the grid at most
        return which[~proven[which] & (lead - second > -2 * error - grid)]

    def work(first: int, last: int) -> None:
        helps = True
        for a in range(first, last, step):
            left = np.arange(a, min(a + step, last))
            if in_single is not None and (once or helps):
                asked, left = left, attempt(left, in_single, grid)
                helps = proven[asked].mean() >= 0.5
                if once:
                    continue
            if grid and len(left):
                left = attempt(left, in_double, grid)
            if len(left):
                attempt(left, in_double, 0.0)

    with serial_blas():
        for_ranges(work, len(A), smallest=16)
    return G, proven


def _leads(
    U: Points, sums: FloatArray, A: FloatArray, own: IntArray
) -> tuple[FloatArray, FloatArray, float]:
    """The value of each functional (row of A) at its own point of the slice, its largest value at
    another point, and their error.

    The rounding of float64 counts as none here: `_shift` leaves room for it.
    """
    values = np.asarray((U @ A.T).T) if sp.issparse(U) else A @ U.T
    values /= sums
    here = np.arange(len(values))
    lead = values[here, own]
    values[here, own] = -np.inf
    return lead, values.max(axis=1), 0.0


def _single_slice(U: FloatArray, sums: FloatArray) -> AnyArray:
    """The points of the slice in float32."""
    Q = np.empty(U.shape, np.float32)
    step = max(1, CACHED // U.shape[1])
    for a in range(0, len(U), step):
        Q[a : a + step] = U[a : a + step] / sums[a : a + step, None]
    return Q


def _leads_single(
    Q: AnyArray, sums: FloatArray, A: FloatArray, own: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """As `_leads`, from a product in float32, which holds ``A`` exactly."""
    values = A.astype(np.float32) @ Q.T
    here = np.arange(len(values))
    lead = values[here, own].astype(np.float64)
    values[here, own] = -np.inf
    # n roundoffs of |a| |q| for the sum (see `products`), one for q in float32, and room for
    # products of these errors; |q| is 1 / sum u
    error = (Q.shape[1] + 4) * UNIT_ROUNDOFF_32 * row_norms(A) / sums.min()
    return lead, values.max(axis=1).astype(np.float64), error


def _shift(
    A: FloatArray,
    leads: tuple[FloatArray, FloatArray],
    sums: FloatArray,
    own_sums: FloatArray,
    needed: float,
    grid: float,
) -> tuple[FloatArray, BoolArray]:
    """`confirm` for some rows, by their `_leads`; with a ``grid`` the shifts are rounded up to
    multiples of it."""
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


def project(U: Points, targets: FloatArray, **restriction: Any) -> ActiveSetResult:
    """Active set of each target over the rows of ``U``, dense or sparse."""
    return (active_set_sparse if sp.issparse(U) else active_set)(U, targets, **restriction)
