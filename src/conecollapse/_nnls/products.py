r"""The active set on a Gram matrix: with bounds on every variable and, if asked for, their sum.

For each right-hand side, with products ``G`` and a linear term ``c``,

.. math:: \min_x \frac{1}{2} x'Gx - c'x \quad\text{subject to}\quad 0 \le x_j \le u_j, \quad
   \sum_j x_j = \text{total if given}.

A variable is *free* (passive), or sits at its lower or upper bound. The free ones F solve
:math:`G_{FF} x_F + \lambda 1 = c_F - G_{FU} u_U`, where U are those at their upper bounds: with the
triangle of `factor` they are :math:`R^{-1} (q - \lambda p)`, and the sum gives :math:`\lambda`. The
iterate walks from its feasible point towards that solution; a variable that meets a bound on the
way is fixed there, and the solution is found anew. Then ``g = c - G x - lambda`` says which fixed
variable to free. If there is none, x is optimal. One that brought no descent is not tried again
before another one has.

A column that depends on the free ones has the price zero in exact arithmetic, unless ``c`` is not
of the form ``A'b``, as with an l1 penalty. Then the objective falls in a straight line along a
direction in which G is zero; the iterate follows it until a bound is met (`_slide`). With a sum of
one the caller adds a constant to all of G, which changes the objective by a constant: then columns
are dependent only if the points that they are lie on a smaller flat.

With many columns a descent chooses among a short and varied list of them between two looks at all.

Of ``min |A x - b|, x >= 0`` the method needs only :math:`G = A'A` and :math:`c = A'b`, and of G
only the rows of columns that enter. G squares the condition of A, so no answer is judged by it
alone: a residual that is not small can be had from products, because :math:`|r|^2 = |b|^2 - x \cdot
(c + g)`; else the residual and the prices are computed with A itself, and x is corrected with them
(`_confirm`). What `bound` does not show to be optimal is left to the next method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, borrow, kernel
from conecollapse._nnls.bound import (
    EPS,
    NEAR_ZERO,
    OPTIMAL,
    STEP_LIMIT,
    UNPROVEN,
    close_row,
    has_accurate_square,
    judge,
    keeps_squares,
    noise_of,
    open_row,
)
from conecollapse._nnls.bpp import block_pivoting
from conecollapse._nnls.factor import (
    State,
    append_product,
    axpy,
    dot,
    first_bound,
    move,
    remove,
    smallest_singular_value,
    solve_transposed,
    solve_triangle,
)
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray

PRICE_ZERO = 1e-14  # prices of unit columns up to this share of |b| are rounding
MANY_COLUMNS = (
    256  # from here on a descent follows a short list: pricing all takes most of the time
)
LISTED = 64  # columns on a short list
CORRECTIONS = 3
FAR = 1e100  # a way that no bound ends
SUM_ERROR = 1e-9  # a start whose sum is further from the total is not used
LEAST_WORK = 20_000  # operations below which a piece of work is not worth a thread

# where a variable is: at zero for good, at zero, between its bounds, at its upper bound
BARRED, LOW, FREE, HIGH = -1, 0, 1, 2


class Products(NamedTuple):
    """``G`` and, where it is of unit columns of A that are known, A itself."""

    G: FloatArray  # (n, n): in the rows that are known
    known: BoolArray  # (n,)
    A: FloatArray  # (m, n), or empty
    norms: FloatArray  # (n,): the lengths of the columns of A, 1 for zeros; or empty


class Room(NamedTuple):
    """Scratch for one problem in n variables."""

    c: FloatArray  # the linear term, less what the variables at their upper bounds contribute
    g: FloatArray  # the prices
    x: FloatArray
    side: IntArray
    dead: IntArray  # 1: freed without success since the objective last fell
    listed: IntArray


class Problems(NamedTuple):
    """Problems that differ in ``c``, and perhaps in everything else."""

    G: FloatArray  # (grams, n, n)
    of: IntArray  # (k,): the Gram matrix of each
    C: FloatArray  # (k, n)
    upper: FloatArray  # (k, n), or one row for all: infinite without a bound, else at least zero
    size: FloatArray  # (k,): what prices are compared with


class Solved(NamedTuple):
    """One row, or entry, for each problem."""

    X: FloatArray
    side: AnyArray  # (k, n) of int8: LOW, FREE, HIGH or BARRED
    steps: IntArray
    ending: IntArray  # OPTIMAL or STEP_LIMIT


def solve(
    problems: Problems,
    start: FloatArray | None = None,
    *,
    total: float | None = None,
    slides: bool | None = None,
    capacity: int | None = None,
    max_steps: int | None = None,
) -> Solved:
    """Solve each problem from its row of ``start``, a point within the bounds; a row of zeros is no
    start. ``capacity`` is the largest number of columns that can be independent.

    ``total`` is the sum of the variables; ``slides`` is True if columns that depend on the free
    ones may have a price. Both are None otherwise: numba leaves out what is asked of None."""
    k, n = problems.C.shape
    out = Solved(
        np.zeros((k, n)) if start is None else start.copy(),
        np.zeros((k, n), np.int8),
        np.zeros(k, np.int64),
        np.zeros(k, np.int64),
    )
    limit = 5 * n + 100 if max_steps is None else max_steps
    # one place more is for a column that depends on the others
    room = min(n, (capacity or n) + (slides is True))

    def work(first: int, last: int) -> None:
        _solve_range(problems, total, slides, (room, limit), out, first, last)

    for_ranges(work, k, smallest=max(1, LEAST_WORK // n**2))
    return out


def solve_gram(G: FloatArray, C: FloatArray, start: BoolArray | None = None) -> FloatArray:
    """``min |A x - b|, x >= 0`` for each row c of ``C``, given only ``G = A'A`` and ``c = A'b``: by
    block pivoting, and by the active set for rows where that breaks.

    Alternating methods need this form: they have many right-hand sides, few unknowns, and data that
    may be sparse or not in memory. ``start`` gives passive sets to try first. Columns of A that are
    zero (zeros on the diagonal of ``G``) get the coefficient zero.
    """
    unit_G, unit_C, inverse = unit_products(G, C)
    size = np.abs(unit_C).max(axis=1, initial=0.0)
    result = block_pivoting(unit_G, unit_C, size, start=start)
    left = np.flatnonzero(~result.solved)
    if len(left):
        result.X[left] = solve(plain_problems(unit_G, unit_C[left])).X
    return np.asarray(np.maximum(result.X, 0.0) * inverse)


def unit_products(G: FloatArray, C: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Both for unit columns, and the inverses of the lengths; columns of zeros stay zero."""
    length = np.sqrt(np.maximum(np.diag(G), 0.0))
    inverse = 1 / np.where(length > 0, length, np.inf)
    return (
        np.ascontiguousarray(G * inverse * inverse[:, None]),
        np.ascontiguousarray(C * inverse),
        inverse,
    )


