r"""How good the solution of a problem with constraints is, and how much better one could be.

Let F be the value of twice the objective at x, ``g`` the negative gradient less the multiplier of
the sum, and call the variables between their bounds *held*; :math:`\sigma` is the smallest singular
value of their columns, extended by :math:`\sqrt{ridge}` and, with a sum, by a row of equal entries.
For any admissible y, with d the extended matrix times ``y - x``,

.. math:: F(y) = F(x) - 2 g \cdot (y - x) + |d|^2, \qquad |y - x|_{held} \le (|d| + \sum_{others}
   |y_j - x_j|) / \sigma

for columns of at most unit length (extended ones may be longer; *longest*). So with ``lean``
:math:`= |g_{held}| / \sigma` and ``worst`` the largest ``lean + g_j`` of the others (``lean - g_j``
at an upper bound),

.. math:: F(y) \ge F(x) - lean^2 - 2 \max(worst, 0) \sum_{others} |y_j - x_j|.

The last sum is bounded (*reach*) by 2 with a sum of one, by the upper bounds, by ``F / (2 l1)``, by
``sqrt(n F / ridge)``, or by ``sqrt(m) |b|`` where the signs of A do not mix. Where all columns are
independent, all of them may be held instead, and nothing has to be known about the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._nnls.cholesky import factorize, new_factor
from conecollapse._nnls.kernels import smallest_singular_value
from conecollapse._nnls.proof import EPS, SAFETY, is_optimal
from conecollapse._nnls.quadratic import FREE, HIGH, LOW, Solved
from conecollapse._nnls.scaled import Block, Scaled, Shared
from conecollapse._types import FloatArray


class Checked(NamedTuple):
    """What is measured of each row of coefficients."""

    rnorm: FloatArray
    kkt: FloatArray
    value: FloatArray  # the root of twice the objective
    gradient: FloatArray  # of what is maximised, the multiplier of the sum not yet subtracted
    # the same less the multiplier, signed so that positive entries violate; magnitudes where free
    violation: FloatArray


def measure(scaled: Scaled, block: Block, solved: Solved) -> Checked:
    """Measure each row of coefficients with A and b themselves."""
    A, H, side = scaled.A, solved.X, solved.side
    R = block.B - (np.asarray((A @ H.T).T) if sp.issparse(A) else H @ A.T)
    weighted = R if block.W is None else R * block.W
    gradient = np.asarray(weighted @ A) - block.ridge * H - block.l1
    violation = gradient.copy()
    if scaled.constraints.simplex:
        # at least one is, and where x is optimal the multiplier is the gradient of each of these
        is_free = side == FREE
        violation -= (np.where(is_free, gradient, 0.0).sum(axis=1) / is_free.sum(axis=1))[:, None]
    violation = np.where(
        side == FREE,
        np.abs(violation),
        np.where(side == HIGH, -violation, np.where(side == LOW, violation, -np.inf)),
    )
    squares = np.einsum("ij,ij->i", R, weighted)
    value = np.sqrt(squares + (block.ridge * H * H).sum(axis=1) + 2 * (block.l1 * H).sum(axis=1))
    kkt = np.maximum(violation.max(axis=1), 0.0) / np.maximum(block.size, np.finfo(np.float64).tiny)
    return Checked(np.sqrt(squares), kkt, value, gradient, violation)


def lower_bounds(
    scaled: Scaled, shared: Shared, block: Block, solved: Solved, found: Checked
) -> tuple[FloatArray, FloatArray]:
    """What no admissible x falls below, in the units of ``found.value``, and the rounding error of
    that value."""
    c, H, n = scaled.constraints, solved.X, scaled.A.shape[1]
    total = H.sum(axis=1)
    rounding = EPS * (4 + np.sqrt((H > 0).sum(axis=1))) * (block.size + total)
    largest = np.abs(found.gradient).max(axis=1)
    noise = rounding + EPS * (4 + np.sqrt(scaled.A.shape[0])) * (found.rnorm + largest)
    reach = np.full(len(H), 2.0 if c.simplex else np.inf)
    if not c.simplex:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            reach = np.minimum(reach, np.where(block.allowed, block.upper, 0.0).sum(axis=1))
            if c.l1:
                smallest = np.where(block.allowed, block.l1, np.inf).min(axis=1)
                reach = np.minimum(reach, total + found.value**2 / (2 * smallest))
            if c.ridge:
                smallest = np.where(block.allowed, block.ridge, np.inf).min(axis=1)
                reach = np.minimum(reach, total + np.sqrt(n / smallest) * found.value)
            if block.W is None and not c.l1 and not c.ridge and c.upper is None:
                reach = np.minimum(reach, total + scaled.reach * block.size)
    longest = np.sqrt(np.diagonal(block.grams, axis1=1, axis2=2).max(axis=1))[block.of]
    least = np.zeros(len(H))
    for sigma, hold_all in ((shared.sigma if block.W is None else 0.0, True), (None, False)):
        rows = np.flatnonzero(~is_optimal(found.value + rounding, least, block.size))
        if not len(rows) or sigma == 0:
            continue
        some, side = Checked(*(field[rows] for field in found)), solved.side[rows]
        sigmas = (
            _independence(block.grams, block.of[rows], side)
            if sigma is None
            else np.full(len(rows), sigma)
        )
        bound = np.empty(len(rows))
        _lower_bounds(some, side, sigmas, longest[rows], noise[rows], reach[rows], hold_all, bound)
        least[rows] = np.maximum(least[rows], bound - rounding[rows])
    return least, rounding


@kernel
def _lower_bounds(found, side, sigma, longest, noise, reach, hold_all, least):  # type: ignore[no-untyped-def]
    """The bound of the module's text for each row. If ``hold_all``, all variables are held; those
    at a bound can only turn inward."""
    for i in range(len(side)):
        wrong, worst = 0.0, -np.inf
        for j in range(side.shape[1]):
            v = found.violation[i, j]
            if side[i, j] == FREE:
                wrong += (v + noise[i]) ** 2
            elif hold_all:
                wrong += max(v + noise[i], 0.0) ** 2
            else:
                worst = max(worst, v)
        lean = (
            np.sqrt(wrong) * SAFETY / sigma[i] if sigma[i] > 0.0 else np.inf if wrong > 0.0 else 0.0
        )
        worst += noise[i] + lean * longest[i]
        square = found.value[i] * found.value[i] - lean * lean
        if worst > 0.0:
            square -= 2.0 * worst * reach[i]
        least[i] = np.sqrt(square) if square > 0.0 else 0.0


@kernel
def _independence(G, of, side):  # type: ignore[no-untyped-def]
    """For each row of ``side``, an estimate of the smallest singular value of the columns that are
    free, or a lower bound for it."""
    n = side.shape[1]
    s = new_factor(n, n + 1)
    sigma = np.zeros(len(side))
    for i in range(len(side)):
        gram, longest, k = G[of[i]], 0.0, np.int64(0)
        for j in range(n):
            if side[i, j] == FREE:
                s.F[k] = j
                k += 1
                longest = max(longest, np.sqrt(gram[j, j]))
        if k == 0:
            sigma[i] = np.inf
        elif factorize(gram, s, k):
            for a in range(k):
                for b in range(a, k):
                    s.R[a, b] /= longest
            sigma[i] = longest * smallest_singular_value(s.R, k, s.target, s.ones)
    return sigma
