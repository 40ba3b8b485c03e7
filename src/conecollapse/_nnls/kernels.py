"""The active set as numba kernels: a QR factorization of the passive columns, grown and shrunk
column by column.

For one right-hand side ``x`` and columns ``z_j`` (rows of ``Z``) the state of ::

    minimise |x - sum_a h_a z_{S_a}|   subject to   h >= 0

is a `State`: the passive list ``S`` of length ``k``, its coefficients ``h``, an orthonormal basis
``Q`` (rows) of the passive columns, the triangular ``R`` with
``z_{S_b} = sum_{a <= b} R[a, b] Q[a]``, the vector ``qx = Q x`` and the residual ``r``. ``R`` is
the Cholesky factor of the passive Gram matrix: it is updated, never recomputed. Keeping ``Q``
beside it avoids squaring the condition number, which decides cases near the tolerance. ``k``
changes with every step, and a kernel cannot assign to a field of a tuple, so ``k`` is passed beside
the state and returned.

A column enters by Gram-Schmidt, repeated where cancellation asks for it, and leaves by Givens
rotations. A column that depends on the passive ones to within ``DEPENDENT`` never enters, so the
factorization cannot break down whatever the rank of the problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._types import BoolArray, FloatArray, IntArray

# a unit column whose part outside the passive span is smaller adds nothing that float64 can resolve
DEPENDENT = 1e-11
# a pass of Gram-Schmidt that keeps this share of the length has left an orthogonal vector
ORTHOGONAL = 0.7
# a determinant of unit columns above which it bounds their smallest singular value well enough
INDEPENDENT = 1e-5
LEAST_POWER = np.exp(-0.5)  # the infimum of ((k - 1) / k)^((k - 1) / 2)
# a residual below this share of |x| is made orthogonal to the passive columns once more
CLEANED_BELOW = 1e-3

# how a solve ended: step limit, KKT point, residual below the tolerance
STEP_LIMIT, OPTIMAL, WITHIN_TOL = 0, 1, 2


class Columns(NamedTuple):
    """The columns that a solve may use."""

    Z: FloatArray  # (n, m): column z_j is row j, of unit length or zero
    weight: FloatArray  # (n,): candidates are compared by price times weight


class State(NamedTuple):
    """The active set of one right-hand side ``x``; the first ``k`` entries of each field but ``r``
    are in use."""

    S: IntArray  # (capacity,): the passive columns, in the order of the factorization
    h: FloatArray  # (capacity,): their coefficients
    Q: FloatArray  # (capacity, m): an orthonormal basis of their span, in rows
    R: FloatArray  # (capacity, capacity): the upper triangle that gives them from Q
    qx: FloatArray  # (capacity,): Q x
    r: FloatArray  # (m,): the residual x - sum h z
    # (capacity,): scratch, for the least-squares coefficients of the passive columns
    ls: FloatArray


class Candidates(NamedTuple):
    """Columns among which a descent chooses."""

    column: IntArray
    # passive, or tried without success since the residual was last smaller than ever before
    dead: BoolArray


class Stopping(NamedTuple):
    """When a descent ends, apart from the limit on its steps. All three are relative."""

    price: float  # prices up to this share of |r| are rounding
    # candidates priced below this share of r . x, the point's own price, are ignored: 0 for a plain
    # solve
    own_price: float
    residual: float  # a residual up to this share of |x| counts as zero


@kernel
def new_state(capacity, dim):  # type: ignore[no-untyped-def]
    """Room for ``capacity`` passive columns of length ``dim``."""
    return State(
        S=np.empty(capacity, np.int64),
        h=np.empty(capacity),
        Q=np.empty((capacity, dim)),
        R=np.empty((capacity, capacity)),
        qx=np.empty(capacity),
        r=np.empty(dim),
        ls=np.empty(capacity),
    )


@kernel(fastmath=FAST)
def dot(a, b):  # type: ignore[no-untyped-def]
    s = 0.0
    for t in range(a.shape[0]):
        s += a[t] * b[t]
    return s


@kernel(fastmath=FAST)
def axpy(c, a, b):  # type: ignore[no-untyped-def]
    for t in range(a.shape[0]):
        b[t] += c * a[t]


@kernel(fastmath=FAST)
def axpy_two(c, a, d, b, v):  # type: ignore[no-untyped-def]
    """``v += c a + d b``, in one walk."""
    for t in range(v.shape[0]):
        v[t] += c * a[t] + d * b[t]


@kernel(fastmath=FAST)
def two_dots(p, q, v):  # type: ignore[no-untyped-def]
    """``p . v`` and ``q . v``, in one walk."""
    c, d = 0.0, 0.0
    for t in range(v.shape[0]):
        c += p[t] * v[t]
        d += q[t] * v[t]
    return c, d


@kernel(fastmath=FAST)
def project_out_four(p, q, r, s, v):  # type: ignore[no-untyped-def]
    """Take the parts along the orthonormal p, q, r and s out of v, in one walk over each; the
    parts."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for t in range(v.shape[0]):
        a += p[t] * v[t]
        b += q[t] * v[t]
        c += r[t] * v[t]
        d += s[t] * v[t]
    for t in range(v.shape[0]):
        v[t] -= a * p[t] + b * q[t] + (c * r[t] + d * s[t])
    return a, b, c, d


