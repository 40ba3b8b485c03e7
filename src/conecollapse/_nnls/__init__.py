"""Non-negative least squares for any shape, any rank, one right-hand side or a million.

Which method solves a problem of m rows, n columns and k right-hand sides is decided here and
nowhere else, by this list; `choose` is numbers 2 to 5 in code. A method is a function ``by_...``
that fills a `bound.Record`. What a record does not show to be optimal is left to the next method of
the list, which starts from it.

1. A sum of one, bounds, penalties, masks or weights: `constrained`, the active set on products with
   bounds; over `lists` of columns for a sum of one alone, n above `LARGE` and above ``4 m``. What
   float64 does not show to be optimal becomes a plain problem.
2. k at least `MANY_SIDES`, n at most `LARGE`, A'A well conditioned, neither a start nor a limit on
   the steps: `complement`, pivoting in the zeros, or block pivoting where they are many.
3. n at most `FEW_COLUMNS`, or at most `MANY_COLUMNS` and at most m: `products`, the active set on
   A'A.
4. `columns`, the active set on a QR factorization. With n above `LARGE` and several right-hand
   sides all of these are priced by one matrix product (`slots`).
5. `careful`, the active set in 32 digits.

Where the entries of A times k are at most `SMALL_WORK`, the method of number 3 or 4 is one call of
a kernel, and nothing else is looked at; the first few such problems of a process are left to SciPy,
whose answers the bound judges, because compiling a kernel takes seconds. Sparse matrices become
dense where they have at most `DENSE_LIMIT` entries; larger ones are solved by numbers 2 and 4. With
``method="bpp"`` block principal pivoting, the paper's method, takes the place of 2 and 3, and
``method="active-set"`` begins with 4.

A new method takes a `problem.Problem`, right-hand sides in rows, and a start and a limit on the
steps, either of which may be None. It returns a `bound.Record` whose endings are OPTIMAL only where
the bound of `bound` says so; `Problem.measure` makes one from coefficients. It gets a line in this
list and one in `choose`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import ConvergenceError, InvalidInputError, NotOptimalWarning
from conecollapse._linalg import row_norms
from conecollapse._nnls import active_set, columns, products
from conecollapse._nnls.bound import (
    OPTIMAL,
    OPTIMAL_WITHIN,
    STEP_LIMIT,
    UNPROVEN,
    Record,
    is_rough_zero,
)
from conecollapse._nnls.bpp import block_pivoting
from conecollapse._nnls.careful import solve_carefully
from conecollapse._nnls.complement import pivot_complement
from conecollapse._nnls.constrained import Scaled, Shared, block_length, solve_block
from conecollapse._nnls.constraints import Constraints, check_problem, check_start
from conecollapse._nnls.problem import (
    DENSE_LIMIT,
    LARGE,
    TINY,
    WELL_ENOUGH,
    Problem,
    safe_units,
)
from conecollapse._threads import (
    current_threads,
    for_ranges,
    limit_threads,
    serial_blas,
)
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points

# entries of A times right-hand sides up to which one call of a kernel does it all; above it, the
# products of A with itself and with b are better left to BLAS
SMALL_WORK = 2**17
# right-hand sides from which the inverse of A'A pays: 200 x 20 takes 0.75 of the time that products
# take with 10^4 of them, and the same with 64
MANY_SIDES = 64
# columns up to which products are the best method: with 300 x 300 QR takes half their time
MANY_COLUMNS = 256
FEW_COLUMNS = 32  # the same where there are more columns than rows
LEAST_BLOCK = 64  # right-hand sides below which a block is not split to keep all threads busy
# entries of right-hand sides treated at once by a thread: 2 MiB, which its cache holds
RHS_BLOCK_ENTRIES = 2**18
NO_PENALTY = 0.0
# of a number in float32; residuals up to this share of |b| are rounding there
SINGLE_ROUNDING, SINGLE_ZERO = 6e-8, 1e-6
KKT_GOOD = 1e-9  # pivoting with a larger KKT residual is not its last word
METHODS = ("auto", "bpp", "active-set")
PROPOSED_CALLS = 16  # small problems that are left to SciPy
_asked = itertools.count()
FLOAT64 = np.dtype(np.float64)

__all__ = ["NnlsInfo", "nnls"]


@dataclass(frozen=True)
class NnlsInfo:
    """What `nnls` measured. One entry for each right-hand side."""

    # largest violation of the optimality conditions, in units of |a_j| |b|; see the notes of `nnls`
    kkt_residual: FloatArray
    n_iter: IntArray
    # whether the value is shown to be at most 0.1 % above ``least``, or at most 1e-12 |b|
    converged: BoolArray
    method: str  # the method that was used first, by its name in `conecollapse._nnls`
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
    if is_bare and x0 is None and method == "auto" and not full_output and limit is None:
        answer = _solve_small(A, b)
        if answer is not None:
            return answer
    options = {
        "simplex": simplex,
        "upper": upper,
        "ridge": ridge,
        "l1": l1,
        "allowed": allowed,
        "weights": weights,
    }
    with limit_threads(n_jobs):
        return _solve_checked(A, b, limit, method, x0, full_output, None if is_bare else options)


def _is_zero(penalty: Any) -> bool:
    return type(penalty) in (float, int) and penalty == 0


def _solve_small(A: Any, b: Any) -> tuple[FloatArray, Any] | None:
    """A small problem in float64 by one call of a kernel; None if it is none, or if an answer is
    not shown to be optimal."""
    if not _is_small(A, b):
        return None
    if next(_asked) < PROPOSED_CALLS:
        return _take_proposals(A, b)
    (m, n), k = A.shape, 1 if b.ndim == 1 else b.shape[1]
    A, out = np.ascontiguousarray(A), np.empty((k, n + 4))
    Bt = np.ascontiguousarray(b[None] if b.ndim == 1 else b.T)
    if _are_products_first(m, n):
        products.solve_rows(A, Bt, None, None, np.inf, None, 3 * n, out)
    else:
        columns.solve_rows(A, Bt, np.inf, None, 3 * n, out)
    if (out.item(n + 2) if k == 1 else out[:, n + 2].min()) != OPTIMAL:
        return None
    return (out[0, :n], out.item(n)) if b.ndim == 1 else (out[:, :n].T, out[:, n])


def _is_small(A: Any, b: Any) -> bool:
    if not (type(A) is type(b) is np.ndarray and A.dtype is FLOAT64 and b.dtype is FLOAT64):
        return False
    if A.ndim != 2 or not 1 <= b.ndim <= 2 or len(A) != len(b):
        return False
    return 0 < A.size * (1 if b.ndim == 1 else b.shape[1]) <= SMALL_WORK


def _take_proposals(A: FloatArray, b: FloatArray) -> tuple[FloatArray, Any] | None:
    """SciPy's solutions of a small problem, if the bound shows all of them to be optimal."""
    if not (np.isfinite(A).all() and np.isfinite(b).all()):
        return None
    problem, Bt = Problem.of(A), b.reshape(len(b), -1).T.copy()
    if (problem.units != 1).any() or (safe_units(Bt) != 1).any():
        return None
    H, unit = active_set.propose(A.T, Bt, None) * problem.norms, problem.unit()
    sigma = [np.linalg.svd(unit[:, h > 0], compute_uv=False).min(initial=1.0) for h in H]
    record, _ = problem.measure(Bt, H, np.array(sigma))
    is_open = (record.ending != OPTIMAL) | is_rough_zero(record.rnorm, H, row_norms(Bt))
    if is_open.any():
        return None
    is_one = b.ndim == 1
    return (record.X[0], float(record.rnorm[0])) if is_one else (record.X.T, record.rnorm)


