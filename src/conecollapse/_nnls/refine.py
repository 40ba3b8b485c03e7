r"""Whether a solution in float64 is optimal, by its residual with 32 digits.

Where columns depend on the passive ones, their exact prices are zero. Those in float64 are rounding errors of either sign, so that no bound
computed from them is good (`proof`, `doubt`). With 32 digits (`twofold`) zeros are seen. No factorization with so many digits is needed for
that: a Cholesky factor in float64 refines x until the residual y is orthogonal to the passive columns.

If no price is above `ZERO_PRICE`, which 32 digits do not tell from zero, y has the smallest norm. Columns that depend on others only up to
their last digit have prices above that. For these `doubt` has a bound, which is the better for errors that are not there: prices are far
below rounding errors of ``b - A x``. Neither can be shown where x = 0, which is left to others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg.lapack as lapack

from conecollapse._kernels import kernel
from conecollapse._nnls.doubt import Passive, cost_of_doubt, largest_eigenvalue, low_cost, set_aside
from conecollapse._nnls.proof import LEAST_LENGTH, MOST_LENGTH, OPTIMAL_WITHIN, ZERO_RESIDUAL
from conecollapse._nnls.twofold import two_product, two_sum
from conecollapse._types import FloatArray, IntArray

LOW_PRICE = 1e-20  # passive prices are to be at most this share of |a_j| |y|; they are made as low as these turns allow,
BEST_PRICE = 1e-29  # down to this share
ZERO_PRICE = 1e-27  # prices up to this share are zero as far as 32 digits tell, as in `careful`
TURNS = 6  # corrections at most: a Gram matrix that needs more is too badly conditioned


class Refined(NamedTuple):
    """A solution that was corrected, or as it was if that did not help."""

    x: FloatArray
    rnorm: float  # ``|b - A x|``
    least: float  # a residual norm that no ``x >= 0`` undercuts, or zero
    is_optimal: bool


def refine(A: FloatArray, x: FloatArray, b: FloatArray) -> Refined:
    """``x``, without its negative entries, corrected by its residual with 32 digits, and whether that shows that it is optimal."""
    x = np.maximum(x, 0.0)
    used = x.nonzero()[0]
    with np.errstate(over="ignore", invalid="ignore"):
        lengths, b_norm = np.sqrt(np.einsum("ij,ij->j", A, A)), float(np.sqrt(b @ b))
    safe = (lengths > LEAST_LENGTH) & (lengths < MOST_LENGTH)
    if not (LEAST_LENGTH < b_norm < MOST_LENGTH and (safe | ~A.any(axis=0)).all()):
        return Refined(x, float("nan"), 0.0, False)
    lengths[~safe] = 1.0
    P = A.take(used, axis=1)
    h, r = np.zeros((2, len(used))), np.empty((2, len(b)))
    h[0] = x[used]
    rnorm = _residual(P, h, b, r)
    if rnorm <= ZERO_RESIDUAL * b_norm:
        return Refined(x, rnorm, 0.0, True)
    Z = P / lengths[used]
    factor, info = lapack.dpotrf(Z.T @ Z, lower=1) if len(used) else (np.empty((0, 0)), 1)
    size = _make_orthogonal(P, h, b, r, lengths[used], factor) if info == 0 else 0.0
    if size > 0 and (h[0] > 0).all():
        prices = np.empty(len(x))
        is_least = _highest_price(A, r, prices, False) <= ZERO_PRICE * size
        least = size if is_least else _least_in_doubt(A, used, prices, lengths, b_norm, size, factor)
        h[1] = 0.0  # x is what float64 holds
        corrected = _residual(P, h, b, r)
        if corrected <= (1 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm:
            x[used] = h[0]
            return Refined(x, corrected, least, True)
    return Refined(x, rnorm, 0.0, False)


def _make_orthogonal(P: FloatArray, h: FloatArray, b: FloatArray, r: FloatArray, lengths: FloatArray, factor: FloatArray) -> float:
    """Correct ``h`` until the residual ``r`` is orthogonal to the columns of ``P``; its norm, or zero if that is not reached."""
    prices, before = np.empty(len(lengths)), np.inf
    for turn in range(TURNS + 1):
        size = float(np.sqrt(r[0] @ r[0]))
        highest = _highest_price(P, r, prices, True)
        if highest <= BEST_PRICE * size or turn == TURNS or (before <= LOW_PRICE * size and highest > 0.1 * before):
            break
        before = highest
        _correct(h, lapack.dpotrs(factor, prices / lengths, lower=1)[0] / lengths)
        _residual(P, h, b, r)
    return size if highest <= LOW_PRICE * size else 0.0


def _least_in_doubt(
    A: FloatArray, used: IntArray, prices: FloatArray, lengths: FloatArray, b_norm: float, size: float, factor: FloatArray
) -> float:
    """A residual norm that no ``x >= 0`` undercuts where some prices are positive and no other error is left (`doubt`); or zero."""
    k, n = len(used), len(prices)
    lower = np.tril(lapack.dpotri(factor, lower=1)[0])
    inverse = lower + np.tril(lower, -1).T
    products = (A.take(used, axis=1) / lengths[used]).T @ A / lengths
    passive = Passive(used, inverse, products, np.arange(k), np.ones(n), np.empty(k), np.empty(k), np.empty(n))
    off = LOW_PRICE * size  # a bound for passive prices
    lean = off * np.sqrt(k * largest_eigenvalue(passive))
    v, h = prices / lengths + off + lean, np.zeros(n)
    h[used] = 1.0  # only its signs are looked at
    set_aside(A, used, h, v, b_norm)
    worst, cost = v[h == 0].max(initial=-np.inf), 0.0
    if worst > 0:
        cost = b_norm * cost_of_doubt(passive, h, v, len(A), worst, low_cost(size, b_norm))
    square = size * size - lean * lean - 2 * cost
    return float(np.sqrt(square)) if square > 0 else 0.0


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