def plain_problems(G: FloatArray, C: FloatArray) -> Problems:
    """``x >= 0`` alone, for one Gram matrix of unit columns or zeros."""
    return Problems(
        np.ascontiguousarray(G)[None],
        np.zeros(len(C), np.int64),
        np.ascontiguousarray(C),
        np.where(np.diag(G) > 0, np.inf, 0.0)[None],
        np.abs(C).max(axis=1, initial=0.0),
    )


@kernel
def _new_room(n, capacity, dim, has_sum):  # type: ignore[no-untyped-def]
    """A state and a room in two arrays: making one takes longer than solving a tiny problem."""
    own = np.empty((capacity + 8, max(n, dim))), np.empty((4, n), np.int64)
    W, flags = borrow(own[0]), borrow(own[1])
    V = W[capacity:]
    state = State(
        flags[0, :capacity],
        V[0],
        W[:capacity, :0],
        W[:capacity],
        V[1],
        V[2, : capacity if has_sum else 0],
        V[3],
        V[4, :dim],
    )
    return state, Room(V[5, :n], V[6, :n], V[7, :n], flags[1], flags[2], flags[3]), own


@kernel(error_model="numpy")
def _solve_range(problems, total, slides, limits, out, first, last):  # type: ignore[no-untyped-def]
    (capacity, max_steps), n = limits, problems.C.shape[1]
    state, room, own = _new_room(n, capacity, 0, total is not None)
    known, none = np.ones(n, np.bool_), np.empty((0, 0))
    for i in range(first, last):
        gram = Products(problems.G[problems.of[i]], known, none, none[:, 0])
        upper = problems.upper[i % len(problems.upper)]
        peak = -np.inf
        for j in range(n):
            room.c[j], room.x[j] = problems.C[i, j], out.X[i, j]
            room.side[j] = LOW if upper[j] > 0.0 else BARRED
            if room.side[j] == LOW:
                peak = max(peak, room.c[j])
        if total is not None:  # a constant in c changes nothing but the multiplier
            for j in range(n):
                room.c[j] -= peak
        k = _begin(gram.G, upper, total, state, room)
        rule = (PRICE_ZERO * problems.size[i], max_steps)
        k, out.ending[i], out.steps[i] = descend(gram, upper, total, slides, rule, state, room, k)
        for j in range(n):
            out.side[i, j] = room.side[j]
            out.X[i, j] = upper[j] if room.side[j] == HIGH else 0.0
        for a in range(k):
            out.X[i, state.S[a]] = state.h[a]
    return own[0].size + own[1].size  # which keeps what is borrowed