@kernel(error_model="numpy", counting=False)
def remove_column(state, k, t):  # type: ignore[no-untyped-def]
    """Delete passive column ``t``: shift the later columns left, restore the triangle by Givens
    rotations."""
    S, h, Q, R, qx = state.S, state.h, state.Q, state.R, state.qx
    for b in range(t, k - 1):
        S[b] = S[b + 1]
        h[b] = h[b + 1]
    for a in range(k):
        shift_left(R[a, max(t, a - 1) : k])
    for b in range(t, k - 1):
        kept, removed = R[b, b], R[b + 1, b]
        norm = np.sqrt(kept * kept + removed * removed)
        if norm == 0.0:
            continue
        c, s = kept / norm, removed / norm
        R[b, b] = norm
        R[b + 1, b] = 0.0
        rotate_rows(R[b, b + 1 : k - 1], R[b + 1, b + 1 : k - 1], c, s)
        rotate_rows(Q[b], Q[b + 1], c, s)
        u, v = qx[b], qx[b + 1]
        qx[b] = c * u + s * v
        qx[b + 1] = c * v - s * u


@kernel
def shift_left(a):  # type: ignore[no-untyped-def]
    for t in range(a.shape[0] - 1):
        a[t] = a[t + 1]


@kernel(fastmath=FAST, error_model="numpy", counting=False)
def rotate_rows(a, b, c, s):  # type: ignore[no-untyped-def]
    for t in range(a.shape[0]):
        u, v = a[t], b[t]
        a[t] = c * u + s * v
        b[t] = c * v - s * u


@kernel(error_model="numpy", counting=False)
def append_column(z, r, Q, R, qx, k):  # type: ignore[no-untyped-def]
    """Try to put ``z`` last among the passive columns; False if it depends on them or does not
    reduce the residual."""
    v = Q[k]
    for t in range(z.shape[0]):
        v[t] = z[t]
    for a in range(k):
        R[a, k] = 0.0
    length = np.sqrt(dot(z, z))
    rho = length
    for _ in range(2):
        before = rho
        for a in range(0, k - 3, 4):
            c, d, e, f = project_out_four(Q[a], Q[a + 1], Q[a + 2], Q[a + 3], v)
            R[a, k] += c
            R[a + 1, k] += d
            R[a + 2, k] += e
            R[a + 3, k] += f
        for a in range(k - k % 4, k):
            c = dot(Q[a], v)
            R[a, k] += c
            axpy(-c, Q[a], v)
        rho = np.sqrt(dot(v, v))
        if rho > ORTHOGONAL * before:
            break
    if rho <= DEPENDENT * length:
        return False
    for t in range(v.shape[0]):
        v[t] /= rho
    # = v . x, since v is orthogonal to the passive columns, but accurate relative to |r| rather
    # than |x|
    along = dot(v, r)
    if along <= 0.0:
        return False
    R[k, k] = rho
    qx[k] = along
    return True


@kernel(error_model="numpy", counting=False)
def solve_triangle(R, c, k, v):  # type: ignore[no-untyped-def]
    """``R v = c`` in the first ``k`` rows."""
    if k % 2:
        v[k - 1] = c[k - 1] / R[k - 1, k - 1]
    for a in range(k - k % 2 - 2, -1, -2):
        first, second = two_dots(R[a, a + 2 : k], R[a + 1, a + 2 : k], v[a + 2 : k])
        v[a + 1] = (c[a + 1] - second) / R[a + 1, a + 1]
        v[a] = (c[a] - first - R[a, a + 1] * v[a + 1]) / R[a, a]


@kernel(error_model="numpy", counting=False)
def smallest_singular_value(R, k, u, v):  # type: ignore[no-untyped-def]
    """A lower bound for, or an estimate of, the smallest singular value of the triangle, whose
    columns have unit length.

    It is at least ``det R ((k - 1) / k)^((k - 1) / 2)`` (Hong & Pan 1992), which is enough for a
    few independent columns. Otherwise it is estimated by inverse iteration, from a start that makes
    the solution grow. ``u`` and ``v`` are scratch.
    """
    size = 1.0
    for a in range(k):
        size *= R[a, a]
    if size > INDEPENDENT:
        return size * LEAST_POWER
    size = 1.0
    for turn in range(3):
        for b in range(k):
            u[b] = 0.0 if turn == 0 else v[b] / size
        for a in range(k):  # R' u = signs, then R' u = the direction so far
            if turn == 0:
                u[a] += 1.0 if u[a] >= 0.0 else -1.0
            u[a] /= R[a, a]
            for b in range(a + 1, k):
                u[b] -= R[a, b] * u[a]
        solve_triangle(R, u, k, v)
        size = np.sqrt(dot(v[:k], v[:k]))
    return np.sqrt(dot(u[:k], u[:k])) / size


