r"""How much smaller a residual could be: what a solution and its gradient prove, rounding errors
included.

Let ``h >= 0`` be a candidate for unit columns ``z_j``, ``r = b - Z h`` its residual and
``g_j = z_j . r``. Call some columns, among them all with ``h_j > 0``, *held*, let :math:`\sigma` be
their smallest singular value, and let ``v_j`` be what is wrong with a held column: ``|g_j|`` where
``h_j > 0``, else ``max(g_j, 0)``. For any other candidate ``h*`` with ``d = Z (h* - h)``,

.. math:: |r^*|^2 = |r|^2 - 2 g \cdot (h^* - h) + |d|^2, \qquad |h^* - h|_{held} \le (|d| +
   \sum_{others} h^*_j) / \sigma,

so with ``lean`` :math:`= |v| / \sigma` and ``worst`` the largest ``g_j + lean`` of the other
columns

.. math:: |r^*|^2 \ge |r|^2 - lean^2 - 2 \max(worst, 0) \sum_{others} h^*_j.

If ``worst`` is not positive, this is a lower bound for every ``h*``, however large. If it is, a
bound on the sum of ``h*`` helps: for A without negative entries the sum is at most ``sqrt(m) |b|``
in an optimum (*reach*). Otherwise nothing is proven: a gradient far below rounding can belong to a
column that lowers the residual a great deal, with an enormous coefficient. All of it is relative to
the residual that A and b themselves give, so no scaling of rows or columns can hide an error.

Rounding errors of sums of k terms grow like sqrt(k) (Higham & Mary 2019); that estimate is used
with room to spare.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._types import BoolArray, FloatArray

# a residual norm is optimal when it is at most this share above the smallest possible one,
OPTIMAL_WITHIN = 1e-3
# or at most this share of |b|, which is what rounding leaves of ordinary problems with an exact
# solution
ZERO_RESIDUAL = 1e-12
# errors of x add to a residual norm above this share of |b| only their squares, which are rounding
NEAR_ZERO = 1e-6
SAFETY = 4.0  # how much smaller than estimated the smallest singular value is taken to be
# a smaller squared part of a unit column outside the span of others cannot be told from zero by
# products,
DEPENDENT = 1e-10
# nor can one below this share of the trace of the inverse of their products: rounding errors grow
# with that
BLUR = 2e-13
# a squared residual is computed from products only if their rounding errors are at most this share
# of it
PRODUCT_ERROR = 1e-6
# of columns and right-hand sides whose squares are not lost
LEAST_LENGTH, MOST_LENGTH = 1e-140, 1e140
EPS = float(np.finfo(np.float64).eps)


def is_optimal(rnorm: FloatArray, least: FloatArray, b_norm: FloatArray) -> BoolArray:
    """Whether residual norms are as good as the smallest possible ones."""
    return rnorm <= (1 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm


def is_rough_zero(rnorm: FloatArray, H: FloatArray, b_norm: FloatArray) -> BoolArray:
    """Whether residual norms are near zero and yet larger than rounding explains: errors of the
    coefficients may be the reason."""
    is_rough = rnorm <= NEAR_ZERO * b_norm
    near = np.flatnonzero(is_rough)
    if len(near):
        is_rough[near] = rnorm[near] > EPS * (4.0 + np.sqrt((H[near] > 0).sum(axis=1))) * (
            b_norm[near] + H[near].sum(axis=1)
        )
    return is_rough


@kernel(counting=False)
def least_residual(g, h, hold_all, sigma, reach, dim, b_norm, r_norm):  # type: ignore[no-untyped-def]
    """A lower bound for the residual norm of any solution, and the rounding error of ``r_norm``;
    all columns are held, or those in use."""
    total, count = 0.0, 0.0
    for j in range(len(h)):
        if h[j] > 0.0:
            total += h[j]
            count += 1.0
    rounding = EPS * (4.0 + np.sqrt(count)) * (b_norm + total)
    noise = rounding + EPS * (4.0 + np.sqrt(dim)) * r_norm
    wrong, worst = 0.0, -np.inf
    for j in range(len(h)):
        off = abs(g[j]) if h[j] > 0.0 else g[j]
        if h[j] > 0.0 or hold_all:
            wrong += (off + noise) * (off + noise) if off + noise > 0.0 else 0.0
        elif off > worst:
            worst = off
    lean = 0.0
    if wrong > 0.0:
        lean = np.sqrt(wrong) * SAFETY / sigma if sigma > 0.0 else np.inf
    square = r_norm * r_norm - lean * lean
    worst += noise + lean
    if worst > 0.0 and r_norm > 0.0:
        square -= 2.0 * worst * reach * b_norm
    least = np.sqrt(square) - rounding if square > 0.0 else 0.0
    return least if least > 0.0 else 0.0, rounding


@kernel(counting=False)
def is_exact_enough(square, b_norm, total):  # type: ignore[no-untyped-def]
    """Whether ``|b|^2 - h . (c + g)``, where the entries of h have the sum ``total``, has no large
    error: that of g is up to EPS total."""
    return EPS * (b_norm + total) * (b_norm + total) <= PRODUCT_ERROR * square


@kernel(counting=False)
def is_shown(least, rounding, b_norm, r_norm):  # type: ignore[no-untyped-def]
    """As `is_optimal` for one residual norm, with its rounding error."""
    return r_norm + rounding <= (1.0 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm


def least_residuals(
    gradients: FloatArray,
    H: FloatArray,
    hold_all: bool,
    sigma: FloatArray,
    reach: float,
    dim: int,
    b_norm: FloatArray,
    r_norm: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """`least_residual` for each row of gradients and coefficients, without a kernel."""
    in_use = H > 0
    held = in_use | hold_all
    rounding = (
        EPS * (4.0 + np.sqrt(in_use.sum(axis=1))) * (b_norm + np.where(in_use, H, 0.0).sum(axis=1))
    )
    noise = rounding + EPS * (4.0 + np.sqrt(dim)) * r_norm
    off = np.where(in_use, np.abs(gradients), gradients)
    wrong = np.where(held, np.maximum(off + noise[:, None], 0.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lean = np.where(
            wrong.any(axis=1), SAFETY * np.sqrt(np.einsum("ij,ij->i", wrong, wrong)) / sigma, 0.0
        )
        worst = np.where(held, -np.inf, off).max(axis=1, initial=-np.inf) + noise + lean
        square = (
            r_norm * r_norm
            - lean * lean
            - np.where((worst > 0.0) & (r_norm > 0.0), 2.0 * worst * reach * b_norm, 0.0)
        )
    least = np.sqrt(np.where(square > 0.0, square, 0.0)) - rounding
    return np.maximum(least, 0.0), rounding
