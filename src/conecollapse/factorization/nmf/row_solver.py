r"""The rows of one factor while the other is fixed, where rows have normal equations of their own
or entries that do not move.

.. math:: \min_{w_i \ge 0} w_i G_i w_i^T - 2 c_i w_i^T

`solve` finds the minima by block pivoting where rows share one matrix, and by the active set of
`conecollapse._nnls.products` else. With entries u that are known, the others solve the same
problem with :math:`c_i - u_i G_i`.
"""

from __future__ import annotations

import numpy as np

from conecollapse._nnls import products
from conecollapse._nnls.products import solve_gram
from conecollapse._types import AnyArray, BoolArray, FloatArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.tables import Equations
from conecollapse.tables.protocol import Part

ALONE = 16  # rows of a matrix from which on they are solved together


def solve(
    equations: Equations, start: AnyArray | None = None, fixed: Fixed | None = None
) -> AnyArray:
    """Rows x >= 0 that minimise ``x G x' - 2 c x'``, in the precision of C; sets of positive
    entries of ``start`` are tried first."""
    out = np.zeros_like(equations.C)
    for part in equations.parts():
        out[part.rows] = _solve_part(
            part,
            None if start is None else start[part.rows],
            None if fixed is None else fixed.rows(part.rows),
        )
    return out


def _solve_part(
    part: Part, start: AnyArray | None, known: tuple[BoolArray, AnyArray] | None
) -> FloatArray:
    C = np.asarray(part.C, np.float64)
    if known is None and len(part.G) == 1:
        return solve_gram(
            np.asarray(part.G[0], np.float64), C, None if start is None else start > 0
        )
    if known is None and len(C) >= ALONE * len(part.G):
        out = np.empty_like(C)
        for g, G in enumerate(np.asarray(part.G, np.float64)):
            rows = np.flatnonzero(part.of == g)
            out[rows] = solve_gram(G, C[rows], None if start is None else start[rows] > 0)
        return out
    r = C.shape[1]
    free, values = (np.ones((1, r), bool), np.zeros((1, r))) if known is None else known
    length = np.sqrt(np.maximum(np.einsum("gkk->gk", part.G), 0.0))
    inverse = 1 / np.where(length > 0, length, np.inf)
    G = np.ascontiguousarray(part.G * inverse[:, :, None] * inverse[:, None, :], np.float64)
    units = inverse[part.of]
    if known is not None:
        C = C - np.einsum("ik,ikj->ij", values, part.G[part.of])
    C = np.ascontiguousarray(C * units)
    size = np.abs(C).max(axis=1, initial=0.0)
    begin = (
        np.zeros_like(C)
        if start is None
        else np.where(free & (units > 0), start / np.where(units > 0, units, 1.0), 0.0)
    )
    problems = products.Problems(
        G,
        part.of,
        C,
        np.where(free & (units > 0), np.inf, 0.0),
        size,
    )
    X = products.solve(problems, begin).X
    return np.asarray(np.maximum(X, 0.0) * units * free + values)
