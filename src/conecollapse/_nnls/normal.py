r"""The active set on the normal equations: for few columns and any number of right-hand sides.

Of ``min |A x - b|, x >= 0`` Lawson and Hanson's method needs only :math:`G = A'A` and
:math:`c = A'b`. The gradient is :math:`c - G x`, and the passive columns S are solved by the
inverse of :math:`G_{SS}`, which changes by a matrix of rank one with each of them. A row of G is
computed when its column first enters, so one right-hand side needs few of them.

What comes out is confirmed or refused by `confirm`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._nnls.confirm import UNPROVEN, confirm, products
from conecollapse._nnls.kernels import OPTIMAL, STEP_LIMIT
from conecollapse._nnls.passive import walk
from conecollapse._nnls.proof import BLUR, DEPENDENT, LEAST_LENGTH, MOST_LENGTH
from conecollapse._threads import BLAS_THREADS_PAY, current_threads, for_ranges, serial_blas
from conecollapse._types import FloatArray, IntArray

GRADIENT_ZERO = 1e-14  # gradients of unit columns up to this share of |b| are rounding

# columns up to which this is the best method; where they are more than rows, few of them
MOST_COLUMNS, FEW_COLUMNS = 256, 32
FEW_ROWS = 2  # or, for one right-hand side, few rows
# entries of A times right-hand sides up to which one call of a kernel does it all,
ONE_CALL = 2**17
# except for an A with more entries, so many times longer than wide: its products are better left to
# BLAS
LARGE, TALL = 2**15, 8
VECTORS = 11  # rows of scratch for vectors
# right-hand sides, and entries of them, that a thread treats at once
BLOCK, RHS_ENTRIES = 512, 2**18


class Matrix(NamedTuple):
    """``A``, of n columns, and what is known of its products."""

    A: FloatArray  # (m, n)
    G: FloatArray  # (n, n) or more: A'A, in the rows that are known
    known: IntArray  # (n,)
    norms: FloatArray  # (n,) or more: lengths of the columns


class Room(NamedTuple):
    """The active set of one right-hand side, and scratch; with k passive columns, the first k
    entries of the first six count.

    Arrays may be longer than is said here.
    """

    S: IntArray  # (capacity,): the passive columns
    inverse: FloatArray  # (capacity, capacity): of G_SS
    h: FloatArray  # their coefficients
    ls: FloatArray  # their least-squares coefficients
    v: FloatArray  # scratch
    w: FloatArray
    x: FloatArray  # (n,): the coefficients of all columns
    g: FloatArray  # (n,): the gradient
    c: FloatArray  # (n,)
    # (n,): 1 for a column that is passive, or was tried without success since the residual last
    # fell
    dead: IntArray
    b: FloatArray  # (m,): the right-hand side
    r: FloatArray  # (m,): the residual, or a column of A
    other: FloatArray  # (m,): another column


class Sides(NamedTuple):
    """A block of right-hand sides."""

    B: FloatArray  # (m, as many or more)
    at: int  # the column of B that is the first of the block
    C: FloatArray  # (block, n): A'b in rows
    sizes: FloatArray  # (block,): |b|


def is_narrow(m: int, n: int, k: int) -> bool:
    """Whether `solve_narrow` is the method for matrices of this shape with k right-hand sides."""
    return n <= FEW_COLUMNS or (n <= MOST_COLUMNS and (n <= m or (k == 1 and m <= FEW_ROWS)))


def solve_narrow(A: FloatArray, B: FloatArray, max_steps: int) -> FloatArray:
    """``min |A x - b|, x >= 0`` for each column b of ``B``: an array with x, the residual norm and
    the ending in its columns."""
    if A.size * B.shape[1] <= ONE_CALL and (A.size <= LARGE or A.shape[0] < TALL * A.shape[1]):
        found: FloatArray = solve_few(A, np.ascontiguousarray(B), max_steps)
        return found
    (m, n), k = A.shape, B.shape[1]
    out = np.zeros((n + 2, k))
    step = max(1, min(BLOCK, RHS_ENTRIES // m, -(-k // (2 * current_threads()))))
    with serial_blas() if k > step or A.size < BLAS_THREADS_PAY else nullcontext():
        matrix = _known(A)
        if matrix is None:
            out[n + 1] = UNPROVEN
            return out

        def work(start: int, stop: int) -> None:
            for first in range(start * step, min(stop * step, k), step):
                some = B[:, first : first + step]
                squares = (
                    np.einsum("ij,ij->j", some, some) if some.shape[1] > 1 else some[:, 0] @ some
                )
                sizes = np.sqrt(squares)
                held, at = (B, first) if B.flags.c_contiguous else (np.ascontiguousarray(some), 0)
                _solve_block(matrix, Sides(held, at, some.T @ A, sizes), max_steps, out, first)

        with np.errstate(over="ignore", invalid="ignore"):
            for_ranges(work, -(-k // step))
    return out


def _known(A: FloatArray) -> Matrix | None:
    """A with all its products; None if squares are lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        G = A.T @ A
        norms = np.sqrt(np.diag(G))
    is_zero = norms == 0
    if not ((norms > LEAST_LENGTH) & (norms < MOST_LENGTH) | is_zero).all() or A[:, is_zero].any():
        return None
    return Matrix(A, G, np.ones(A.shape[1], np.int64), norms)


