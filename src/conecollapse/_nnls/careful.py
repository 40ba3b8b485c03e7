"""The active set in twice the precision, for right-hand sides whose float64 solution is not shown
to be optimal.

When columns of A are dependent to within 1e-11 or so, float64 cannot tell a direction that lowers
the residual from rounding, and rows of very different sizes make such columns out of harmless ones:
the columns (1, 1e-12) and (-1, 1e-12) differ from multiples of each other by 2e-12, and yet 5e11
times their sum is (0, 1). With 32 digits (`twofold`) the same method, Lawson and Hanson's on a QR
factorization of the passive columns, decides all of this up to a condition of about 1e25. It starts
from the passive set that float64 has found. Columns and right-hand side are scaled by powers of two
only, which changes no digit: the problem solved is the one that was given.

The final residual y is orthogonal to the passive columns, and ``a_j . y`` is at most zero for the
others. So no ``x >= 0`` has a smaller residual than ``|y|``, because
``|b - A x| |y| >= (b - A x) . y >= b . y = |y|^2``. What is returned is x rounded to float64, its
residual norm, and ``|y|``: the caller sees how much larger rounding x alone has made the residual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.proof import EPS, ZERO_RESIDUAL
from conecollapse._nnls.twofold import add, axpy, divide, dot, multiply, rotate, square_root
from conecollapse._threads import for_ranges
from conecollapse._types import FloatArray, IntArray

# a column whose part outside the passive span is smaller, as a share of its length, adds nothing
TWOFOLD_DEPENDENT = 1e-27
TWOFOLD_PRICE_STOP = 1e-27  # prices below this share of |a_j| |r| are rounding
TWOFOLD_RESIDUAL_STOP = 1e-25  # a residual below this share of |b| is rounding
DOUBT = 1e-20  # a price above this share, of a column that cannot enter, leaves the optimum open


class Careful(NamedTuple):
    """One row, or entry, for each right-hand side."""

    X: FloatArray  # the solution, rounded to float64
    rnorm: FloatArray  # its residual norm
    # the smallest residual norm of all, before x is rounded; zero where that is not known
    optimum: FloatArray
    rnorm_before: FloatArray  # the residual norm of the solution that was given
    n_steps: IntArray


def solve_carefully(A: FloatArray, Bt: FloatArray, X: FloatArray, max_steps: IntArray) -> Careful:
    """Solve ``min |A x - b|, x >= 0`` for each row b of ``Bt``, from the float64 solutions in the
    rows of ``X``."""
    # powers of two that give columns a length of 0.5 to 1
    shift = np.frexp(np.sqrt(np.einsum("ij,ij->j", A, A)))[1]
    b_shift = np.frexp(np.sqrt(np.einsum("ij,ij->i", Bt, Bt)))[1]
    Z = np.ascontiguousarray(np.ldexp(A, -shift).T)
    B = np.ldexp(Bt, -b_shift[:, None])
    H = np.ldexp(X, shift - b_shift[:, None])
    k = len(B)
    out = Careful(np.zeros_like(H), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k, np.int64))

    def work(first: int, last: int) -> None:
        _solve_rows(Z, B, H, max_steps, out, first, last)

    for_ranges(work, k)
    rnorm, optimum, before = (
        np.ldexp(v, b_shift) for v in (out.rnorm, out.optimum, out.rnorm_before)
    )
    return Careful(np.ldexp(out.X, b_shift[:, None] - shift), rnorm, optimum, before, out.n_steps)


class TwofoldState(NamedTuple):
    """`kernels.State` with values in pairs, rounded part and remainder; the first ``k`` entries of
    each field but ``r`` are in use."""

    S: IntArray  # (capacity,): the passive columns, in the order of the factorization
    h: FloatArray  # (capacity, 2): their coefficients
    Q: FloatArray  # (capacity, 2, m): an orthonormal basis of their span, in rows
    R: FloatArray  # (capacity, capacity, 2): the upper triangle that gives them from Q
    qb: FloatArray  # (capacity, 2): Q b
    r: FloatArray  # (2, m): the residual
    # (capacity, 2): scratch, for the least-squares coefficients of the passive columns
    ls: FloatArray
    column: FloatArray  # (2, m): scratch, for a column, whose remainders are zero


@kernel(error_model="numpy")
def _solve_rows(Z, B, H, max_steps, out, first, last):  # type: ignore[no-untyped-def]
    n, m = Z.shape
    cap = max(min(m, n), 1)
    s = TwofoldState(
        S=np.empty(cap, np.int64),
        h=np.zeros((cap, 2)),
        Q=np.zeros((cap, 2, m)),
        R=np.zeros((cap, cap, 2)),
        qb=np.zeros((cap, 2)),
        r=np.zeros((2, m)),
        ls=np.zeros((cap, 2)),
        column=np.zeros((2, m)),
    )
    b = np.zeros((2, m))
    for i in range(first, last):
        _copy(B[i], b[0])
        out.rnorm_before[i] = _residual_norm(Z, b, H[i], s)
        # what float64 has found is an exact solution but for rounding
        if out.rnorm_before[i] <= ZERO_RESIDUAL * np.sqrt(dot(b, b)[0]):
            _copy(H[i], out.X[i])
            out.rnorm[i] = out.rnorm_before[i]
            continue
        k, known, out.n_steps[i] = _descend(Z, b, H[i], s, max_steps[i], out.rnorm_before[i])
        optimum = np.sqrt(dot(s.r, s.r)[0])
        out.optimum[i] = (
            optimum if known and optimum > TWOFOLD_RESIDUAL_STOP * np.sqrt(dot(b, b)[0]) else 0.0
        )
        for a in range(k):
            out.X[i, s.S[a]] = max(s.h[a, 0], 0.0)
        out.rnorm[i] = _residual_norm(Z, b, out.X[i], s)


@kernel(error_model="numpy")
def _copy(a, b):  # type: ignore[no-untyped-def]
    for t in range(len(a)):
        b[t] = a[t]


@kernel(error_model="numpy")
def _residual_norm(Z, b, h, s):  # type: ignore[no-untyped-def]
    _copy(b[0], s.r[0])
    _copy(b[1], s.r[1])
    for j in range(len(h)):
        if h[j] != 0.0:
            _copy(Z[j], s.column[0])
            axpy(-h[j], 0.0, s.column, s.r)
    return np.sqrt(dot(s.r, s.r)[0])


@kernel(error_model="numpy")
def _descend(Z, b, start, s, max_steps, before):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent from the columns where ``start`` is positive, while its solutions
    can be written down in float64.

    As in `kernels.descend`, a column that brings no descent is dead until the residual is next
    smaller than ever before, so that no passive set returns. It gives up when rounding the
    coefficients would cost more than ``before``, the residual norm that float64 has reached: that
    happens to matrices of low rank whose entries are rounded, where only the last digits of columns
    differ.

    Returns the number of passive columns, whether the end is optimal beyond doubt, and the number
    of steps.
    """
    n = len(Z)
    k = _load(Z, b, start, s)
    dead = np.zeros(n, np.bool_)
    norm = _refresh(Z, b, s, k)
    lowest = norm
    negligible = TWOFOLD_RESIDUAL_STOP * np.sqrt(dot(b, b)[0])
    for step in range(max_steps):
        length = np.sqrt(norm[0])
        if length <= negligible or k == len(s.S):
            return k, True, step
        total = 0.0
        for a in range(k):
            total += s.h[a, 0]
        if EPS * total > before:
            return k, False, step
        while True:
            at, price, doubt = _price(Z, s, k, dead)
            if price <= TWOFOLD_PRICE_STOP * length:
                return k, doubt <= DOUBT * length, step
            dead[at] = True
            if _append(Z, at, s, k):
                break
        k = _restore(s, k + 1)
        norm = _refresh(Z, b, s, k)
        if norm[0] < lowest[0] or (norm[0] == lowest[0] and norm[1] < lowest[1]):
            lowest = norm
            for j in range(n):
                dead[j] = False
    return k, False, max_steps


