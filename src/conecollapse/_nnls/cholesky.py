"""A Cholesky factor of the Gram matrix of free variables, grown and shrunk variable by variable.

With ``G_FF = R'R`` for the free variables F, a new one appends a column to ``R``; one that leaves
shifts the later columns left, and Givens rotations restore the triangle. A pivot that is rounding
says that a column depends on the others: then the last column of ``R`` holds the combination.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._nnls.kernels import rotate_rows
from conecollapse._types import BoolArray, FloatArray, IntArray

# a Cholesky pivot below this share of its diagonal entry means dependent columns
DEPENDENT_PIVOT = 1e-13


class Factor(NamedTuple):
    """The free variables of one problem, their Cholesky factor, and scratch; the last place is for
    a column that depends on the others."""

    F: IntArray  # (capacity + 1,): the free variables, in the order of the factorization
    R: FloatArray  # (capacity + 1, capacity + 1): upper triangle, G_FF = R'R
    target: FloatArray  # (capacity + 1,): the solution over the free variables
    ones: FloatArray  # (capacity + 1,): G_FF^-1 1
    c: FloatArray  # (n,): the linear term less what the variables at their upper bounds contribute
    g: FloatArray  # (n,): the gradient
    given: FloatArray  # (n,): the start
    dead: BoolArray  # (n,): freed without success since the objective last fell


@kernel
def new_factor(n, room):  # type: ignore[no-untyped-def]
    return Factor(
        F=np.empty(room, np.int64),
        R=np.empty((room, room)),
        target=np.empty(room),
        ones=np.empty(room),
        c=np.empty(n),
        g=np.empty(n),
        given=np.empty(n),
        dead=np.empty(n, np.bool_),
    )


@kernel(fastmath=FAST)
def factorize(G, s, k):  # type: ignore[no-untyped-def]
    """The Cholesky factor of the first ``k`` free variables; False if their columns are
    dependent."""
    F, R = s.F, s.R
    if k == len(F):
        return False
    for a in range(k):
        row = G[F[a]]
        for b in range(a, k):
            R[a, b] = row[F[b]]
    for a in range(k):
        if R[a, a] <= DEPENDENT_PIVOT * G[F[a], F[a]]:
            return False
        inverse = 1.0 / np.sqrt(R[a, a])
        for b in range(a, k):
            R[a, b] *= inverse
        for c in range(a + 1, k):
            part = R[a, c]
            for b in range(c, k):
                R[c, b] -= part * R[a, b]
    return True


@kernel(fastmath=FAST)
def append(G, s, k, j):  # type: ignore[no-untyped-def]
    """Make the column of variable ``j`` the last one of the factor; its pivot, or 0 if it depends
    on the free ones.

    Column ``k`` of ``R`` then holds its combination in the orthogonal basis of the free columns.
    """
    F, R, column = s.F, s.R, s.target
    for a in range(k):
        column[a] = G[j, F[a]]
    forward(R, k, column)
    pivot = G[j, j]
    for a in range(k):
        R[a, k] = column[a]
        pivot -= column[a] * column[a]
    if pivot <= DEPENDENT_PIVOT * G[j, j] or k == len(F) - 1:
        return 0.0
    F[k] = j
    R[k, k] = np.sqrt(pivot)
    return pivot


@kernel
def remove(s, k, p):  # type: ignore[no-untyped-def]
    """Delete the free variable at place ``p``: shift the later columns left, restore the triangle
    by Givens rotations of rows."""
    F, R = s.F, s.R
    for b in range(p, k - 1):
        F[b] = F[b + 1]
        for a in range(b + 2):
            R[a, b] = R[a, b + 1]
    for b in range(p, k - 1):
        kept, removed = R[b, b], R[b + 1, b]
        norm = np.sqrt(kept * kept + removed * removed)
        rotate_rows(R[b, b : k - 1], R[b + 1, b : k - 1], kept / norm, removed / norm)


@kernel(fastmath=FAST)
def forward(R, k, z):  # type: ignore[no-untyped-def]
    """``R' z = z``."""
    for a in range(k):
        z[a] /= R[a, a]
        part = z[a]
        for b in range(a + 1, k):
            z[b] -= part * R[a, b]