@kernel(error_model="numpy")
def _begin(G, upper, total, state, room):  # type: ignore[no-untyped-def]
    """Put the variables where ``room.x`` has them, as far as the columns between the bounds are
    independent; how many are free."""
    k, held = np.int64(0), 0.0
    if upper is not None:
        for j in range(len(room.x)):
            if room.side[j] == LOW and room.x[j] >= upper[j]:
                _shift(G, -upper[j], j, state, room, k)
                room.side[j] = HIGH
                held += upper[j]
    for j in range(len(room.x)):
        if room.side[j] != LOW or room.x[j] <= 0.0 or k == len(state.S):
            continue
        if append_product(G, room.c, j, state, k):
            state.S[k], state.h[k], room.side[j] = j, room.x[j], FREE
            held += room.x[j]
            k += 1
    if total is not None and (k == 0 or abs(held - total) > SUM_ERROR):
        _begin_at_vertex(G, upper, total, state, room)
        k = np.int64(1)
    return k


@kernel(error_model="numpy")
def _begin_at_vertex(G, upper, total, state, room):  # type: ignore[no-untyped-def]
    """Fill the variables with the smallest objective of their own, each to its bound, until the sum
    is reached; the last one is free."""
    left, none = total, np.int64(0)
    for j in range(len(room.x)):
        if room.side[j] == HIGH:
            _shift(G, upper[j], j, state, room, none)
        room.side[j] = BARRED if room.side[j] == BARRED else LOW
    while True:
        at, best = np.int64(-1), -np.inf
        for j in range(len(room.x)):
            value = room.c[j] - 0.5 * G[j, j]
            if room.side[j] == LOW and (at < 0 or value > best):
                at, best = np.int64(j), value
        if upper[at] >= left * (1.0 - SUM_ERROR):
            break
        room.side[at] = HIGH
        left -= upper[at]
        _shift(G, -upper[at], at, state, room, none)
    append_product(G, room.c, at, state, none)
    state.S[0], state.h[0], room.side[at] = at, left, FREE


@kernel(error_model="numpy")
def _shift(G, amount, j, state, room, k):  # type: ignore[no-untyped-def]
    """Add so many times column ``j`` of G to the linear term."""
    axpy(amount, G[j], room.c)
    for a in range(k):
        state.q[a] = room.c[state.S[a]]
    solve_transposed(state.R, k, state.q)


