"""A large matrix with one right-hand side whose solution uses very few columns, or none.

Methods that share the products of all columns compute these first, which is most of their work. If b points away from the cone, as a
centred b does from columns without negative entries, a few steps of Lawson and Hanson's method need the products of a few columns only,
each a walk over A. So these steps are tried first; what they do not solve is left to the caller. They are so few that their cost is a small
part of that of all products.
"""

from __future__ import annotations

import numpy as np

from conecollapse._nnls.proof import LEAST_LENGTH, MOST_LENGTH, is_optimal, least_residuals
from conecollapse._types import FloatArray

LARGE = 2**14  # entries of a matrix from which a walk over it is longer than looking at the result
COLUMNS_FOR_A_STEP = 16  # the products of so many columns with all take longer than a step


def solve_with_few_columns(A: FloatArray, b: FloatArray) -> tuple[FloatArray, float] | None:
    """The solution and its residual norm, if a few steps lead there and it is shown to be optimal."""
    n = A.shape[1]
    most = n // COLUMNS_FOR_A_STEP
    with np.errstate(over="ignore", invalid="ignore"):
        c = b @ A
        highest = int(c.argmax())
        if most == 0 and not c[highest] < 0:
            return None
        norms, size = np.sqrt(np.einsum("ij,ij->j", A, A)), float(np.sqrt(b @ b))
    if not (norms.min() > LEAST_LENGTH and max(norms.max(), size) < MOST_LENGTH and size > LEAST_LENGTH):
        return None
    passive: list[int] = []
    products, g = np.empty((most, n)), c
    h: FloatArray = np.zeros(0)
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
        highest = int(g.argmax())
    x = np.zeros(n)
    x[passive] = h
    r = b - A[:, passive] @ h
    rnorm, sigma = float(np.sqrt(r @ r)), 1.0
    if passive:
        unit = products[: len(passive), passive] / (norms[passive, None] * norms[passive])
        sigma = float(np.sqrt(max(np.linalg.eigvalsh(unit)[0], 0.0)))
    ones = np.ones(1)
    least, _ = least_residuals((r @ A / norms)[None], (x * norms)[None], False, sigma * ones, np.inf, len(b), size * ones, rnorm * ones)
    return (x, rnorm) if is_optimal(rnorm * ones, least, size * ones)[0] else None
