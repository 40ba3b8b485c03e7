"""``min |A x - b|, x >= 0`` for blocks of right-hand sides, by the method that fits A, and with
more digits where float64 cannot decide."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from conecollapse._linalg import row_norms
from conecollapse._nnls.active_set import active_set, active_set_sparse
from conecollapse._nnls.bpp import BppResult, block_pivoting, grouped_correction
from conecollapse._nnls.careful import solve_carefully
from conecollapse._nnls.complement import WELL_ENOUGH, pivot_complement
from conecollapse._nnls.local import local_active_set
from conecollapse._nnls.problem import Answers, Measured, Problem
from conecollapse._nnls.proof import OPTIMAL_WITHIN, is_optimal, is_rough_zero
from conecollapse._nnls.quadratic import FREE
from conecollapse._nnls.refine import refine
from conecollapse._types import BoolArray, FloatArray, IntArray

GRAM_COLUMNS = 8192  # columns up to which the Gram matrix is formed: 512 MiB
TALL_ENOUGH = 2  # rows for each column from which on pivoting tends to beat the active set
FEW_COLUMNS = 600  # up to here an active set prices every column itself
# reciprocal condition of A'A from which the Gram form is trusted (with refinement)
WELL_CONDITIONED = 1e-9
DENSE_LIMIT = 2**27  # entries up to which a sparse A may be made dense
INVERTED_COLUMNS = 512  # columns up to which the inverse of the Gram matrix is worth its time
KKT_REFINE = 1e-13  # a pivoting solution with a larger KKT residual is refined,
# at most this often: the first may show that a variable taken to be positive is zero
REFINEMENTS = 2
KKT_GOOD = 1e-9  # a pivoting solution with a larger KKT residual is solved again by the active set


class Outcome(NamedTuple):
    """Coefficients of unit columns for each right-hand side, and how the solve went."""

    H: FloatArray
    n_iter: IntArray
    finished: BoolArray  # within the limit on iterations
    measured: Measured


Solver = Callable[[FloatArray, "BoolArray | None", "int | None"], Outcome]


def solve_one(A: FloatArray, b: FloatArray) -> tuple[FloatArray, float, int]:
    """The solution for one right-hand side, a lower bound for all residual norms, and the steps
    taken."""
    problem = Problem.of(A)
    solve, _ = prepare(problem, "auto")
    X, answers = settle(problem, b[None, :], solve(b[None, :], None, None), None)
    return X[0] / problem.units, float(answers.least[0]), int(answers.n_iter[0])


def settle(
    problem: Problem, Bt: FloatArray, outcome: Outcome, maxiter: int | None
) -> tuple[FloatArray, Answers]:
    """Coefficients of the columns of A.

    Where float64 does not show that they are optimal, their residual with 32 digits may; else it
    takes a solve with 32 digits.
    """
    H, n_iter, finished, (rnorm, kkt, least, optimal, _) = outcome
    X, n = H * problem.inverse, H.shape[1]
    left = np.full(len(Bt), 3 * n) if maxiter is None else maxiter - n_iter
    rows = np.flatnonzero(finished & ~optimal & (left > 0))
    if H.shape[1] * Bt.shape[1] > DENSE_LIMIT:
        rows = rows[:0]
    if len(rows):
        A = problem.A.toarray() if sp.issparse(problem.A) else np.ascontiguousarray(problem.A)
        for i in rows:
            refined = refine(A, X[i], Bt[i])
            if refined.is_optimal:
                X[i], rnorm[i], least[i], optimal[i] = refined
        rows = rows[~optimal[rows]]
    if len(rows):
        careful = solve_carefully(A, Bt[rows], X[rows], left[rows])
        better = (
            np.maximum(careful.rnorm, _seen(A, Bt[rows], careful.X))
            < (1 - OPTIMAL_WITHIN) * careful.rnorm_before
        )
        X[rows[better]] = careful.X[better]
        rnorm[rows] = np.where(better, careful.rnorm, careful.rnorm_before)
        least[rows] = np.maximum(least[rows], careful.optimum)
        optimal[rows] = is_optimal(rnorm[rows], least[rows], row_norms(Bt[rows]))
        kkt[rows] = problem.measure(Bt[rows], X[rows] * problem.lengths, np.ones(len(rows))).kkt
        n_iter[rows] += careful.n_steps
    return X, Answers(rnorm, kkt, least, n_iter, finished, optimal)


def _seen(A: FloatArray, Bt: FloatArray, X: FloatArray) -> FloatArray:
    """What float64 makes of the residual norms: those of one order of the columns, and how far
    another order is from it.

    Where columns depend on each other up to rounding, coefficients of 1e15 lower the residual by
    using up the last digits of A. Whoever computes ``A x`` sees nothing of that, but the rounding
    errors of such sums.
    """
    forward, backward = X @ A.T, X[:, ::-1] @ A.T[::-1]
    return row_norms(Bt - forward) + row_norms(forward - backward)


def prepare(problem: Problem, method: str) -> tuple[Solver, str]:
    """A solver for blocks of right-hand sides (in rows), after what depends on A alone has been
    done once."""
    m, n = problem.A.shape
    if n <= GRAM_COLUMNS and (method == "bpp" or (method == "auto" and m >= TALL_ENOUGH * n)):
        G = problem.A.T @ problem.A
        G = (G.toarray() if sp.issparse(G) else G) * problem.inverse * problem.inverse[:, None]
        rcond, sigma = conditioning(G)
        if method == "bpp" or rcond > WELL_CONDITIONED:
            return pivoting(
                problem,
                G,
                sigma,
                np.linalg.inv(G) if rcond > WELL_ENOUGH and n <= INVERTED_COLUMNS else None,
            ), "bpp"
    return active(problem), "active-set"


def conditioning(G: FloatArray) -> tuple[float, float]:
    """Estimates of the reciprocal condition of ``G = A'A`` and of the smallest singular value of A;
    zeros where A has no full rank."""
    factor, info = lapack.dpotrf(G, lower=1)
    if info != 0:
        return 0.0, 0.0
    size = np.abs(G).sum(axis=0).max()
    rcond, info = lapack.dpocon(factor, size, uplo="L")
    return float(rcond), float(np.sqrt(rcond * size))


def pivoting(
    problem: Problem, G: FloatArray, sigma: float, inverse: FloatArray | None = None
) -> Solver:
    """Block principal pivoting, in the zeros if the inverse of G is given; what it cannot solve
    accurately goes to the active set."""
    fallback = cache(lambda: active(problem))

    def measure(Bt: FloatArray, H: FloatArray) -> Measured:
        return problem.measure(Bt, H, np.full(len(H), sigma), hold_all=True)

    def solve(Bt: FloatArray, start: BoolArray | None, maxiter: int | None) -> Outcome:
        C, size = problem.correlations(Bt), row_norms(Bt)
        if inverse is None or start is not None or maxiter is not None:
            result = block_pivoting(G, C, size, start=start, max_iter=maxiter)
            H = np.maximum(result.X, 0.0)
            measured = measure(Bt, H)
        else:
            result = _pivot_in_zeros(G, inverse, C, size)
            H = np.maximum(result.X, 0.0)
            measured, is_rough = problem.measure_by_gram(G, C, H, size, sigma)
            if len(near := np.flatnonzero(is_rough)):
                measured.put(near, measure(Bt[near], H[near]))
        for _ in range(REFINEMENTS):  # with the explicit residual
            rough = np.flatnonzero(
                result.solved
                & ((measured.kkt > KKT_REFINE) | is_rough_zero(measured.rnorm, H, size))
            )
            if not len(rough):
                break
            H[rough] += grouped_correction(G, measured.gradient, result.passive, rough)[rough]
            result.passive[rough] &= H[rough] > 0
            np.maximum(H, 0.0, out=H)
            measured.put(rough, measure(Bt[rough], H[rough]))
        finished = (
            np.ones(len(Bt), bool) if maxiter is None else result.solved | (result.n_iter < maxiter)
        )
        is_good = result.solved & measured.optimal & (measured.kkt <= KKT_GOOD)
        if maxiter is None:
            is_good &= ~is_rough_zero(measured.rnorm, H, size)
        again = np.flatnonzero(finished & ~is_good)
        if len(again):
            left = None if maxiter is None else maxiter - int(result.n_iter[again].min())
            H[again], steps, finished[again], others = fallback()(Bt[again], None, left)
            measured.put(again, others)
            result.n_iter[again] += steps
        return Outcome(H, result.n_iter, finished, measured)

    return solve


def _pivot_in_zeros(
    G: FloatArray, inverse: FloatArray, C: FloatArray, size: FloatArray
) -> BppResult:
    """`block_pivoting` by `complement` where few variables are zero, else as it is."""
    n = C.shape[1]
    X = C @ inverse
    side, solved, steps = pivot_complement(
        inverse, X, (np.full((1, n), np.inf), np.ones((1, n), bool)), size
    )
    result = BppResult(X, side == FREE, solved, steps)
    left = np.flatnonzero(~solved)
    if len(left):
        others = block_pivoting(G, C[left], size[left], start=X[left] > 0)
        result.X[left], result.passive[left], result.solved[left], result.n_iter[left] = (
            others.X, others.passive, others.solved, others.n_iter,
        )  # fmt: skip
    return result


def active(problem: Problem) -> Solver:
    """The active set, on the triangular factor of a tall A, on a dense A, or on a sparse one that
    is too large for that."""
    m, n = problem.A.shape
    A = problem.unit()
    Z, reduce = A.T.tocsr() if sp.issparse(A) else A.T, None
    if not sp.issparse(A) or m * n <= DENSE_LIMIT:
        dense = A.toarray() if sp.issparse(A) else A
        if m > n:  # |A x - b|^2 = |R x - Q'b|^2 + constant
            reduce, dense = scipy.linalg.qr(dense, mode="economic", check_finite=False)
        Z = np.ascontiguousarray(dense.T)

    def solve(Bt: FloatArray, start: BoolArray | None, maxiter: int | None) -> Outcome:
        targets = Bt if reduce is None else Bt @ reduce
        if sp.issparse(Z) or n > FEW_COLUMNS:
            first = None if start is None else [np.flatnonzero(s) for s in start]
            result = (
                active_set_sparse(Z, targets, max_steps=maxiter, with_sigma=True)
                if sp.issparse(Z)
                else active_set(Z, targets, start=first, max_steps=maxiter, with_sigma=True)
            )
            H, steps, finished, sigma = (
                result.dense(n),
                result.n_steps,
                result.converged,
                result.sigma,
            )
        else:
            H, steps, finished, sigma = local_active_set(Z, problem.norms, targets, start, maxiter)
        return Outcome(H, steps, finished, problem.measure(Bt, H, sigma))

    return solve