@kernel(error_model="numpy")
def solve_few(A, B, max_steps):  # type: ignore[no-untyped-def]
    """``min |A x - b|, x >= 0`` for each column b of ``B``, in one thread.

    Returns an array with a column for each: x, the residual norm, and how it ended.
    """
    m, n = A.shape
    W, flags, out = (
        np.empty(room_shape(m, n)),
        np.empty((3, n), np.int64),
        np.empty((n + 2, B.shape[1])),
    )
    matrix, room = Matrix(A, W, flags[2], W[len(W) - 1]), arrange(W, flags, m, n)
    is_fine = column_lengths(matrix)
    for i in range(B.shape[1]):
        for j in range(n + 1):
            out[j, i] = 0.0
        b_norm = load(B, i, room.b)
        ending = OPTIMAL if b_norm == 0.0 else UNPROVEN
        if is_fine and LEAST_LENGTH < b_norm < MOST_LENGTH:
            products(A, room.b, room.c)
            k, ending = descend(matrix, b_norm, room, max_steps)
            if ending == OPTIMAL:
                ending, out[n, i] = confirm(matrix, b_norm, room, k)
            for a in range(k):
                out[room.S[a], i] = room.h[a]
        out[n + 1, i] = ending
    return out


@kernel(error_model="numpy")
def _solve_block(matrix, sides, max_steps, out, first):  # type: ignore[no-untyped-def]
    """The same for a block of right-hand sides, with all products known, into columns of ``out``
    from ``first`` on, which hold zeros."""
    m, n = matrix.A.shape
    W, flags = np.empty(room_shape(m, n)), np.empty((3, n), np.int64)
    room = arrange(W, flags, m, n)
    for p in range(len(sides.sizes)):
        i, b_norm = first + p, sides.sizes[p]
        size = load(sides.B, sides.at + p, room.b)
        if not LEAST_LENGTH < b_norm < MOST_LENGTH:
            out[n + 1, i] = OPTIMAL if size == 0.0 else UNPROVEN
            continue
        for j in range(n):
            room.c[j] = sides.C[p, j]
        k, ending = descend(matrix, b_norm, room, max_steps)
        if ending == OPTIMAL:
            ending, out[n, i] = confirm(matrix, b_norm, room, k)
        out[n + 1, i] = ending
        for a in range(k):
            out[room.S[a], i] = room.h[a]


@kernel(error_model="numpy")
def solve_by_products(G, C, zero, X, is_left, start, stop):  # type: ignore[no-untyped-def]
    """The same for rows ``start`` to ``stop`` of ``C`` with unit columns, where A and b are not
    known.

    The solutions go to ``X``. Those with a gradient above the share ``zero`` of the largest entry
    of c are marked in ``is_left``.
    """
    n = len(G)
    W, flags = np.empty(room_shape(n, n)), np.empty((3, n), np.int64)
    # with all products known, A itself is not used
    matrix, room = Matrix(G, G, flags[2], W[len(W) - 1]), arrange(W, flags, n, n)
    for j in range(n):
        matrix.known[j] = 1
        matrix.norms[j] = 1.0
    for i in range(start, stop):
        size = 0.0
        for j in range(n):
            room.c[j] = C[i, j]
            X[i, j] = 0.0
            size = max(size, abs(room.c[j]))
        k, ending = descend(matrix, size, room, 3 * n)
        for a in range(k):
            X[i, room.S[a]] = room.h[a]
        is_left[i] = ending != OPTIMAL
        for j in range(n):
            off = abs(room.g[j]) if X[i, j] > 0.0 else room.g[j]
            if not off <= zero * size:
                is_left[i] = True


