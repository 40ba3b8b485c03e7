r"""Least squares with x >= 0 and more: a sum of one, upper bounds, penalties, masks, weights.

.. math:: \min_x \frac{1}{2} \sum_i w_i (A x - b)_i^2 + \frac{1}{2} ridge \|x\|^2 + l_1 \sum_j x_j
          \quad\text{subject to}\quad 0 \le x \le u,\; \sum_j x_j = 1 \text{ if asked for}

A column that is not allowed has the upper bound zero. All of these are one quadratic program in
Gram form, :math:`G = A' W A + ridge`, :math:`c = A' W b - l_1`, which `products` solves, or
`complement` where few bounds bind, or `lists` where G would be too large. With a sum of one only
differences of columns matter, so A and b are moved by the mean of the columns first. Otherwise
columns are scaled to unit length. Problems that share their weights share G.

What rounding has left of the optimality conditions is measured with A and b themselves, and removed
by solving again from there: with the measured gradient g at x, the linear term ``c = g + G x``
makes the errors of the next round relative to the change of x, not to x. Every answer comes with
the bound of `bound`. What that does not show to be optimal is solved as a plain problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_size
from conecollapse._errors import InvalidInputError
from conecollapse._kernels import kernel
from conecollapse._linalg import power_of_two, row_norms
from conecollapse._nnls.bound import (
    EPS,
    MOST_LENGTH,
    OPTIMAL,
    STEP_LIMIT,
    UNPROVEN,
    Record,
    is_optimal,
    is_rough_zero,
    lower_bounds,
)
from conecollapse._nnls.bpp import grouped_correction
from conecollapse._nnls.complement import pivot_complement
from conecollapse._nnls.constraints import Constraints
from conecollapse._nnls.factor import factorize, smallest_singular_value
from conecollapse._nnls.lists import nearest_in_hull
from conecollapse._nnls.problem import (
    LARGE,
    SAFE_LENGTHS,
    TINY,
    WELL_ENOUGH,
    Problem,
    conditioning,
    safe_units,
)
from conecollapse._nnls.products import FREE, HIGH, LOW, SUM_ERROR, Problems, Solved, solve
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

# reciprocal condition of a Gram matrix from which the solutions without bounds are worth a start:
# what they have lost is corrected, and exact fits are found only from there
INVERTED = 1e-10
GRAM_LIMIT = 16_384  # columns whose Gram matrix takes 2 GiB
WEIGHTED_AT_ONCE = 2**23  # entries of weighted matrices that are held at once: 64 MiB
# the entry by which columns are extended for a sum of one; the columns are scaled to at most this
# length
LIFT = 0.5
# a penalty this many times the longest products with b leaves x at zero, as any larger one does
LARGEST_L1 = 1e140
KKT_ROUNDING = 1e-13  # a solution with a larger KKT residual is refined,
ROUNDS = 3  # at most this often
# corrections of a fit that should be exact: the first may show that a variable taken to be free is
# at a bound
POLISHINGS = 2


@dataclass(frozen=True)
class Scaled:
    """The problem in coefficients h of scaled columns: ``x = h * inverse``."""

    A: Points  # columns of length 1, or, with a sum of one, of length at most LIFT
    inverse: FloatArray  # (n,)
    centre: FloatArray  # (m,) or (1,): subtracted from right-hand sides as given
    size: float  # divides right-hand sides after that
    root_weights: FloatArray | None  # (m,): multiplies them
    reach: float  # bound on the sum of h for a right-hand side of length 1, infinite if not known
    constraints: Constraints

    @classmethod
    def of(cls, A: Points, constraints: Constraints) -> Scaled:
        check_size(A, "A")
        A = A.astype(np.float64, copy=False)
        simplex, centre, root = constraints.simplex, np.zeros(1), None
        if simplex and not sp.issparse(A):
            centre = (A / A.shape[1]).sum(axis=1)
            A = A - centre[:, None]
        if constraints.row_weights is not None:
            root = np.sqrt(constraints.row_weights)
            A = sp.diags_array(root) @ A if sp.issparse(A) else A * root[:, None]
        problem = Problem.of(A)
        if not simplex:
            inverse = problem.inverse / problem.units
            return cls(problem.unit(), inverse, centre, 1.0, root, problem.reach, constraints)
        longest = (problem.norms * problem.units).max()
        size = float(power_of_two(longest)) / LIFT * 2
        return cls(A / size, np.ones(A.shape[1]), centre, size, root, np.inf, constraints)

    def right_hand_sides(self, Bt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The rows of ``Bt`` in the scaled problem, and what each was divided by."""
        if self.constraints.simplex:
            Bt = Bt - self.centre
        if self.root_weights is not None:
            Bt = Bt * self.root_weights
        if not self.constraints.simplex:
            return Bt, safe_units(Bt)
        peak = np.abs(Bt).max(axis=1) / self.size
        for i in np.flatnonzero(peak > MOST_LENGTH)[:1]:
            raise InvalidInputError(
                f"a right-hand side is {peak[i]:.1g} times longer than the columns of A; with"
                f" simplex=True {MOST_LENGTH:g} is the limit."
            )
        return Bt / self.size, np.full(len(Bt), self.size)

    def ridge(self) -> FloatArray:
        """The ridge on each coefficient: with a sum of one, squares are smaller than those
        given."""
        root = np.sqrt(self.constraints.ridge) * self.inverse / self.size
        if root.max() > SAFE_LENGTHS[1]:
            raise InvalidInputError(
                f"ridge = {self.constraints.ridge:g} is too large for a matrix of entries this"
                " small; rescale A and b."
            )
        return np.asarray(root**2)

    def products(self, A: Points) -> FloatArray:
        """The Gram matrix of these columns."""
        G = A.T @ A
        return (G.toarray() if sp.issparse(G) else G) + LIFT**2 * self.constraints.simplex

    def weighted_products(self, W: FloatArray) -> FloatArray:
        """``A' diag(w) A`` for each row w of ``W``."""
        A, (m, n) = self.A, self.A.shape
        if sp.issparse(A):
            G = np.stack([(A.T @ (sp.diags_array(w) @ A)).toarray() for w in W])
        elif m * n * n <= WEIGHTED_AT_ONCE:  # all at once: 100 x 10 takes a third less time
            G = (W @ (A[:, :, None] * A[:, None, :]).reshape(m, n * n)).reshape(-1, n, n)
        else:
            G = (A.T * W[:, None, :]) @ A
        return G + LIFT**2 * self.constraints.simplex


