r"""Points inside the cone of rays that are known: active sets over one Gram matrix.

Where most points are mixtures of the rays, each needs about as many rays as there are dimensions, and the search for them takes most of the
time. With the products :math:`G = Z Z'` of the rays with each other, made once for all points, a step needs no vector of the
points' dimension: with :math:`L L' = G_{SS}` for the rays S in use and :math:`q = L^{-1} Z_S x`,

.. math:: h = L'^{-1} q, \qquad z_j \cdot r = z_j \cdot x - G_{jS} h, \qquad |r|^2 = |x|^2 - |q|^2 .

This squares the condition number, so the result is refined by the true residual :math:`x - Z_S' h`, and what does not become zero is not
decided here. Several rays enter in one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import axpy, dot
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import FloatArray, IntArray

MOST_RAYS = 2048  # whose products with each other take 32 MiB
SAMPLE = 48  # points that are tried first
WORTHWHILE = 0.5  # share of these that must be inside
AT_ONCE = 256  # points of one piece of work
N_LISTED = 64  # rays among which a step chooses, between two looks at all
N_ENTERING = 8  # rays that may enter in one step,
NEARLY_BEST = 0.5  # if their prices are at least this share of the highest
INDEPENDENT = 1e-10  # the square of the part of a ray outside the span of those in use, relative to its own
RESOLVED = 1e-14  # share of |x|^2 below which |x|^2 - |q|^2 is rounding
ZERO = 1e-10  # share of |x| up to which a residual counts as zero
REFINEMENTS = 3


class Rays(NamedTuple):
    """The known rays and their products with each other."""

    Z: FloatArray  # (c, d)
    G: FloatArray  # (c, c)


class Work(NamedTuple):
    """The active set of one point; of all fields the first k entries are in use."""

    S: IntArray  # rays in use
    h: FloatArray  # their coefficients
    L: FloatArray  # (capacity, capacity), lower triangle: the Cholesky factor of their products
    q: FloatArray
    ls: FloatArray  # least-squares coefficients
    listed: IntArray  # (N_LISTED,) rays that may enter, or -1
    price: FloatArray  # (N_LISTED,)
    r: FloatArray  # (d,)


def inside_known(Z: FloatArray, rays: IntArray, points: IntArray) -> dict[int, tuple[IntArray, FloatArray]]:
    """Combinations of ``rays`` for those of ``points`` that are inside their cone, as far as they are found; all are rows of Z.

    A sample is tried first: where few of it are inside, nothing is done.
    """
    if not len(points) >= SAMPLE or not 1 < len(rays) <= MOST_RAYS:
        return {}
    R = np.ascontiguousarray(Z[rays])
    known = Rays(R, R @ R.T)
    sample = points[:: len(points) // SAMPLE]
    found = _inside(known, Z, rays, sample)
    if len(found) >= WORTHWHILE * len(sample):
        found |= _inside(known, Z, rays, np.setdiff1d(points, sample))
    return found


def _inside(known: Rays, Z: FloatArray, rays: IntArray, points: IntArray) -> dict[int, tuple[IntArray, FloatArray]]:
    found: dict[int, tuple[IntArray, FloatArray]] = {}

    def work(start: int, stop: int) -> None:
        for a in range(start, stop, AT_ONCE):
            some = points[a : min(a + AT_ONCE, stop)]
            X = Z[some]
            for i, (S, h) in zip(some.tolist(), _solve_each(known, X, X @ known.Z.T), strict=True):
                if len(S):
                    found[i] = (rays[S], h)

    with serial_blas():
        for_ranges(work, len(points), smallest=4)
    return found


@kernel
def _solve_each(known, X, B):  # type: ignore[no-untyped-def]
    """For each row x of ``X``, with the products ``B`` with the rays, the rays and coefficients that give it; none if it is not inside."""
    c, d = known.Z.shape
    n = min(c, d)
    work = Work(
        np.empty(n, np.int64),
        np.empty(n),
        np.empty((n, n)),
        np.empty(n),
        np.empty(n),
        np.empty(min(N_LISTED, c), np.int64),
        np.empty(min(N_LISTED, c)),
        np.empty(d),
    )
    out = []
    for i in range(len(X)):
        k = _descend(known, X[i], B[i], work)
        k = k if _refine(known, X[i], work, k) else 0
        out.append((work.S[:k].copy(), work.h[:k].copy()))
    return out


@kernel
def _descend(known, x, b, work):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent of ``|x - sum h z|``; how many rays are in use at its end."""
    size, S, q = dot(x, x), work.S, work.q
    k, lowest = 0, size
    while _list(known, b, work, k):
        started = lowest
        while k < len(S):
            grown = _enter(known, b, work, k)
            if grown == k:
                break
            k = _restore(work, grown)
            left = size - dot(q[:k], q[:k])
            if left <= RESOLVED * size:
                return k
            lowest = min(lowest, left)
            _price(known, b, work, k)
        if k == len(S) or lowest > started * (1.0 - 1e-12):
            break
    return k


