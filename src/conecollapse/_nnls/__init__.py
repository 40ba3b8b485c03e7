"""Non-negative least squares for any shape, any rank, one right-hand side or a million."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from conecollapse._checks import as_array, as_matrix, check_finite
from conecollapse._errors import ConvergenceError, InvalidInputError, NotOptimalWarning
from conecollapse._linalg import row_norms
from conecollapse._nnls.active_set import active_set, active_set_sparse
from conecollapse._nnls.bpp import block_pivoting, grouped_correction
from conecollapse._nnls.careful import solve_carefully
from conecollapse._nnls.kernels import OPTIMAL, STEP_LIMIT
from conecollapse._nnls.local import local_active_set, solve_small
from conecollapse._nnls.problem import Measured, Problem, safe_units
from conecollapse._nnls.proof import OPTIMAL_WITHIN, is_optimal
from conecollapse._threads import for_ranges, limit_threads, serial_blas
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

SMALL_WORK = 2**20  # entries of A times right-hand sides up to which one kernel call does it all
TALL_RATIO, TALL_COLUMNS, TALL_SIZE = 20, 16, 20_000  # with one right-hand side, such a matrix is best reduced to its Gram matrix
BLAS_THREADS_PAY = 10**6  # entries of A below which waking BLAS threads costs more than they save
GRAM_COLUMNS = 8192  # columns up to which the Gram matrix is formed: 512 MiB
TALL_ENOUGH = 2  # rows for each column from which on pivoting tends to beat the active set
FEW_COLUMNS = 600  # up to here an active set prices every column itself
RHS_BLOCK_ENTRIES = 2**18  # entries of right-hand sides treated at once by a thread: 2 MiB, which its cache holds
WELL_CONDITIONED = 1e-9  # reciprocal condition of A'A from which the Gram form is trusted (with one refinement)
DENSE_LIMIT = 2**27  # entries up to which a sparse A may be made dense
KKT_REFINE = 1e-13  # a pivoting solution with a larger KKT residual is refined
KKT_GOOD = 1e-9  # a pivoting solution with a larger KKT residual is solved again by the active set
METHODS = ("auto", "bpp", "active-set")

__all__ = ["NnlsInfo", "nnls"]


@dataclass(frozen=True)
class NnlsInfo:
    """What `nnls` measured. One entry for each right-hand side."""

    kkt_residual: FloatArray  # largest violation of the optimality conditions, in units of |a_j| |b|
    n_iter: IntArray
    converged: BoolArray  # whether ``rnorm`` is shown to be at most 0.1 % above ``least``, or at most 1e-12 |b|
    method: str  # the method that was used first: "bpp" or "active-set"
    least: FloatArray  # no x >= 0 has a smaller residual norm; zero where nothing is known


def nnls(
    A: Any,
    b: Any,
    *,
    maxiter: int | None = None,
    atol: Any = None,
    method: str = "auto",
    x0: Any = None,
    full_output: bool = False,
    n_jobs: int | None = None,
) -> Any:
    r"""Solve :math:`\min_{x \ge 0} \|A x - b\|_2` for one or many right-hand sides.

    A drop-in for `scipy.optimize.nnls` that also takes a matrix of right-hand sides, sparse matrices, and any rank.

    Parameters
    ----------
    A : (m, n) array or sparse array
        Any shape and rank.
    b : (m,) or (m, k) array or sparse array
        Right-hand sides in columns, or one as a vector. The solution has the same form.
    maxiter : int, optional
        Limit on the exchanges for each right-hand side; by default 3 n for the active set.
    atol : deprecated
        Accepted as SciPy does, and ignored.
    method : {"auto", "bpp", "active-set"}
        Block principal pivoting (the paper's Algorithms 2 and 3) is fastest when A is tall and well conditioned; columns on which it
        breaks are solved by the active set. The active set never breaks. "auto" looks at A.
    x0 : (n,) or (n, k) array, optional
        Warm start: the positive entries are tried as passive variables first.
    full_output : bool
        Also return an `NnlsInfo`. Right-hand sides that hit ``maxiter``, or whose solution is not shown to be optimal, are then reported in
        its ``converged``, without an error or a warning.
    n_jobs : int, optional
        Threads to use; all available ones by default.

    Returns
    -------
    x : (n,) or (n, k) array
    rnorm : float or (k,) array
        ``|A x - b|`` of each right-hand side, measured with A itself.
    info : NnlsInfo
        Only with ``full_output=True``.

    Raises
    ------
    ValueError
        For shapes that do not fit, NaN, infinity, complex numbers or objects.
    RuntimeError
        When ``maxiter`` is reached.

    Warns
    -----
    NotOptimalWarning
        When a residual norm is neither shown to be within 0.1 % of the smallest possible one, nor below ``1e-12 |b|``.

    Notes
    -----
    A solution satisfies, for ``g = A'(b - A x)``: ``x >= 0``, ``g <= 0`` and ``g = 0`` where ``x > 0``. These are sufficient, and
    ``kkt_residual`` measures them. A small ``kkt_residual`` alone proves little when columns are nearly dependent, so each answer is also
    compared with a lower bound for the residual norm of all ``x >= 0``. Where float64 cannot show that the two agree, the problem is
    solved again with 32 digits. What remains are problems whose optimal x has entries so large that rounding them to float64 makes the
    residual larger: the residual of ``x`` changes by about ``1e-16 |a_j| x_j`` when ``x_j`` is rounded.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import nnls
    >>> A = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> x, rnorm = nnls(A, [2.0, 1.0, 1.0])
    >>> x.round(12), round(rnorm, 6)
    (array([1.5, 1. ]), 0.707107)
    >>> X, rnorms, info = nnls(A, [[2.0, -1.0], [1.0, -1.0], [1.0, -1.0]], full_output=True)
    >>> X.round(12)
    array([[1.5, 0. ],
           [1. , 0. ]])
    >>> bool(info.kkt_residual.max() < 1e-12)
    True
    """
    if atol is not None:
        warnings.warn("the arguments {'atol'} are ignored and deprecated, as in SciPy.", DeprecationWarning, stacklevel=2)
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if maxiter is not None and (isinstance(maxiter, bool) or not isinstance(maxiter, (int, np.integer)) or maxiter < 0):
        raise InvalidInputError(f"maxiter must be a whole number, or None or 0 for the default; got {maxiter!r}.")
    plain = n_jobs is None and not full_output and x0 is None and method != "bpp" and _is_plain(A, b)
    if plain and method == "auto" and _is_tall(A.shape):
        if b.ndim == 1:
            with serial_blas() if A.size < BLAS_THREADS_PAY else nullcontext():
                solution = _solve_tall(A, b, maxiter or None)
            if solution is not None:
                return solution
    elif plain and A.size * b.size <= SMALL_WORK * A.shape[0]:
        x, rnorm, ending = solve_small(A, b if b.ndim == 2 else b[:, None], min(maxiter or 3 * A.shape[1], 2**62))
        if ending == STEP_LIMIT:
            raise ConvergenceError(_LIMIT_TEXT)
        if ending == OPTIMAL:
            return (x, rnorm) if b.ndim == 2 else (x[:, 0], float(rnorm[0]))
    with limit_threads(n_jobs):
        return _nnls_checked(A, b, min(maxiter, 2**62) if maxiter else None, method, x0, full_output)


_LIMIT_TEXT = "Maximum number of iterations reached; raise maxiter, or leave it out."


def _is_plain(A: Any, b: Any) -> bool:
    """Float64 arrays of matching shapes: the common case, which can do without the cost of the general one."""
    if type(A) is not np.ndarray or type(b) is not np.ndarray or not A.dtype == b.dtype == np.float64:
        return False
    fits = A.ndim == 2 and 1 <= b.ndim <= 2 and A.shape[0] == b.shape[0] and A.size * b.size > 0
    return bool(fits and A.flags.c_contiguous and b.flags.c_contiguous)


def _is_tall(shape: tuple[int, ...]) -> bool:
    return TALL_COLUMNS <= shape[1] <= shape[0] / TALL_RATIO and shape[0] * shape[1] > TALL_SIZE


def _solve_tall(A: FloatArray, b: FloatArray, maxiter: int | None) -> tuple[FloatArray, float] | None:
    """One right-hand side of a tall matrix by pivoting on its Gram matrix; None where that needs more care."""
    with np.errstate(over="ignore", invalid="ignore"):
        G = A.T @ A
        squares = np.diag(G).copy()
        if not (np.isfinite(squares).all() and (squares > 1e-200).all() and 1e-280 < b @ b < np.inf):
            return None
    norms = np.sqrt(squares)
    G /= norms * norms[:, None]
    rcond, sigma = _conditioning(G)
    if rcond < WELL_CONDITIONED:
        return None
    problem = Problem(A, norms, 1 / norms, np.ones(len(norms)))
    outcome = _pivoting(problem, G, sigma)(b[None, :], None, maxiter)
    if not outcome.finished[0]:
        raise ConvergenceError(_LIMIT_TEXT)
    return (outcome.H[0] * problem.inverse, float(outcome.measured.rnorm[0])) if outcome.measured.optimal[0] else None


def _nnls_checked(A: Any, b: Any, maxiter: int | None, method: str, x0: Any, full_output: bool) -> Any:
    A, B, flat = _check_problem(A, b)
    n, k = A.shape[1], B.shape[1]
    start = None if x0 is None else _check_start(x0, n, k, flat)
    dtype = np.float32 if A.dtype == B.dtype == np.float32 else np.float64
    problem = Problem.of(A)
    solve, used = _prepare(problem, method)
    X = np.zeros((n, k), dtype)
    step = max(1, RHS_BLOCK_ENTRIES // max(A.shape))
    blocks = [slice(a, min(a + step, k)) for a in range(0, k, step)]
    parts: list[Any] = [None] * len(blocks)

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            cols = blocks[i]
            block = B[:, cols].toarray() if sp.issparse(B) else B[:, cols]
            Bt = np.array(np.asarray(block).T, np.float64, order="C")  # a copy of our own
            unit = safe_units(Bt)
            guess = None if start is None else np.ascontiguousarray(start[:, cols].T)
            coefficients, answer = _settle(problem, Bt, solve(Bt, guess, maxiter), maxiter)
            with np.errstate(over="ignore", under="ignore"):
                solution = (coefficients * unit[:, None] / problem.units).T
            X[:, cols], is_held = _held(solution, coefficients, dtype)
            rnorm = answer.rnorm * unit
            for j in np.flatnonzero(~is_held):
                rnorm[j] = _distance(A, X[:, cols][:, j], np.asarray(block)[:, j])
            parts[i] = answer._replace(rnorm=rnorm, least=answer.least * unit, optimal=answer.optimal & is_held)

    with serial_blas() if len(blocks) > 1 else nullcontext():
        for_ranges(work, len(blocks))
    answers = Answers(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    if not full_output:
        _complain(answers)
    x = X[:, 0] if flat else X
    norm = dtype(answers.rnorm[0]).item() if flat else answers.rnorm.astype(dtype)
    info = NnlsInfo(answers.kkt, answers.n_iter, answers.finished & answers.optimal, used, answers.least)
    return (x, norm, info) if full_output else (x, norm)


def _held(solution: FloatArray, coefficients: FloatArray, dtype: Any) -> tuple[FloatArray, BoolArray]:
    """The solutions, cut off at the largest number of ``dtype``, and which of them it holds: entries may be too large or too small."""
    limits = np.finfo(dtype)
    is_lost = (solution > limits.max) | ((coefficients.T > 0) & (solution < limits.tiny))
    return np.minimum(solution, limits.max), np.asarray(~is_lost.any(axis=0))


def _distance(A: Points, x: FloatArray, b: FloatArray) -> float:
    """``|b - A x|`` of a solution that was cut off, measured so that no square is lost."""
    with np.errstate(over="ignore"):
        r = np.abs(np.asarray(b, np.float64) - np.asarray(A @ np.asarray(x, np.float64)).ravel())
    peak = float(r.max(initial=0.0))
    return peak * float(np.linalg.norm(r / peak)) if 0 < peak < np.inf else peak


def _complain(answers: Answers) -> None:
    if not answers.finished.all():
        raise ConvergenceError(_LIMIT_TEXT)
    open_ones = np.flatnonzero(~answers.optimal)
    if len(open_ones):
        j, many = open_ones[0], len(answers.optimal) > 1
        which = f"the solution for column {j} of b (one of {len(open_ones)} such columns)" if many else "the solution"
        warnings.warn(
            f"{which} may not be optimal: its residual norm is {answers.rnorm[j]:.3g}, and the smallest possible one may be as small as "
            f"{answers.least[j]:.3g}. Columns of A depend on each other so closely that rounding matters: rescale the rows of A and b, or "
            "leave out columns that nearly depend on others; full_output=True returns these numbers instead of this warning.",
            NotOptimalWarning,
            stacklevel=4,
        )


def _check_problem(A: Any, b: Any) -> tuple[Points, Points, bool]:
    if not sp.issparse(A):
        A = as_array(A, "A")
        if A.ndim != 2:
            raise InvalidInputError(f"Expected a 2D array, but the shape of A is {A.shape}")
    A = as_matrix(A, "A")
    if not sp.issparse(b):
        b = as_array(b, "b")
        if b.ndim not in (1, 2):
            raise InvalidInputError(f"Expected a 1D array, or a 2D array of right-hand sides in columns, but the shape of b is {b.shape}")
    flat = b.ndim == 1
    rows = b.shape[0]
    if rows != A.shape[0]:
        raise InvalidInputError(
            f"Incompatible dimensions. The first dimension of A is {A.shape[0]}, while the shape of b is {tuple(b.shape)}"
        )
    B = as_matrix(b if sp.issparse(b) or b.ndim == 2 else b[:, None], "b")
    check_finite(A, "A")
    check_finite(B, "b")
    return A, B.tocsc() if sp.issparse(B) else B, flat


def _check_start(x0: Any, n: int, k: int, flat: bool) -> BoolArray:
    start = as_array(x0, "x0")
    if start.ndim == 1:
        start = start[:, None]
    if start.shape != (n, k):
        raise InvalidInputError(f"x0 has shape {np.shape(x0)}; expected that of the solution, {(n,) if flat else (n, k)}.")
    check_finite(start, "x0")
    return start > 0


class Outcome(NamedTuple):
    """Coefficients of unit columns for each right-hand side, and how the solve went."""

    H: FloatArray
    n_iter: IntArray
    finished: BoolArray  # within the limit on iterations
    measured: Measured


class Answers(NamedTuple):
    """What is known about the solutions of a block of right-hand sides."""

    rnorm: FloatArray
    kkt: FloatArray
    least: FloatArray
    n_iter: IntArray
    finished: BoolArray
    optimal: BoolArray


Solver = Callable[[FloatArray, "BoolArray | None", "int | None"], Outcome]


def _settle(problem: Problem, Bt: FloatArray, outcome: Outcome, maxiter: int | None) -> tuple[FloatArray, Answers]:
    """Coefficients of the columns of A; where they are not shown to be optimal, from a solve with twice the digits."""
    H, n_iter, finished, (rnorm, kkt, least, optimal, _) = outcome
    X, n = H * problem.inverse, H.shape[1]
    left = np.full(len(Bt), 3 * n) if maxiter is None else maxiter - n_iter
    rows = np.flatnonzero(finished & ~optimal & (left > 0))
    if len(rows) and H.shape[1] * Bt.shape[1] <= DENSE_LIMIT:
        A = problem.A.toarray() if sp.issparse(problem.A) else problem.A
        careful = solve_carefully(A, Bt[rows], X[rows], left[rows])
        better = careful.rnorm < (1 - OPTIMAL_WITHIN) * careful.rnorm_before
        X[rows[better]] = careful.X[better]
        rnorm[rows] = np.where(better, careful.rnorm, careful.rnorm_before)
        least[rows] = np.maximum(least[rows], careful.optimum)
        optimal[rows] = is_optimal(rnorm[rows], least[rows], row_norms(Bt[rows]))
        kkt[rows] = problem.measure(Bt[rows], X[rows] * problem.lengths, np.ones(len(rows))).kkt
        n_iter[rows] += careful.n_steps
    return X, Answers(rnorm, kkt, least, n_iter, finished, optimal)


def _prepare(problem: Problem, method: str) -> tuple[Solver, str]:
    """A solver for blocks of right-hand sides (in rows), after what depends on A alone has been done once."""
    m, n = problem.A.shape
    if n <= GRAM_COLUMNS and (method == "bpp" or (method == "auto" and m >= TALL_ENOUGH * n)):
        G = problem.A.T @ problem.A
        G = (G.toarray() if sp.issparse(G) else G) * problem.inverse * problem.inverse[:, None]
        rcond, sigma = _conditioning(G)
        if method == "bpp" or rcond > WELL_CONDITIONED:
            return _pivoting(problem, G, sigma), "bpp"
    return _active(problem), "active-set"


def _conditioning(G: FloatArray) -> tuple[float, float]:
    """Estimates of the reciprocal condition of ``G = A'A`` and of the smallest singular value of A; zeros where A has no full rank."""
    factor, info = lapack.dpotrf(G, lower=1)
    if info != 0:
        return 0.0, 0.0
    size = np.abs(G).sum(axis=0).max()
    rcond, info = lapack.dpocon(factor, size, uplo="L")
    return float(rcond), float(np.sqrt(rcond * size))


def _pivoting(problem: Problem, G: FloatArray, sigma: float) -> Solver:
    """Block principal pivoting; what it cannot solve, or not accurately, goes to the active set."""
    fallback = cache(lambda: _active(problem))

    def measure(Bt: FloatArray, H: FloatArray) -> Measured:
        return problem.measure(Bt, H, np.full(len(H), sigma), hold_all=True)

    def solve(Bt: FloatArray, start: BoolArray | None, maxiter: int | None) -> Outcome:
        result = block_pivoting(G, problem.correlations(Bt), row_norms(Bt), start=start, max_iter=maxiter)
        H = np.maximum(result.X, 0.0)
        measured = measure(Bt, H)
        rough = np.flatnonzero(result.solved & (measured.kkt > KKT_REFINE))
        if len(rough):  # one refinement with the explicit residual
            H[rough] += grouped_correction(G, measured.gradient, result.passive, rough)[rough]
            np.maximum(H, 0.0, out=H)
            measured.put(rough, measure(Bt[rough], H[rough]))
        finished = np.ones(len(Bt), bool) if maxiter is None else result.solved | (result.n_iter < maxiter)
        again = np.flatnonzero(finished & ~(result.solved & measured.optimal & (measured.kkt <= KKT_GOOD)))
        if len(again):
            left = None if maxiter is None else maxiter - int(result.n_iter[again].min())
            H[again], steps, finished[again], others = fallback()(Bt[again], None, left)
            measured.put(again, others)
            result.n_iter[again] += steps
        return Outcome(H, result.n_iter, finished, measured)

    return solve


def _active(problem: Problem) -> Solver:
    """The active set, on the triangular factor of a tall A, on a dense A, or on a sparse one that is too large for that."""
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
                active_set_sparse(Z, targets, max_steps=maxiter)
                if sp.issparse(Z)
                else active_set(Z, targets, start=first, max_steps=maxiter)
            )
            H, steps, finished, sigma = result.dense(n), result.n_steps, result.converged, result.sigma
        else:
            H, steps, finished, sigma = local_active_set(Z, problem.norms, targets, start, maxiter)
        return Outcome(H, steps, finished, problem.measure(Bt, H, sigma))

    return solve
