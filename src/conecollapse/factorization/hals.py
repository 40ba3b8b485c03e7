r"""Hierarchical alternating least squares (Cichocki & Phan 2009), accelerated.

One coordinate at a time has a closed form: with :math:`G = H H^T` and :math:`C = X H^T`,

.. math:: w_{ik} \leftarrow \max\Big(0,\ w_{ik} + \frac{c_{ik} - w_i G_{\cdot k}}{G_{kk}}\Big).

Rows of W do not depend on each other, so each thread sweeps rows of its own while they are in
cache, some at a time: one row would wait at each coordinate for the one before. For factors with
few zeros there is a quicker way (`dense_sweeps`). The result is the same for any number of threads.
Two accelerations:

- *several sweeps* for each product with X, which is the expensive part (Gillis & Glineur 2012): as
  many as the product is worth, and fewer for a row that has stopped moving;
- *extrapolation* (Ang & Gillis 2019): each factor is moved on along its last step, by a share beta
  that grows while the objective falls. A step that raises the objective is taken back, beta
  shrinks, and the step is done again without extrapolation, so the objective never rises.

With one sweep and no extrapolation this is scikit-learn's coordinate descent.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._kernels import kernel
from conecollapse._linalg import CACHED, row_lengths
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, IntArray
from conecollapse.factorization.data import Factorization, rounding_of
from conecollapse.factorization.dense_sweeps import Lanes, sweep_dense
from conecollapse.factorization.fixed import Fixed
from conecollapse.factorization.rows import STILL, sweep_rows
from conecollapse.tables import Equations, Table, as_table

# few coordinates of a sparse factor move, so that four sweeps cost little more than one
LEAST_SWEEPS, MOST_SWEEPS = 4, 8
# rows that a kernel takes at a time, and what the length of a row is rounded up to
TILE, WIDTH = 8, 8
# entries of a factor, and the share that is not zero, from which `dense_sweeps` pay
DENSE_FROM, DENSE_SHARE = 2**14, 0.3
COUNTED = 1000  # rows, or a few more, that this share is taken from
SWEEP_SHARE = 0.3  # sweeps may take this share of the time of the product they follow
BETA, BETA_MOST, GROW, GROW_MOST, SHRINK = 0.5, 1.0, 1.05, 1.01, 1.5  # Ang & Gillis 2019, section 3


@dataclass(frozen=True)
class _State:
    W: AnyArray
    Ht: AnyArray  # H transposed, so that the rows of both factors are contiguous
    Ht_ahead: AnyArray  # moved on along its last step: where the next step begins
    beta: float
    beta_most: float
    objective: float
    of_rows: Equations | None = None  # of the start, where they are known before the first step


def hals(
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    sweeps: int | None = None,
    extrapolate: bool = True,
    fixed: Fixed | None = None,
    n_samples: float | None = None,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start (W, H) by accelerated HALS; ``sweeps=1, extrapolate=False`` is
    plain coordinate descent. ``n_samples`` is the sum of the weights of samples, where they have
    some."""
    X = as_table(X)
    norm2 = X.squared_norm
    rounding = rounding_of(X, norm2)
    n = X.shape[0] if n_samples is None else n_samples
    sweeps_W, sweeps_H = (sweeps, sweeps) if sweeps else _worthwhile_sweeps(X, W.shape[1], n)

    def attempt(s: _State, Ht: AnyArray, beta: float) -> _State:
        _, W = _sweep(s.W, s.of_rows or X.row_equations(Ht.T), sweeps_W, s.W, beta)
        of_columns = X.column_equations(W)
        new, ahead = _sweep(Ht, of_columns, sweeps_H, s.Ht, beta, fixed)
        return _State(W, new, ahead, beta, s.beta_most, of_columns.error(norm2, new))

    def step(s: _State) -> _State:
        if s.beta:
            new = attempt(s, s.Ht_ahead, s.beta)
            if new.objective <= s.objective:
                most = min(1.0, GROW_MOST * s.beta_most)
                return replace(new, beta=min(most, GROW * s.beta), beta_most=most)
        plain = attempt(s, s.Ht, 0.0)
        if plain.objective > s.objective + rounding:  # cannot be, beyond rounding
            return s
        return replace(plain, beta=s.beta / SHRINK, beta_most=s.beta)

    W, Ht = np.ascontiguousarray(W), np.ascontiguousarray(H.T)
    with serial_blas():  # products and sweeps run on our threads
        of_rows = X.row_equations(Ht.T)
        start = _State(
            W, Ht, Ht, BETA if extrapolate else 0.0, BETA_MOST, of_rows.error(norm2, W), of_rows
        )
        trace = iterate(step, start, rounding=rounding, stage="HALS", **stopping)
    W, Ht = trace.state.W, trace.state.Ht
    if fixed is None:
        W, Ht = _balanced(W, Ht)
    return Factorization.of(W, np.ascontiguousarray(Ht.T), trace.state.objective, trace, norm2)