@kernel(error_model="numpy")
def _price(Z, s, k, dead):  # type: ignore[no-untyped-def]
    """The column that is not dead with the highest price for unit length, its price, and the
    highest price of a dead one."""
    at = -1
    best = doubt = 0.0
    passive = np.zeros(len(Z), np.bool_)
    for a in range(k):
        passive[s.S[a]] = True
    for j in range(len(Z)):
        if passive[j]:
            continue
        _copy(Z[j], s.column[0])
        price = dot(s.column, s.r)[0]
        if dead[j]:
            doubt = max(doubt, price)
        elif price > best:
            best, at = price, j
    return at, best, doubt


@kernel(error_model="numpy")
def _load(Z, b, start, s):  # type: ignore[no-untyped-def]
    """Make the columns where ``start`` is positive passive, as far as they are independent and
    their coefficients non-negative."""
    k = np.int64(0)
    _copy(b[0], s.r[0])
    _copy(b[1], s.r[1])
    for j in range(len(Z)):
        if start[j] > 0.0 and k < len(s.S) and _append(Z, j, s, k):
            s.h[k, 0] = start[j]
            k += 1
    return _restore(s, k)


@kernel(error_model="numpy")
def _refresh(Z, b, s, k):  # type: ignore[no-untyped-def]
    """``r = b - sum h z`` from scratch, made orthogonal to the passive columns once more; its
    squared norm."""
    _copy(b[0], s.r[0])
    _copy(b[1], s.r[1])
    for a in range(k):
        _copy(Z[s.S[a]], s.column[0])
        axpy(-s.h[a, 0], -s.h[a, 1], s.column, s.r)
    for a in range(k):
        c, dc = dot(s.Q[a], s.r)
        axpy(-c, -dc, s.Q[a], s.r)
    return dot(s.r, s.r)


