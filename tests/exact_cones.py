"""Extreme rays of small integer points in exact arithmetic: the oracle that rounding cannot
mislead.

A point p is a combination ``sum_j h_j q_j``, ``h >= 0``, of the other points or it is not, and each
answer has a proof in whole numbers: the coefficients, or a vector y with ``y . p > 0 >= y . q_j``
(Farkas). The simplex method finds one of the two with a tableau of Python integers (Bareiss: all
entries share one denominator, the last pivot), and Bland's rule makes it end. Both proofs are
checked before they are used, so a mistake in the pivoting cannot become a wrong answer.
"""

from __future__ import annotations

from math import gcd, prod, sqrt
from operator import mul

import numpy as np


def exact_rays(P):
    """Indices of the extreme rays of non-negative integer rows, the first of each group of colinear
    ones; and the groups of all rays."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(np.asarray(P).tolist()):
        if any(row):
            divisor = gcd(*row)
            groups.setdefault(tuple(x // divisor for x in row), []).append(i)
    directions = list(groups)
    rays = [p for p in directions if combination(p, [q for q in directions if q != p]) is None]
    return [groups[p][0] for p in rays], [groups[p] for p in rays]


def combination(p, others):
    """Integers ``(h, d)`` with ``d p = sum_j h_j others_j``, ``h >= 0``, ``d > 0``; None if there
    are none, which is then proven."""
    m, n = len(p), len(others)
    # phase 1 of the simplex method: min sum(a) with `others' h + a = p`, a >= 0 the basis to begin
    # with; the last row is the reduced cost
    T = [[q[k] for q in others] + [int(k == a) for a in range(m)] + [p[k]] for k in range(m)]
    T.append([-sum(q) for q in others] + [0] * m + [-sum(p)])
    basis, d = list(range(n, n + m)), 1
    # Bland: the first that improves
    while (column := next((j for j in range(n) if T[m][j] < 0), None)) is not None:
        leaving = None
        for k in range(m):
            if T[k][column] > 0:
                better = (
                    leaving is None or T[k][-1] * T[leaving][column] - T[leaving][-1] * T[k][column]
                )
                if better is True or better < 0 or (better == 0 and basis[k] < basis[leaving]):
                    leaving = k
        d = pivot(T, leaving, column, d)
        basis[leaving] = column
    if T[m][-1] == 0:
        h = [0] * n
        for k, j in enumerate(basis):
            if j < n:
                h[j] = T[k][-1]
        assert d > 0
        assert min(h, default=0) >= 0
        assert all(
            sum(map(mul, h, axis)) == d * x
            for axis, x in zip(zip(*others, strict=True), p, strict=True)
        )
        return h, d
    # the duals: the reduced cost of an artificial column is 1 - y
    y = [d - T[m][n + k] for k in range(m)]
    assert sum(map(mul, y, p)) > 0
    assert all(sum(map(mul, y, q)) <= 0 for q in others)
    return None


def pivot(T, row, column, d):
    """Exchange in place; entries stay integers over the common denominator, which is returned."""
    at, lead = T[row][column], T[row]
    for k, other in enumerate(T):
        if k != row:
            factor = other[column]
            T[k] = [(at * x - factor * y) // d for x, y in zip(other, lead, strict=True)]
    return at


def separation(P):
    """A distance that no ray of these integer rows can come nearer to the cone of the others, for
    unit points.

    The distance of p from the span of linearly independent q_1 .. q_k is a quotient of volumes,
    ``sqrt(det G(q, p) / det G(q))``. Gram determinants of integers are at least 1, and by Hadamard
    ``det G(q) <= prod |q_j|^2``. So it is at least one over the product of the lengths of the q_j;
    for unit points p's own length joins them, and no ``dim`` lengths have a larger product than the
    longest ones.
    """
    lengths = sorted(
        (sqrt(sum(x * x for x in row)) for row in np.asarray(P).tolist()), reverse=True
    )
    return 1 / prod(max(length, 1.0) for length in lengths[: np.shape(P)[1]])