def _balanced(W: AnyArray, Ht: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Components of which one factor has all but vanished, with equal factors, or none where it is
    zero; the product does not change.

    What a component that fits nothing any more is multiplied by is arbitrary, and drifts without
    bound from step to step.
    """
    lengths_W, lengths_H = row_lengths(W.T), row_lengths(Ht.T)
    eps = float(np.finfo(W.dtype).eps)
    alive = (lengths_W > 0) & (lengths_H > 0)
    if not alive.all():
        W, Ht = np.where(alive, W, 0), np.where(alive, Ht, 0)
    drifted = alive & (np.minimum(lengths_W, lengths_H) < eps * np.maximum(lengths_W, lengths_H))
    if not drifted.any():
        return W, Ht
    gap = np.where(
        drifted,
        np.log2(np.where(drifted, lengths_H, 1.0)) - np.log2(np.where(drifted, lengths_W, 1.0)),
        0.0,
    )
    power = np.rint(gap / 2).astype(np.int64)  # of two, so that nothing is rounded
    return np.ldexp(W, power), np.ldexp(Ht, -power)


def sweep(W: AnyArray, equations: Equations, sweeps: int) -> AnyArray:
    """Coordinate descent on every row of ``W`` for ``w G w' - 2 c w'``: up to ``sweeps`` rounds
    over its entries."""
    return _sweep(W, equations, sweeps, W, 0.0)[0]


def _sweep(
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
            _sweep_alike(
                _Rows(W[rows], part.C, before[rows], new[rows], ahead[rows]),
                part.G[0],
                sweeps,
                beta,
            )
            continue
        new[rows] = W[rows]
        sweep_rows(new, part, sweeps, fixed)
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


def _sweep_alike(rows: _Rows, G: AnyArray, sweeps: int, beta: float) -> None:
    """Sweeps where all rows share G, whose gradients are products: some rows at a time, which stay
    in cache.

    How many that are does not depend on the number of threads, so that all sums are the same for
    any number of them.
    """
    n, r = rows.W.shape
    G = np.ascontiguousarray(G, rows.W.dtype)
    some = rows.W[:: max(1, n // COUNTED)]
    is_dense = rows.W.size >= DENSE_FROM and np.count_nonzero(some) >= DENSE_SHARE * some.size
    padded = np.zeros((r, -(-r // WIDTH) * WIDTH), G.dtype)
    padded[:, :r] = G
    diagonal = G.diagonal()
    inverse = np.divide(1, diagonal, out=np.zeros(r, G.dtype), where=diagonal > 0)
    size = max(TILE, CACHED // (4 * r))

    def work(start: int, stop: int) -> None:
        tile = Lanes.of(r, G.dtype) if is_dense else _Tile.of(padded.shape, G.dtype)
        for a in range(start * size, min(stop * size, n), size):
            part = rows.part(slice(a, a + size))
            if is_dense:
                sweep_dense(part, G, inverse, (sweeps, beta), tile)
                continue
            gradient = np.subtract(part.C, part.W @ G, dtype=G.dtype)
            _sweep_rows(part, gradient, padded, inverse, (sweeps, beta), tile)

    with serial_blas() if n > size else nullcontext():
        for_ranges(work, -(-n // size))


def _worthwhile_sweeps(X: Table, r: int, n: float) -> tuple[int, int]:
    """Rounds whose cost is a fair share of the product with X that each half step pays for
    anyway; of n samples like those of X, so that weights do not change the steps."""
    m, n_entries = X.shape[1], X.n_entries * (n / X.shape[0])
    return tuple(
        int(
            np.clip(
                1 + SWEEP_SHARE * (n_entries + (m + n - k) * r) / (k * r),
                LEAST_SWEEPS,
                MOST_SWEEPS,
            )
        )
        for k in (n, m)
    )  # type: ignore[return-value]


class _Tile(NamedTuple):
    """A few rows that are swept together. It is made outside the kernel, because an array that a
    kernel makes takes long to compile."""

    g: AnyArray  # their gradients, padded
    w: AnyArray
    first: AnyArray  # what the first sweep gained
    moved: AnyArray  # what the last one did
    live: IntArray  # the rows that still move

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: Any) -> _Tile:
        r, padded = shape
        zeros = np.zeros(TILE, dtype)
        return cls(
            np.zeros((TILE, padded), dtype),
            np.zeros((TILE, r), dtype),
            zeros,
            zeros.copy(),
            np.zeros(TILE, np.int64),
        )


@kernel(fastmath=True)
def _sweep_rows(rows, gradient, G, inverse, how, tile):  # type: ignore[no-untyped-def]
    """A few rows take turns at each coordinate: they do not wait for each other, as the coordinates
    of one row do."""
    sweeps, beta = how
    W, before, new, ahead = rows.W, rows.before, rows.new, rows.ahead
    g, w, first, moved, live = tile.g, tile.w, tile.first, tile.moved, tile.live
    r = W.shape[1]
    for a in range(0, len(W), TILE):
        size = min(TILE, len(W) - a)
        for t in range(size):
            live[t] = t
            for k in range(r):
                g[t, k], w[t, k] = gradient[a + t, k], W[a + t, k]
        n_live = size
        for s in range(sweeps):
            for q in range(n_live):
                moved[live[q]] = 0
            for k in range(r):
                Gk = G[k]
                for q in range(n_live):
                    t = live[q]
                    row = g[t]
                    change = max(row[k] * inverse[k], -w[t, k])
                    if change != 0:
                        w[t, k] += change
                        moved[t] += change * change * Gk[k]
                        for j in range(len(Gk)):
                            row[j] -= change * Gk[j]
            still_live = 0
            for q in range(n_live):
                t = live[q]
                if s == 0:
                    first[t] = moved[t]
                if moved[t] > STILL * first[t]:
                    live[still_live] = t
                    still_live += 1
            n_live = still_live
            if n_live == 0:
                break
        for t in range(size):
            for k in range(r):
                new[a + t, k] = w[t, k]
                ahead[a + t, k] = max(w[t, k] + beta * (w[t, k] - before[a + t, k]), 0)
