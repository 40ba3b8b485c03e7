"""Non-negative least squares for any shape, any rank, one right-hand side or a million."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_array, as_matrix, check_finite
from conecollapse._errors import ConvergenceError, InvalidInputError, NotOptimalWarning
from conecollapse._linalg import row_norms
from conecollapse._nnls.constrained import solve_block
from conecollapse._nnls.constraints import Constraints
from conecollapse._nnls.nearest import is_for_lists, solve_lists
from conecollapse._nnls.plain import prepare, settle
from conecollapse._nnls.problem import Answers, Problem, column_norms, safe_units
from conecollapse._nnls.proof import OPTIMAL_WITHIN
from conecollapse._nnls.quick import is_plain, limit_text, solve_quickly
from conecollapse._nnls.scaled import Scaled, Shared, block_length
from conecollapse._threads import current_threads, for_ranges, limit_threads, serial_blas
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points

LEAST_BLOCK = 64  # right-hand sides below which a block is not split to keep all threads busy
# entries of right-hand sides treated at once by a thread: 2 MiB, which its cache holds
RHS_BLOCK_ENTRIES = 2**18
NO_PENALTY = 0.0
# of a number in float32; residuals up to this share of |b| are rounding there
SINGLE_ROUNDING, SINGLE_ZERO = 6e-8, 1e-6
METHODS = ("auto", "bpp", "active-set")

__all__ = ["NnlsInfo", "nnls"]


@dataclass(frozen=True)
class NnlsInfo:
    """What `nnls` measured. One entry for each right-hand side."""

    # largest violation of the optimality conditions, in units of |a_j| |b|; see the notes of `nnls`
    kkt_residual: FloatArray
    n_iter: IntArray
    # whether the value is shown to be at most 0.1 % above ``least``, or at most 1e-12 |b|
    converged: BoolArray
    method: str  # the method that was used first: "bpp" or "active-set"
    # no admissible x has a smaller residual norm (with penalties: root of twice the objective);
    # zero where not known
    least: FloatArray


def nnls(
    A: Any,
    b: Any,
    *,
    simplex: bool = False,
    upper: Any = None,
    ridge: float = NO_PENALTY,
    l1: float = NO_PENALTY,
    allowed: Any = None,
    weights: Any = None,
    x0: Any = None,
    maxiter: int | None = None,
    atol: Any = None,
    method: str = "auto",
    full_output: bool = False,
    n_jobs: int | None = None,
) -> Any:
    r"""Solve :math:`\min_{x \ge 0} \|A x - b\|_2` for one or many right-hand sides.

    A drop-in for `scipy.optimize.nnls` that also takes a matrix of right-hand sides, sparse
    matrices, any rank, and more than ``x >= 0``: a sum of one, upper bounds, penalties, masks and
    weights. In full it solves

    .. math:: \min_x \frac{1}{2} \sum_i w_i (A x - b)_i^2 + \frac{1}{2} ridge \|x\|^2 + l_1 \sum_j
       x_j
              \quad\text{subject to}\quad 0 \le x \le upper,\; x_j = 0 \text{ where not allowed},\;
              \sum_j x_j = 1 \text{ if } simplex,

    where the sum of one and :math:`l_1` exclude each other: with the sum the penalty would be a
    constant.

    Parameters
    ----------
    A : (m, n) array or sparse array
        Any shape and rank.
    b : (m,) or (m, k) array or sparse array
        Right-hand sides in columns, or one as a vector. The solution has the same form.
    simplex : bool
        Whether the entries of x must sum to one: ``A x`` is then the point of the convex hull of
        the columns of A nearest to b.
    upper : float, (n,) or (n, k) array, optional
        Upper bounds on x: one for all, one for each column of A, or one for each column and
        right-hand side. Infinity is no bound.
    ridge, l1 : float
        Penalties on the squares and on the sum of x; see the formula.
    allowed : (n,) or (n, k) array of bool, optional
        Which columns of A may be used, by all right-hand sides or by each.
    weights : (m,) or (m, k) array, optional
        Weights of the rows, or of each entry of b, at least 0. Right-hand sides with the same
        weights share the work.
    x0 : (n,) or (n, k) array, optional
        Warm start: the positive entries are tried as passive variables first.
    maxiter : int, optional
        Limit on the exchanges for each right-hand side; by default 3 n for the active set.
    atol : deprecated
        Accepted as SciPy does, and ignored.
    method : {"auto", "bpp", "active-set"}
        Block principal pivoting (the paper's Algorithms 2 and 3) is fastest when A is tall and well
        conditioned; columns on which it breaks are solved by the active set. The active set never
        breaks. "auto" looks at A.
    full_output : bool
        Also return an `NnlsInfo`. Right-hand sides that hit ``maxiter``, or whose solution is not
        shown to be optimal, are then reported in its ``converged``, without an error or a warning.
    n_jobs : int, optional
        Threads to use; all available ones by default.

    Returns
    -------
    x : (n,) or (n, k) array
    rnorm : float or (k,) array
        ``|A x - b|`` of each right-hand side; with weights the root of ``sum_i w_i (A x - b)_i^2``.
        Penalties are not in it. It is measured with A itself where it is small; where it is not,
        products may stand for it that are as accurate.
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
        When a residual norm is neither shown to be within 0.1 % of the smallest possible one, nor
        below ``1e-12 |b|``.

    Notes
    -----
    A solution satisfies, for ``g = A'(b - A x)``: ``x >= 0``, ``g <= 0`` and ``g = 0`` where
    ``x > 0``. These are sufficient, and ``kkt_residual`` measures them. A small ``kkt_residual``
    alone proves little when columns are nearly dependent, so each answer is also compared with a
    lower bound for the residual norm of all ``x >= 0``. Where float64 cannot show that the two
    agree, the problem is solved again with 32 digits. That answer is taken if its residual is
    smaller in float64 too, whichever way the sums of ``A x`` are computed. What remains are
    problems whose optimal x has entries so large that rounding them makes the residual larger: the
    residual of ``x`` changes by about ``1e-16 |a_j| x_j`` when ``x_j`` is rounded.

    With more than ``x >= 0``, ``g = A' W (b - A x) - ridge x - l1``, less the multiplier of the
    sum. It must be zero where x is between its bounds, at most zero where x is zero, and at least
    zero where x is at its upper bound. With ``simplex=True`` columns and right-hand sides are
    measured from the mean column, and ``kkt_residual`` is in units of twice the longest column
    times the sum of that and of the length of b. Right-hand sides are solved in blocks: apart from
    its arguments and results, a call holds a few MiB for each thread and one Gram matrix, or, with
    weights for each entry, 64 MiB of them.

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
    >>> nnls(A, [0.6, 0.8, 0.2], simplex=True)[0].round(12)  # shares that sum to one
    array([0.73333333, 0.26666667])
    >>> nnls(A, [2.0, 1.0, 1.0], upper=[1.2, 0.5], weights=[1, 3, 1])[0].round(12)
    array([1.2, 0.5])
    """
    if atol is not None:
        warnings.warn(
            "the arguments {'atol'} are ignored and deprecated, as in SciPy.",
            DeprecationWarning,
            stacklevel=2,
        )
    if method != "auto" and method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if maxiter is not None and (
        isinstance(maxiter, bool) or not isinstance(maxiter, (int, np.integer)) or maxiter < 0
    ):
        raise InvalidInputError(
            f"maxiter must be a whole number, or None or 0 for the default; got {maxiter!r}."
        )
    penalties = not (ridge is l1 is NO_PENALTY) and not (_is_zero(ridge) and _is_zero(l1))
    is_bare = (
        simplex is False and upper is None and allowed is None and weights is None and not penalties
    )
    limit = min(maxiter, 2**62) if maxiter else None
    if (
        is_bare
        and n_jobs is None
        and not full_output
        and x0 is None
        and method != "bpp"
        and is_plain(A, b)
    ):
        found = solve_quickly(A, b, method, limit)
        if found is not None:
            x, rnorm, left = found
            if left is not None:
                x[:, left], rnorm[left] = _nnls_checked(
                    A, b[:, left], limit, method, None, False, None, left
                )
            return x, rnorm
    options = {
        "simplex": simplex,
        "upper": upper,
        "ridge": ridge,
        "l1": l1,
        "allowed": allowed,
        "weights": weights,
    }
    with limit_threads(n_jobs):
        return _nnls_checked(A, b, limit, method, x0, full_output, None if is_bare else options)


def _is_zero(penalty: Any) -> bool:
    return type(penalty) in (float, int) and penalty == 0


def _nnls_checked(
    A: Any,
    b: Any,
    maxiter: int | None,
    method: str,
    x0: Any,
    full_output: bool,
    options: dict[str, Any] | None,
    numbers: IntArray | None = None,
) -> Any:
    """``numbers`` are those of the right-hand sides for the caller's own caller, if they are some
    of its."""
    A, B, flat = _check_problem(A, b)
    n, k = A.shape[1], B.shape[1]
    start = None if x0 is None else _check_start(x0, n, k, flat)
    dtype = np.float32 if A.dtype == B.dtype == np.float32 else np.float64
    X = np.zeros((n, k), dtype)
    if options is None:
        solve, used = _plain_blocks(A, method, start, maxiter)
        step = max(1, RHS_BLOCK_ENTRIES // max(A.shape))
    else:
        if method == "bpp":
            raise InvalidInputError(
                'method="bpp" solves x >= 0 alone; with bounds, penalties, masks or weights leave'
                " method out."
            )
        scaled, used = Scaled.of(A, Constraints.checked(options, A.shape[0], n, k)), "active-set"
        solve = _constrained_blocks(scaled, start, maxiter)
        step = block_length(scaled, RHS_BLOCK_ENTRIES)
    step = min(step, max(LEAST_BLOCK, -(-k // (2 * current_threads()))))
    blocks = [slice(a, min(a + step, k)) for a in range(0, k, step)]
    parts: list[Any] = [None] * len(blocks)
    lengths = column_norms(A) if dtype is np.float32 else np.zeros(0)

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            cols = blocks[i]
            block = np.asarray(B[:, cols].toarray() if sp.issparse(B) else B[:, cols])
            Bt = np.array(block.T, np.float64, order="C")  # a copy of our own
            solution, coefficients, answer = solve(Bt, cols)
            X[:, cols], is_held = _held(solution.T, coefficients, dtype)
            if dtype is np.float32:
                is_held &= solution @ lengths * SINGLE_ROUNDING <= np.maximum(
                    OPTIMAL_WITHIN * answer.rnorm, SINGLE_ZERO * row_norms(block.T)
                )
            for j in np.flatnonzero(~is_held):
                answer.rnorm[j] = _distance(A, X[:, cols][:, j], block[:, j])
            parts[i] = answer._replace(optimal=answer.optimal & is_held)

    with serial_blas() if len(blocks) > 1 else nullcontext():
        for_ranges(work, len(blocks))
    answers = Answers(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    if not full_output:
        _complain(answers, numbers, maxiter)
    x = X[:, 0] if flat else X
    norm = dtype(answers.rnorm[0]).item() if flat else answers.rnorm.astype(dtype)
    info = NnlsInfo(
        answers.kkt, answers.n_iter, answers.finished & answers.optimal, used, answers.least
    )
    return (x, norm, info) if full_output else (x, norm)


# solutions, coefficients and what is known of both
BlockSolver = Callable[[FloatArray, slice], tuple[FloatArray, FloatArray, Answers]]


def _plain_blocks(
    A: Points, method: str, start: FloatArray | None, maxiter: int | None
) -> tuple[BlockSolver, str]:
    problem = Problem.of(A)
    solver, used = prepare(problem, method)

    def solve(Bt: FloatArray, cols: slice) -> tuple[FloatArray, FloatArray, Answers]:
        unit = safe_units(Bt)
        guess = None if start is None else np.ascontiguousarray(start[:, cols].T > 0)
        coefficients, answer = settle(problem, Bt, solver(Bt, guess, maxiter), maxiter)
        with np.errstate(over="ignore", under="ignore"):
            solution = coefficients * unit[:, None] / problem.units
        return (
            solution,
            coefficients,
            answer._replace(rnorm=answer.rnorm * unit, least=answer.least * unit),
        )

    return solve, used


def _constrained_blocks(
    scaled: Scaled, start: FloatArray | None, maxiter: int | None
) -> BlockSolver:
    shared = None if is_for_lists(scaled) else Shared.of(scaled)

    def solve(Bt: FloatArray, cols: slice) -> tuple[FloatArray, FloatArray, Answers]:
        guess = (
            None
            if start is None
            else np.ascontiguousarray(np.maximum(start[:, cols].T, 0.0), np.float64)
        )
        if shared is None:
            solution, answer = solve_lists(scaled, Bt, guess, maxiter)
        else:
            solution, answer = solve_block(scaled, shared, Bt, cols, guess, maxiter)
        return solution, solution, answer

    return solve


def _held(
    solution: FloatArray, coefficients: FloatArray, dtype: Any
) -> tuple[FloatArray, BoolArray]:
    """The solutions, cut off at the largest number of ``dtype``, and which of them it holds:
    entries may be too large or too small."""
    limits = np.finfo(dtype)
    is_lost = (solution > limits.max) | ((coefficients.T > 0) & (solution < limits.tiny))
    return np.minimum(solution, limits.max), np.asarray(~is_lost.any(axis=0))


def _distance(A: Points, x: FloatArray, b: FloatArray) -> float:
    """``|b - A x|`` of a solution that was cut off, measured so that no square is lost."""
    with np.errstate(over="ignore"):
        r = np.abs(np.asarray(b, np.float64) - np.asarray(A @ np.asarray(x, np.float64)).ravel())
    peak = float(r.max(initial=0.0))
    return peak * float(np.linalg.norm(r / peak)) if 0 < peak < np.inf else peak


def _complain(answers: Answers, numbers: IntArray | None, maxiter: int | None) -> None:
    if not answers.finished.all():
        raise ConvergenceError(
            limit_text(maxiter, int((~answers.finished).sum()), len(answers.finished))
        )
    open_ones = np.flatnonzero(~answers.optimal)
    if len(open_ones):
        j, many = open_ones[0], len(answers.optimal) > 1 or numbers is not None
        which = (
            f"the solution for column {j if numbers is None else numbers[j]} of b (one of"
            f" {len(open_ones)} such columns)"
            if many
            else "the solution"
        )
        warnings.warn(
            f"{which} may not be optimal: its residual norm is {answers.rnorm[j]:.3g}, and the"
            f" smallest possible one may be as small as {answers.least[j]:.3g}. Columns of A depend"
            " on each other so closely, or entries of x are so large or small, that rounding"
            " matters: rescale the rows of A and b, or leave out columns that nearly depend on"
            " others; full_output=True returns these numbers instead of this warning.",
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
            raise InvalidInputError(
                "Expected a 1D array, or a 2D array of right-hand sides in columns, but the shape"
                f" of b is {b.shape}"
            )
    flat = b.ndim == 1
    rows = b.shape[0]
    if rows != A.shape[0]:
        raise InvalidInputError(
            f"Incompatible dimensions. The first dimension of A is {A.shape[0]}, while the shape of"
            f" b is {tuple(b.shape)}"
        )
    B = as_matrix(b if sp.issparse(b) or b.ndim == 2 else b[:, None], "b")
    check_finite(A, "A")
    check_finite(B, "b")
    return A, B.tocsc() if sp.issparse(B) else B, flat


def _check_start(x0: Any, n: int, k: int, flat: bool) -> AnyArray:
    start = as_array(x0, "x0")
    if start.ndim == 1:
        start = start[:, None]
    if start.shape != (n, k):
        raise InvalidInputError(
            f"x0 has shape {np.shape(x0)}; expected that of the solution,"
            f" {(n,) if flat else (n, k)}."
        )
    check_finite(start, "x0")
    return start
