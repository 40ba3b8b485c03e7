r"""Sweeps of coordinate descent over the rows of one factor while the other is fixed.

.. math:: \min_{w \ge 0} w G w^T - 2 c w^T, \qquad
   w_k \leftarrow \max\Big(0,\ w_k + \frac{c_k - \sum_j G_{kj} w_j}{G_{kk}}\Big).

Rows do not depend on each other. *Where they share G*, as they do unless entries are missing, a few
rows at a time are transposed and swept together, as the lanes of vector instructions: the gradient
of coordinate k is computed anew when its turn comes. On ORL at rank 40 this takes three quarters of
the time of sweeps row by row. *Where each row has a matrix of its own*, or entries that are fixed,
rows are swept one by one, and the gradient goes along.

How many rows are swept together does not depend on the number of threads, and so neither does the
result.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import CACHED
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.tables import Equations
from conecollapse.tables.protocol import Part

STILL = 0.01  # a sweep that moves rows by this share (squared) of their first sweep is the last
LANES = 64  # rows that are swept together: with 40 coordinates they fill the fastest cache


def sweep(W: AnyArray, equations: Equations, sweeps: int) -> AnyArray:
    """Coordinate descent on every row of ``W`` for ``w G w' - 2 c w'``: up to ``sweeps`` rounds
    over its entries."""
    return sweep_ahead(W, equations, sweeps, W, 0.0)[0]


def sweep_ahead(
    W: AnyArray,
    equations: Equations,
    sweeps: int,
    before: AnyArray,
    beta: float,
    fixed: Fixed | None = None,
) -> tuple[AnyArray, AnyArray]:
    """W after coordinate descent, and that moved on: ``max(W + beta (W - before), 0)``. With beta =
    0 both are one array."""
    new = np.array(W, order="C")
    for part in equations.parts():
        is_shared = len(part.G) == 1 and fixed is None
        (_sweep_together if is_shared else _sweep_one_by_one)(new[part.rows], part, sweeps, fixed)
    if not beta:
        return new, new
    ahead = np.empty_like(new)
    size = max(LANES, CACHED // (4 * W.shape[1]))
    for a in range(0, len(W), size):  # some rows at a time, which stay in cache
        rows = slice(a, a + size)
        moved = np.subtract(new[rows], before[rows], out=ahead[rows])
        moved *= new.dtype.type(beta)
        moved += new[rows]
        np.maximum(moved, 0, out=moved)
    return new, ahead


def _sweep_together(W: AnyArray, part: Part, sweeps: int, _: Fixed | None) -> None:
    """Sweeps of rows that share G, in place, some of them at a time."""
    n, r = W.shape
    G = np.ascontiguousarray(part.G[0], W.dtype)
    inverse = np.divide(1, G.diagonal(), out=np.zeros(r, G.dtype), where=G.diagonal() > 0)
    size = max(LANES, CACHED // (4 * r))

    def work(start: int, stop: int) -> None:
        # made here, because an array that a kernel makes takes long to compile
        tile = np.zeros((2, r, LANES), W.dtype)
        gradient = np.zeros(LANES, W.dtype)
        for a in range(start * size, min(stop * size, n), size):
            rows = slice(a, a + size)
            _sweep_lanes(W[rows], part.C[rows], G, inverse, sweeps, tile[0], tile[1], gradient)

    with serial_blas() if n > size else nullcontext():
        for_ranges(work, -(-n // size))


@kernel(fastmath=True, error_model="numpy")
def _sweep_lanes(W, C, G, inverse, sweeps, w, c, g):  # type: ignore[no-untyped-def]
    """Sweeps over a few rows in place, `LANES` at a time, which end when these together hardly
    move."""
    r = W.shape[1]
    for a in range(0, len(W), LANES):
        size = min(LANES, len(W) - a)
        w[:, size:] = 0
        c[:, size:] = 0
        for t in range(size):
            for k in range(r):
                w[k, t], c[k, t] = W[a + t, k], C[a + t, k]
        first = 0 * inverse[0]
        for s in range(sweeps):
            moved = 0 * inverse[0]
            for k in range(r):
                moved += _descend_coordinate(w, c[k], g, G[k], inverse[k], k)
            if s == 0:
                first = moved
            if moved <= STILL * first:
                break
        for t in range(size):
            for k in range(r):
                W[a + t, k] = w[k, t]


@kernel(fastmath=True, error_model="numpy")
def _descend_coordinate(w, c, g, Gk, inverse, k):  # type: ignore[no-untyped-def]
    """Bring coordinate ``k`` of all rows to its minimum; how far the objective falls by that,
    twice."""
    r = len(Gk)
    for t in range(LANES):
        g[t] = c[t]
    for j in range(0, r - 3, 4):
        o, p, q, u = Gk[j], Gk[j + 1], Gk[j + 2], Gk[j + 3]
        for t in range(LANES):
            g[t] -= (o * w[j, t] + p * w[j + 1, t]) + (q * w[j + 2, t] + u * w[j + 3, t])
    for j in range(r // 4 * 4, r):
        for t in range(LANES):
            g[t] -= Gk[j] * w[j, t]
    moved = 0 * inverse
    for t in range(LANES):
        change = max(g[t] * inverse, -w[k, t])
        w[k, t] += change
        moved += change * change
    return moved * Gk[k]


def _sweep_one_by_one(W: AnyArray, part: Part, sweeps: int, fixed: Fixed | None) -> None:
    """Sweeps of rows with a matrix each, in place, over the entries that are not fixed."""
    r = W.shape[1]
    free = np.ones((1, r), bool) if fixed is None else fixed.rows(part.rows)[0]
    G, C = np.ascontiguousarray(part.G, W.dtype), np.array(part.C, W.dtype, order="C")

    def work(start: int, stop: int) -> None:
        _sweep_rows(W, C, G, part.of, free, sweeps, start, stop)

    for_ranges(work, len(W), smallest=max(1, 2**16 // (1 + r**2)))


@kernel(fastmath=True)
def _sweep_rows(W, gradients, G, of, free, sweeps, start, stop):  # type: ignore[no-untyped-def]
    """Sweeps of each row; ``gradients`` are c at first, and a coordinate that does not move costs
    nothing."""
    r = W.shape[1]
    for i in range(start, stop):
        w, g, own, may_move = W[i], gradients[i], G[of[i]], free[i % len(free)]
        for k in range(r):
            if w[k] != 0:
                for j in range(r):
                    g[j] -= w[k] * own[k, j]
        first = w.dtype.type(0)
        for t in range(sweeps):
            moved = w.dtype.type(0)
            for k in range(r):
                if own[k, k] <= 0 or not may_move[k]:
                    continue
                change = max(g[k] / own[k, k], -w[k])
                if change != 0:
                    w[k] += change
                    for j in range(r):
                        g[j] -= change * own[k, j]
                    moved += change * change * own[k, k]
            if t == 0:
                first = moved
            if moved <= STILL * first:
                break
