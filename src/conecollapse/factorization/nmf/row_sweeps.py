r"""Sweeps of coordinate descent over the rows of one factor while the other is fixed.

.. math:: \min_{w \ge 0} w G w^T - 2 c w^T, \qquad
   w_k \leftarrow \max\Big(0,\ w_k + \frac{c_k - \sum_j G_{kj} w_j}{G_{kk}}\Big).

Rows do not depend on each other. *Where they share G*, as they do unless entries are missing, the
rows are the lanes of vector instructions: the gradient of coordinate k is computed anew when its
turn comes, for `LANES` rows at once, as a sum of rows of a transposed tile whose entries lie side
by side. Nothing is summed within a row, and no gradient is kept up to date. On factors that are
mostly zeros this takes as long as passing over the zeros does (REUTERS at rank 65, 98 % of the time
of a kernel for that), and on dense ones 15 % less. *Where each row has a matrix of its own*, or
entries that are fixed, rows are swept one by one.

Each thread sweeps rows of its own while they are in cache. How many that are does not depend on the
number of threads, and so neither does the result.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import CACHED
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, BoolArray, IntArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.tables import Equations
from conecollapse.tables.protocol import Part

STILL = 0.01  # a sweep that moves rows by this share (squared) of their first sweep is the last
LANES = 64  # rows that are swept at once: with 40 coordinates they fill the fastest cache


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
    new = np.empty(W.shape, W.dtype)
    ahead = np.empty_like(new) if beta else new
    for part in equations.parts():
        rows = part.rows
        if len(part.G) == 1 and fixed is None:
            _sweep_shared(
                _Rows(W[rows], part.C, before[rows], new[rows], ahead[rows]),
                part.G[0],
                sweeps,
                beta,
            )
            continue
        new[rows] = W[rows]
        _sweep_one_by_one(new, part, sweeps, fixed)
        if beta:
            ahead[rows] = np.maximum(
                new[rows] + new.dtype.type(beta) * (new[rows] - before[rows]), 0
            )
    return new, ahead


class _Rows(NamedTuple):
    """Rows of a factor and of what belongs to them; the last two are written."""

    W: AnyArray
    C: AnyArray
    before: AnyArray
    new: AnyArray
    ahead: AnyArray

    def part(self, rows: slice) -> _Rows:
        return _Rows(*(F[rows] for F in self))


def _sweep_shared(rows: _Rows, G: AnyArray, sweeps: int, beta: float) -> None:
    """Sweeps of rows that share G, some rows at a time, which stay in cache."""
    n, r = rows.W.shape
    G = np.ascontiguousarray(G, rows.W.dtype)
    diagonal = G.diagonal()
    inverse = np.divide(1, diagonal, out=np.zeros(r, G.dtype), where=diagonal > 0)
    size = max(LANES, CACHED // (4 * r))

    def work(start: int, stop: int) -> None:
        tile = Lanes.of(r, G.dtype)
        for a in range(start * size, min(stop * size, n), size):
            _sweep_lanes(rows.part(slice(a, a + size)), G, inverse, (sweeps, beta), tile)

    with serial_blas() if n > size else nullcontext():
        for_ranges(work, -(-n // size))


class Lanes(NamedTuple):
    """A tile of rows, transposed. It is made outside the kernel, because an array that a kernel
    makes takes long to compile."""

    w: AnyArray  # (r, LANES)
    c: AnyArray
    g: AnyArray  # (LANES,): the gradients of one coordinate

    @classmethod
    def of(cls, r: int, dtype: Any) -> Lanes:
        return cls(np.zeros((r, LANES), dtype), np.zeros((r, LANES), dtype), np.zeros(LANES, dtype))


@kernel(fastmath=True, error_model="numpy")
def _sweep_lanes(rows, G, inverse, how, tile):  # type: ignore[no-untyped-def]
    """Sweeps over a few rows, `LANES` at a time, which end when these together hardly move; and the
    rows moved on along their step."""
    sweeps, beta = how
    W, C, before, new, ahead = rows.W, rows.C, rows.before, rows.new, rows.ahead
    w, c, g = tile.w, tile.c, tile.g
    r = W.shape[1]
    for a in range(0, len(W), LANES):
        size = min(LANES, len(W) - a)
        for k in range(r):
            for t in range(size, LANES):
                w[k, t] = 0
                c[k, t] = 0
        for t in range(size):
            for k in range(r):
                w[k, t], c[k, t] = W[a + t, k], C[a + t, k]
        first = moved = 0 * inverse[0]
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
                new[a + t, k] = w[k, t]
                ahead[a + t, k] = max(w[k, t] + beta * (w[k, t] - before[a + t, k]), 0)


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


class Problems(NamedTuple):
    """What the kernel sees of a `Part`."""

    G: AnyArray  # (matrices, r, r)
    of: IntArray
    C: AnyArray
    free: BoolArray  # (rows or 1, r)


def _sweep_one_by_one(W: AnyArray, part: Part, sweeps: int, fixed: Fixed | None) -> None:
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
        _sweep_row(w, g, G, part.free[i if len(part.free) > 1 else 0], sweeps)


@kernel(fastmath=True)
def _sweep_row(w, g, G, free, sweeps):  # type: ignore[no-untyped-def]
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
