r"""Whether a solution in float64 is optimal, by its residual with 32 digits.

Where columns depend on the passive ones, their exact prices are zero. Those in float64 are rounding
errors of either sign, so that no bound computed from them is good (`proof`, `doubt`). With 32
digits (`twofold`) zeros are seen. No factorization with so many digits is needed for that: with the
triangular factor R of the unit passive columns, in float64, the corrections
:math:`(R^T R)^{-1} Z_S^T y` refine x until the residual y is orthogonal to the passive columns.

If no price is above `ZERO_PRICE`, which 32 digits do not tell from zero, y has the smallest norm.
Columns that depend on others only up to their last digit have prices above that. For these `doubt`
has a bound, which is the better for errors that are not there: prices are far below rounding errors
of ``b - A x``. Neither can be shown where x = 0, which is left to others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._nnls.doubt import Passive, cost_of_doubt, largest_eigenvalue, low_cost, set_aside
from conecollapse._nnls.kernels import axpy, dot, solve_triangle
from conecollapse._nnls.proof import LEAST_LENGTH, MOST_LENGTH, OPTIMAL_WITHIN, ZERO_RESIDUAL
from conecollapse._nnls.twofold import two_product, two_sum
from conecollapse._types import FloatArray

# passive prices are to be at most this share of |a_j| |y|; if that shows nothing, they are made as
# low as turns allow,
LOW_PRICE = 1e-20
BEST_PRICE = 1e-29  # down to this share
ZERO_PRICE = 1e-27  # prices up to this share are zero as far as 32 digits tell, as in `careful`
TURNS = 6  # corrections at most
LARGE = 2**18  # multiplications from which products are left to BLAS
# unit columns with a smaller singular value are not solved for: float64 does not tell its size
DEPENDENT = 1e-13


class Refined(NamedTuple):
    """A solution that was corrected, or as it was if that did not help."""

    x: FloatArray
    rnorm: float  # ``|b - A x|``
    least: float  # a residual norm that no ``x >= 0`` undercuts, or zero
    is_optimal: bool


class Room(NamedTuple):
    """The k passive columns, of n with m entries, and scratch."""

    P: FloatArray  # (k, m): the columns in rows
    Q: FloatArray  # (k, m): an orthonormal basis of their span
    R: FloatArray  # (k, k): its upper triangle has P' = Q' R, for unit columns
    h: FloatArray  # (2, k): coefficients
    r: FloatArray  # (2, m): residual
    prices: FloatArray  # (3, n): of unit columns; errors; ``v`` of `doubt`
    step: FloatArray  # (k,)


def refine(A: FloatArray, x: FloatArray, b: FloatArray) -> Refined:
    """``x``, without its negative entries, corrected by its residual with 32 digits, and whether
    that shows that it is optimal."""
    x = np.maximum(x, 0.0)
    used = x.nonzero()[0]
    with np.errstate(over="ignore", invalid="ignore"):
        lengths, b_norm = np.sqrt(np.einsum("ij,ij->j", A, A)), float(np.sqrt(b @ b))
    safe = (lengths > LEAST_LENGTH) & (lengths < MOST_LENGTH)
    if not LEAST_LENGTH < b_norm < MOST_LENGTH or not (safe.all() or (safe | ~A.any(axis=0)).all()):
        return Refined(x, float("nan"), 0.0, False)
    lengths[~safe] = 1.0
    products = np.empty((0, 0))
    if A.size * len(used) > LARGE and len(used) <= len(b):
        products = (A.take(used, axis=1) / lengths[used]).T @ A / lengths
    rnorm, least, is_optimal = _prove(A, x, b, used, lengths, b_norm, products)
    return Refined(x, rnorm, least, is_optimal)


@kernel(error_model="numpy")
def _prove(A, x, b, used, lengths, b_norm, products):  # type: ignore[no-untyped-def]
    """The residual norm of ``x``, a lower bound or zero, and whether x is optimal; if so, it is
    corrected.

    ``products`` has those of unit passive columns with all, or is empty.
    """
    (m, n), k = A.shape, len(used)
    G = products if len(products) > 0 else np.empty((k, n))
    W = np.empty((2 * k + 2, m))
    V = np.empty((5, n + k))
    room = Room(
        W[:k], W[k : 2 * k], np.empty((k, k)), np.zeros((2, k)), W[2 * k :], V[:3, :n], V[3]
    )
    passive = Passive(used, np.empty((k, k)), G, V[0, n:], V[1, n:], V[4, :n])
    for a in range(k):
        room.h[0, a] = x[used[a]]
        for i in range(m):
            room.P[a, i] = A[i, used[a]]
    first = residual(room, b)
    if first <= ZERO_RESIDUAL * b_norm:
        return first, 0.0, True
    if k == 0 or k > m or not factorize(room, lengths, used):
        return first, 0.0, False
    if len(products) == 0:
        multiply(A, lengths, room, passive)
    size, before, is_held = first, np.inf, True
    for turn in range(TURNS + 1):
        highest = price(A, lengths, room, used)
        for a in range(k):
            is_held = is_held and room.h[0, a] > 0.0
        if not is_held:
            break
        if highest <= LOW_PRICE * size:
            least = bound(A, room, passive, size, b_norm)
            if least > 0.0:
                for a in range(k):
                    x[used[a]] = room.h[0, a]
                    room.h[1, a] = 0.0  # x is what float64 holds
                size = residual(room, b)
                return size, least, size <= (1.0 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm
        if highest <= BEST_PRICE * size or highest > 0.1 * before or turn == TURNS:
            break
        before = highest
        correct(room, lengths, used)
        size = residual(room, b)
    return first, 0.0, False


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def multiply(A, lengths, room, passive):  # type: ignore[no-untyped-def]
    """Write the products of unit passive columns with all unit columns."""
    G, (m, n) = passive.G, A.shape
    for a in range(len(G)):
        row, column = G[a], room.P[a]
        for j in range(n):
            row[j] = 0.0
        for i in range(m):
            for j in range(n):
                row[j] += column[i] * A[i, j]
        for j in range(n):
            row[j] /= lengths[passive.S[a]] * lengths[j]


@kernel(error_model="numpy", counting=False)
def residual(room, b):  # type: ignore[no-untyped-def]
    """Write ``b - P' h`` to ``r``, both with 32 digits; its norm."""
    P, h, s, e = room.P, room.h, room.r[0], room.r[1]
    m, square = len(b), 0.0
    for i in range(m):
        s[i] = b[i]
        e[i] = 0.0
    for a in range(len(P)):
        row, high, low = P[a], h[0, a], h[1, a]
        for i in range(m):
            p, dp = two_product(-row[i], high)
            t, f = two_sum(s[i], p)
            s[i] = t
            e[i] += f + (dp - row[i] * low)
    for i in range(m):
        t = s[i] + e[i]
        e[i] -= t - s[i]
        s[i] = t
        square += t * t
    return np.sqrt(square)


