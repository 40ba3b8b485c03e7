r"""Least squares with x >= 0 and more: a sum of one, upper bounds, penalties, masks, weights.

.. math:: \min_x \frac{1}{2} \sum_i w_i (A x - b)_i^2 + \frac{1}{2} ridge \|x\|^2 + l_1 \sum_j x_j
          \quad\text{subject to}\quad 0 \le x \le u,\; x_j = 0 \text{ where not allowed},\; \sum_j
          x_j = 1 \text{ if asked for}

All of these are one quadratic program in Gram form, :math:`G = A' W A + ridge`,
:math:`c = A' W b - l_1`, which `products` solves, or `complement` where few bounds bind. With a sum
of one only differences of columns matter, so A and b are moved by the mean of the columns first.
Otherwise columns are scaled to unit length. Problems that share their weights share G.

What rounding has left of the optimality conditions is measured with A and b themselves, and removed
by solving again from there: with the measured gradient g at x, the linear term ``c = g + G x``
makes the errors of the next round relative to the change of x, not to x. Every answer comes with
the bound of `bound`. What that does not show to be optimal is solved as a plain problem
(`plain_form`).
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
    OPTIMAL,
    STEP_LIMIT,
    UNPROVEN,
    Measured,
    Record,
    is_optimal,
    is_rough_zero,
    lower_bounds,
)
from conecollapse._nnls.bpp import grouped_correction
from conecollapse._nnls.complement import pivot_complement
from conecollapse._nnls.constraints import Constraints
from conecollapse._nnls.factor import factorize, smallest_singular_value
from conecollapse._nnls.problem import TINY, WELL_ENOUGH, Problem, conditioning, safe_units
from conecollapse._nnls.products import BARRED, FREE, HIGH, LOW, SUM_ERROR, Problems, Solved, solve
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

GRAM_LIMIT = 16_384  # columns whose Gram matrix takes 2 GiB
GRAMS_AT_ONCE = 2**23  # entries of Gram matrices that are held at once: 64 MiB
# entries up to which products of pairs of columns are kept, to make many Gram matrices by one
# product
PAIRS = 2**22
# columns up to which the smallest singular value of all of them is computed where a proof needs it
HELD_COLUMNS = 512
# reciprocal condition of the Gram matrix from which the solution without bounds is worth a start
START_CONDITION = 1e-10
# the entry by which columns are extended for a sum of one; the columns are scaled to at most this
# length
LIFT = 0.5
LARGEST_RIDGE = 1e100  # how many times longer than a column the root of the ridge may be
# a penalty this many times the longest products with b leaves x at zero, as any larger one does
LARGEST_L1 = 1e140
# how many times longer than the longest column a right-hand side may be with a sum of one
FARTHEST = 1e140
LONGEST_START = 1e100  # a start with larger coefficients of unit columns is none
KKT_ROUNDING = 1e-13  # a solution with a larger KKT residual is refined,
ROUNDS = 3  # at most this often
# corrections of a fit that should be exact: the first may show that a variable taken to be free is
# at a bound
POLISHINGS = 2
# coefficients whose sum is further from one have lost digits, and are solved for again
SUM_DIGITS = 1e-12


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
        root = None if constraints.row_weights is None else np.sqrt(constraints.row_weights)
        if not constraints.simplex:
            problem = Problem.of(
                A
                if root is None
                else sp.diags_array(root) @ A
                if sp.issparse(A)
                else A * root[:, None]
            )
            unit = problem.unit()
            return cls(
                unit,
                problem.inverse / problem.units,
                np.zeros(1),
                1.0,
                root,
                problem.reach,
                constraints,
            )
        centre = np.zeros(1) if sp.issparse(A) else (A / A.shape[1]).sum(axis=1)
        if root is not None:
            A = (
                sp.diags_array(root) @ A
                if sp.issparse(A)
                else (A - centre[:, None]) * root[:, None]
            )
        elif not sp.issparse(A):
            A = A - centre[:, None]
        peak = power_of_two(np.abs(A).max(axis=None).reshape(1))[0] if A.size else 1.0
        lengths = np.sqrt(
            np.asarray((A / peak).power(2).sum(axis=0)).ravel()
            if sp.issparse(A)
            else np.square(A / peak).sum(axis=0)
        )
        size = float(peak * power_of_two(lengths.max().reshape(1))[0] / LIFT * 2)
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
        for i in np.flatnonzero(peak > FARTHEST)[:1]:
            raise InvalidInputError(
                f"a right-hand side is {peak[i]:.1g} times longer than the columns of A; with"
                f" simplex=True {FARTHEST:g} is the limit."
            )
        return Bt / self.size, np.full(len(Bt), self.size)


class Block(NamedTuple):
    """Some problems, in rows, in the units of `Scaled`. Two-dimensional arrays may have a single
    row for all."""

    B: FloatArray
    W: FloatArray | None
    ridge: FloatArray
    l1: FloatArray
    upper: FloatArray
    allowed: BoolArray
    grams: FloatArray  # (g, n, n)
    of: IntArray
    # lengths of the right-hand sides in the weighted norm; with a sum of one, 1 is added: the
    # length of columns
    size: FloatArray


class Shared(NamedTuple):
    """What problems have in common: the Gram matrix without weights of their own, and more where
    its columns are independent and few."""

    gram: FloatArray
    inverse: FloatArray | None
    # the inverse, less its part along the sum if there is one, where it is accurate enough to pivot
    # with
    projected: FloatArray | None
    sigma: float  # an estimate of the smallest singular value of all columns, or 0

    @classmethod
    def of(cls, scaled: Scaled) -> Shared:
        if (n := scaled.A.shape[1]) > GRAM_LIMIT:
            raise InvalidInputError(
                f"A has {n} columns; with bounds, penalties, masks or weights at most {GRAM_LIMIT}"
                " fit into memory."
            )
        gram = _lifted(_product(scaled.A), scaled)
        np.fill_diagonal(gram, np.diag(gram) + _ridge(scaled))
        if len(gram) > HELD_COLUMNS:
            return cls(gram, None, None, 0.0)
        rcond, sigma = conditioning(gram)
        if not rcond > START_CONDITION:
            return cls(gram, None, None, 0.0)
        inverse = np.asarray(np.linalg.inv(gram), np.float64)
        projected = inverse
        if scaled.constraints.simplex:
            ones = inverse.sum(axis=0)
            projected = inverse - np.outer(ones, ones) / ones.sum()
        return cls(gram, inverse, projected if rcond > WELL_ENOUGH else None, sigma)

    def start(self, C: FloatArray, simplex: bool) -> FloatArray:
        """The solutions without bounds: their signs are a good guess at which variables are
        zero."""
        if self.inverse is None:
            return np.zeros_like(C)
        H = C @ self.inverse
        if simplex:
            ones = self.inverse.sum(axis=0)
            H -= (H.sum(axis=1, keepdims=True) - 1) / ones.sum() * ones
        return H


def new_block(
    scaled: Scaled, gram: FloatArray, B: FloatArray, units: FloatArray, columns: slice
) -> tuple[Block, FloatArray]:
    """The problems of a block, and the largest weight of each: weights are relative to it."""
    c, n = scaled.constraints, scaled.A.shape[1]
    scale = np.ones((len(B), 1)) if c.simplex else units[:, None]
    peaks, W, ridge = np.ones(len(B)), None, _ridge(scaled)[None, :]
    if c.weights is not None:
        W = np.ascontiguousarray(c.weights[:, columns].T)
        peaks = W.max(axis=1)
        peaks[peaks == 0] = 1.0
        W /= peaks[:, None]
        ridge = ridge / peaks[:, None]
    l1 = np.zeros((1, n))
    if c.l1:
        with np.errstate(over="ignore", under="ignore"):
            l1 = np.minimum(c.l1 / peaks[:, None] / scale * scaled.inverse, LARGEST_L1)
    bounds = (
        np.full((1, n), np.inf)
        if c.upper is None
        else (c.upper if c.upper.shape[1] == 1 else c.upper[:, columns]).T
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper = (
            np.where(scaled.inverse > 0, bounds / scaled.inverse / scale, 0.0)
            if c.upper is not None
            else bounds
        )
    allowed = (
        np.ones((1, n), bool)
        if c.allowed is None
        else (c.allowed if c.allowed.shape[1] == 1 else c.allowed[:, columns]).T
    )
    allowed = allowed & (scaled.inverse > 0)  # a column of zeros can only stay at zero
    if W is None:
        grams, of = gram[None], np.zeros(len(B), np.int64)
    else:
        distinct, of = _distinct(W)
        grams = _lifted(_weighted_grams(scaled.A, distinct), scaled)
        # relative to the largest weight, so that problems with equal relative weights may differ in
        # it
        if c.ridge:
            grams, of = grams[of], np.arange(len(B))
            grams[:, np.arange(n), np.arange(n)] += ridge
    size = row_norms(B if W is None else B * np.sqrt(W)) + (1.0 if c.simplex else 0.0)
    return (
        Block(
            B,
            W,
            ridge,
            l1,
            np.ascontiguousarray(upper),
            np.ascontiguousarray(allowed),
            np.ascontiguousarray(grams),
            of,
            size,
        ),
        peaks,
    )


def take(block: Block, rows: IntArray) -> Block:
    def some(array: FloatArray) -> FloatArray:
        return array if len(array) == 1 != len(block.B) else array[rows]

    B, W, ridge, l1, upper, allowed, grams, of, size = block
    return Block(
        B[rows],
        None if W is None else W[rows],
        some(ridge),
        some(l1),
        some(upper),
        some(allowed),  # type: ignore[arg-type]
        grams,
        of[rows],
        size[rows],
    )  # type: ignore[arg-type]


def _ridge(scaled: Scaled) -> FloatArray:
    """The ridge on each coefficient: with a sum of one, squares are smaller than those given."""
    # the size is 1 without a sum
    root = np.sqrt(scaled.constraints.ridge) * scaled.inverse / scaled.size
    if root.max() > LARGEST_RIDGE:
        raise InvalidInputError(
            f"ridge = {scaled.constraints.ridge:g} is too large for a matrix of entries this small;"
            " rescale A and b."
        )
    return root**2


def _product(A: Points) -> FloatArray:
    G = A.T @ A
    return np.asarray(G.toarray() if sp.issparse(G) else G)


def _lifted(G: FloatArray, scaled: Scaled) -> FloatArray:
    return G + LIFT**2 if scaled.constraints.simplex else G


def _distinct(W: FloatArray) -> tuple[FloatArray, IntArray]:
    """The different rows of ``W``, and which of them each row is."""
    keys = np.ascontiguousarray(W).view(np.dtype((np.void, W.dtype.itemsize * W.shape[1]))).ravel()
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return W[first], of.ravel().astype(np.int64)


def _weighted_grams(A: Points, W: FloatArray) -> FloatArray:
    """``A' diag(w) A`` for each row w of ``W``."""
    m, n = A.shape
    out = np.empty((len(W), n, n))
    if sp.issparse(A):
        for i, w in enumerate(W):
            out[i] = (A.T @ (sp.diags_array(w) @ A)).toarray()
    elif len(W) > 1 and m * n * (n + 1) // 2 <= PAIRS:
        upper = np.triu_indices(n)
        products = W @ (A[:, upper[0]] * A[:, upper[1]])
        out[:, upper[0], upper[1]] = products
        out[:, upper[1], upper[0]] = products
    else:
        for i, w in enumerate(W):
            out[i] = A.T @ (w[:, None] * A)
    return out