# a method: what is known of solutions for right-hand sides in rows, from coefficients to start from
# and a limit on the steps, either of which may be None
Method = Callable[[Problem, FloatArray, "FloatArray | None", "int | None"], Record]


def choose(problem: Problem, k: int, method: str, *, is_cold: bool) -> list[Method]:
    """The methods for a plain problem, in the order of the list in the module's text. `is_cold`:
    no start is given, and no limit on the steps."""
    m, n = problem.A.shape
    ways: list[Method] = [by_pivoting] if method == "bpp" else []
    if method == "auto":
        is_complement = k >= MANY_SIDES and n <= LARGE and is_cold
        if is_complement and problem.conditioning[0] > WELL_ENOUGH:
            ways.append(by_complement)
        if problem.may_be_dense and _are_products_first(m, n):
            ways.append(by_products)
    ways.append(by_columns)
    return [*ways, by_digits] if problem.may_be_dense else ways


def _are_products_first(m: int, n: int) -> bool:
    """Number 3 of the list."""
    return n <= FEW_COLUMNS or n <= min(MANY_COLUMNS, m)


def solve(
    problem: Problem,
    Bt: FloatArray,
    ways: list[Method],
    start: FloatArray | None = None,
    limit: int | None = None,
) -> Record:
    """Solve for each row of ``Bt`` by the first of these methods whose answer is shown to be
    optimal."""
    record = Record.empty(len(Bt), problem.A.shape[1])
    left = np.arange(len(Bt))
    for way in ways:
        steps = None if limit is None else limit - int(record.steps[left].max(initial=0))
        if not len(left) or steps == 0:
            break
        record.put(left, way(problem, Bt[left], start, steps))
        is_open = record.ending[left] == UNPROVEN
        if limit is None and way is not by_columns:
            is_open = record.ending[left] != OPTIMAL
        left = left[is_open]
        start = record.X[left]
    return record


