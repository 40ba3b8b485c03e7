"""Non-negative least squares for any shape, any rank, one right-hand side or a million."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from conecollapse._checks import as_array, as_matrix, check_finite
from conecollapse._errors import ConvergenceError, InvalidInputError
from conecollapse._linalg import row_norms
from conecollapse._nnls.active_set import active_set, active_set_sparse
from conecollapse._nnls.bpp import block_pivoting, grouped_correction
from conecollapse._nnls.kernels import LIMIT
from conecollapse._nnls.local import INSIDE_AT, INVALID, local_active_set, solve_small
from conecollapse._threads import for_ranges, limit_threads, serial_blas
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

SMALL_WORK = 2**20  # entries of A times right-hand sides up to which one kernel call does it all
TALL, TALL_COLUMNS, TALL_SIZE = 20, 16, 20_000  # with one right-hand side, such a matrix is best reduced to its Gram matrix
BLAS_THREADS_PAY = 10**6  # entries of A below which waking BLAS threads costs more than they save
LARGEST_GRAM = 8192  # columns up to which the Gram matrix is formed: 512 MiB
TALL_ENOUGH = 2  # rows for each column from which on pivoting tends to beat the active set
FEW_COLUMNS = 600  # up to here an active set prices every column itself
BLOCK_ENTRIES = 2**18  # entries of right-hand sides treated at once by a thread: 2 MiB, which its cache holds
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
    converged: BoolArray
    method: str  # the method that was used first: "bpp" or "active-set"


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
        Right-hand sides in columns. A single column gives a vector, as in SciPy.
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
        Also return an `NnlsInfo`; columns that hit ``maxiter`` are then reported instead of raised.
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

    Notes
    -----
    A solution satisfies, for ``g = A'(b - A x)``: ``x >= 0``, ``g <= 0`` and ``g = 0`` where ``x > 0``. These are sufficient, and
    ``kkt_residual`` measures them.

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
        if ending == LIMIT:
            raise ConvergenceError(_LIMIT_TEXT)
        if ending != INVALID:
            return (x, rnorm) if rnorm.shape[0] > 1 else (x[:, 0], float(rnorm[0]))
    with limit_threads(n_jobs):
        return _nnls_checked(A, b, min(maxiter, 2**62) if maxiter else None, method, x0, full_output)


_LIMIT_TEXT = "Maximum number of iterations reached; raise maxiter, or leave it out."


def _is_plain(A: Any, b: Any) -> bool:
    """Float64 arrays of matching shapes: the common case, which can do without the cost of the general one."""
    return (
        type(A) is np.ndarray and type(b) is np.ndarray and A.ndim == 2 and A.dtype == b.dtype == np.float64
        and (b.ndim == 1 or b.ndim == 2) and A.shape[0] == b.shape[0] and A.size * b.size > 0
        and A.flags.c_contiguous and b.flags.c_contiguous
    )  # fmt: skip


def _is_tall(shape: tuple[int, ...]) -> bool:
    return TALL_COLUMNS <= shape[1] <= shape[0] / TALL and shape[0] * shape[1] > TALL_SIZE


def _solve_tall(A: FloatArray, b: FloatArray, maxiter: int | None) -> tuple[FloatArray, float] | None:
    """One right-hand side of a tall matrix by pivoting on its Gram matrix; None where that needs more care."""
    with np.errstate(over="ignore", invalid="ignore"):
        G = A.T @ A
        squares = np.diag(G).copy()
        if not (np.isfinite(squares).all() and (squares > 1e-200).all() and 1e-280 < b @ b < np.inf):
            return None
    norms = np.sqrt(squares)
    G /= norms * norms[:, None]
    if not _well_conditioned(G):
        return None
    problem = Problem(A, norms, 1 / norms, 1 / norms)
    H, _, converged, rnorm, _ = _pivoting(problem, G)(b[None, :], None, maxiter)
    if not converged[0]:
        raise ConvergenceError(_LIMIT_TEXT)
    return H[0] * problem.inverse, float(rnorm[0])


def _nnls_checked(A: Any, b: Any, maxiter: int | None, method: str, x0: Any, full_output: bool) -> Any:
    A, B, flat = _check_problem(A, b)
    n, k = A.shape[1], B.shape[1]
    start = None if x0 is None else _check_start(x0, n, k)
    dtype = np.float32 if A.dtype == B.dtype == np.float32 else np.float64
    problem = Problem.of(A)
    solve, used = _prepare(problem, method)
    X = np.zeros((n, k), dtype)
    rnorm, kkt = np.zeros(k), np.zeros(k)
    n_iter, converged = np.zeros(k, np.int64), np.ones(k, bool)
    step = max(1, BLOCK_ENTRIES // max(A.shape))
    blocks = [slice(a, min(a + step, k)) for a in range(0, k, step)]

    def work(first: int, last: int) -> None:
        for cols in blocks[first:last]:
            block = B[:, cols].toarray() if sp.issparse(B) else B[:, cols]
            Bt = np.array(np.asarray(block).T, np.float64, order="C")  # a copy of our own
            unit = _safe_units(Bt)
            guess = None if start is None else np.ascontiguousarray(start[:, cols].T)
            H, n_iter[cols], converged[cols], rnorm[cols], kkt[cols] = solve(Bt, guess, maxiter)
            X[:, cols] = (H * (unit[:, None] * problem.output)).T
            rnorm[cols] *= unit

    with serial_blas() if len(blocks) > 1 else nullcontext():
        for_ranges(work, len(blocks))
    if not converged.all() and not full_output:
        raise ConvergenceError(_LIMIT_TEXT)
    x = X[:, 0] if flat else X
    norm = dtype(rnorm[0]).item() if flat else rnorm.astype(dtype)
    return (x, norm, NnlsInfo(kkt, n_iter, converged, used)) if full_output else (x, norm)


def _safe_units(Bt: FloatArray) -> FloatArray:
    """Divide, in place, each right-hand side whose squares would be lost by its largest entry; the divisors, mostly 1."""
    units = np.ones(len(Bt))
    with np.errstate(over="ignore"):
        sizes = row_norms(Bt)
    risky = np.flatnonzero(~((sizes > 1e-100) & (sizes < 1e100)))
    if len(risky):
        peak = np.abs(Bt[risky]).max(axis=1)
        units[risky] = np.where(peak > 0, peak, 1.0)
        Bt[risky] /= units[risky, None]
    return units


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
    flat = b.ndim == 1 or b.shape[1] == 1
    rows = b.shape[0]
    if rows != A.shape[0]:
        raise InvalidInputError(
            f"Incompatible dimensions. The first dimension of A is {A.shape[0]}, while the shape of b is {tuple(b.shape)}"
        )
    B = as_matrix(b if sp.issparse(b) or b.ndim == 2 else b[:, None], "b")
    check_finite(A, "A")
    check_finite(B, "b")
    return A, B.tocsc() if sp.issparse(B) else B, flat


def _check_start(x0: Any, n: int, k: int) -> BoolArray:
    start = as_array(x0, "x0")
    if start.ndim == 1:
        start = start[:, None]
    if start.shape != (n, k):
        raise InvalidInputError(f"x0 has shape {np.shape(x0)}; expected that of the solution, {(n, k) if k > 1 else (n,)}.")
    check_finite(start, "x0")
    return start > 0


@dataclass(frozen=True)
class Problem:
    """``A`` seen with unit columns: column j is ``A[:, j] * inverse[j]`` (zero columns stay zero)."""

    A: Points  # float64, already scaled where that was needed for safety
    norms: FloatArray  # lengths of the columns as given
    inverse: FloatArray
    output: FloatArray  # factors from coefficients of unit columns to the solution for the columns as given

    @classmethod
    def of(cls, A: Points) -> Problem:
        A = A.astype(np.float64, copy=False)
        norms = _column_norms(A)
        if ((norms > 1e-100) & (norms < 1e100)).all():
            return cls(A, norms, 1 / norms, 1 / norms)
        # squares may have been lost: divide each column by its largest entry, then by what is left of its length
        peak = np.asarray(abs(A).max(axis=0).toarray() if sp.issparse(A) else np.abs(A).max(axis=0)).ravel()
        safe = np.where(peak > 0, peak, 1.0)
        A = (A @ sp.diags_array(1 / safe)).tocsr() if sp.issparse(A) else A / safe
        norms = _column_norms(A)
        inverse = 1 / np.where(norms > 0, norms, np.inf)
        return cls(A, norms * safe, inverse, inverse / safe)

    def unit(self) -> Points:
        """The matrix with unit columns itself."""
        return (self.A @ sp.diags_array(self.inverse)).tocsr() if sp.issparse(self.A) else self.A * self.inverse

    def correlations(self, R: FloatArray) -> FloatArray:
        """Products of the rows of ``R`` with the unit columns."""
        return np.asarray(R @ self.A) * self.inverse

    def measure(self, Bt: FloatArray, H: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Residual norm, KKT residual and gradient of each row of coefficients ``H`` for the right-hand sides in rows."""
        X = H * self.inverse
        R = Bt - (np.asarray((self.A @ X.T).T) if sp.issparse(self.A) else X @ self.A.T)
        gradient = self.correlations(R)
        violation = np.where(H > 0, np.abs(gradient), gradient).max(axis=1)
        rnorm, size = row_norms(R), row_norms(Bt)
        rnorm[rnorm <= INSIDE_AT * size] = 0.0  # less than what rounding leaves of b: not a residual
        return rnorm, np.maximum(violation, 0.0) / np.maximum(size, np.finfo(np.float64).tiny), gradient


