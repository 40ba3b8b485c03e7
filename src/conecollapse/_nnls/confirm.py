r"""Whether the end of an active set on the normal equations is the solution.

G squares the condition of A, so no answer is judged by it alone. The residual ``r = b - A x`` and
the gradient ``A' r`` are computed with A itself, x is refined with them, and it is an answer only
if `proof` shows that no residual is smaller. If the residual is not near zero, the products may
suffice for that, because :math:`|r|^2 = |b|^2 - x \cdot (c + g)` (see `Problem.measure_by_gram`).
What is not shown to be optimal is left to the caller, who solves it by a QR factorization
(`local`), and if need be with 32 digits (`refine`, `careful`).
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._nnls.doubt import set_aside
from conecollapse._nnls.kernels import OPTIMAL
from conecollapse._nnls.proof import EPS, NEAR_ZERO, is_exact_enough, is_shown, least_residual

# a solution is not shown to be optimal, or something is not finite, or too small or large to square
UNPROVEN = -2
REFINED = 1e-13  # corrections up to this share of x are rounding
REFINEMENTS = 3  # if so many do not bring it there, G is too badly conditioned
# a squared residual above this share of |b|^2 loses at most four digits as a difference
LARGE_RESIDUAL = 1e-4
RESIDUAL_STOP = 1e-15  # a residual below this share of |b| is rounding


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def products(A, v, g):  # type: ignore[no-untyped-def]
    """``g = A' v``, four rows of A at a time."""
    m, n = A.shape
    for j in range(n):
        g[j] = 0.0
    for t in range(0, m - 3, 4):
        p, q, r, s = v[t], v[t + 1], v[t + 2], v[t + 3]
        for j in range(n):
            g[j] += (p * A[t, j] + q * A[t + 1, j]) + (r * A[t + 2, j] + s * A[t + 3, j])
    for t in range(m // 4 * 4, m):
        for j in range(n):
            g[j] += v[t] * A[t, j]


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def confirm(matrix, b_norm, room, k):  # type: ignore[no-untyped-def]
    """Whether the end of a descent is proven to be optimal, and its residual norm: by products,
    else it is refined with A itself.

    The trace of the inverse of the Gram matrix of unit columns is at least the inverse of their
    smallest eigenvalue.
    """
    norms, S, h, g, c = matrix.norms, room.S, room.h, room.g, room.c
    m, n = matrix.A.shape
    square, trace, total = b_norm * b_norm, 0.0, 0.0
    for a in range(k):
        square -= h[a] * (c[S[a]] + g[S[a]])
        trace += room.inverse[a, a] * norms[S[a]] * norms[S[a]]
        total += h[a] * norms[S[a]]
    is_ready = square > LARGE_RESIDUAL * b_norm * b_norm and is_exact_enough(square, b_norm, total)
    sigma = 1.0 / ((1.0 + np.sqrt(m)) * np.sqrt(trace))
    rnorm = np.sqrt(square)
    for turn in range(REFINEMENTS + 2):
        if turn > 0:
            rnorm = measure(matrix.A, room, k)
            is_ready, sigma = not moved(norms, room, k, rnorm, b_norm), 1.0 / np.sqrt(trace)
        for a in range(k):
            is_ready = is_ready and h[a] >= 0.0
        if is_ready:
            to_unit_columns(norms, room, k, n)
            if turn > 0:
                set_aside(matrix.A, S[:k], room.x, g, b_norm)
            for far in range(1 + min(turn, 1)):
                bound = reach(matrix.A) if far else np.inf
                if verdict(g[:n], room.x[:n], False, sigma, bound, m, b_norm, rnorm) == OPTIMAL:
                    return OPTIMAL, rnorm if rnorm > RESIDUAL_STOP * b_norm else 0.0
            if turn > 0:
                break
    return UNPROVEN, rnorm


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def measure(A, room, k):  # type: ignore[no-untyped-def]
    """Write the residual and the gradient, by A itself; the residual norm."""
    x, r = room.x, room.r
    m, n = A.shape
    for j in range(n):
        x[j] = 0.0
    for a in range(k):
        x[room.S[a]] = room.h[a]
    square = 0.0
    for t in range(m):
        s = 0.0
        for j in range(n):
            s += A[t, j] * x[j]
        r[t] = room.b[t] - s
        square += r[t] * r[t]
    products(A, r, room.g)
    return np.sqrt(square)


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def moved(norms, room, k, rnorm, b_norm):  # type: ignore[no-untyped-def]
    """Correct the coefficients by what the gradient says, not below zero; False, and nothing is
    done, if that is rounding."""
    S, h, d, g = room.S, room.h, room.v, room.g
    for a in range(k):
        s = 0.0
        for b in range(k):
            s += room.inverse[a, b] * g[S[b]]
        d[a] = s
    total, step = 0.0, 0.0
    for a in range(k):
        total += h[a] * norms[S[a]]
        far = abs(d[a]) * norms[S[a]]
        step = far if far > step else step
    noise = EPS * (4.0 + np.sqrt(float(k))) * (b_norm + total)
    if step <= REFINED * total and not noise < rnorm <= NEAR_ZERO * b_norm:
        return False
    for a in range(k):
        h[a] = max(h[a] + d[a], 0.0)
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def to_unit_columns(norms, room, k, n):  # type: ignore[no-untyped-def]
    """Write the coefficients and gradients of unit columns; a column of zeros adds nothing to the
    cone, and its gradient is no doubt."""
    S, h, x, g = room.S, room.h, room.x, room.g
    for j in range(n):
        x[j] = 0.0
        g[j] = g[j] / norms[j] if norms[j] > 0.0 else -np.inf
    for a in range(k):
        x[S[a]] = h[a] * norms[S[a]]


@kernel(error_model="numpy", counting=False)
def verdict(g, x, hold_all, sigma, reach, dim, b_norm, rnorm):  # type: ignore[no-untyped-def]
    """Whether a residual norm is shown to be the smallest one: as `proof.is_optimal`."""
    least, rounding = least_residual(g, x, hold_all, sigma, reach, dim, b_norm, rnorm)
    return OPTIMAL if is_shown(least, rounding, b_norm, rnorm) else UNPROVEN


@kernel(error_model="numpy", counting=False)
def reach(A):  # type: ignore[no-untyped-def]
    """As `Problem.reach`."""
    low, high = 0.0, 0.0
    for t in range(A.shape[0]):
        for j in range(A.shape[1]):
            low = A[t, j] if A[t, j] < low else low
            high = A[t, j] if A[t, j] > high else high
        if low < 0.0 < high:
            return np.inf
    return np.sqrt(float(A.shape[0]))
