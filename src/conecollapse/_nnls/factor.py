r"""The triangle of the passive columns: grown and shrunk column by column.

An active set keeps a list S of *passive* columns, which may be positive, and solves for them again
and again. Both factorizations that it can use have the same upper triangle R: that of
:math:`Z_S = Q' R` with orthonormal rows of Q, and the Cholesky factor of :math:`G_{SS} = R' R`, for
which Q has no columns and is not stored. Only the entering of a column differs (`append_column`,
`append_product`). A column leaves by Givens rotations of the later rows of R, and of everything
that is carried along: Q, the vector q with :math:`R' q = c_S`, and p with :math:`R' p = 1`, for a
sum. Then :math:`R h = q` gives the least-squares coefficients.

A column that depends on the passive ones never enters, so that the triangle cannot break down. In a
QR factorization float64 resolves a part outside their span down to `DEPENDENT`. Products have its
square, with rounding errors that grow with the square of the combination of passive columns that
comes nearest to the new one (`BLUR`).

``k``, the number of passive columns, changes with every step and is passed beside the state,
because a kernel cannot assign to a field of a tuple.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._types import FloatArray, IntArray

# a unit column whose part outside the passive span is shorter adds nothing that float64 resolves
DEPENDENT = 1e-11
# the same for the squared part, which is what products have,
DEPENDENT_SQUARE = 1e-10
# and for that part as a share of the square of the combination: with less, one problem in 640 was
# called optimal at 75 times its smallest residual
BLUR = 2e-13
# a squared part above this is larger than any such share, so that the combination is not needed
CLEARLY_INDEPENDENT = 1e-2
# a pass of Gram-Schmidt that keeps this share of the length has left an orthogonal vector
ORTHOGONAL = 0.7
# a determinant of unit columns above which it bounds their smallest singular value well enough
INDEPENDENT = 1e-5
# a pivot of a whole factorization below this share of its diagonal entry means dependent columns
DEPENDENT_PIVOT = 1e-13
LEAST_POWER = float(np.exp(-0.5))  # the infimum of ((k - 1) / k)^((k - 1) / 2)


class State(NamedTuple):
    """The active set of one right-hand side; the first k entries of each field but r count."""

    S: IntArray  # (capacity,): the passive columns, in the order of the factorization
    h: FloatArray  # their coefficients
    Q: FloatArray  # (capacity, m): an orthonormal basis of their span, or (capacity, 0)
    R: FloatArray  # (capacity, capacity): the upper triangle
    q: FloatArray  # (capacity,): R' q = c_S
    p: FloatArray  # (capacity,): R' p = 1, or empty if there is no sum
    ls: FloatArray  # (capacity,): scratch, for the least-squares coefficients
    r: FloatArray  # (m,): the residual


@kernel
def new_state(capacity, dim, with_q):  # type: ignore[no-untyped-def]
    """Room for ``capacity`` passive columns of length ``dim``, with Q or without, and no sum."""
    V = np.empty((3, capacity))
    return State(
        np.empty(capacity, np.int64),
        V[0],
        np.empty((capacity, dim if with_q else 0)),
        np.empty((capacity, capacity)),
        V[1],
        V[2, :0],
        V[2],
        np.empty(dim),
    )


@kernel(fastmath=FAST)
def dot(a, b):  # type: ignore[no-untyped-def]
    s = 0.0
    for t in range(a.shape[0]):
        s += a[t] * b[t]
    return s


@kernel(fastmath=FAST)
def axpy(c, a, b):  # type: ignore[no-untyped-def]
    """``b += c a``."""
    for t in range(a.shape[0]):
        b[t] += c * a[t]


@kernel(error_model="numpy")
def append_column(z, state, k):  # type: ignore[no-untyped-def]
    """Put the unit column ``z`` last, by Gram-Schmidt, repeated where cancellation asks for it;
    False if it depends on the others or brings no descent of the residual."""
    Q, R, v = state.Q, state.R, state.Q[k]
    for t in range(len(z)):
        v[t] = z[t]
    for a in range(k):
        R[a, k] = 0.0
    rho = np.sqrt(dot(v, v))
    for _ in range(2):
        before = rho
        for a in range(k):
            part = dot(Q[a], v)
            R[a, k] += part
            axpy(-part, Q[a], v)
        rho = np.sqrt(dot(v, v))
        if rho > ORTHOGONAL * before:
            break
    if rho <= DEPENDENT:
        return False
    for t in range(len(v)):
        v[t] /= rho
    # as Q x, since v is orthogonal to the others, but accurate relative to the residual
    R[k, k], state.q[k] = rho, dot(v, state.r)
    return state.q[k] > 0.0


@kernel(fastmath=FAST, error_model="numpy")
def append_product(G, c, j, state, k):  # type: ignore[no-untyped-def]
    """Put column ``j`` of the Gram matrix last; False if it depends on the others.

    It brings descent if ``state.q[k]`` is positive."""
    S, R, q, p, v = state.S, state.R, state.q, state.p, state.ls
    own = left = G[j, j]
    along, one = c[j], 1.0
    for a in range(k):
        v[a] = G[S[a], j]
    solve_transposed(R, k, v)
    for a in range(k):
        R[a, k] = v[a]
        left -= v[a] * v[a]
        along -= v[a] * q[a]
    if len(p) > 0:
        for a in range(k):
            one -= v[a] * p[a]
    if not left > CLEARLY_INDEPENDENT * own:
        solve_triangle(R, v, k, v)
        total = 1.0
        for a in range(k):
            total += abs(v[a]) * np.sqrt(G[S[a], S[a]] / own)
        if not left > max(DEPENDENT_SQUARE, BLUR * total * total) * own:
            return False
    R[k, k] = np.sqrt(left)
    q[k] = along / R[k, k]
    if len(p) > 0:
        p[k] = one / R[k, k]
    return True


@kernel(fastmath=FAST, error_model="numpy")
def rotate(M, b, first, stop, c, s):  # type: ignore[no-untyped-def]
    """Turn rows ``b`` and ``b + 1`` of M into each other, from column ``first`` to ``stop``."""
    for t in range(first, stop):
        u, v = M[b, t], M[b + 1, t]
        M[b, t] = c * u + s * v
        M[b + 1, t] = c * v - s * u


@kernel(error_model="numpy")
def remove(state, k, t):  # type: ignore[no-untyped-def]
    """Delete passive column ``t``: shift the later ones left, make the triangle one again."""
    S, h, Q, R, q, p = state.S, state.h, state.Q, state.R, state.q, state.p
    for b in range(t, k - 1):
        S[b], h[b] = S[b + 1], h[b + 1]
    for a in range(k):
        for b in range(max(t, a - 1), k - 1):
            R[a, b] = R[a, b + 1]
    for b in range(t, k - 1):
        norm = np.sqrt(R[b, b] * R[b, b] + R[b + 1, b] * R[b + 1, b])
        c, s = R[b, b] / norm, R[b + 1, b] / norm
        rotate(R, b, b, k - 1, c, s)
        rotate(Q, b, 0, Q.shape[1], c, s)
        u, v = q[b], q[b + 1]
        q[b] = c * u + s * v
        q[b + 1] = c * v - s * u
        if len(p) > 0:
            u, v = p[b], p[b + 1]
            p[b] = c * u + s * v
            p[b + 1] = c * v - s * u


@kernel(fastmath=FAST, error_model="numpy")
def factorize(G, F, k, R):  # type: ignore[no-untyped-def]
    """The triangle of ``k`` columns F of a Gram matrix at once; False if they are dependent."""
    for a in range(k):
        row = G[F[a]]
        for b in range(a, k):
            R[a, b] = row[F[b]]
    for a in range(k):
        pivot = R[a, a]
        if not pivot > DEPENDENT_PIVOT * G[F[a], F[a]]:
            return False
        inverse = 1.0 / np.sqrt(pivot)
        for b in range(a, k):
            R[a, b] *= inverse
        for c in range(a + 1, k):
            part = R[a, c]
            for b in range(c, k):
                R[c, b] -= part * R[a, b]
    return True


@kernel(fastmath=FAST, error_model="numpy")
def solve_triangle(R, c, k, v):  # type: ignore[no-untyped-def]
    """``R v = c`` in the first ``k`` rows, two rows at a time. Loops run over whole arrays: a slice
    takes longer than a short loop does."""
    if k % 2:
        v[k - 1] = c[k - 1] / R[k - 1, k - 1]
    for a in range(k - k % 2 - 2, -1, -2):
        s, t = c[a], c[a + 1]
        for b in range(a + 2, k):
            s -= R[a, b] * v[b]
            t -= R[a + 1, b] * v[b]
        v[a + 1] = t / R[a + 1, a + 1]
        v[a] = (s - R[a, a + 1] * v[a + 1]) / R[a, a]


@kernel(fastmath=FAST, error_model="numpy")
def solve_transposed(R, k, v):  # type: ignore[no-untyped-def]
    """``R' v = v`` in the first ``k`` rows, two rows at a time."""
    for a in range(0, k - 1, 2):
        p = v[a] / R[a, a]
        q = (v[a + 1] - R[a, a + 1] * p) / R[a + 1, a + 1]
        v[a], v[a + 1] = p, q
        for b in range(a + 2, k):
            v[b] -= p * R[a, b] + q * R[a + 1, b]
    if k % 2:
        v[k - 1] /= R[k - 1, k - 1]


