"""Whether a solution in float64 is optimal, by its residual with 32 digits.

Where columns depend on the passive ones, as in ``[A, -A]``, their exact prices are zero. Those in float64 are rounding errors of either
sign, so that no bound computed from them holds (`proof`). With 32 digits (`twofold`) the zeros are seen. No factorization with so many
digits is needed for that: a Cholesky factor in float64 refines x until the residual y is orthogonal to the passive columns.

Let no price ``a_j . y`` be above ``NO_PRICE |a_j| |y|``. For any ``x* >= 0``, ``|b - A x*| |y| >= (b - A x*) . y`` is at least ``|y|^2``
less ``NO_PRICE |y|`` times the sum of the ``|a_j| x*_j``. A residual norm that is smaller than ``|y|`` by a thousandth thus needs a sum
of ``1e17 |y|``. To round such coefficients to float64 changes the residual by more than ``|y|``: no solution that float64 can hold is
better.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg.lapack as lapack

from conecollapse._kernels import kernel
from conecollapse._nnls.proof import OPTIMAL_WITHIN
from conecollapse._nnls.twofold import two_product, two_sum
from conecollapse._types import FloatArray

NO_PRICE = 1e-20  # prices up to this share of |a_j| |y| lower the residual of no x that float64 can hold
TURNS = 5  # corrections at most: a Gram matrix that needs more is too badly conditioned


def least_by_refinement(A: FloatArray, x: FloatArray, b: FloatArray) -> tuple[float, float]:
    """``|b - A x|``, and, where that is optimal, a residual norm that no ``x >= 0`` undercuts; else zero."""
    used = x.nonzero()[0]
    P = A.take(used, axis=1)
    factor, info = lapack.dpotrf(P.T @ P, lower=1)
    h, r, prices = np.zeros((2, len(used))), np.empty((2, len(b))), np.empty(len(used))
    h[0] = x[used]
    rnorm = size = _residual(P, h, b, r)
    if info == 0 and len(used):
        for _ in range(TURNS):
            if _highest_price(P, r, prices, True) <= NO_PRICE * size:
                is_least = h[0].min() > 0 and _highest_price(A, r, np.empty(len(x)), False) <= NO_PRICE * size
                return rnorm, size if is_least and rnorm <= (1 + OPTIMAL_WITHIN) * size else 0.0
            _correct(h, lapack.dpotrs(factor, prices, lower=1)[0])
            size = _residual(P, h, b, r)
    return rnorm, 0.0


@kernel(error_model="numpy")
def _residual(P, h, b, r):  # type: ignore[no-untyped-def]
    """Write ``b - P h`` to ``r``, both with 32 digits; its norm."""
    square = 0.0
    for i in range(len(b)):
        s, e = b[i], 0.0
        for a in range(h.shape[1]):
            p, dp = two_product(-P[i, a], h[0, a])
            s, f = two_sum(s, p)
            e += f + (dp - P[i, a] * h[1, a])
        r[0, i] = s + e
        r[1, i] = e - (r[0, i] - s)
        square += r[0, i] * r[0, i]
    return np.sqrt(square)


@kernel(error_model="numpy")
def _highest_price(A, r, prices, either_sign):  # type: ignore[no-untyped-def]
    """Write ``A' r``, rounded at the end, to ``prices``; the highest of them for columns of unit length, or their largest size."""
    m, n = A.shape
    errors, squares = np.zeros(n), np.zeros(n)
    prices[:] = 0.0
    for i in range(m):
        for j in range(n):
            p, dp = two_product(A[i, j], r[0, i])
            prices[j], f = two_sum(prices[j], p)
            errors[j] += f + (dp + A[i, j] * r[1, i])
            squares[j] += A[i, j] * A[i, j]
    highest = 0.0
    for j in range(n):
        prices[j] += errors[j]
        price = abs(prices[j]) if either_sign else prices[j]
        if price > highest * np.sqrt(squares[j]):
            highest = price / np.sqrt(squares[j])
    return highest


@kernel(error_model="numpy")
def _correct(h, step):  # type: ignore[no-untyped-def]
    """``h += step``, with 32 digits."""
    for a in range(h.shape[1]):
        s, e = two_sum(h[0, a], step[a])
        e += h[1, a]
        h[0, a] = s + e
        h[1, a] = e - (h[0, a] - s)