def by_complement(
    problem: Problem,
    Bt: FloatArray,
    start: FloatArray | None,  # noqa: ARG001
    limit: int | None,  # noqa: ARG001
) -> Record:
    """Pivoting in the zeros, and block pivoting where they are many: one call compiles less than
    it would with products."""
    C, size = problem.correlations(Bt), row_norms(Bt)
    X = C @ problem.gram_inverse
    upper = np.full((1, X.shape[1]), np.inf)
    _, solved, steps = pivot_complement(problem.gram_inverse, X, upper, size)
    left = np.flatnonzero(~solved)
    if len(left):
        others = block_pivoting(problem.gram, C[left], size[left], start=X[left] > 0)
        X[left], solved[left], steps[left] = others.X, others.solved, others.n_iter
    record = problem.measure_by_products(C, np.maximum(X, 0.0), size)
    record.ending[~solved] = UNPROVEN
    record.steps[:] = steps
    return record


def by_pivoting(
    problem: Problem, Bt: FloatArray, start: FloatArray | None, limit: int | None
) -> Record:
    """The paper's Algorithms 2 and 3. A residual that is zero but for rounding, or a violation of
    the optimality conditions that is more, is left to the next method."""
    C, size = problem.correlations(Bt), row_norms(Bt)
    first = None if start is None else start > 0
    result = block_pivoting(problem.gram, C, size, start=first, max_iter=limit)
    H = np.maximum(result.X, 0.0)
    sigma = np.full(len(H), problem.conditioning[1])
    record, prices = problem.measure(Bt, H, sigma, hold_all=True)
    violation = np.where(H > 0, np.abs(prices), prices).max(axis=1)
    is_rough = is_rough_zero(record.rnorm, H, size) | ~(violation <= KKT_GOOD * size)
    record.ending[~result.solved | is_rough] = UNPROVEN
    record.steps[:] = result.n_iter
    if limit is not None:
        record.ending[~result.solved & (result.n_iter >= limit)] = STEP_LIMIT
    return record


def by_products(
    problem: Problem, Bt: FloatArray, start: FloatArray | None, limit: int | None
) -> Record:
    """The active set on A'A."""
    A, n = problem.dense, problem.A.shape[1]
    is_small = A.size * len(Bt) <= SMALL_WORK
    G, C = (None, None) if is_small else (problem.gram, Bt @ A)
    out, first = np.empty((len(Bt), n + 4)), None if start is None else start > 0
    products.solve_rows(A, Bt, G, C, problem.reach, first, limit or 3 * n, out)
    return Record.of(out)


def by_columns(
    problem: Problem, Bt: FloatArray, start: FloatArray | None, limit: int | None
) -> Record:
    """The active set on a QR factorization."""
    n, k = problem.A.shape[1], len(Bt)
    if problem.may_be_dense and (n <= LARGE or k == 1):
        out, first = np.empty((k, n + 4)), None if start is None else start > 0
        columns.solve_rows(problem.dense, Bt, problem.reach, first, limit or 3 * n, out)
        return Record.of(out)
    Z = problem.unit().T
    if not problem.may_be_dense:
        solved = active_set.active_set_sparse(Z.tocsr(), Bt, max_steps=limit, with_sigma=True)
    else:
        Z = np.ascontiguousarray(Z.toarray() if sp.issparse(Z) else Z)
        lists = None if start is None else [np.flatnonzero(x > 0) for x in start]
        solved = active_set.active_set(Z, Bt, start=lists, max_steps=limit, with_sigma=True)
    record, _ = problem.measure(Bt, solved.dense(n), solved.sigma)
    record.steps[:] = solved.n_steps
    record.ending[~solved.converged & (record.ending != OPTIMAL)] = STEP_LIMIT
    return record