def _column_norms(A: Points) -> FloatArray:
    return np.sqrt(np.asarray(A.multiply(A).sum(axis=0)).ravel() if sp.issparse(A) else np.einsum("ij,ij->j", A, A))


Outcome = tuple[FloatArray, IntArray, BoolArray, FloatArray, FloatArray]  # H, n_iter, converged, rnorm, kkt
Solver = Callable[[FloatArray, "BoolArray | None", "int | None"], Outcome]


def _prepare(problem: Problem, method: str) -> tuple[Solver, str]:
    """A solver for blocks of right-hand sides (in rows), after what depends on A alone has been done once."""
    m, n = problem.A.shape
    if n <= LARGEST_GRAM and (method == "bpp" or (method == "auto" and m >= TALL_ENOUGH * n)):
        G = problem.A.T @ problem.A
        G = (G.toarray() if sp.issparse(G) else G) * problem.inverse * problem.inverse[:, None]
        if method == "bpp" or _well_conditioned(G):
            return _pivoting(problem, G), "bpp"
    return _active(problem), "active-set"


def _well_conditioned(G: FloatArray) -> bool:
    factor, info = lapack.dpotrf(G, lower=1)
    if info != 0:
        return False
    rcond, info = lapack.dpocon(factor, np.abs(G).sum(axis=0).max(), uplo="L")
    return bool(info == 0 and rcond > WELL_CONDITIONED)


