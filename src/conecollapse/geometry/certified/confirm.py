r"""Functionals as witnesses: shifted below zero on all other points, in float64 and in the original coordinates.

On the slice :math:`q = u / \sum u` a functional a with :math:`a \cdot q_i > a \cdot q_j` for all other j proves that point i is a ray. For
any t between the largest of the other values and the point's own, the vector :math:`g = a - t` has the signs of a witness:
:math:`g \cdot u_i > 0` and :math:`g \cdot u_j \le 0`. It proves the distance :math:`g \cdot u_i / \|g\|`, so one product of the
functionals with the points confirms many rays at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import dense_entries, row_norms
from conecollapse._nnls.active_set import ActiveSetResult, active_set, active_set_sparse
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

EPS = float(np.finfo(np.float64).eps)
CLEAR = 1.01  # a proven distance must exceed tol by this factor, so that the checker's rounding cannot refuse it
GRID = 2.0**-22  # unit functionals and shifts of at most 1 in steps of this have differences that float32 holds exactly


def confirm(A: FloatArray, own: IntArray, U: Points, sums: FloatArray, tol: float, grid: float = GRID) -> tuple[FloatArray, BoolArray]:
    """Shift each functional (row of A, about point ``own``) below zero on all other points; True where it then proves > tol.

    On the slice ``q = u / sums`` a shift by ``t`` is ``a - t``: with t between the second largest value and the point's own,
    ``g = a - t`` has the signs a witness needs. Half-way is safest against rounding; where that is too short for ``tol``, t is
    taken just above the second largest. Where 22 binary digits of a are enough, g has no more than float32 holds, so that a certificate
    can store it in half the room; with ``grid=0`` that is not tried.
    """
    A = A / np.maximum(row_norms(A), np.finfo(np.float64).tiny)[:, None]
    needed = CLEAR * tol + 4 * (U.shape[1] + 2) * EPS
    G = np.empty_like(A)
    proven = np.zeros(len(A), bool)
    step = max(1, dense_entries(U) // U.shape[0])  # every thread has a block of products

    def work(first: int, last: int) -> None:
        for a in range(first, last, step):
            again = np.arange(a, min(a + step, last))
            if grid:
                G[again], proven[again] = _shift(np.round(A[again] / grid) * grid, own[again], U, sums, needed, grid)
                again = again[~proven[again]]
            if len(again):
                G[again], proven[again] = _shift(A[again], own[again], U, sums, needed)

    with serial_blas():
        for_ranges(work, len(A), smallest=16)
    return G, proven


def _shift(A: FloatArray, own: IntArray, U: Points, sums: FloatArray, needed: float, grid: float = 0.0) -> tuple[FloatArray, BoolArray]:
    """`confirm` for some rows; with a ``grid`` the shifts are rounded up to multiples of it."""
    values = np.asarray((U @ A.T).T) if sp.issparse(U) else A @ U.T
    values /= sums
    here = np.arange(len(values))
    lead = values[here, own]
    values[here, own] = -np.inf
    second = values.max(axis=1)
    tight = least_shift(second, sums, A.shape[1])
    G, proven = np.empty_like(A), np.zeros(len(A), bool)
    for t in (np.maximum((lead + second) / 2, tight), tight):
        t = np.ceil(t / grid) * grid if grid else t
        shifted = A - t[:, None]
        distance = (lead - t) * sums[own] / np.maximum(row_norms(shifted), EPS)
        G[~proven] = shifted[~proven]
        proven |= distance > needed
    return G, proven


def least_shift(highest: FloatArray, sums: FloatArray, n: int) -> FloatArray:
    """A t from which on ``g = a - t`` is below zero on all points of the slice with ``a . q <= highest``, rounding included.

    A checker's rounding is at most (n + 2) roundoffs of ``|g| <= |a| + |t| sqrt(n)``, with unit a; we leave room for twice that.
    """
    return highest + 2 * (n + 2) * EPS * (1 + np.sqrt(n) * np.abs(highest)) / sums.min()


def project(U: Points, targets: FloatArray, **restriction: Any) -> ActiveSetResult:
    """Active set of each target over the rows of ``U``, dense or sparse."""
    return (active_set_sparse if sp.issparse(U) else active_set)(U, targets, **restriction)
