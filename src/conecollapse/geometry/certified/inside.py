r"""Points inside the cone of rays that are known: active sets over one Gram matrix.

Where most points are mixtures of the rays, each needs about as many rays as there are dimensions,
and the search for them takes most of the time. With the products :math:`G = Z Z'` of the rays with
each other, made once for all points, no orthonormal basis of the rays in use is needed: with
:math:`R' R = G_{SS}` for the rays S in use,

.. math:: R' q = Z_S x, \qquad R h = q, \qquad r = x - Z_S' h .

This squares the condition number. So prices :math:`z_j \cdot r` are those of the true residual, and
a small residual corrects the coefficients: :math:`R' p = Z_S r` is added to q. What does not become
zero is not decided here. Several rays enter in one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import row_norms
from conecollapse._nnls.active_set import active_set
from conecollapse._nnls.factor import dot, new_state, restore, solve_transposed
from conecollapse._nnls.products import subtract_rows
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import FloatArray, IntArray
from conecollapse.geometry.certified.proof import Combinations

MOST_RAYS = 2048  # whose products with each other take 32 MiB
# points times rays times dimensions: searching these takes some tens of milliseconds
LITTLE_WORK = 2**20
SAMPLE = 48  # points that are tried first
WORTHWHILE = 0.5  # share of these that must be inside
AT_ONCE = 256  # points of one piece of work
N_LISTED = 64  # rays among which a step chooses, between two looks at all
N_ENTERING = 8  # rays that may enter in one step,
NEARLY_BEST = 0.5  # if their prices are at least this share of the highest
# the square of the part of a ray outside the span of those in use, relative to its own
INDEPENDENT = 1e-10
NEARLY_ZERO = 1e-10  # share of |x|^2 below which a residual is corrected by itself
ZERO = 1e-10  # share of |x| up to which a residual counts as zero
# share of |r|^2 up to which its part in the span of the rays in use is next to nothing
ORTHOGONAL = 1e-4
REFINEMENTS = 3


class Rays(NamedTuple):
    """The known rays and their products with each other."""

    Z: FloatArray  # (c, d)
    G: FloatArray  # (c, c)


class Listed(NamedTuple):
    """Rays among which a step chooses."""

    ray: IntArray  # (N_LISTED,), or -1
    price: FloatArray
    # (N_ENTERING, capacity), scratch: what the columns that enter add to the triangle
    W: FloatArray


def inside_known(Z: FloatArray, rays: IntArray, points: IntArray) -> Combinations:
    """Combinations of ``rays`` for those of ``points`` that are inside their cone, as far as they
    are found; all are rows of Z.

    A sample is tried first: where few of it are inside, nothing is done. Nor is it where the points
    are few: searching them takes less time than compiling these kernels.
    """
    if (
        not len(points) >= SAMPLE
        or not 1 < len(rays) <= MOST_RAYS
        or len(points) * len(rays) * Z.shape[1] <= LITTLE_WORK
    ):
        return {}
    R, sample = np.ascontiguousarray(Z[rays]), points[:: len(points) // SAMPLE]
    left = active_set(R / row_norms(R)[:, None], Z[sample]).residual
    if (row_norms(left) <= ZERO * row_norms(Z[sample])).mean() < WORTHWHILE:
        return {}
    known = Rays(R, R @ R.T)
    found: Combinations = {}

    def work(start: int, stop: int) -> None:
        for a in range(start, stop, AT_ONCE):
            some = points[a : min(a + AT_ONCE, stop)]
            for i, (S, h) in zip(some.tolist(), _solve_each(known, Z[some]), strict=True):
                if len(S):
                    found[i] = (rays[S], h)

    with serial_blas():
        for_ranges(work, len(points), smallest=4)
    return found


@kernel
def _solve_each(known, X):  # type: ignore[no-untyped-def]
    """For each row of ``X`` the rays and coefficients that give it; none if it is not inside."""
    c, d = known.Z.shape
    n = min(c, d)
    state = new_state(n, d, False)
    listed = Listed(
        np.empty(min(N_LISTED, c), np.int64), np.empty(min(N_LISTED, c)), np.empty((N_ENTERING, n))
    )
    out = []
    for i in range(len(X)):
        k = _descend(known, X[i], state, listed)
        out.append((state.S[:k].copy(), state.h[:k].copy()))
    return out


@kernel
def _descend(known, x, state, listed):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent of ``|x - sum h z|``; how many rays are in use at its end, 0 if
    the residual does not become zero."""
    size, k = dot(x, x), np.int64(0)
    lowest = left = size
    for t in range(len(x)):
        state.r[t] = x[t]
    while _list(known, state, k, listed):
        started = lowest
        while k < len(state.S):
            grown = _enter(known, state, k, listed)
            if grown == k:
                break
            k = restore(state, grown)
            left = _take_away(known, x, state, k)
            for _ in range(REFINEMENTS):
                if (
                    left > NEARLY_ZERO * size
                    or left <= ZERO * ZERO * size
                    or _correct(known, state, k) <= ORTHOGONAL * left
                ):
                    break
                k = restore(state, k)
                left = _take_away(known, x, state, k)
            if left <= ZERO * ZERO * size:
                return k
            lowest = left if left < lowest else lowest
            for at in range(len(listed.ray)):
                listed.price[at] = (
                    dot(known.Z[listed.ray[at]], state.r) if listed.ray[at] >= 0 else 0.0
                )
        if k == len(state.S) or lowest > started * (1.0 - 1e-12):
            break
    return 0