def _pivoting(problem: Problem, G: FloatArray) -> Solver:
    """Block principal pivoting; what it cannot solve, or not accurately, goes to the active set."""
    fallback = cache(lambda: _active(problem))

    def solve(Bt: FloatArray, start: BoolArray | None, maxiter: int | None) -> Outcome:
        result = block_pivoting(G, problem.correlations(Bt), row_norms(Bt), start=start, max_iter=maxiter)
        H = np.maximum(result.X, 0.0)
        rnorm, kkt, gradient = problem.measure(Bt, H)
        rough = np.flatnonzero(result.solved & (kkt > KKT_REFINE))
        if len(rough):  # one refinement with the explicit residual
            H[rough] += grouped_correction(G, gradient, result.passive, rough)[rough]
            np.maximum(H, 0.0, out=H)
            rnorm[rough], kkt[rough], _ = problem.measure(Bt[rough], H[rough])
        converged = np.ones(len(Bt), bool) if maxiter is None else result.solved | (result.n_iter < maxiter)
        again = np.flatnonzero(converged & (~result.solved | (kkt > KKT_GOOD)))
        if len(again):
            left = None if maxiter is None else maxiter - int(result.n_iter[again].min())
            H[again], steps, converged[again], rnorm[again], kkt[again] = fallback()(Bt[again], None, left)
            result.n_iter[again] += steps
        return H, result.n_iter, converged, rnorm, kkt

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
            H, steps, converged = result.dense(n), result.n_steps, result.converged
        else:
            H, steps, converged = local_active_set(Z, problem.norms, targets, start, maxiter)
        rnorm, kkt, _ = problem.measure(Bt, H)
        return H, steps, converged, rnorm, kkt

    return solve