@kernel(error_model="numpy")
def _append(Z, j, s, k):  # type: ignore[no-untyped-def]
    """Put column ``j`` last among the passive ones, with coefficient zero, by Gram-Schmidt, twice;
    False if it depends on them.

    The residual loses its part along the new direction: it is always ``b`` less its parts along
    ``Q``.
    """
    v = s.Q[k]
    _copy(Z[j], v[0])
    for t in range(v.shape[1]):
        v[1, t] = 0.0
    for a in range(k):
        s.R[a, k, 0] = s.R[a, k, 1] = 0.0
    for _ in range(2):
        for a in range(k):
            c, dc = dot(s.Q[a], v)
            axpy(-c, -dc, s.Q[a], v)
            s.R[a, k, 0], s.R[a, k, 1] = add(s.R[a, k, 0], s.R[a, k, 1], c, dc)
    c, dc = dot(v, v)
    rho, drho = square_root(c, dc)
    if rho <= TWOFOLD_DEPENDENT:
        return False
    for t in range(v.shape[1]):
        v[0, t], v[1, t] = divide(v[0, t], v[1, t], rho, drho)
    s.S[k] = j
    s.R[k, k, 0], s.R[k, k, 1] = rho, drho
    s.qb[k, 0], s.qb[k, 1] = dot(v, s.r)
    s.h[k, 0] = s.h[k, 1] = 0.0
    axpy(-s.qb[k, 0], -s.qb[k, 1], v, s.r)
    return True