# solves one plain problem: the record of ``min |A x - b|, x >= 0``
PlainSolver = Callable[[FloatArray, FloatArray], Record]


class Checked(NamedTuple):
    """What is measured of each row of coefficients."""

    rnorm: FloatArray
    kkt: FloatArray
    value: FloatArray  # the root of twice the objective
    gradient: FloatArray  # of what is maximised, the multiplier of the sum not yet subtracted
    # the same less the multiplier, signed so that positive entries violate; magnitudes where free
    violation: FloatArray


class Rule(NamedTuple):
    """How the active set is run."""

    total: float | None  # the sum of the coefficients
    slides: bool | None
    capacity: int
    limit: int

    @property
    def has_sum(self) -> bool:
        return self.total is not None


def block_length(scaled: Scaled, step: int) -> int:
    """How many problems to take at once so that Gram matrices fit as well."""
    n = scaled.A.shape[1]
    each = scaled.constraints.weights is not None
    return max(1, min(step, GRAMS_AT_ONCE // n**2)) if each else step


def solve_block(
    scaled: Scaled,
    shared: Shared,
    Bt: FloatArray,
    columns: slice,
    start: FloatArray | None,
    maxiter: int | None,
    plain: PlainSolver | None,
) -> tuple[Record, FloatArray]:
    """A record for the right-hand sides in rows, which are ``columns`` of the whole, and their KKT
    residuals."""
    (m, n), c = scaled.A.shape, scaled.constraints
    B, units = scaled.right_hand_sides(Bt)
    block, peaks = new_block(scaled, shared.gram, B, units, columns)
    scale = np.ones((len(B), 1)) if c.simplex else units[:, None]
    if start is not None:
        with np.errstate(over="ignore", under="ignore"):
            start = start / np.where(scaled.inverse > 0, scaled.inverse, np.inf) / scale
        start[~(start <= LONGEST_START).all(axis=1) | (block.size == 0)] = 0.0
    # with ridge every column is independent of the others, else at most one for each row, and one
    # more with a sum
    capacity = n if c.ridge else min(n, m + 1)
    rule = Rule(
        1.0 if c.simplex else None, True if c.l1 else None, capacity, maxiter or 5 * n + 100
    )
    solved = _first_solution(scaled, shared, block, start, rule, by_inverse=maxiter is None)
    found = measure(scaled, block, solved)
    _refine(scaled, block, solved, found, rule)
    _polish(scaled, block, solved, found, rule)
    finished = (solved.ending != STEP_LIMIT) | (maxiter is None)
    least, rounding = bound_values(scaled, shared, block, solved, found)
    optimal = is_optimal(found.value + rounding, least, block.size)
    rows = np.flatnonzero(~optimal & finished)
    if len(rows) and c.upper is None and not c.l1 and plain is not None:
        _solve_again(scaled, take(block, rows), solved, found, least, rows, plain)
        optimal = is_optimal(found.value + rounding, least, block.size)
    if c.simplex:
        optimal &= np.abs(solved.X.sum(axis=1) - 1) <= SUM_ERROR
    record = Record.empty(len(B), n)
    bounds = np.full((1, n), np.inf)
    if c.upper is not None:
        bounds = (c.upper if c.upper.shape[1] == 1 else c.upper[:, columns]).T
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        outward = units * np.sqrt(peaks)
        X = np.where(solved.X > 0, solved.X * (scaled.inverse * scale), 0.0)
        # the scaling may have missed a bound by a last digit
        record.X[:] = np.minimum(X, bounds)
        record.rnorm[:], record.least[:] = found.rnorm * outward, np.fmax(least, 0.0) * outward
    is_lost = ~(solved.X >= 0) | ((solved.X > 0) & ~(X >= TINY))
    record.X[np.isnan(solved.X)] = 0.0
    # which no number holds: measured again
    record.rnorm[is_lost.any(axis=1)] = np.nan
    if c.simplex:
        for i in np.flatnonzero(~(np.abs(record.X.sum(axis=1) - 1) <= SUM_ERROR)):
            most, may = (each[min(int(i), len(each) - 1)] for each in (bounds, block.allowed))
            most = np.where(may, np.minimum(most, 1.0), 0.0)
            record.X[i] = _summing_to_one(record.X[i], most)
            record.rnorm[i] = np.nan
    record.ending[:] = np.where(finished, np.where(optimal, OPTIMAL, UNPROVEN), STEP_LIMIT)
    record.steps[:] = solved.steps
    return record, np.where(np.isnan(found.kkt), np.inf, found.kkt)


def _summing_to_one(x: FloatArray, most: FloatArray) -> FloatArray:
    """Coefficients near ``x``, at most ``most``, that sum to one."""
    x = np.minimum(x, most)
    if (total := x.sum()) >= 1:
        return np.asarray(x / total)
    room = most - x
    return np.asarray(x + room * min((1 - total) / max(room.sum(), TINY), 1.0))


def measure(scaled: Scaled, block: Block, solved: Solved) -> Checked:
    """Measure each row of coefficients with A and b themselves."""
    A, H, side = scaled.A, solved.X, solved.side
    R = block.B - (np.asarray((A @ H.T).T) if sp.issparse(A) else H @ A.T)
    weighted = R if block.W is None else R * block.W
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
    scaled: Scaled, shared: Shared, block: Block, solved: Solved, found: Checked
) -> tuple[FloatArray, FloatArray]:
    """What no admissible x falls below, in the units of ``found.value``, and the rounding error of
    that value.

    The last sum of the bound is at most 2 with a sum of one; else what the upper bounds, l1
    (``F / (2 l1)``), the ridge (``sqrt(n F / ridge)``) or the signs of A allow. Where all columns
    are independent, all of them may be held instead, and nothing has to be known about it.
    """
    c, H, n = scaled.constraints, solved.X, scaled.A.shape[1]
    total = H.sum(axis=1)
    rounding = EPS * (4 + np.sqrt((H > 0).sum(axis=1))) * (block.size + total)
    largest = np.abs(found.gradient).max(axis=1)
    noise = rounding + EPS * (4 + np.sqrt(scaled.A.shape[0])) * (found.rnorm + largest)
    reach = np.full(len(H), 2.0 if c.simplex else np.inf)
    if not c.simplex:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            reach = np.minimum(reach, np.where(block.allowed, block.upper, 0.0).sum(axis=1))
            if c.l1:
                smallest = np.where(block.allowed, block.l1, np.inf).min(axis=1)
                reach = np.minimum(reach, total + found.value**2 / (2 * smallest))
            if c.ridge:
                smallest = np.where(block.allowed, block.ridge, np.inf).min(axis=1)
                reach = np.minimum(reach, total + np.sqrt(n / smallest) * found.value)
            if block.W is None and not c.l1 and not c.ridge and c.upper is None:
                reach = np.minimum(reach, total + scaled.reach * block.size)
    longest = np.sqrt(np.diagonal(block.grams, axis1=1, axis2=2).max(axis=1))[block.of]
    least, free = np.zeros(len(H)), solved.side == FREE
    # fixed variables whose price may be zero may be held too, if their columns are independent
    doubtful = free | ((found.violation > -noise[:, None]) & (solved.side != BARRED))
    for held in (None, free, doubtful):
        rows = np.flatnonzero(~is_optimal(found.value + rounding, least, block.size))
        sigma = np.full(len(rows), shared.sigma if block.W is None else 0.0)
        if not len(rows) or (held is None and not sigma.any()):
            continue
        some = np.ones((len(rows), n), bool) if held is None else held[rows]
        if held is not None:
            _singular_values(block.grams, block.of[rows], some, sigma)
        bound, parts = np.empty(len(rows)), (reach, found.value, noise, longest)
        measured = Measured(found.violation[rows], some, sigma, *(v[rows] for v in parts))
        lower_bounds(measured, held is None, bound)
        least[rows] = np.maximum(least[rows], bound - rounding[rows])
    return least, rounding


@kernel(error_model="numpy")
def _singular_values(G, of, held, sigma):  # type: ignore[no-untyped-def]
    """For each row of ``held``, an estimate of the smallest singular value of the columns that are
    held, or a lower bound for it; zero where they are dependent."""
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
    rule: Rule,
    *,
    by_inverse: bool,
) -> Solved:
    """Solve from ``start`` or, without one, from the solutions without bounds, where these are
    known."""
    C = np.asarray((block.B if block.W is None else block.B * block.W) @ scaled.A) - block.l1
    if start is not None:
        return _solve(block, C, _within(start, block, rule), rule)
    H = shared.start(
        C if block.W is None else np.asarray(block.B @ scaled.A) - block.l1, rule.has_sum
    )
    if not by_inverse or shared.projected is None or block.W is not None:
        return _solve(block, C, _within(H, block, rule), rule)
    side, done, steps = pivot_complement(
        shared.projected, H, (block.upper, block.allowed), block.size
    )
    solved = Solved(H, side, steps, np.full(len(H), OPTIMAL))
    if rule.has_sum:  # right-hand sides far away cost digits of the solutions without bounds
        done &= np.abs(H.sum(axis=1) - 1) <= SUM_DIGITS
    left = np.flatnonzero(~done)
    if len(left):
        some = take(block, left)
        others = _solve(some, C[left], _within(H[left], some, rule), rule)
        for mine, theirs in zip(solved, others, strict=True):
            mine[left] = theirs
    return solved