@kernel(error_model="numpy", counting=False)
def price(A, lengths, room, S):  # type: ignore[no-untyped-def]
    """Write the prices of unit columns, computed with 32 digits; the largest size of a passive
    one."""
    (m, n), s, e = A.shape, room.prices[0], room.prices[1]
    for j in range(n):
        s[j] = 0.0
        e[j] = 0.0
    for i in range(m):
        row, high, low = A[i], room.r[0, i], room.r[1, i]
        for j in range(n):
            p, dp = two_product(row[j], high)
            t, f = two_sum(s[j], p)
            s[j] = t
            e[j] += f + (dp + row[j] * low)
    for j in range(n):
        s[j] = (s[j] + e[j]) / lengths[j]
    highest = 0.0
    for a in range(len(S)):
        highest = max(highest, abs(s[S[a]]))
    return highest


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def factorize(room, lengths, S):  # type: ignore[no-untyped-def]
    """Write the triangular factor of the unit passive columns, by Gram and Schmidt's method, twice;
    False if they are dependent."""
    P, Q, R = room.P, room.Q, room.R
    for e in range(len(P)):
        for i in range(P.shape[1]):
            Q[e, i] = P[e, i] / lengths[S[e]]
        for a in range(e):
            R[a, e] = 0.0
        for _ in range(2):
            for a in range(e):
                c = dot(Q[a], Q[e])
                axpy(-c, Q[a], Q[e])
                R[a, e] += c
        R[e, e] = np.sqrt(dot(Q[e], Q[e]))
        if not R[e, e] > DEPENDENT:
            return False
        for i in range(P.shape[1]):
            Q[e, i] /= R[e, e]
    return True


@kernel(error_model="numpy", counting=False)
def correct(room, lengths, S):  # type: ignore[no-untyped-def]
    """Add the solution of ``R' R d = prices`` to the coefficients, with 32 digits."""
    R, h, d = room.R, room.h, room.step
    k = len(R)
    for a in range(k):
        s = room.prices[0, S[a]]
        for e in range(a):
            s -= R[e, a] * d[e]
        d[a] = s / R[a, a]
    solve_triangle(R, d, k, d)
    for a in range(k):
        t, f = two_sum(h[0, a], d[a] / lengths[S[a]])
        f += h[1, a]
        h[0, a] = t + f
        h[1, a] = f - (h[0, a] - t)


@kernel(error_model="numpy", counting=False)
def bound(A, room, passive, size, b_norm):  # type: ignore[no-untyped-def]
    """A residual norm that no ``x >= 0`` undercuts, or zero if nothing shows that there is one near
    ``size``."""
    S, k, n = passive.S, len(passive.S), A.shape[1]
    h, v = room.prices[1], room.prices[2]  # only the signs of h are looked at
    worst = -np.inf
    for j in range(n):
        h[j] = 0.0
        v[j] = room.prices[0, j]
    for a in range(k):
        h[S[a]] = 1.0
        v[S[a]] = 0.0
    for j in range(n):
        worst = max(worst, v[j])
    if worst <= ZERO_PRICE * size:
        return size
    invert(room.R, passive.inverse)
    largest = largest_eigenvalue(passive.inverse)
    if not largest * DEPENDENT * DEPENDENT < 1.0:
        return 0.0
    lean = LOW_PRICE * size * np.sqrt(k * largest)
    for j in range(n):
        v[j] += LOW_PRICE * size + lean
    set_aside(A, S, h, v, b_norm)
    worst = -np.inf
    for j in range(n):
        if h[j] == 0.0:
            worst = max(worst, v[j])
    square = size * size - lean * lean
    if worst > 0.0:
        square -= 2.0 * b_norm * cost_of_doubt(passive, h, v, len(A), worst, low_cost(size, b_norm))
    return np.sqrt(square) if size <= (1.0 + OPTIMAL_WITHIN) * np.sqrt(max(square, 0.0)) else 0.0


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def invert(R, inverse):  # type: ignore[no-untyped-def]
    """Write the inverse of ``R' R``: its column c solves ``R' R x = e_c``."""
    k = len(R)
    for c in range(k):
        x = inverse[c]
        for a in range(k):
            s = 1.0 if a == c else 0.0
            for e in range(c, a):
                s -= R[e, a] * x[e]
            x[a] = s / R[a, a] if a >= c else 0.0
        solve_triangle(R, x, k, x)