@kernel
def _list(known, state, k, listed):  # type: ignore[no-untyped-def]
    """List the ray with the highest price in each residue class of their numbers; whether any price
    is positive."""
    for at in range(len(listed.ray)):
        listed.ray[at], listed.price[at] = -1, 0.0
    is_any = False
    for j in range(len(known.Z)):
        at = j % len(listed.ray)
        price = dot(known.Z[j], state.r)
        if price > listed.price[at]:
            in_use = False
            for a in range(k):
                in_use = in_use or state.S[a] == j
            if not in_use:
                listed.ray[at], listed.price[at] = j, price
                is_any = True
    return is_any


@kernel
def _enter(known, state, k, listed):  # type: ignore[no-untyped-def]
    """Append the listed rays with the highest prices, which leave the list; how many are in use
    then."""
    S, R, parts, W = state.S, state.R, state.q, listed.W
    highest, n, before = 0.0, 0, k
    rays, prices = np.empty(len(W), np.int64), np.empty(len(W))
    while n < len(W):
        at, best = 0, 0.0
        for q in range(len(listed.price)):
            if listed.price[q] > best:
                at, best = q, listed.price[q]
        highest = best if n == 0 else highest
        if best <= 0.0 or best < NEARLY_BEST * highest:
            break
        rays[n], prices[n] = listed.ray[at], best
        listed.ray[at], listed.price[at] = -1, 0.0
        for a in range(k):
            W[n, a] = known.G[rays[n], S[a]]
        n += 1
    for e in range(n):
        solve_transposed(R, before, W[e])
    placed = np.empty(len(W), np.int64)
    for e in range(n):
        if k == len(S):
            break
        j = rays[e]
        for b in range(before, k):
            W[e, b] = (known.G[j, S[b]] - dot(W[e, :b], W[placed[b - before], :b])) / R[b, b]
        outside = known.G[j, j] - dot(W[e, :k], W[e, :k])
        # the residual is orthogonal to the rays that were in use before
        along = prices[e] - dot(W[e, before:k], parts[before:k])
        if outside <= INDEPENDENT * known.G[j, j] or along <= 0.0:
            continue
        for a in range(k):
            R[a, k] = W[e, a]
        R[k, k] = np.sqrt(outside)
        parts[k] = along / R[k, k]
        S[k], state.h[k], placed[k - before] = j, 0.0, e
        k += 1
    return k


@kernel
def _take_away(known, x, state, k):  # type: ignore[no-untyped-def]
    """The residual ``r = x - sum h z``; its squared length."""
    S, h, r = state.S, state.h, state.r
    for t in range(len(x)):
        r[t] = x[t]
    subtract_rows(known.Z, S, h, k, r)
    return dot(r, r)


@kernel
def _correct(known, state, k):  # type: ignore[no-untyped-def]
    """Add the part of the residual in the span of the rays in use to ``q``; its squared length."""
    part = state.ls
    for a in range(k):
        part[a] = dot(known.Z[state.S[a]], state.r)
    solve_transposed(state.R, k, part)
    for a in range(k):
        state.q[a] += part[a]
    return dot(part[:k], part[:k])
