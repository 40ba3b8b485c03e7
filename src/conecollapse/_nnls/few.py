"""A large matrix with one right-hand side whose solution uses very few columns, or none.

Methods that share the products of all columns compute these first, which is most of their work. If
b points away from the cone, as a centred b does from columns without negative entries, a few steps
of Lawson and Hanson's method need the products of a few columns only, each a walk over A. So these
steps are tried first, while each leaves far fewer columns with a positive price than the one
before; what they do not solve is left to the caller.
"""

from __future__ import annotations

import numpy as np

from conecollapse._nnls.doubt import IN_DOUBT
from conecollapse._nnls.proof import (
    DEPENDENT,
    LEAST_LENGTH,
    MOST_LENGTH,
    is_optimal,
    least_residuals,
)
from conecollapse._types import FloatArray

# entries of a matrix, and rows for each column, from which products of all columns are most of the
# work
LARGE, TALL = 2**14, 8
COLUMNS_FOR_A_STEP = 8  # the products of so many columns with all take longer than a step
# after each step at most one in so many of the prices that could be positive before is to be so
FEWER = 2


def is_for_few(m: int, n: int) -> bool:
    """Whether it is worth a try for matrices of this shape."""
    return m * n >= LARGE and m >= TALL * n


def solve_with_few_columns(A: FloatArray, b: FloatArray) -> tuple[FloatArray, float] | None:
    """The solution and its residual norm, if a few steps lead there and it is shown to be
    optimal."""
    n = A.shape[1]
    most = n // COLUMNS_FOR_A_STEP
    with np.errstate(over="ignore", invalid="ignore"):
        found = _descend(A, b, most)
        if found is None:
            return None
        norms, size = np.sqrt(np.einsum("ij,ij->j", A, A)), float(np.sqrt(b @ b))
    if not (
        norms.min() > LEAST_LENGTH and max(norms.max(), size) < MOST_LENGTH and size > LEAST_LENGTH
    ):
        return None
    passive, products, h = found
    x = np.zeros(n)
    x[passive] = h
    r = b - A[:, passive] @ h
    rnorm, sigma = float(np.sqrt(r @ r)), 1.0
    if passive:
        unit = products[:, passive] / (norms[passive, None] * norms[passive])
        smallest = np.linalg.eigvalsh(unit)[0]
        if not smallest > DEPENDENT:
            return None
        sigma = float(np.sqrt(smallest))
    ones, g = np.ones(1), r @ A / norms
    for j in np.flatnonzero((x == 0) & (abs(g) <= IN_DOUBT * size)):
        if (A[:, passive] == A[:, j, None]).all(axis=0).any():
            g[j] = -np.inf  # a copy of a column in use (`doubt`)
    least, _ = least_residuals(
        g[None], (x * norms)[None], False, sigma * ones, np.inf, len(b), size * ones, rnorm * ones
    )
    return (x, rnorm) if is_optimal(rnorm * ones, least, size * ones)[0] else None


def _descend(
    A: FloatArray, b: FloatArray, most: int
) -> tuple[list[int], FloatArray, FloatArray] | None:
    """The columns in use, their products with all, and their coefficients, after as many steps at
    most; None if that is not the end."""
    c = b @ A
    highest, g = int(c.argmax()), c
    passive: list[int] = []
    most_positive = len(c) // FEWER
    products, h = np.empty((most, A.shape[1])), np.zeros(0)
    while g[highest] > 0:
        if len(passive) == most or highest in passive:
            return None
        products[len(passive)] = A[:, highest] @ A
        passive.append(highest)
        P = products[: len(passive)]
        try:
            h = np.asarray(np.linalg.solve(P[:, passive], c[passive]), np.float64)
        except np.linalg.LinAlgError:
            return None
        if not (h > 0).all():
            return None
        g = c - h @ P
        g[passive] = 0.0
        highest, most_positive = int(g.argmax()), most_positive // FEWER
        if np.count_nonzero(g > 0) > most_positive:
            return None
    return passive, products[: len(passive)], h
