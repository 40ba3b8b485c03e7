r"""The rows of one factor while the other is fixed, where rows have normal equations of their own
or entries that do not move.

.. math:: \min_{w_i \ge 0} w_i G_i w_i^T - 2 c_i w_i^T

`solve` finds the minima by block pivoting where rows share one matrix, and by the active set of
`conecollapse._nnls.products` else; `sweep_rows` takes steps of coordinate descent. With entries u
that are known, the others solve the same problem with :math:`c_i - u_i G_i`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls import products
from conecollapse._nnls.products import solve_gram
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.factorization.fixed import Fixed
from conecollapse.tables import Equations
from conecollapse.tables.protocol import Part

STILL = 0.01  # a row whose sweep moves it by this share (squared) of its first sweep is done
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
        np.full((1, r), np.inf),
        np.ascontiguousarray(free & (units > 0)),
        size,
    )
    X = products.solve(problems, begin).X
    return np.asarray(np.maximum(X, 0.0) * units * free + values)


class Problems(NamedTuple):
    """What the kernel sees of a `Part`."""

    G: AnyArray  # (matrices, r, r)
    of: IntArray
    C: AnyArray
    free: BoolArray  # (rows or 1, r)


def sweep_rows(W: AnyArray, part: Part, sweeps: int, fixed: Fixed | None) -> None:
    """Coordinate descent on these rows of ``W`` in place, up to ``sweeps`` rounds, over the entries
    that are not fixed."""
    free = np.ones((1, W.shape[1]), bool) if fixed is None else fixed.rows(part.rows)[0]
    problems = Problems(
        np.ascontiguousarray(part.G, W.dtype), part.of, np.ascontiguousarray(part.C, W.dtype), free
    )
    rows = W[part.rows]

    def work(start: int, stop: int) -> None:
        _sweep_each(rows, problems, sweeps, start, stop)

    for_ranges(work, len(rows), smallest=max(1, 2**16 // (1 + W.shape[1] ** 2)))


@kernel(fastmath=True)
def _sweep_each(W, part, sweeps, start, stop):  # type: ignore[no-untyped-def]
    r = W.shape[1]
    g = np.empty(r, W.dtype)
    for i in range(start, stop):
        w, G = W[i], part.G[part.of[i]]
        for k in range(r):
            g[k] = part.C[i, k]
        for k in range(r):
            if w[k] != 0:
                for j in range(r):
                    g[j] -= w[k] * G[k, j]
        sweep_row(w, g, G, part.free[i if len(part.free) > 1 else 0], sweeps)


@kernel(fastmath=True)
def sweep_row(w, g, G, free, sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent on one row in place; g is ``c - w G`` and goes along. A coordinate that
    does not move costs nothing."""
    r = len(w)
    first = w.dtype.type(0)
    for t in range(sweeps):
        moved = w.dtype.type(0)
        for k in range(r):
            if G[k, k] <= 0 or not free[k]:
                continue
            change = max(g[k] / G[k, k], -w[k])
            if change != 0:
                w[k] += change
                for j in range(r):
                    g[j] -= change * G[k, j]
                moved += change * change * G[k, k]
        if t == 0:
            first = moved
        if moved <= STILL * first:
            break