@kernel(error_model="numpy")
def descend(gram, upper, total, slides, rule, state, room, k):  # type: ignore[no-untyped-def]
    """The whole descent, from ``k`` free variables with feasible values: how many are free at the
    end, how it ended, and the number of steps. ``rule`` has the size up to which prices are
    rounding, and the limit on the steps."""
    side, dead, (zero, max_steps) = room.side, room.dead, rule
    for j in range(len(dead)):
        dead[j], room.listed[j] = 0, j
    k, multiplier = _walk(gram.G, upper, total, state, room, k)
    count, steps = np.int64(0), np.int64(0)
    while True:
        count = _look(gram.G, multiplier, zero, state, room, k, count)
        at, before, is_freed = np.int64(-1), np.int64(LOW), False
        while not is_freed:
            at = _best(room, count, zero, gram.norms)
            if at < 0:
                return k, OPTIMAL, steps
            if steps == max_steps:
                return k, STEP_LIMIT, steps
            dead[at], before = 1, side[at]
            k, is_freed = _free(gram, upper, slides, at, state, room, k)
        steps += 1
        k, multiplier = _walk(gram.G, upper, total, state, room, k)
        if side[at] != before:
            for j in range(len(dead)):
                dead[j] = 0


@kernel(error_model="numpy")
def _walk(G, upper, total, state, room, k):  # type: ignore[no-untyped-def]
    """Walk to the solution over the free variables, fixing those that meet a bound; how many are
    left, and the multiplier of the sum."""
    S, h, p, q, ls, multiplier = state.S, state.h, state.p, state.q, state.ls, 0.0
    while k > 0:
        for a in range(k):
            ls[a] = q[a]
        if total is not None:
            rest = total
            for j in range(len(upper)):
                rest -= upper[j] if room.side[j] == HIGH else 0.0
            multiplier = (dot(p[:k], q[:k]) - rest) / dot(p[:k], p[:k])
            axpy(-multiplier, p[:k], ls[:k])
        solve_triangle(state.R, ls, k, ls)
        if total is not None and k == 1:  # nothing else could take its share
            h[0] = min(max(ls[0], 0.0), upper[S[0]])
            break
        alpha, first = first_bound(state, upper, k)
        move(state, alpha, k)
        if first < 0:
            break
        for a in range(k - 1, -1, -1):
            if a == first or (ls[a] <= 0.0 and h[a] <= 0.0):
                k = _fix(G, upper, a, state, room, k)
    return k, multiplier


@kernel(error_model="numpy")
def _fix(G, upper, a, state, room, k):  # type: ignore[no-untyped-def]
    """Fix the free variable at place ``a`` at the bound that it goes beyond; how many are left."""
    j, is_low = state.S[a], state.ls[a] <= 0.0
    room.side[j] = LOW if is_low else HIGH
    remove(state, k, a)
    if upper is not None and not is_low:
        _shift(G, -upper[j], j, state, room, k - 1)
    return k - 1


@kernel(error_model="numpy")
def _free(gram, upper, slides, j, state, room, k):  # type: ignore[no-untyped-def]
    """Free variable ``j``; how many are free, and whether it could leave its bound."""
    side, before, here = room.side, room.side[j], 0.0
    if upper is not None and before == HIGH:
        here = upper[j]
        _shift(gram.G, here, j, state, room, k)
    if k < len(state.h) and append_product(gram.G, room.c, j, state, k):
        state.S[k], state.h[k], side[j] = j, here, FREE
        if not gram.known[j]:
            _know(gram, j, state)
        return k + 1, True
    if slides is not None:
        k = _slide(gram.G, upper, j, state, room, k)
    elif upper is not None and before == HIGH:
        _shift(gram.G, -here, j, state, room, k)
    return k, side[j] != before