@kernel(error_model="numpy")
def _solve_triangle(s, k):  # type: ignore[no-untyped-def]
    for a in range(k - 1, -1, -1):
        c, dc = s.qb[a, 0], s.qb[a, 1]
        for e in range(a + 1, k):
            p, dp = multiply(s.R[a, e, 0], s.R[a, e, 1], s.ls[e, 0], s.ls[e, 1])
            c, dc = add(c, dc, -p, -dp)
        s.ls[a, 0], s.ls[a, 1] = divide(c, dc, s.R[a, a, 0], s.R[a, a, 1])


@kernel(error_model="numpy")
def _restore(s, k):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's inner loop: walk from ``h`` towards the least-squares coefficients,
    dropping columns that reach zero."""
    while k > 0:
        _solve_triangle(s, k)
        alpha, first = 1.0, -1
        for a in range(k):
            if s.ls[a, 0] <= 0.0:
                step = s.h[a, 0] / (s.h[a, 0] - s.ls[a, 0]) if s.h[a, 0] > s.ls[a, 0] else 0.0
                if first < 0 or step < alpha:
                    alpha, first = step, a
        if first < 0:
            for a in range(k):
                s.h[a, 0], s.h[a, 1] = s.ls[a, 0], s.ls[a, 1]
            return k
        for a in range(k):
            d, dd = add(s.ls[a, 0], s.ls[a, 1], -s.h[a, 0], -s.h[a, 1])
            p, dp = multiply(alpha, 0.0, d, dd)
            s.h[a, 0], s.h[a, 1] = add(s.h[a, 0], s.h[a, 1], p, dp)
        s.h[first, 0] = s.h[first, 1] = 0.0
        for a in range(k - 1, -1, -1):
            if s.h[a, 0] <= 0.0 and s.ls[a, 0] <= 0.0:
                _remove(s, k, a)
                k -= 1
    return k


@kernel(error_model="numpy")
def _remove(s, k, t):  # type: ignore[no-untyped-def]
    """Delete passive column ``t``: shift the later columns left, restore the triangle by Givens
    rotations, give its part back to ``r``."""
    for b in range(t, k - 1):
        s.S[b] = s.S[b + 1]
        s.h[b, 0], s.h[b, 1] = s.h[b + 1, 0], s.h[b + 1, 1]
        for a in range(b + 2):
            s.R[a, b, 0], s.R[a, b, 1] = s.R[a, b + 1, 0], s.R[a, b + 1, 1]
    for b in range(t, k - 1):
        x, dx, y, dy = s.R[b, b, 0], s.R[b, b, 1], s.R[b + 1, b, 0], s.R[b + 1, b, 1]
        p, dp = multiply(x, dx, x, dx)
        q, dq = multiply(y, dy, y, dy)
        p, dp = add(p, dp, q, dq)
        norm, dnorm = square_root(p, dp)
        c, dc = divide(x, dx, norm, dnorm)
        e, de = divide(y, dy, norm, dnorm)
        s.R[b, b, 0], s.R[b, b, 1] = norm, dnorm
        for i in range(b + 1, k - 1):
            u = rotate(c, dc, e, de, s.R[b, i, 0], s.R[b, i, 1], s.R[b + 1, i, 0], s.R[b + 1, i, 1])
            s.R[b, i, 0], s.R[b, i, 1], s.R[b + 1, i, 0], s.R[b + 1, i, 1] = u
        for i in range(s.Q.shape[2]):
            u = rotate(c, dc, e, de, s.Q[b, 0, i], s.Q[b, 1, i], s.Q[b + 1, 0, i], s.Q[b + 1, 1, i])
            s.Q[b, 0, i], s.Q[b, 1, i], s.Q[b + 1, 0, i], s.Q[b + 1, 1, i] = u
        u = rotate(c, dc, e, de, s.qb[b, 0], s.qb[b, 1], s.qb[b + 1, 0], s.qb[b + 1, 1])
        s.qb[b, 0], s.qb[b, 1], s.qb[b + 1, 0], s.qb[b + 1, 1] = u
    axpy(s.qb[k - 1, 0], s.qb[k - 1, 1], s.Q[k - 1], s.r)