class Shared(NamedTuple):
    """What problems have in common: the Gram matrix without weights of their own and, where that is
    well conditioned and not too large, what gives their solutions without bounds. Their signs are a
    good guess at which variables are zero."""

    gram: FloatArray
    inverse: FloatArray | None  # the inverse, less its part along the sum if there is one
    may_pivot: bool  # whether the inverse is accurate enough for more than a start
    along: FloatArray  # (n,): what a sum of one adds to any solution
    sigma: float  # an estimate of the smallest singular value of all columns, or 0

    @classmethod
    def of(cls, scaled: Scaled) -> Shared:
        if (n := scaled.A.shape[1]) > GRAM_LIMIT:
            raise InvalidInputError(
                f"A has {n} columns; with bounds, penalties, masks or weights at most {GRAM_LIMIT}"
                " fit into memory."
            )
        gram, along = scaled.products(scaled.A), np.zeros(n)
        np.fill_diagonal(gram, np.diag(gram) + scaled.ridge())
        rcond, sigma = conditioning(gram) if n <= LARGE else (0.0, 0.0)
        if not rcond > INVERTED:
            return cls(gram, None, False, along, 0.0)
        inverse = np.asarray(np.linalg.inv(gram), np.float64)
        if scaled.constraints.simplex:
            sums = inverse.sum(axis=0)
            along = sums / sums.sum()
            inverse = inverse - np.outer(sums, along)
        return cls(gram, inverse, rcond > WELL_ENOUGH, along, sigma)