@kernel(error_model="numpy")
def _slide(G, upper, j, state, room, k):  # type: ignore[no-untyped-def]
    """Free variable ``j`` although its column depends on the free ones: move along directions in
    which G is zero, fixing the variables that meet a bound, until the column is independent of what
    is left or ``j`` meets a bound itself; how many are free.

    The linear term already lacks what ``j`` contributes at its upper bound. If nothing bounds the
    move, which only rounding can cause, ``j`` stays where it is."""
    h, ls, is_low = state.h, state.ls, room.side[j] == LOW
    here = 0.0 if is_low else upper[j]
    while True:
        way = min(upper[j] - here, FAR) if is_low else -here
        for a in range(k):
            ls[a] = state.R[a, k]
        solve_triangle(state.R, ls, k, ls)  # column j is this combination of the free columns
        for a in range(k):
            ls[a] = h[a] - way * ls[a]
        alpha, first = first_bound(state, upper, k)
        if first < 0 and way == FAR:
            return k
        move(state, alpha, k)
        here += alpha * way
        if first < 0:
            room.side[j] = HIGH if is_low else LOW
            if is_low:
                _shift(G, -upper[j], j, state, room, k)
            return k
        k = _fix(G, upper, first, state, room, k)
        if append_product(G, room.c, j, state, k):
            state.S[k], h[k], room.side[j] = j, here, FREE
            return k + 1