def by_digits(
    problem: Problem, Bt: FloatArray, start: FloatArray | None, limit: int | None
) -> Record:
    """The active set in 32 digits, from a solution in float64."""
    most = 3 * problem.A.shape[1] if limit is None else limit
    X = np.zeros((len(Bt), problem.A.shape[1])) if start is None else start
    rows = [solve_carefully(problem.dense, b, x, most) for b, x in zip(Bt, X, strict=True)]
    return Record(*(np.concatenate(field) for field in zip(*rows, strict=True)))


def solve_one(A: FloatArray, b: FloatArray) -> Record:
    """A plain problem with one right-hand side."""
    problem, Bt = Problem.of(A), b[None].copy()
    unit = safe_units(Bt)
    record = solve(problem, Bt, choose(problem, 1, "auto", is_cold=True))
    record.X[:] /= problem.units
    for field in (record.X, record.rnorm, record.least):
        field *= unit[0]
    return record


# what a block of right-hand sides, columns ``cols`` of b, is solved by: a record, and the KKT
# residuals if they are asked for
BlockSolver = Callable[[FloatArray, slice], tuple[Record, FloatArray]]


def _plain_blocks(
    A: Points, k: int, method: str, start: FloatArray | None, limit: int | None, with_kkt: bool
) -> tuple[BlockSolver, str]:
    problem = Problem.of(A)
    ways = choose(problem, k, method, is_cold=start is None and limit is None)

    def solver(Bt: FloatArray, cols: slice) -> tuple[Record, FloatArray]:
        unit = safe_units(Bt)
        record = solve(problem, Bt, ways, None if start is None else start[:, cols].T, limit)
        kkt = problem.kkt(Bt, record.X) if with_kkt else unit
        with np.errstate(over="ignore", under="ignore"):
            is_positive = record.X > 0
            record.X[:] = record.X * unit[:, None] / problem.units
            record.rnorm[:] *= unit
            record.least[:] *= unit
        # which no number holds
        record.rnorm[(is_positive & (record.X < TINY)).any(axis=1)] = np.nan
        return record, kkt

    return solver, ways[0].__name__.removeprefix("by_")


def _constrained_blocks(
    scaled: Scaled, start: FloatArray | None, limit: int | None
) -> tuple[BlockSolver, str]:
    """Number 1 of the list."""
    (m, n), c = scaled.A.shape, scaled.constraints
    is_alone = c.simplex and not c.ridge and c.weights is None and bool(np.isinf(c.upper).all())
    by_lists = is_alone and not sp.issparse(scaled.A) and n > max(LARGE, 4 * m)
    shared = None if by_lists else Shared.of(scaled)
    plain = None if by_lists or m * n > DENSE_LIMIT else solve_one

    def solver(Bt: FloatArray, cols: slice) -> tuple[Record, FloatArray]:
        first = None if start is None else np.ascontiguousarray(start[:, cols].T, np.float64)
        return solve_block(scaled, shared, Bt, cols, first, limit, plain)

    return solver, "lists" if by_lists else "constrained"