class Block(NamedTuple):
    """Some problems, in rows, in the units of `Scaled`. Two-dimensional arrays may have a single
    row for all."""

    B: FloatArray
    W: FloatArray  # relative to the largest weight of each problem
    ridge: FloatArray
    l1: FloatArray
    upper: FloatArray
    grams: FloatArray  # (g, n, n), or none at all
    of: IntArray
    # lengths of the right-hand sides in the weighted norm; with a sum of one, 1 is added: the
    # length of columns
    size: FloatArray

    def take(self, rows: IntArray) -> Block:
        fields = {name: field for name, field in self._asdict().items() if name != "grams"}
        return self._replace(**{n: f if len(f) == 1 else f[rows] for n, f in fields.items()})


def new_block(
    scaled: Scaled, gram: FloatArray, B: FloatArray, scale: FloatArray, columns: slice
) -> tuple[Block, FloatArray]:
    """The problems of a block, of which row i was divided by ``scale[i]``, and the largest weight
    of each."""
    c, (k, n) = scaled.constraints, (len(B), scaled.A.shape[1])
    peaks, W, ridge = np.ones(k), np.ones((1, 1)), scaled.ridge()[None]
    grams, of, l1, upper = gram, np.zeros(k, np.int64), np.zeros((1, n)), c.bounds(columns)
    if c.weights is not None:
        W = np.ascontiguousarray(c.weights[:, columns].T)
        peaks = np.where(W.any(axis=1), W.max(axis=1), 1.0)
        W /= peaks[:, None]
        ridge = ridge / peaks[:, None]
        keys = np.hstack([W, ridge])
        keys = keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).ravel()
        _, first, of = np.unique(keys, return_index=True, return_inverse=True)
        grams = scaled.weighted_products(W[first])
        grams[:, np.arange(n), np.arange(n)] += ridge[first]
    with np.errstate(over="ignore", under="ignore"):
        if c.l1:
            l1 = np.minimum(c.l1 / peaks[:, None] / scale * scaled.inverse, LARGEST_L1)
        if c.has_bounds:
            upper = upper / np.where(scaled.inverse > 0, scaled.inverse, 1.0) / scale
    # a column of zeros can only stay at zero
    upper = np.ascontiguousarray(np.where(scaled.inverse > 0, upper, 0.0))
    size = row_norms(B * np.sqrt(W)) + c.simplex
    return Block(B, W, ridge, l1, upper, grams, of.ravel().astype(np.int64), size), peaks


class Checked(NamedTuple):
    """What is measured of each row of coefficients."""

    rnorm: FloatArray
    kkt: FloatArray
    value: FloatArray  # the root of twice the objective
    gradient: FloatArray  # of what is maximised, the multiplier of the sum not yet subtracted
    # the same less the multiplier, signed so that positive entries violate; magnitudes where free
    violation: FloatArray


# solves one plain problem: the record of ``min |A x - b|, x >= 0``
PlainSolver = Callable[[FloatArray, FloatArray], Record]