@kernel(error_model="numpy", fastmath=FAST)
def subtract_rows(G, S, h, k, g):  # type: ignore[no-untyped-def]
    """``g -= sum_a h_a G[S_a]``, four rows at a time."""
    for a in range(0, k - 3, 4):
        d, e, p, q = S[a], S[a + 1], S[a + 2], S[a + 3]
        u, v, y, z = h[a], h[a + 1], h[a + 2], h[a + 3]
        for j in range(len(g)):
            g[j] -= (u * G[d, j] + v * G[e, j]) + (y * G[p, j] + z * G[q, j])
    for a in range(k // 4 * 4, k):
        p, y = S[a], h[a]
        for j in range(len(g)):
            g[j] -= y * G[p, j]


@kernel
def _slope(room, j):  # type: ignore[no-untyped-def]
    """How fast the objective falls where fixed variable ``j`` is freed."""
    if room.dead[j] != 0:
        return 0.0
    return room.g[j] if room.side[j] == LOW else -room.g[j] if room.side[j] == HIGH else 0.0


@kernel(error_model="numpy")
def _look(G, multiplier, zero, state, room, k, count):  # type: ignore[no-untyped-def]
    """Compute the prices of the ``count`` listed variables or, if none of these helps, of all, and
    list those with the best ones; how many are listed. Few variables are all listed."""
    S, h, c, g, listed, n = state.S, state.h, room.c, room.g, room.listed, len(room.g)
    if n >= MANY_COLUMNS:
        for t in range(count):
            j = listed[t]
            price = c[j] - multiplier
            for a in range(k):
                price -= h[a] * G[S[a], j]
            g[j] = price
        if _best(room, count, zero, g[:0]) >= 0:
            return count
    for j in range(n):
        g[j] = c[j] - multiplier
    subtract_rows(G, S, h, k, g)
    if n < MANY_COLUMNS:
        return np.int64(n)
    for j in range(n):
        room.x[j] = _slope(room, j)
    return list_best(room.x, zero, np.empty(LISTED), np.empty(LISTED, np.int32), listed)


@kernel
def list_best(prices, least, top, turn, listed):  # type: ignore[no-untyped-def]
    """Write the place of the highest price of every bucket to ``listed``, if that is above
    ``least``; how many there are.

    Place t is in bucket ``t mod len(top)``. Taking the best of each bucket instead of the best of
    all keeps the list varied: columns with the highest prices tend to be almost equal. ``top`` and
    ``turn`` are scratch, and ``top`` has the highest prices of the buckets."""
    n_buckets = len(top)
    # an assignment of slices takes seconds to compile: numba builds the text of its error message
    for q in range(n_buckets):
        top[q] = prices[q]
        turn[q] = 0
    for t in range(n_buckets, len(prices), n_buckets):
        _take_higher(prices[t : t + n_buckets], np.int32(t // n_buckets), top, turn)
    count = np.int64(0)
    for q in range(n_buckets):
        if top[q] > least:
            listed[count] = turn[q] * n_buckets + q
            count += 1
    return count


@kernel
def _take_higher(part, number, top, turn):  # type: ignore[no-untyped-def]
    """Where ``part`` is higher than ``top`` it takes its place, and its number is the ``turn``; a
    loop without branches."""
    for q in range(len(part)):
        higher = part[q] > top[q]
        top[q] = part[q] if higher else top[q]
        turn[q] = number if higher else turn[q]


@kernel(error_model="numpy")
def _best(room, count, zero, weight):  # type: ignore[no-untyped-def]
    """The listed variable whose freeing lowers the objective most steeply; -1 if none does. Lengths
    of columns as weights lead to the solution that Lawson and Hanson's rule finds."""
    at, best = np.int64(-1), 0.0
    for t in range(count):
        j = room.listed[t]
        slope = _slope(room, j)
        if slope > zero:
            slope *= weight[j] if len(weight) > 0 else 1.0
            if slope > best:
                at, best = j, slope
    return at


@kernel(error_model="numpy", fastmath=FAST)
def add_products(A, v, g):  # type: ignore[no-untyped-def]
    """``g += A' v``, four rows at a time."""
    m, n = A.shape
    for t in range(0, m - 3, 4):
        p, q, r, s = v[t], v[t + 1], v[t + 2], v[t + 3]
        for j in range(n):
            g[j] += (p * A[t, j] + q * A[t + 1, j]) + (r * A[t + 2, j] + s * A[t + 3, j])
    for t in range(m // 4 * 4, m):
        p = v[t]
        for j in range(n):
            g[j] += p * A[t, j]


@kernel(error_model="numpy", fastmath=FAST)
def measure(A, norms, b, x, g, r):  # type: ignore[no-untyped-def]
    """Write the residual of coefficients ``x`` of unit columns and the prices ``g``, both computed
    with A itself; the length of the residual."""
    for j in range(len(x)):
        g[j] = x[j] / norms[j]
    for t in range(len(A)):
        s = 0.0
        for j in range(len(x)):
            s += A[t, j] * g[j]
        r[t] = b[t] - s
    for j in range(len(x)):
        g[j] = 0.0
    add_products(A, r, g)
    for j in range(len(x)):
        g[j] /= norms[j]
    return np.sqrt(dot(r, r))


@kernel(error_model="numpy")
def _know(gram, j, state):  # type: ignore[no-untyped-def]
    """Compute row ``j`` of G: the products of a unit column with all."""
    A, norms, row = gram.A, gram.norms, gram.G[j]
    gram.known[j] = True
    for t in range(len(A)):
        state.r[t] = A[t, j] / norms[j]
    for i in range(len(row)):
        row[i] = 0.0
    add_products(A, state.r, row)
    for i in range(len(row)):
        row[i] /= norms[i]


@kernel(error_model="numpy", fastmath=FAST)
def column_norms(A, norms):  # type: ignore[no-untyped-def]
    """Write the lengths of the columns, 1 for zeros; False where squares are lost."""
    m, n = A.shape
    for j in range(n):
        norms[j] = 0.0
    for t in range(m):
        for j in range(n):
            norms[j] += A[t, j] * A[t, j]
    is_safe = True
    for j in range(n):
        norms[j] = np.sqrt(norms[j])
        if not keeps_squares(norms[j]):
            for t in range(m):
                is_safe = is_safe and A[t, j] == 0.0
            norms[j] = 1.0
    return is_safe


@kernel(error_model="numpy")
def _confirm(gram, b, reach, state, room, k):  # type: ignore[no-untyped-def]
    """How the end of a descent is judged, its residual norm, and the lower bound: by products, else
    it is corrected with A itself."""
    A, S, h, g, x, r = gram.A, state.S, state.h, room.g, room.x, state.r
    used, b_norm = (S, k), np.sqrt(dot(b, b))
    sigma = smallest_singular_value(state.R, k, state.ls, state.q)
    square, total = b_norm * b_norm, b_norm
    for j in range(len(x)):
        x[j] = 0.0
    for a in range(k):
        x[S[a]] = h[a]
        total += h[a]
        square -= h[a] * (room.c[S[a]] + g[S[a]])
    r_norm, error = np.sqrt(max(square, 0.0)), 4.0 * EPS * total * total
    if has_accurate_square(square, error, b_norm):
        noise = np.sqrt(len(A)) * noise_of(x, b_norm)
        ending, least = judge(A, used, x, g, sigma, reach, (r_norm, b_norm), noise)
        if ending == OPTIMAL:
            return ending, r_norm, least - error / r_norm
    ending, least = UNPROVEN, 0.0
    for turn in range(CORRECTIONS):
        r_norm = measure(A, gram.norms, b, x, g, r)
        for a in range(k):
            state.ls[a] = g[S[a]]
        if turn > 0 or r_norm > NEAR_ZERO * b_norm:
            noise = EPS * (4.0 + np.sqrt(len(A))) * r_norm
            ending, least = judge(A, used, x, g, sigma, reach, (r_norm, b_norm), noise)
            if ending == OPTIMAL or turn == CORRECTIONS - 1:
                break
        solve_transposed(state.R, k, state.ls)
        solve_triangle(state.R, state.ls, k, state.ls)
        for a in range(k):
            h[a] = max(h[a] + state.ls[a], 0.0)
            x[S[a]] = h[a]
    return ending, r_norm, least


@kernel(error_model="numpy")
def solve_rows(A, Bt, G, C, reach, start, max_steps, out):  # type: ignore[no-untyped-def]
    """``min |A x - b|, x >= 0`` for each row b of ``Bt``; ``out`` is the array of a `Record`.

    ``G`` has the products of unit columns and ``C`` those of A with each b; or they are None, and
    only what is needed is computed. ``start`` marks variables to free first, or is None."""
    m, n = A.shape
    P, norm, flag = np.empty((n, n)) if G is None else G, np.empty(n), np.empty(n, np.bool_)
    A, out, norms, known = borrow(A), borrow(out), borrow(norm), borrow(flag)
    gram = Products(borrow(P), known, A, norms)
    is_safe = column_norms(A, norms)
    for j in range(n):
        known[j] = G is not None
        gram.G[j, j] = 1.0
    state, room, own = _new_room(n, min(m, n), m, False)
    for i in range(len(Bt)):
        b, row = borrow(Bt[i]), out[i]
        b_norm = open_row(b, is_safe, row)
        if b_norm == 0.0:
            continue
        for j in range(n):
            room.c[j], room.side[j] = 0.0 if C is None else C[i, j], LOW
        if C is None:
            add_products(A, b, room.c)
        for j in range(n):
            room.c[j] /= norms[j]
        k = np.int64(0)
        if start is not None:
            for j in range(n):
                room.x[j] = start[i, j]
                if start[i, j] and not known[j]:
                    _know(gram, j, state)
            k = _begin(gram.G, None, None, state, room)
        rule = (PRICE_ZERO * b_norm, max_steps)
        k, ending, row[n + 3] = descend(gram, None, None, None, rule, state, room, k)
        row[n + 2] = ending
        if ending == OPTIMAL:
            ending, r_norm, least = _confirm(gram, b, reach, state, room, k)
            close_row(row, ending, r_norm, least, b_norm)
        for a in range(k):
            row[state.S[a]] = state.h[a] / norms[state.S[a]]
    return own[0].size + own[1].size + P.size + norm.size + flag.size  # keeps what is borrowed
