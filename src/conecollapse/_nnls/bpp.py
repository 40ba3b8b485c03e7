"""Block principal pivoting for non-negative least squares (the paper's Algorithms 2 and 3; Kim &
Park 2008).

For ``min |A x - b|, x >= 0`` with ``A`` of full column rank, let F be the *passive* (free)
variables, the others zero. With ``G = A'A`` and ``c = A'b`` the F-solution is ``x_F = G_FF^-1 c_F``
and the dual ``y = G x - c``; it is optimal when ``x_F >= 0`` and ``y >= 0``. Otherwise all
offending variables change sides at once. That is fast but may cycle, so when the number of
offenders has not fallen for three exchanges only the one with the largest index changes: the backup
rule, which is finite.

Many right-hand sides share ``G``, and those with the same passive set share one Cholesky factor:
they are grouped before each solve (Algorithm 3; with one right-hand side it is Algorithm 2).
Everything here is in Gram form and expects unit columns.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import scipy.linalg.lapack as lapack

from conecollapse._kernels import kernel
from conecollapse._nnls.factor import (
    DEPENDENT_PIVOT,
    axpy,
    factorize,
    solve_transposed,
    solve_triangle,
)
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray

BACKUP_PATIENCE = 3  # exchanges without progress before the backup rule (p in the paper)
# passive variables up to which our own Cholesky kernel beats calling LAPACK for each group
SMALL_CHOLESKY = 96
# groups up to which LAPACK is called for each, whatever their size: that needs no compiled kernel
FEW_GROUPS = 8
DUAL_ZERO = 1e-13  # duals above minus this share of |b| count as non-negative
LEAST_WORK = 20_000  # operations below which a piece of work is not worth a thread


class BppResult(NamedTuple):
    """Solutions in rows; ``solved`` is False where the passive columns became dependent or the
    limit was reached."""

    X: FloatArray
    passive: BoolArray
    solved: BoolArray
    n_iter: IntArray


class NormalEquations(NamedTuple):
    """``G x = c`` for each row c of ``C``: all that the method knows of A and b."""

    G: FloatArray  # (n, n): A'A
    C: FloatArray  # (n_rhs, n): A'b in rows


class Iterate(NamedTuple):
    """The current sets and variables, one row for each right-hand side."""

    passive: BoolArray  # (n_rhs, n)
    X: FloatArray  # (n_rhs, n): primal variables, zero where not passive
    Y: FloatArray  # (n_rhs, n): dual variables G x - c, zero where passive


class Groups(NamedTuple):
    """Right-hand sides with equal passive sets, one group after the other."""

    rows: IntArray  # group g consists of rows[bounds[g]:bounds[g + 1]]
    bounds: IntArray
    largest: int  # number of variables in the largest passive set


def block_pivoting(
    G: FloatArray,
    C: FloatArray,
    b_norms: FloatArray,
    *,
    start: BoolArray | None = None,
    max_iter: int | None = None,
    patience: int = BACKUP_PATIENCE,
) -> BppResult:
    """Solve for each row c of ``C``; ``start`` gives passive sets to begin with, ``b_norms`` scale
    the zero of the duals."""
    n_rhs, n = C.shape
    limit = 5 * n + 100 if max_iter is None else max_iter
    equations = NormalEquations(G, C)
    iterate = Iterate(
        np.zeros((n_rhs, n), bool) if start is None else start.copy(), np.zeros((n_rhs, n)), -C
    )
    waits = np.full(n_rhs, patience)
    fewest = np.full(n_rhs, n + 1)
    n_iter = np.zeros(n_rhs, np.int64)
    solved = np.zeros(n_rhs, bool)
    rows = np.arange(n_rhs)
    if start is not None:
        rows = rows[solve_groups(equations, iterate, rows)]
    while len(rows):
        passive = iterate.passive[rows]
        offends = np.where(
            passive, iterate.X[rows] < 0, iterate.Y[rows] < -DUAL_ZERO * b_norms[rows, None]
        )
        count = offends.sum(axis=1)
        solved[rows[count == 0]] = True
        moves = (count > 0) & (n_iter[rows] < limit)
        rows, passive, offends, count = rows[moves], passive[moves], offends[moves], count[moves]
        # Algorithm 2, lines 5 to 19: all offenders move, or only the last one
        is_better = count < fewest[rows]
        fewest[rows] = np.minimum(fewest[rows], count)
        backup = np.flatnonzero(~is_better & (waits[rows] == 0))
        waits[rows] = np.where(is_better, patience, np.maximum(waits[rows] - 1, 0))
        last = n - 1 - np.argmax(offends[backup, ::-1], axis=1)
        offends[backup] = False
        offends[backup, last] = True
        iterate.passive[rows] = passive ^ offends
        n_iter[rows] += 1
        rows = rows[solve_groups(equations, iterate, rows)]
    return BppResult(iterate.X, iterate.passive, solved, n_iter)


def solve_groups(equations: NormalEquations, iterate: Iterate, rows: IntArray) -> BoolArray:
    """Set ``X`` and ``Y`` of ``rows`` from their passive sets, one factorization for each distinct
    set; False where it fails."""
    if not len(rows):
        return np.ones(0, bool)
    sets = iterate.passive[rows]
    order, bounds = group_equal(sets)
    groups = Groups(rows[order], bounds, int(sets.sum(axis=1).max()))
    is_solved = np.ones(len(bounds) - 1, bool)
    if groups.largest > SMALL_CHOLESKY or len(is_solved) <= FEW_GROUPS:
        for g, (a, b) in enumerate(itertools.pairwise(bounds)):
            is_solved[g] = _solve_group(equations, iterate, groups.rows[a:b])
    else:

        def work(start: int, stop: int) -> None:
            _solve_small_groups(equations, iterate, groups, is_solved, start, stop)

        smallest = max(1, LEAST_WORK // (1 + equations.G.shape[0] * groups.largest))
        for_ranges(work, len(is_solved), smallest=smallest)
    ok = np.empty(len(rows), bool)
    ok[order] = np.repeat(is_solved, np.diff(bounds))
    return ok


def group_equal(sets: BoolArray) -> tuple[IntArray, IntArray]:
    """Order that puts equal rows together, and the bounds of the groups in it."""
    words = -(-sets.shape[1] // 64)
    packed = np.zeros((len(sets), 8 * words), np.uint8)
    bits = np.packbits(sets, axis=1)
    packed[:, : bits.shape[1]] = bits
    keys = packed.view(np.uint64)
    order = np.argsort(keys[:, 0], kind="stable") if words == 1 else np.lexsort(keys.T)
    ordered = keys[order]
    changes = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    return order, np.concatenate([[0], changes, [len(sets)]])


def _solve_group(equations: NormalEquations, iterate: Iterate, rows: IntArray) -> bool:
    """`solve_groups` for ``rows`` that share one passive set, by LAPACK."""
    (G, C), (passive, X, Y) = equations, iterate
    F = np.flatnonzero(passive[rows[0]])
    X[rows] = 0.0
    if len(F):
        GF = G[:, F]
        factor, info = lapack.dpotrf(GF[F], lower=1)
        if info != 0 or (np.diag(factor) ** 2 <= DEPENDENT_PIVOT * np.diag(G)[F]).any():
            return False
        x, _ = lapack.dpotrs(factor, C[np.ix_(rows, F)].T, lower=1)
        X[np.ix_(rows, F)] = x.T
        Y[rows] = (GF @ x).T - C[rows]
    else:
        Y[rows] = -C[rows]
    Y[np.ix_(rows, F)] = 0.0
    return True


@kernel(error_model="numpy")
def _solve_small_groups(equations, iterate, groups, is_solved, start, stop):  # type: ignore[no-untyped-def]
    """`solve_groups` for the groups ``start`` to ``stop``, each by a Cholesky factorization of our
    own."""
    G, C, X, Y = equations.G, equations.C, iterate.X, iterate.Y
    rows, bounds, room = groups.rows, groups.bounds, groups.largest
    F, R, z = np.empty(room, np.int64), np.empty((room, room)), np.empty(room)
    for g in range(start, stop):
        k = np.int64(0)
        for j in range(len(G)):
            if iterate.passive[rows[bounds[g]], j]:
                F[k] = j
                k += 1
        is_solved[g] = factorize(G, F, k, R)
        if not is_solved[g]:
            continue
        for t in range(bounds[g], bounds[g + 1]):
            i = rows[t]
            for a in range(k):
                z[a] = C[i, F[a]]
            solve_transposed(R, k, z)
            solve_triangle(R, z, k, z)
            for j in range(len(G)):
                X[i, j], Y[i, j] = 0.0, -C[i, j]
            for a in range(k):
                axpy(z[a], G[F[a]], Y[i])
            for a in range(k):
                X[i, F[a]], Y[i, F[a]] = z[a], 0.0


def grouped_correction(
    G: FloatArray, D: FloatArray, passive: BoolArray, rows: IntArray
) -> AnyArray:
    """``G_FF^-1 d_F`` for each of ``rows``: the step of iterative refinement from explicit
    gradients ``D``."""
    step = np.zeros_like(D)
    solve_groups(NormalEquations(G, D), Iterate(passive, step, np.zeros_like(D)), rows)
    return step