def block_length(scaled: Scaled, step: int) -> int:
    """How many problems to take at once so that weighted matrices fit as well."""
    m, n = scaled.A.shape
    each = scaled.constraints.weights is not None
    return max(1, min(step, WEIGHTED_AT_ONCE // (n * max(m, n)))) if each else step


def solve_block(
    scaled: Scaled,
    shared: Shared | None,
    Bt: FloatArray,
    columns: slice,
    start: FloatArray | None,
    maxiter: int | None,
    plain: PlainSolver | None,
) -> tuple[Record, FloatArray]:
    """A record for the right-hand sides in rows, which are ``columns`` of the whole, and their KKT
    residuals. Nothing is ``shared`` where lists of columns are used."""
    c, n = scaled.constraints, scaled.A.shape[1]
    B, units = scaled.right_hand_sides(Bt)
    scale = np.ones((len(B), 1)) if c.simplex else units[:, None]
    gram = np.empty((0, n, n)) if shared is None else shared.gram[None]
    block, peaks = new_block(scaled, gram, B, scale, columns)
    if start is not None:
        with np.errstate(over="ignore", under="ignore"):
            start = start / np.where(scaled.inverse > 0, scaled.inverse, np.inf) / scale
        # longer ones lose digits
        start[~(start <= SAFE_LENGTHS[1]).all(axis=1) | (block.size == 0)] = 0.0
    if shared is None:
        solved = nearest_in_hull(np.ascontiguousarray(scaled.A.T), B, start, maxiter)
    else:
        solved = _first_solution(scaled, shared, block, start, maxiter)
    found = measure(scaled, block, solved)
    if shared is not None:
        _refine(scaled, block, solved, found, maxiter)
        _polish(scaled, block, solved, found)
    finished = (solved.ending != STEP_LIMIT) | (maxiter is None)
    least, rounding = bound_values(scaled, shared, block, solved, found)
    optimal = is_optimal(found.value + rounding, least, block.size)
    rows = np.flatnonzero(~optimal & finished)
    if len(rows) and plain is not None and not (c.has_bounds or c.l1):
        _solve_again(scaled, block.take(rows), solved, found, least, rows, plain)
        optimal = is_optimal(found.value + rounding, least, block.size)
    if c.simplex:
        optimal &= np.abs(solved.X.sum(axis=1) - 1) <= SUM_ERROR
    record = _as_given(scaled, solved.X, scale, c.bounds(columns))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        outward = units * np.sqrt(peaks)
        # a residual norm that is not known is measured again
        record.rnorm[:] += found.rnorm * outward
        record.least[:] = np.fmax(least, 0.0) * outward
    record.ending[:] = np.where(finished, np.where(optimal, OPTIMAL, UNPROVEN), STEP_LIMIT)
    record.steps[:] = solved.steps
    return record, np.where(np.isnan(found.kkt), np.inf, found.kkt)


def _as_given(scaled: Scaled, H: FloatArray, scale: FloatArray, upper: FloatArray) -> Record:
    """The solutions in the units that were given, with a residual norm of NaN where no number holds
    them or where the sum had to be restored, else zero."""
    record = Record.empty(*H.shape)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        X = np.where(H > 0, H * (scaled.inverse * scale), 0.0)
    # the scaling may have missed a bound by a last digit
    record.X[:] = np.where(np.isnan(H), 0.0, np.minimum(X, upper))
    record.rnorm[(~(H >= 0) | ((H > 0) & ~(X >= TINY))).any(axis=1)] = np.nan
    if scaled.constraints.simplex:
        most = np.broadcast_to(np.minimum(upper, 1.0), H.shape)
        for i in np.flatnonzero(~(np.abs(record.X.sum(axis=1) - 1) <= SUM_ERROR)):
            x, room = record.X[i], most[i] - record.X[i]
            total = x.sum()
            share = min((1 - total) / max(room.sum(), TINY), 1.0)
            record.X[i] = x / total if total >= 1 else x + room * share
            record.rnorm[i] = np.nan
    return record


def measure(scaled: Scaled, block: Block, solved: Solved) -> Checked:
    """Measure each row of coefficients with A and b themselves."""
    A, H, side = scaled.A, solved.X, solved.side
    R = block.B - (np.asarray((A @ H.T).T) if sp.issparse(A) else H @ A.T)
    weighted = R if block.W.size == 1 else R * block.W
    gradient = np.asarray(weighted @ A) - block.ridge * H - block.l1
    violation, is_free = gradient.copy(), side == FREE
    if scaled.constraints.simplex:
        # where x is optimal the multiplier is the gradient of each that is free; where none is, as
        # bounds that sum to one leave it, it is any number between those of the two sides
        count = is_free.sum(axis=1)
        low = np.where(side == LOW, gradient, -np.inf).max(axis=1)
        high = np.where(side == HIGH, gradient, np.inf).min(axis=1)
        mean = np.where(is_free, gradient, 0.0).sum(axis=1) / np.maximum(count, 1)
        multiplier = np.where(count > 0, mean, np.where(np.isfinite(low), low, high))
        violation -= multiplier[:, None]
    outward = np.where(side == HIGH, -violation, np.where(side == LOW, violation, -np.inf))
    violation = np.where(is_free, np.abs(violation), outward)
    squares = np.einsum("ij,ij->i", R, weighted)
    value = np.sqrt(squares + (block.ridge * H * H).sum(axis=1) + 2 * (block.l1 * H).sum(axis=1))
    kkt = np.maximum(violation.max(axis=1), 0.0) / np.maximum(block.size, TINY)
    return Checked(np.sqrt(squares), kkt, value, gradient, violation)


def bound_values(
    scaled: Scaled, shared: Shared | None, block: Block, solved: Solved, found: Checked
) -> tuple[FloatArray, FloatArray]:
    """What no admissible x falls below, in the units of ``found.value``, and the rounding error of
    that value."""
    H, m = solved.X, scaled.A.shape[0]
    rounding = EPS * (4 + np.sqrt((H > 0).sum(axis=1))) * (block.size + H.sum(axis=1))
    largest = np.abs(found.gradient).max(axis=1)
    noise = rounding + EPS * (4 + np.sqrt(m)) * (found.rnorm + largest)
    longest = np.broadcast_to(np.sqrt(1.0 + block.ridge.max(axis=1)), len(H))
    parts = (_reach(scaled, block, H, found.value), found.value, noise, longest)
    least, free = np.zeros(len(H)), solved.side == FREE
    none = np.zeros_like(free)
    # fixed variables whose price may be zero may be held too, if their columns are independent
    doubtful = free | ((found.violation > -noise[:, None]) & np.isfinite(found.violation))
    of_all = shared.sigma if shared is not None and block.W.size == 1 else 0.0
    for held, known in ((~none, of_all), (none, 1.0), (free, None), (doubtful, None)):
        rows = np.flatnonzero(~is_optimal(found.value + rounding, least, block.size))
        if not len(rows) or known == 0.0:
            continue
        sigma = np.full(len(rows), 0.0 if known is None else known)
        if known is None:
            _singular_values(scaled, block.take(rows), held[rows], sigma)
        some = (v[rows] for v in parts)
        bound = lower_bounds(found.violation[rows], held[rows], False, sigma, *some)
        least[rows] = np.maximum(least[rows], bound - rounding[rows])
    return least, rounding


def _reach(scaled: Scaled, block: Block, H: FloatArray, value: FloatArray) -> FloatArray:
    """The last sum of the bound: at most 2 with a sum of one; else what the upper bounds, l1
    (``F / (2 l1)``), the ridge (``sqrt(n F / ridge)``) or the signs of A allow."""
    c, n, total = scaled.constraints, H.shape[1], H.sum(axis=1)
    if c.simplex:
        return np.full(len(H), 2.0)
    reach = block.upper.sum(axis=1) + np.zeros(len(H))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if c.l1:
            smallest = np.where(block.upper > 0, block.l1, np.inf).min(axis=1)
            reach = np.minimum(reach, total + value**2 / (2 * smallest))
        if c.ridge:
            smallest = np.where(block.upper > 0, block.ridge, np.inf).min(axis=1)
            reach = np.minimum(reach, total + np.sqrt(n / smallest) * value)
        if not (c.l1 or c.ridge or c.has_bounds) and block.W.size == 1:
            reach = np.minimum(reach, total + scaled.reach * block.size)
    return reach


def _singular_values(scaled: Scaled, block: Block, held: BoolArray, sigma: FloatArray) -> None:
    """For each row of ``held``, an estimate of the smallest singular value of the columns that are
    held, or a lower bound for it; zero where they are dependent."""
    if len(block.grams):
        _smallest_of_products(block.grams, block.of, held, sigma)
        return
    for i, row in enumerate(held):
        if row.sum() <= scaled.A.shape[0] + 1:
            points = np.vstack([scaled.A[:, row], np.full(row.sum(), LIFT)])
            sigma[i] = np.linalg.svd(points, compute_uv=False).min(initial=np.inf)


@kernel(error_model="numpy")
def _smallest_of_products(G, of, held, sigma):  # type: ignore[no-untyped-def]
    n = held.shape[1]
    F, R, V = np.empty(n, np.int64), np.empty((n, n)), np.empty((2, n))
    for i in range(len(held)):
        gram, longest, k = G[of[i]], 0.0, np.int64(0)
        for j in range(n):
            if held[i, j]:
                F[k] = j
                k += 1
                longest = max(longest, np.sqrt(gram[j, j]))
        sigma[i] = np.inf if k == 0 else 0.0
        if k > 0 and factorize(gram, F, k, R):
            for a in range(k):
                for b in range(a, k):
                    R[a, b] /= longest
            sigma[i] = longest * smallest_singular_value(R, k, V[0], V[1])


def _first_solution(
    scaled: Scaled,
    shared: Shared,
    block: Block,
    start: FloatArray | None,
    maxiter: int | None,
) -> Solved:
    """Solve from ``start`` or, without one, from the solutions without bounds, where these are
    known."""
    C = np.asarray((block.B * block.W) @ scaled.A) - block.l1
    has_own_weights = block.W.size > 1
    if start is not None or shared.inverse is None:
        H = np.zeros_like(C) if start is None else start
    else:
        some = np.asarray(block.B @ scaled.A) - block.l1 if has_own_weights else C
        H = some @ shared.inverse + shared.along
    pivots = shared.may_pivot and start is None and maxiter is None and not has_own_weights
    if shared.inverse is None or not pivots:
        return _solve(scaled, block, C, _within(scaled, block, H), maxiter)
    side, done, steps = pivot_complement(shared.inverse, H, block.upper, block.size)
    solved = Solved(H, side, steps, np.full(len(H), OPTIMAL))
    if scaled.constraints.simplex:  # right-hand sides far away cost digits: solved again
        done &= np.abs(H.sum(axis=1) - 1) <= 64 * EPS
    left = np.flatnonzero(~done)
    if len(left):
        some_block = block.take(left)
        begin = _within(scaled, some_block, H[left])
        others = _solve(scaled, some_block, C[left], begin, maxiter)
        for mine, theirs in zip(solved, others, strict=True):
            mine[left] = theirs
    return solved


def _solve(
    scaled: Scaled, block: Block, C: FloatArray, H: FloatArray, maxiter: int | None
) -> Solved:
    """The active set on products, from points within the bounds."""
    c, (m, n) = scaled.constraints, scaled.A.shape
    C = np.ascontiguousarray(C)
    return solve(
        Problems(block.grams, block.of, C, block.upper, block.size),
        H,
        total=1.0 if c.simplex else None,
        slides=True if c.l1 else None,
        # with ridge every column is independent of the others, else at most one for each row, and
        # one more with a sum
        capacity=n if c.ridge else min(n, m + 1),
        max_steps=maxiter,
    )


def _within(scaled: Scaled, block: Block, H: FloatArray) -> FloatArray:
    """The nearest points within the bounds, scaled to a sum of one if that is asked for."""
    H = np.clip(H, 0.0, block.upper)
    if scaled.constraints.simplex:
        H /= np.maximum(H.sum(axis=1, keepdims=True), TINY)
    return H


def _refine(
    scaled: Scaled, block: Block, solved: Solved, found: Checked, maxiter: int | None
) -> None:
    """Solve again from measured gradients where the optimality conditions do not hold to
    rounding."""
    steps = solved.steps
    for _ in range(ROUNDS):
        rough = np.flatnonzero((found.kkt > KKT_ROUNDING) & (steps < (maxiter or np.inf)))
        if not len(rough):
            break
        some, X = block.take(rough), solved.X[rough]
        one = len(some.grams) == 1
        GX = X @ some.grams[0] if one else (X[:, None] @ some.grams[some.of])[:, 0]
        again = _solve(scaled, some, found.gradient[rough] + GX, X, maxiter)
        steps[rough] += again.steps
        measured = measure(scaled, some, again)
        if not _take_better(solved, found, rough, again, measured, "kkt").any():
            break


def _polish(scaled: Scaled, block: Block, solved: Solved, found: Checked) -> None:
    """Where the fit is exact but for errors of x, correct the free variables by ``G_FF^-1 g_F``, g
    measured, and restore the sum."""
    simplex = scaled.constraints.simplex
    longest = LIFT if simplex else 1.0  # column
    for _ in range(POLISHINGS if len(block.grams) == 1 else 0):
        size = block.size - (1 - longest)
        rough = np.flatnonzero(is_rough_zero(found.value, longest * solved.X, size))
        if not len(rough):
            break
        some, X, side = block.take(rough), solved.X[rough], solved.side[rough]
        G, is_free, rows = block.grams[0], side == FREE, np.arange(len(rough))
        step = grouped_correction(G, found.gradient[rough], is_free, rows)
        if simplex:
            along = grouped_correction(G, np.ones_like(step), is_free, rows)
            excess = X.sum(axis=1) - 1 + step.sum(axis=1)
            step -= along * (excess / np.maximum(along.sum(axis=1), TINY))[:, None]
        X = X + step
        moved = np.where(is_free & (X <= 0), LOW, np.where(is_free & (some.upper <= X), HIGH, side))
        # one stays free, as `measure` expects
        side = np.where((moved == FREE).any(axis=1, keepdims=True), moved, side)
        X = _within(scaled, some, X)
        better = Solved(X, side, solved.steps[rough], solved.ending[rough])
        measured = measure(scaled, some, better)
        # scaling to the sum may have missed the bounds
        measured.value[~(some.upper >= X).all(axis=1)] = np.inf
        _take_better(solved, found, rough, better, measured, "value")


def _solve_again(
    scaled: Scaled,
    block: Block,
    solved: Solved,
    found: Checked,
    least: FloatArray,
    rows: IntArray,
    plain: PlainSolver,
) -> None:
    """Solve the problems of ``block``, which are ``rows`` of the others, as plain problems, whose
    solver is safe for any rank.

    Ridge is more rows. With a sum of one let P have the columns ``a_j - b``: over multiples t of an
    x with a sum of one, ``|P (t x)|^2 + (LIFT (t - 1))^2`` has the minimum
    ``p^2 LIFT^2 / (p^2 + LIFT^2)`` for ``p = |P x|``, so that the smallest p belongs to the
    solution of a problem without the sum.
    """
    A, simplex = (
        scaled.A.toarray() if sp.issparse(scaled.A) else scaled.A,
        scaled.constraints.simplex,
    )
    records = Record.empty(len(rows), A.shape[1])
    for i, b in enumerate(block.B):
        w, ridge, upper = (each[i % len(each)] for each in (block.W, block.ridge, block.upper))
        free, root = np.flatnonzero(upper > 0), np.sqrt(w)
        M = (A[:, free] - b[:, None] if simplex else A[:, free]) * root[:, None]
        b = np.zeros_like(b) if simplex else b * root
        if scaled.constraints.ridge:
            M, b = np.vstack([M, np.diag(np.sqrt(ridge[free]))]), np.append(b, np.zeros(len(free)))
        if simplex:
            M, b = np.vstack([M, np.full((1, len(free)), LIFT)]), np.append(b, LIFT)
        record = plain(M, b)
        records.X[i, free] = record.X[0] / (record.X.sum() if simplex else 1.0)
        records.least[i], records.steps[i] = record.least[0], record.steps[0]
    X, L = records.X, records.least
    if simplex:
        with np.errstate(divide="ignore"):
            L = np.where(L < LIFT, L / np.sqrt(np.maximum(1 - (L / LIFT) ** 2, 0.0)), np.inf)
    side = np.where(X > 0, FREE, LOW).astype(np.int8)
    solved.steps[rows] += records.steps.astype(np.int64)
    again = Solved(X, side, solved.steps[rows], solved.ending[rows])
    _take_better(solved, found, rows, again, measure(scaled, block, again), "value")
    least[rows] = np.maximum(least[rows], np.minimum(L, found.value[rows]))


def _take_better(
    solved: Solved, found: Checked, rows: IntArray, again: Solved, measured: Checked, what: str
) -> BoolArray:
    """Replace ``rows`` by other solutions where these are better, by their KKT residual or value;
    where they are."""
    better: BoolArray = getattr(measured, what) < getattr(found, what)[rows]
    mine = (solved.X, solved.side, solved.ending, *found)
    theirs = (again.X, again.side, again.ending, *measured)
    for one, other in zip(mine, theirs, strict=True):
        one[rows[better]] = other[better]
    return better