def _within(H: FloatArray, block: Block, rule: Rule) -> FloatArray:
    """The nearest points within the bounds, scaled to a sum of one if that is asked for."""
    H = np.clip(H, 0.0, block.upper) * block.allowed
    return H / np.maximum(H.sum(axis=1, keepdims=True), TINY) if rule.has_sum else H


def _refine(scaled: Scaled, block: Block, solved: Solved, found: Checked, rule: Rule) -> None:
    """Solve again from measured gradients where the optimality conditions do not hold to
    rounding."""
    steps = solved.steps
    for _ in range(ROUNDS):
        rough = np.flatnonzero((found.kkt > KKT_ROUNDING) & (steps < rule.limit))
        if not len(rough):
            break
        some, X = take(block, rough), solved.X[rough]
        C = found.gradient[rough] + (
            X @ some.grams[0]
            if len(some.grams) == 1
            else np.einsum("kij,kj->ki", some.grams[some.of], X)
        )
        again = _solve(some, C, X, rule)
        measured = measure(scaled, some, again)
        steps[rough] += again.steps
        if not _take_better(solved, found, rough, again, measured, "kkt").any():
            break


def _polish(scaled: Scaled, block: Block, solved: Solved, found: Checked, rule: Rule) -> None:
    """Where the fit is exact but for errors of x, correct the free variables by ``G_FF^-1 g_F``, g
    measured, and restore the sum."""
    longest = LIFT if rule.has_sum else 1.0  # column
    for _ in range(POLISHINGS if len(block.grams) == 1 else 0):
        size = block.size - (1 - longest)
        rough = np.flatnonzero(is_rough_zero(found.value, longest * solved.X, size))
        if not len(rough):
            break
        some, X, side = take(block, rough), solved.X[rough], solved.side[rough]
        G, is_free, rows = block.grams[0], side == FREE, np.arange(len(rough))
        step = grouped_correction(G, found.gradient[rough], is_free, rows)
        if rule.has_sum:
            along = grouped_correction(G, np.ones_like(step), is_free, rows)
            excess = X.sum(axis=1) - 1 + step.sum(axis=1)
            step -= along * (excess / np.maximum(along.sum(axis=1), TINY))[:, None]
        X = X + step
        moved = np.where(is_free & (X <= 0), LOW, np.where(is_free & (some.upper <= X), HIGH, side))
        # one stays free, as `measure` expects
        side = np.where((moved == FREE).any(axis=1, keepdims=True), moved, side)
        X = _within(X, some, rule)
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
    A = scaled.A.toarray() if sp.issparse(scaled.A) else scaled.A
    simplex, X, L = (
        scaled.constraints.simplex,
        np.zeros((len(rows), A.shape[1])),
        np.zeros(len(rows)),
    )
    steps = np.zeros(len(rows), np.int64)
    for i, b in enumerate(block.B):
        free = np.flatnonzero(block.allowed[i if len(block.allowed) > 1 else 0])
        M = A[:, free] - b[:, None] if simplex else A[:, free]
        b = np.zeros_like(b) if simplex else b
        if block.W is not None:
            root = np.sqrt(block.W[i])
            M, b = M * root[:, None], b * root
        if scaled.constraints.ridge:
            ridge = np.sqrt(block.ridge[i if len(block.ridge) > 1 else 0, free])
            M, b = np.vstack([M, np.diag(ridge)]), np.append(b, np.zeros(len(free)))
        if simplex:
            M, b = np.vstack([M, np.full((1, len(free)), LIFT)]), np.append(b, LIFT)
        record = plain(M, b)
        h, L[i], steps[i] = record.X[0], record.least[0], record.steps[0]
        X[i, free] = h / h.sum() if simplex else h
    if simplex:
        with np.errstate(divide="ignore"):
            L = np.where(L < LIFT, L / np.sqrt(np.maximum(1 - (L / LIFT) ** 2, 0.0)), np.inf)
    again = Solved(X, np.where(X > 0, FREE, LOW).astype(np.int8), steps, solved.ending[rows])
    solved.steps[rows] += steps
    _take_better(solved, found, rows, again, measure(scaled, block, again), "value")
    least[rows] = np.maximum(least[rows], np.minimum(L, found.value[rows]))


def _solve(block: Block, C: FloatArray, H: FloatArray, rule: Rule) -> Solved:
    problems = Problems(
        block.grams, block.of, np.ascontiguousarray(C), block.upper, block.allowed, block.size
    )
    return solve(
        problems,
        H,
        total=rule.total,
        slides=rule.slides,
        capacity=rule.capacity,
        max_steps=rule.limit,
    )


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