@kernel(error_model="numpy")
def first_bound(state, upper, k):  # type: ignore[no-untyped-def]
    """How far the way from ``h`` to ``ls`` is within the bounds, of which zero is one: its share,
    and the place of the first column that meets its bound, or -1."""
    S, h, ls = state.S, state.h, state.ls
    alpha, first = 1.0, np.int64(-1)
    for a in range(k):
        most = np.inf if upper is None else upper[S[a]]
        if ls[a] <= 0.0 or ls[a] >= most:
            bound = 0.0 if ls[a] <= 0.0 else most
            step = (bound - h[a]) / (ls[a] - h[a]) if ls[a] != h[a] else 0.0
            if first < 0 or step < alpha:
                alpha, first = step, np.int64(a)
    return alpha, first


@kernel
def move(state, alpha, k):  # type: ignore[no-untyped-def]
    """Go this share of the way from ``h`` to ``ls``."""
    h, ls = state.h, state.ls
    for a in range(k):
        h[a] = ls[a] if alpha == 1.0 else h[a] + alpha * (ls[a] - h[a])


@kernel(error_model="numpy")
def restore(state, k):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's inner loop: walk from ``h`` to the least-squares coefficients, dropping
    columns that reach zero; how many are left."""
    h, ls = state.h, state.ls
    while k > 0:
        solve_triangle(state.R, state.q, k, ls)
        alpha, first = first_bound(state, None, k)
        move(state, alpha, k)
        if first < 0:
            break
        for a in range(k - 1, -1, -1):
            if a == first or (ls[a] <= 0.0 and h[a] <= 0.0):
                remove(state, k, a)
                k -= 1
    return k


@kernel(error_model="numpy")
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