@kernel
def room_shape(m, n):  # type: ignore[no-untyped-def]
    """Rows and columns of an array for a Gram matrix, a `Room` and the lengths of columns: each
    kind of array takes long to compile."""
    return n + min(m, n) + VECTORS, max(m, n)


@kernel
def arrange(W, flags, m, n):  # type: ignore[no-untyped-def]
    """A `Room` in arrays; the first n rows and the last one of ``W``, and the last one of
    ``flags``, are left for a `Matrix`."""
    t = n + min(m, n)
    return Room(
        flags[0, : t - n],
        W[n:t],
        W[t],
        W[t + 1],
        W[t + 2],
        W[t + 3],
        W[t + 4],
        W[t + 5],
        W[t + 6],
        flags[1],
        W[t + 7],
        W[t + 8],
        W[t + 9],
    )


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def column_lengths(matrix):  # type: ignore[no-untyped-def]
    """Write the lengths of the columns; False if one is not finite, or so short or long that
    squares are lost. No product is known yet."""
    A, norms = matrix.A, matrix.norms
    m, n = A.shape
    for j in range(n):
        norms[j] = 0.0
        matrix.known[j] = 0
    for t in range(m):
        for j in range(n):
            norms[j] += A[t, j] * A[t, j]
    for j in range(n):
        norms[j] = np.sqrt(norms[j])
        if not LEAST_LENGTH < norms[j] < MOST_LENGTH:
            for t in range(m):
                if A[t, j] != 0.0:
                    return False
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def load(B, i, b):  # type: ignore[no-untyped-def]
    """Copy column ``i`` of ``B`` to ``b``; its length, NaN if squares are lost."""
    square, is_zero = 0.0, True
    for t in range(len(B)):
        b[t] = B[t, i]
        square += b[t] * b[t]
        is_zero = is_zero and b[t] == 0.0
    return np.sqrt(square) if square > 0.0 or is_zero else np.nan


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def descend(matrix, b_norm, room, max_steps):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent from zero, by products alone. Returns the number of passive
    columns, and how it ended.

    As in `kernels.descend`, a column that brings no descent is dead until the residual is next
    smaller than ever before, so that the loop is finite.
    """
    G, norms, S, h, dead, g, c = matrix.G, matrix.norms, room.S, room.h, room.dead, room.g, room.c
    n, k, steps, explained = matrix.A.shape[1], np.int64(0), np.int64(0), 0.0
    for j in range(n):
        dead[j] = 0
    while True:
        for j in range(n):
            g[j] = c[j]
        for a in range(0, k - 3, 4):
            d, e, p, q = S[a], S[a + 1], S[a + 2], S[a + 3]
            u, v, y, z = h[a], h[a + 1], h[a + 2], h[a + 3]
            for j in range(n):
                g[j] -= (u * G[d, j] + v * G[e, j]) + (y * G[p, j] + z * G[q, j])
        for a in range(k // 4 * 4, k):
            p, y = S[a], h[a]
            for j in range(n):
                g[j] -= y * G[p, j]
        while True:
            at, best = np.int64(-1), 0.0
            for j in range(n):
                if g[j] > best and dead[j] == 0 and g[j] > GRADIENT_ZERO * b_norm * norms[j]:
                    at, best = np.int64(j), g[j]
            if at < 0 or k == len(S):
                return k, OPTIMAL
            if steps == max_steps:
                return k, STEP_LIMIT
            dead[at] = 1
            if append(matrix, at, room, k):
                break
        if matrix.known[at] == 0:
            know_two(matrix, at, room)
        steps += 1
        k = restore(room, k + 1)
        now = 0.0
        for a in range(k):
            now += h[a] * c[S[a]]
        if now > explained:
            explained = now
            for j in range(n):
                dead[j] = 0
            for a in range(k):
                dead[S[a]] = 1


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def append(matrix, at, room, k):  # type: ignore[no-untyped-def]
    """Put column ``at`` last among the passive ones, with their new least-squares coefficients;
    False if it depends on them.

    With ``w = G_SS^-1 G_Sa`` the squared part of the column outside their span is
    ``G_aa - w . G_Sa``.
    """
    G, S, inverse, h, ls, v, w = matrix.G, room.S, room.inverse, room.h, room.ls, room.v, room.w
    whole = matrix.norms[at] * matrix.norms[at]
    left, trace = whole, 0.0
    for a in range(k):
        v[a] = G[S[a], at]
        trace += inverse[a, a] * matrix.norms[S[a]] * matrix.norms[S[a]]
    for a in range(k):
        s = 0.0
        for b in range(k):
            s += inverse[a, b] * v[b]
        w[a] = s
        left -= s * v[a]
    if left <= max(DEPENDENT, BLUR * trace) * whole:
        return False
    f = 1.0 / left
    ls[k] = room.g[at] * f
    for a in range(k):
        y = w[a] * f
        for b in range(k):
            inverse[a, b] += y * w[b]
        inverse[a, k] = -y
        inverse[k, a] = -y
        ls[a] = h[a] - w[a] * ls[k]
    inverse[k, k] = f
    S[k] = at
    h[k] = 0.0
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def know_two(matrix, at, room):  # type: ignore[no-untyped-def]
    """Compute row ``at`` of G, and in the same walk over A that of the column with the next highest
    gradient, which is likely to follow."""
    A, known, g, p, q = matrix.A, matrix.known, room.g, room.r, room.other
    m, n = A.shape
    second, best = at, 0.0
    known[at] = 1
    for j in range(n):
        if g[j] > best and known[j] == 0:
            second, best = j, g[j]
    known[second] = 1
    first_row = matrix.G[at]
    second_row = matrix.G[second] if second != at else room.x
    for t in range(m):
        p[t] = A[t, at]
        q[t] = A[t, second]
    for j in range(n):
        first_row[j] = 0.0
        second_row[j] = 0.0
    for t in range(0, m - 3, 4):
        a, b, c, d = p[t], p[t + 1], p[t + 2], p[t + 3]
        e, f, h, i = q[t], q[t + 1], q[t + 2], q[t + 3]
        for j in range(n):
            w, x, y, z = A[t, j], A[t + 1, j], A[t + 2, j], A[t + 3, j]
            first_row[j] += (a * w + b * x) + (c * y + d * z)
            second_row[j] += (e * w + f * x) + (h * y + i * z)
    for t in range(m // 4 * 4, m):
        for j in range(n):
            first_row[j] += p[t] * A[t, j]
            second_row[j] += q[t] * A[t, j]


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def restore(room, k):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's inner loop: walk from ``h`` to the least-squares coefficients, dropping
    columns that reach zero."""
    h, ls = room.h, room.ls
    while not walk(h, ls, k):
        for a in range(k - 1, -1, -1):
            if h[a] <= 0.0 and ls[a] <= 0.0:
                k -= 1
                remove(room, k, a)
    return k


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def remove(room, last, t):  # type: ignore[no-untyped-def]
    """Take out passive column ``t``; the ``last`` one takes its place."""
    S, inverse, h, ls, v = room.S, room.inverse, room.h, room.ls, room.v
    f = 1.0 / inverse[t, t]
    for a in range(last + 1):
        v[a] = inverse[t, a]
    whole = ls[t] * f
    for a in range(last + 1):
        y = v[a] * f
        for b in range(last + 1):
            inverse[a, b] -= y * v[b]
        ls[a] -= v[a] * whole
    for a in range(last):
        inverse[t, a] = inverse[last, a]
    for a in range(last):
        inverse[a, t] = inverse[a, last]
    inverse[t, t] = inverse[last, last]
    S[t], h[t], ls[t] = S[last], h[last], ls[last]