@kernel
def _list(known, b, work, k):  # type: ignore[no-untyped-def]
    """List the ray with the highest price in each residue class of their numbers; whether any price is positive."""
    S, h = work.S, work.h
    work.listed[:] = -1
    work.price[:] = 0.0
    gradient = b.copy()
    for a in range(k):
        axpy(-h[a], known.G[S[a]], gradient)
    for a in range(k):
        gradient[S[a]] = 0.0
    for j in range(len(b)):
        at = j % len(work.listed)
        if gradient[j] > work.price[at]:
            work.price[at] = gradient[j]
            work.listed[at] = j
    return work.price.max() > 0.0


@kernel
def _price(known, b, work, k):  # type: ignore[no-untyped-def]
    """Prices of the rays that are listed."""
    S, h = work.S, work.h
    for at in range(len(work.listed)):
        j = work.listed[at]
        if j >= 0:
            row, g = known.G[j], b[j]
            for a in range(k):
                g -= row[S[a]] * h[a]
            work.price[at] = g


@kernel
def _enter(known, b, work, k):  # type: ignore[no-untyped-def]
    """Append the listed rays with the highest prices, which leave the list; how many are in use then."""
    S, h, L, q = work.S, work.h, work.L, work.q
    least = 0.0
    for _ in range(N_ENTERING):
        at = -1
        for t in range(len(work.listed)):
            if work.listed[t] >= 0 and work.price[t] > least and (at < 0 or work.price[t] > work.price[at]):
                at = t
        if at < 0 or k == len(S):
            break
        least = max(least, NEARLY_BEST * work.price[at])
        j = work.listed[at]
        work.listed[at] = -1
        row = L[k]
        for a in range(k):
            row[a] = (known.G[j, S[a]] - dot(L[a, :a], row[:a])) / L[a, a]
        outside = known.G[j, j] - dot(row[:k], row[:k])
        if outside <= INDEPENDENT * known.G[j, j]:
            continue
        along = b[j] - dot(row[:k], q[:k])
        if along <= 0.0:
            continue
        row[k] = np.sqrt(outside)
        q[k] = along / row[k]
        S[k], h[k] = j, 0.0
        k += 1
    return k


@kernel
def _restore(work, k):  # type: ignore[no-untyped-def]
    """Walk from ``h`` towards the least-squares coefficients, dropping rays that reach zero; how many are in use then."""
    h, L, q, ls = work.h, work.L, work.q, work.ls
    while k > 0:
        for a in range(k):
            ls[a] = q[a]
        _solve_transposed(L, ls, k)
        alpha, first = 1.0, -1
        for a in range(k):
            if ls[a] <= 0.0:
                step = h[a] / (h[a] - ls[a]) if h[a] > ls[a] else 0.0
                if first < 0 or step < alpha:
                    alpha, first = step, a
        if first < 0:
            for a in range(k):
                h[a] = ls[a]
            return k
        for a in range(k):
            h[a] += alpha * (ls[a] - h[a])
        h[first] = 0.0
        for a in range(k - 1, -1, -1):
            if h[a] <= 0.0 and ls[a] <= 0.0:
                _drop(work, k, a)
                k -= 1
    return k


@kernel
def _solve_transposed(L, v, k):  # type: ignore[no-untyped-def]
    """``L' v = v`` in the first ``k`` rows."""
    for a in range(k - 1, -1, -1):
        v[a] /= L[a, a]
        axpy(-v[a], L[a, :a], v[:a])


@kernel
def _drop(work, k, t):  # type: ignore[no-untyped-def]
    """Drop ray ``t`` of those in use: rows below move up, rotations of columns restore the triangle."""
    S, h, L, q = work.S, work.h, work.L, work.q
    for a in range(t, k - 1):
        S[a], h[a] = S[a + 1], h[a + 1]
        for b in range(a + 2):
            L[a, b] = L[a + 1, b]
    for b in range(t, k - 1):
        kept, removed = L[b, b], L[b, b + 1]
        norm = np.hypot(kept, removed)
        c, s = kept / norm, removed / norm
        L[b, b] = norm
        for a in range(b + 1, k - 1):
            u, v = L[a, b], L[a, b + 1]
            L[a, b] = c * u + s * v
            L[a, b + 1] = c * v - s * u
        u, v = q[b], q[b + 1]
        q[b] = c * u + s * v
        q[b + 1] = c * v - s * u


@kernel
def _refine(known, x, work, k):  # type: ignore[no-untyped-def]
    """Correct the coefficients by the true residual; whether it becomes zero with all of them positive."""
    S, h, L, ls, r = work.S, work.h, work.L, work.ls, work.r
    for _ in range(1 + REFINEMENTS):
        for t in range(len(r)):
            r[t] = x[t]
        least = np.inf
        for a in range(k):
            axpy(-h[a], known.Z[S[a]], r)
            least = min(least, h[a])
        if k == 0 or least <= 0.0:
            return False
        if dot(r, r) <= ZERO * ZERO * dot(x, x):
            return True
        for a in range(k):
            ls[a] = (dot(known.Z[S[a]], r) - dot(L[a, :a], ls[:a])) / L[a, a]
        _solve_transposed(L, ls, k)
        for a in range(k):
            h[a] += ls[a]
    return False