@kernel(error_model="numpy", counting=False)
def restore_feasibility(state, k):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's inner loop: walk from ``h`` towards the least-squares coefficients,
    dropping columns that reach zero."""
    h, R, qx, ls = state.h, state.R, state.qx, state.ls
    while k > 0:
        solve_triangle(R, qx, k, ls)
        alpha = 1.0
        first = -1
        for a in range(k):
            if ls[a] <= 0.0:
                step = h[a] / (h[a] - ls[a]) if h[a] > ls[a] else 0.0
                if first < 0 or step < alpha:
                    alpha = step
                    first = a
        if first < 0:
            for a in range(k):
                h[a] = ls[a]
            return k
        for a in range(k):
            h[a] += alpha * (ls[a] - h[a])
        h[first] = 0.0
        for a in range(k - 1, -1, -1):
            if h[a] <= 0.0 and ls[a] <= 0.0:
                remove_column(state, k, a)
                k -= 1
    return k


@kernel(error_model="numpy", counting=False)
def refresh_residual(Z, x, x_norm, state, k):  # type: ignore[no-untyped-def]
    """``r = x - sum h z`` from scratch; a small one is cleaned against ``Q`` so that it is accurate
    relative to itself."""
    S, h, Q, r = state.S, state.h, state.Q, state.r
    for t in range(x.shape[0]):
        r[t] = x[t]
    for a in range(k):
        axpy(-h[a], Z[S[a]], r)
    norm = np.sqrt(dot(r, r))
    if norm < CLEANED_BELOW * x_norm:
        for a in range(k):
            axpy(-dot(Q[a], r), Q[a], r)
        norm = np.sqrt(dot(r, r))
    return norm


@kernel(error_model="numpy", counting=False)
def best_candidate(columns, r, candidates, least):  # type: ignore[no-untyped-def]
    """The place of the candidate with the highest weighted price among those priced above
    ``least``, or -1."""
    best, at = 0.0, -1
    for q in range(len(candidates.column)):
        if not candidates.dead[q]:
            j = candidates.column[q]
            price = dot(r, columns.Z[j])
            if price > least and price * columns.weight[j] > best:
                best, at = price * columns.weight[j], q
    return at


@kernel(error_model="numpy", counting=False)
def revive(candidates, S, k):  # type: ignore[no-untyped-def]
    """All candidates may be priced again, except the passive ones, whose price is zero."""
    for q in range(len(candidates.column)):
        if candidates.dead[q]:  # all that are passive are dead already
            candidates.dead[q] = False
            for a in range(k):
                if S[a] == candidates.column[q]:
                    candidates.dead[q] = True
                    break


@kernel(error_model="numpy", counting=False)
def descend(columns, x, candidates, state, k, stopping, max_steps):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent of ``|x - sum h z|`` over the candidate columns, from the state
    given.

    Each step appends the candidate with the highest price ``r . z_j``, times its weight, and
    restores feasibility. A column that brings no descent is dead until the residual is next smaller
    than ever before, so that between two such moments no column is tried twice, and no passive set
    returns: the loop is finite.

    It ends as WITHIN_TOL when ``|r| <= stopping.residual |x|``, and as OPTIMAL when the state is
    full or when no candidate's price exceeds both ``stopping.price |r|`` and ``stopping.own_price``
    times the point's own price ``r . x`` (1 to stop once the point itself has the highest price).
    Returns ``k``, the ending and the number of steps.
    """
    Z, S, h, Q, r = columns.Z, state.S, state.h, state.Q, state.r
    x_norm = np.sqrt(dot(x, x))
    norm = np.sqrt(dot(r, r))
    lowest = norm
    for q in range(len(candidates.dead)):
        candidates.dead[q] = True
    revive(candidates, S, k)
    for step in range(max_steps):
        if norm <= stopping.residual * x_norm:
            return k, WITHIN_TOL, step
        least, own = stopping.price * norm, stopping.own_price * dot(r, x)
        if own > least:
            least = own
        while True:
            at = best_candidate(columns, r, candidates, least)
            if at < 0 or k == Q.shape[0]:
                return k, OPTIMAL, step
            candidates.dead[at] = True
            if append_column(Z[candidates.column[at]], r, Q, state.R, state.qx, k):
                break
        S[k] = candidates.column[at]
        h[k] = 0.0
        grown = k + 1
        k = restore_feasibility(state, grown)
        norm_new = 0.0
        # nothing was dropped: the residual only loses its part along the new direction
        if k == grown:
            axpy(-dot(Q[k - 1], r), Q[k - 1], r)
            norm_new = np.sqrt(dot(r, r))
        if norm_new < CLEANED_BELOW * x_norm:
            norm_new = refresh_residual(Z, x, x_norm, state, k)
        if norm_new < lowest * (1.0 - 1e-15):
            lowest = norm_new
            revive(candidates, S, k)
        norm = norm_new
    return k, STEP_LIMIT, max_steps
