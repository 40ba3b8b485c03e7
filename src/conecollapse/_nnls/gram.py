"""Non-negative least squares from products alone: ``min |A x - b|, x >= 0`` given only ``G = A'A``
and ``c = A'b``.

Alternating methods need this form: they have many right-hand sides, few unknowns, and data that may
be sparse or not in memory.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import unit_rows
from conecollapse._nnls.active_set import active_set
from conecollapse._nnls.bpp import block_pivoting
from conecollapse._nnls.normal import solve_by_products
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray

# gradients of unit columns up to this share of the largest entry of c are rounding
GRADIENT_ZERO = 1e-13
RANK = 1e-13  # eigenvalues of the unit Gram matrix below this share of the largest are rounding


def solve_gram(G: FloatArray, C: FloatArray, start: BoolArray | None = None) -> FloatArray:
    """One solution for each row c of ``C``, by block pivoting, and by the rank-safe active set for
    rows where that breaks.

    ``start`` gives passive sets to try first. Columns of A that are zero (zeros on the diagonal of
    ``G``) get the coefficient zero.
    """
    length = np.sqrt(np.maximum(np.diag(G), 0.0))
    inverse = 1 / np.where(length > 0, length, np.inf)
    unit_G = G * inverse * inverse[:, None]
    unit_C = np.ascontiguousarray(C * inverse)
    scale = np.abs(unit_C).max(axis=1, initial=0.0)
    result = block_pivoting(unit_G, unit_C, scale, start=start)
    X = result.X
    broken = np.flatnonzero(~result.solved)
    if len(broken):
        X[broken] = _rank_safe(unit_G, unit_C[broken])
    return np.asarray(np.maximum(X, 0.0) * inverse)


def solve_gram_few(G: FloatArray, C: FloatArray) -> FloatArray:
    """The same for unit columns by an active set for each row: quicker where few entries are
    positive, in sets that differ."""
    X, is_left = np.empty_like(C), np.zeros(len(C), bool)

    def work(start: int, stop: int) -> None:
        solve_by_products(G, C, GRADIENT_ZERO, X, is_left, start, stop)

    for_ranges(work, len(C), smallest=16)
    left = np.flatnonzero(is_left)
    if len(left):
        X[left] = solve_gram(G, C[left])
    return X


def _rank_safe(G: FloatArray, C: FloatArray) -> FloatArray:
    """The same by an active set over a square root K of G: with ``K K' = G`` and ``K b = c`` the
    problems are equal."""
    values, vectors = np.linalg.eigh(G)
    kept = values > RANK * max(values[-1], 0.0)
    if not kept.any():
        return np.zeros_like(C)
    root = np.sqrt(values[kept])
    B, lengths = unit_rows(C @ vectors[:, kept] / root)
    return (
        active_set(np.ascontiguousarray(vectors[:, kept] * root), B).dense(len(G))
        * lengths[:, None]
    )