def _solve_checked(
    A: Any,
    b: Any,
    limit: int | None,
    method: str,
    x0: Any,
    full_output: bool,
    options: dict[str, Any] | None,
) -> Any:
    A, B, flat = check_problem(A, b)
    n, k = A.shape[1], B.shape[1]
    start = None if x0 is None else np.maximum(check_start(x0, n, k, flat), 0.0)
    dtype = np.float32 if A.dtype == B.dtype == np.float32 else np.float64
    step = max(1, RHS_BLOCK_ENTRIES // max(A.shape))
    root = np.ones((1, 1))  # of the weights, which are in the norm
    if options is None:
        solver, used = _plain_blocks(A, k, method, start, limit, full_output)
    else:
        if method == "bpp":
            raise InvalidInputError(
                'method="bpp" solves x >= 0 alone; with bounds, penalties, masks or weights leave'
                " method out."
            )
        constraints = Constraints.checked(options, A.shape[0], n, k)
        root = constraints.root_weights
        scaled = Scaled.of(A, constraints)
        solver, used = _constrained_blocks(scaled, start, limit)
        step = block_length(scaled, step)
    step = min(step, max(LEAST_BLOCK, -(-k // (2 * current_threads()))))
    blocks = [slice(a, min(a + step, k)) for a in range(0, k, step)]
    parts: list[Any] = [None] * len(blocks)
    X = np.zeros((n, k), dtype)

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            cols = blocks[i]
            block = np.asarray(B[:, cols].toarray() if sp.issparse(B) else B[:, cols])
            # a copy of our own
            record, kkt = solver(np.array(block.T, np.float64, order="C"), cols)
            some = root if root.shape[1] == 1 else root[:, cols]
            X[:, cols] = _held(A, block, some, record, dtype)
            parts[i] = (record.rnorm, record.least, record.ending, record.steps, kkt)

    with serial_blas() if len(blocks) > 1 else nullcontext():
        for_ranges(work, len(blocks))
    rnorm, least, ending, steps, kkt = (np.concatenate(f) for f in zip(*parts, strict=True))
    if not full_output:
        _complain(rnorm, least, ending, limit)
    x = X[:, 0] if flat else X
    norm = dtype(rnorm[0]).item() if flat else rnorm.astype(dtype)
    info = NnlsInfo(kkt, steps.astype(np.int64), ending == OPTIMAL, used, least)
    return (x, norm, info) if full_output else (x, norm)


def _held(A: Points, block: AnyArray, root: FloatArray, record: Record, dtype: Any) -> AnyArray:
    """The solutions as numbers of ``dtype``, cut off at the largest one. Where that changes a
    solution, its residual norm is measured again, and it is not optimal."""
    limits, X = np.finfo(dtype), record.X.T
    is_lost = np.isnan(record.rnorm)
    is_lost |= ((limits.max < X) | ((X > 0) & (limits.tiny > X))).any(axis=0)
    if dtype is np.float32:
        squares = A.astype(np.float64) ** 2 if not sp.issparse(A) else A.astype(np.float64).power(2)
        weights = np.broadcast_to(root**2, (A.shape[0], root.shape[1]))
        lengths = np.sqrt(np.asarray(squares.T @ weights))
        rounding = (lengths * X).sum(axis=0) * SINGLE_ROUNDING
        size = row_norms(np.asarray(block * root, np.float64).T)
        is_lost |= rounding > np.maximum(OPTIMAL_WITHIN * record.rnorm, SINGLE_ZERO * size)
    X = np.minimum(X, limits.max).astype(dtype)
    for j in np.flatnonzero(is_lost):
        record.rnorm[j] = _distance(A, X[:, j], block[:, j], root[:, min(j, root.shape[1] - 1)])
    record.ending[is_lost & (record.ending == OPTIMAL)] = UNPROVEN
    return X


def _distance(A: Points, x: FloatArray, b: FloatArray, root: FloatArray) -> float:
    """The length of ``root (b - A x)`` of a solution that was cut off, measured so that no square
    is lost."""
    with np.errstate(over="ignore"):
        r = np.abs(np.asarray(b, np.float64) - np.asarray(A @ np.asarray(x, np.float64)).ravel())
        r = r * root
    peak = float(r.max(initial=0.0))
    return peak * float(np.linalg.norm(r / peak)) if 0 < peak < np.inf else peak


def _complain(rnorm: FloatArray, least: FloatArray, ending: FloatArray, limit: int | None) -> None:
    k, stopped = len(ending), int((ending == STEP_LIMIT).sum())
    if stopped:
        given = "" if limit is None else f"maxiter = {limit} exchanges were not enough for "
        which = f"{stopped} of {k} right-hand sides" if k > 1 else "the right-hand side"
        remedy = (
            f"maxiter={2**20} allows more" if limit is None else "raise maxiter, or leave it out"
        )
        raise ConvergenceError(
            f"Maximum number of iterations reached: {given or 'too many exchanges for '}{which};"
            f" {remedy}."
        )
    open_ones = np.flatnonzero(ending != OPTIMAL)
    if len(open_ones):
        j = open_ones[0]
        which = f"the solution for column {j} of b (one of {len(open_ones)} such columns)"
        warnings.warn(
            f"{which if k > 1 else 'the solution'} may not be optimal: its residual norm is"
            f" {rnorm[j]:.3g}, and the smallest possible one may be as small as {least[j]:.3g}."
            " Columns of A depend on each other so closely, or entries of x are so large or small,"
            " that rounding matters: rescale the rows of A and b, or leave out columns that nearly"
            " depend on others; full_output=True returns these numbers instead of this warning.",
            NotOptimalWarning,
            stacklevel=4,
        )
