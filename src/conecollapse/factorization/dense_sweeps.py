r"""Sweeps of coordinate descent over rows that share G, for factors with few zeros: the rows are
the lanes of vector instructions.

The gradient of coordinate k is :math:`c_k - \sum_j G_{kj} w_j`, computed anew when its turn comes.
For LANES rows at once it is a sum of rows of a transposed tile, whose entries lie side by side:
nothing is summed within a row, and no gradient is kept up to date. That takes half the time of
`hals`' sweeps, which pass over entries that are zero and stay so, and are better where most of them
do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._types import AnyArray
from conecollapse.factorization.rows import STILL

LANES = 64  # rows that are swept at once: with 40 coordinates they fill the fastest cache


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
def sweep_dense(rows, G, inverse, how, tile):  # type: ignore[no-untyped-def]
    """As `hals._sweep_rows`, but a tile ends when its rows together hardly move."""
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
                moved += descend_coordinate(w, c[k], g, G[k], inverse[k], k)
            if s == 0:
                first = moved
            if moved <= STILL * first:
                break
        for t in range(size):
            for k in range(r):
                new[a + t, k] = w[k, t]
                ahead[a + t, k] = max(w[k, t] + beta * (w[k, t] - before[a + t, k]), 0)


@kernel(fastmath=True, error_model="numpy", counting=False)
def descend_coordinate(w, c, g, Gk, inverse, k):  # type: ignore[no-untyped-def]
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
