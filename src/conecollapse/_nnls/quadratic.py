r"""An active set for small convex quadratic programs in Gram form: bounds on every variable, and
optionally a sum of one.

For each right-hand side, with a Gram matrix ``G`` and a linear term ``c``,

.. math:: \min_x \frac{1}{2} x'Gx - c'x \quad\text{subject to}\quad 0 \le x_j \le u_j, \quad \sum_j
   x_j = 1 \text{ if asked for}.

A variable is *free*, or sits at its lower or upper bound. The free ones F solve

.. math:: G_{FF} x_F + \lambda 1 = c_F - G_{FU} u_U, \qquad \sum_F x_j = 1 - \sum_U u_j

(without the sum, :math:`\lambda = 0`), by a Cholesky factor of :math:`G_{FF}` that is grown and
shrunk variable by variable (`cholesky`). The iterate walks from its feasible point towards that
solution; a variable that meets a bound on the way is fixed there, and the solution is found anew.
Once it is reached, ``g = c - G x - lambda`` says which fixed variable to free: one with ``g > 0``
at its lower bound, or with ``g < 0`` at its upper one. If there is none, x is optimal. Each round
lowers the objective, so no set of free variables returns.

A variable whose column depends on the free ones has a direction along which ``G`` is zero and the
objective falls in a straight line: the iterate follows it until a bound is met. So ``G`` may have
any rank, and more columns than rows are no exception.

With a sum of one, ``G`` may be replaced by :math:`G + \delta^2 1 1'`, which changes the objective
by a constant. The caller does so: then :math:`G_{FF}` is positive definite exactly when the points
that the free columns are do not lie on a smaller flat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.cholesky import append, factorize, forward, new_factor, remove
from conecollapse._nnls.kernels import OPTIMAL, STEP_LIMIT, axpy, solve_triangle
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray

DUAL_ZERO = 1e-14  # gradients below this share of the size of the right-hand side are rounding
PATIENCE = 3  # exchanges without progress before pivoting gives up
SUM_ERROR = 1e-9  # a start whose sum is further from one is not used
LEAST_WORK = 20_000  # operations below which a piece of work is not worth a thread

# where a variable is: at zero for good, at zero, between its bounds, at its upper bound
BARRED, LOW, FREE, HIGH = -1, 0, 1, 2


class Quadratic(NamedTuple):
    """Problems that differ in ``c``, and perhaps in everything else. Arrays with one row for each
    problem may have a single row for all."""

    G: FloatArray  # (grams, n, n)
    of: IntArray  # (k,): the Gram matrix of each problem
    C: FloatArray  # (k, n): the linear terms
    upper: FloatArray  # (k or 1, n): infinite where there is no bound
    allowed: BoolArray  # (k or 1, n): False for variables that must be zero
    size: FloatArray  # (k,): what gradients are compared with
    simplex: bool


class Solved(NamedTuple):
    """One row, or entry, for each problem."""

    X: FloatArray
    side: AnyArray  # (k, n) of int8: LOW, FREE, HIGH or BARRED
    steps: IntArray
    ending: IntArray


def solve_quadratic(
    problems: Quadratic, start: FloatArray, capacity: int, max_steps: int
) -> Solved:
    """Solve each problem from its row of ``start``, a point within the bounds; a row of zeros is no
    start.

    ``capacity`` is the largest number of columns that can be independent.
    """
    k, n = problems.C.shape
    out = Solved(
        start.copy(), np.zeros((k, n), np.int8), np.zeros(k, np.int64), np.zeros(k, np.int64)
    )

    def work(first: int, last: int) -> None:
        _solve_range(problems, out, capacity + 1, max_steps, first, last)

    for_ranges(work, k, smallest=max(1, LEAST_WORK // n**2))
    return out


@kernel
def _solve_range(problems, out, room, max_steps, first, last):  # type: ignore[no-untyped-def]
    n = problems.C.shape[1]
    s = new_factor(n, room)
    for i in range(first, last):
        G, x, side = problems.G[problems.of[i]], out.X[i], out.side[i]
        upper = problems.upper[i if len(problems.upper) > 1 else 0]
        allowed = problems.allowed[i if len(problems.allowed) > 1 else 0]
        rule = (problems.simplex, DUAL_ZERO * problems.size[i], max_steps)
        for j in range(n):
            s.c[j] = problems.C[i, j]
            s.given[j] = x[j]
        k, out.ending[i], out.steps[i] = _pivot(G, x, side, upper, allowed, s, rule)
        if out.ending[i] != OPTIMAL:
            for j in range(n):
                s.c[j] = problems.C[i, j]
                x[j] = s.given[j]
            k = _begin(G, x, side, upper, allowed, s, problems.simplex)
            k, out.ending[i], more = _descend(G, x, side, upper, s, k, rule, out.steps[i])
            out.steps[i] += more


@kernel
def _pivot(G, x, side, upper, allowed, s, rule):  # type: ignore[no-untyped-def]
    """Block pivoting: from the sets of the start, all variables that offend change sides at once.

    Fast, but it may cycle, and its columns may become dependent. It gives up when the number of
    offenders has not fallen for a while. Returns the number of free variables, the ending (OPTIMAL,
    or STEP_LIMIT if it has given up) and the number of rounds.
    """
    n = len(x)
    for j in range(n):
        side[j] = BARRED if not (allowed[j] and upper[j] > 0.0) else LOW if x[j] <= 0.0 else FREE
        if side[j] == FREE and x[j] >= upper[j]:
            _fix_high(G, x, side, upper, s, j)
    fewest, patience = n + 1, PATIENCE
    for turn in range(min(rule[2], 2 * n + PATIENCE)):
        k = np.int64(0)
        for j in range(n):
            if side[j] == FREE and k < len(s.F):
                s.F[k] = j
                k += 1
        if (rule[0] and k == 0) or not factorize(G, s, k):
            return k, STEP_LIMIT, turn
        multiplier = _free_solution(x, side, s, k, rule[0])
        for a in range(k):
            x[s.F[a]] = s.target[a]
        _gradient(G, x, s, k, multiplier)
        count = 0
        for j in range(n):
            count += _offends(G, x, side, upper, s.g, j, rule)
        if count == 0:
            return k, OPTIMAL, turn
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            return k, STEP_LIMIT, turn
        for j in range(n):
            if _offends(G, x, side, upper, s.g, j, rule):
                if side[j] == HIGH:
                    axpy(upper[j], G[j], s.c)
                if side[j] != FREE:
                    side[j] = FREE
                else:
                    _fix(G, x, side, upper, s, j, x[j] < 0.0)
    return np.int64(0), STEP_LIMIT, min(rule[2], 2 * n + PATIENCE)


@kernel
def _offends(G, x, side, upper, g, j, rule):  # type: ignore[no-untyped-def]
    """Whether variable ``j`` is on the wrong side."""
    if side[j] == FREE:
        return x[j] < 0.0 or x[j] > upper[j]
    if side[j] == BARRED:
        return False
    return (g[j] if side[j] == LOW else -g[j]) > rule[1] * (1.0 if rule[0] else np.sqrt(G[j, j]))


@kernel
def _begin(G, x, side, upper, allowed, s, simplex):  # type: ignore[no-untyped-def]
    """Sort the variables by where the start has them, as far as the columns between the bounds are
    independent; their number."""
    k, total = np.int64(0), 0.0
    for j in range(len(x)):
        side[j] = LOW if allowed[j] and upper[j] > 0.0 else BARRED
        if side[j] == BARRED or x[j] <= 0.0:
            x[j] = 0.0
        elif x[j] >= upper[j]:
            _fix_high(G, x, side, upper, s, j)
        elif append(G, s, k, j) > 0.0:
            side[j] = FREE
            k += 1
        else:
            x[j] = 0.0
        total += x[j]
    if simplex and (k == 0 or abs(total - 1.0) > SUM_ERROR):
        k = _greedy_vertex(G, x, side, upper, s)
    return k


@kernel
def _greedy_vertex(G, x, side, upper, s):  # type: ignore[no-untyped-def]
    """Fill the variables with the smallest objective of their own, each to its bound, until the sum
    is one; the last one is free."""
    for j in range(len(x)):
        if side[j] == HIGH:
            axpy(upper[j], G[j], s.c)
        if side[j] != BARRED:
            side[j] = LOW
        x[j] = 0.0
    left = 1.0
    while True:
        best, at = np.inf, -1
        for j in range(len(x)):
            if side[j] == LOW:
                value = 0.5 * G[j, j] - s.c[j]
                if value < best or at < 0:
                    best, at = value, j
        if upper[at] < left * (1.0 - SUM_ERROR) and at >= 0:
            left -= upper[at]
            _fix_high(G, x, side, upper, s, at)
        else:
            x[at] = left
            side[at] = FREE
            append(G, s, np.int64(0), at)
            return np.int64(1)


@kernel
def _fix_high(G, x, side, upper, s, j):  # type: ignore[no-untyped-def]
    x[j] = upper[j]
    side[j] = HIGH
    axpy(-upper[j], G[j], s.c)


@kernel
def _free_solution(x, side, s, k, simplex):  # type: ignore[no-untyped-def]
    """``target`` solves for the free variables; the multiplier of the sum."""
    z, y = s.target, s.ones
    # with a sum of one a constant may be taken from c: free variables that are optimal differ
    # little in c, however far away b is
    shift = s.c[s.F[0]] if simplex else 0.0
    for a in range(k):
        z[a], y[a] = s.c[s.F[a]] - shift, 1.0
    forward(s.R, k, z)
    solve_triangle(s.R, z, k, z)
    if not simplex:
        return 0.0
    forward(s.R, k, y)
    solve_triangle(s.R, y, k, y)
    excess, slope = -1.0, 0.0
    for j in range(len(x)):
        if side[j] == HIGH:
            excess += x[j]
    for a in range(k):
        excess += z[a]
        slope += y[a]
    multiplier = excess / slope
    axpy(-multiplier, y[:k], z[:k])
    return multiplier + shift


@kernel
def _walk(G, x, side, upper, s, k, simplex):  # type: ignore[no-untyped-def]
    """Walk to the solution over the free variables, fixing those that meet a bound; how many are
    left, and the multiplier."""
    multiplier = 0.0
    while k > 0:
        multiplier = _free_solution(x, side, s, k, simplex)
        t = s.target
        alpha, first = 1.0, -1
        for a in range(k):
            j = s.F[a]
            if t[a] <= 0.0:
                room = x[j] / (x[j] - t[a]) if x[j] > t[a] else 0.0
            elif t[a] >= upper[j]:
                room = (upper[j] - x[j]) / (t[a] - x[j]) if x[j] < t[a] else 0.0
            else:
                continue
            if first < 0 or room < alpha:
                alpha, first = room, a
        if first < 0 or (simplex and k == 1):
            for a in range(k):
                x[s.F[a]] = min(max(t[a], 0.0), upper[s.F[a]])
            break
        for a in range(k):
            x[s.F[a]] += alpha * (t[a] - x[s.F[a]])
        _fix(G, x, side, upper, s, s.F[first], t[first] <= 0.0)
        remove(s, k, first)
        k -= 1
    return k, multiplier


@kernel
def _fix(G, x, side, upper, s, j, at_zero):  # type: ignore[no-untyped-def]
    if at_zero:
        x[j] = 0.0
        side[j] = LOW
    else:
        _fix_high(G, x, side, upper, s, j)


@kernel
def _gradient(G, x, s, k, multiplier):  # type: ignore[no-untyped-def]
    """``g = c - G x - multiplier``; what the variables at their upper bounds contribute is in
    ``c``."""
    for j in range(len(x)):
        s.g[j] = s.c[j] - multiplier
    for a in range(k):
        axpy(-x[s.F[a]], G[s.F[a]], s.g)


@kernel
def _entering(G, x, side, s, k, multiplier, rule):  # type: ignore[no-untyped-def]
    """The fixed variable that leads down most steeply, in units of its column's length or, with a
    sum of one, as it is; -1 if none."""
    g = s.g
    _gradient(G, x, s, k, multiplier)
    best, at = 0.0, -1
    for j in range(len(x)):
        if side[j] != LOW and side[j] != HIGH:
            continue
        slope = g[j] if side[j] == LOW else -g[j]
        if s.dead[j] or slope <= 0.0:
            continue
        price = slope if rule[0] or G[j, j] == 0.0 else slope / np.sqrt(G[j, j])
        if price > rule[1] and price > best:
            best, at = price, j
    return at


@kernel
def _slide(G, x, side, upper, s, k, j):  # type: ignore[no-untyped-def]
    """Free variable ``j`` although its column depends on the free ones: move along directions in
    which G is zero, fixing the variables that meet a bound, until the column is independent of what
    is left or ``j`` meets a bound itself; how many variables are free.

    If nothing bounds the move, which only rounding can cause, ``j`` is put to zero.
    """
    t = s.target
    up = 1.0 if side[j] == LOW else -1.0
    if side[j] == HIGH:
        axpy(upper[j], G[j], s.c)
    while True:
        for a in range(k):
            t[a] = s.R[a, k]
        solve_triangle(s.R, t, k, t)  # column j is the combination t of the free columns
        step, first = upper[j] - x[j] if up > 0.0 else x[j], -1
        for a in range(k):
            move, i = -up * t[a], s.F[a]
            room = (
                np.inf if move == 0.0 else (upper[i] - x[i]) / move if move > 0.0 else -x[i] / move
            )
            if room < step:
                step, first = max(room, 0.0), a
        if first < 0:
            if step < np.inf:
                for a in range(k):
                    x[s.F[a]] -= step * up * t[a]
            _fix(G, x, side, upper, s, j, up < 0.0 or step == np.inf)
            return k
        for a in range(k):
            x[s.F[a]] -= step * up * t[a]
        x[j] += up * step
        _fix(G, x, side, upper, s, s.F[first], up * t[first] > 0.0)
        remove(s, k, first)
        k -= 1
        if append(G, s, k, j) > 0.0:
            side[j] = FREE
            return k + 1


@kernel
def _descend(G, x, side, upper, s, k, rule, done):  # type: ignore[no-untyped-def]
    """The whole descent. ``rule`` has whether the sum is one, the gradient that counts as zero, and
    the limit on steps, less ``done``."""
    for j in range(len(x)):
        s.dead[j] = False
    steps = 0
    k, multiplier = _walk(G, x, side, upper, s, k, rule[0])
    while True:
        at = _entering(G, x, side, s, k, multiplier, rule)
        if at < 0:
            return k, OPTIMAL, steps
        if done + steps >= rule[2]:
            return k, STEP_LIMIT, steps
        steps += 1
        before = side[at]
        if append(G, s, k, at) > 0.0:
            if before == HIGH:
                axpy(upper[at], G[at], s.c)
            side[at] = FREE
            k += 1
        else:
            k = _slide(G, x, side, upper, s, k, at)
        k, multiplier = _walk(G, x, side, upper, s, k, rule[0])
        if side[at] == before:
            s.dead[at] = True
        else:  # the objective has fallen: variables that did not help before may do so now
            for j in range(len(x)):
                s.dead[j] = False
