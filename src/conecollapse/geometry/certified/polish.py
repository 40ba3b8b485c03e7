r"""A combination that nearly gives a point, made exact: by a few steps, each with conjugate
gradients.

Coordinate descent (`sweeps`) comes near an interior point quickly, and then creeps. But a
combination that is near has many positive coefficients :math:`h_j`, and the change of them that
removes the residual r and is smallest in proportion,

.. math:: \min_\delta \sum_j \frac{\delta_j^2}{h_j} \quad \text{with} \quad \sum_j \delta_j q_j = r
   ,

is :math:`\delta_j = h_j \, (q_j \cdot z)` with :math:`\big(\sum_j h_j q_j q_j^T\big) z = r`. This
is solved by conjugate gradients, which need two passes over the entries for each step and no
factorization. Where no coefficient would fall below zero x is inside; otherwise only a part of the
change is made, and there is less left for the next one. All is in the coordinates of `Stored`
columns: vectors of the support are held times the weights, so that products with the columns are
those with the points.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse.geometry.certified.lists import add_times, product_with

ROUNDS = 8  # changes in a row
SHORT = 0.25  # a change of which less than this part can be made is not worth another one
WITHIN = 0.95  # share of the largest change that keeps all coefficients positive
SOLVED = 1e-4  # share of the residual that conjugate gradients leave


@kernel
def polish(columns, used, h, r, limit, steps):  # type: ignore[no-untyped-def]
    """Change the coefficients ``h`` of the columns ``used``, all of them positive, so that the
    residual ``r`` becomes small.

    ``steps`` of conjugate gradients are made in all, at most; less if the squared length of the
    residual is at most ``limit``.
    """
    z, rate = np.zeros(len(r)), np.empty(len(used))
    for _ in range(ROUNDS):
        steps -= _solve(columns, used, h, r, z, limit, steps)
        least = 0.0
        for k, q in enumerate(used):
            a, b = columns.first[q], columns.last[q]
            rate[k] = columns.share[q] * product_with(columns.idx[a:b], columns.val[a:b], z)
            least = min(least, rate[k])
        part = 1.0 if least > -WITHIN else -WITHIN / least
        for k, q in enumerate(used):
            a, b = columns.first[q], columns.last[q]
            step = part * rate[k] * h[q]
            add_times(
                columns.idx[a:b], columns.val[a:b], -step * columns.share[q], columns.room[2], r
            )
            h[q] += step
        if part < SHORT or steps <= 0 or _product(columns, r, r) <= limit:
            break


@kernel
def _product(columns, a, b):  # type: ignore[no-untyped-def]
    """``a . b`` of vectors that are given times the weights."""
    total = 0.0
    for d in columns.support:
        total += a[d] * b[d] / columns.room[2][d]
    return total


@kernel
def _solve(columns, used, h, r, z, limit, steps):  # type: ignore[no-untyped-def]
    """Fill ``z`` by conjugate gradients, scaled by the diagonal; the number of steps, all of them
    where a coordinate has no column."""
    support, squared = columns.support, columns.room[2]
    diagonal, left, y, p, Ap = (
        np.zeros(len(r)),
        r.copy(),
        np.zeros(len(r)),
        np.zeros(len(r)),
        np.empty(len(r)),
    )
    for q in used:
        for t in range(columns.first[q], columns.last[q]):
            d = columns.idx[t]
            diagonal[d] += h[q] * squared[d] * (columns.share[q] * columns.val[t]) ** 2
    z[:] = 0.0
    for d in support:
        if diagonal[d] == 0.0:
            return steps
    rho, enough = 0.0, max(0.25 * limit, SOLVED * SOLVED * _product(columns, r, r))
    for step in range(steps):
        for d in support:
            y[d] = left[d] / diagonal[d]
        before, rho = rho, _product(columns, left, y)
        for d in support:
            p[d] = y[d] + (rho / before * p[d] if step else 0.0)
        Ap[:] = 0.0
        for q in used:
            a, b = columns.first[q], columns.last[q]
            step = (
                h[q] * columns.share[q] ** 2 * product_with(columns.idx[a:b], columns.val[a:b], p)
            )
            add_times(columns.idx[a:b], columns.val[a:b], step, squared, Ap)
        curvature = _product(columns, p, Ap)
        if not curvature > 0.0:  # rounding
            return steps
        alpha = rho / curvature
        for d in support:
            z[d] += alpha * p[d]
            left[d] -= alpha * Ap[d]
        if _product(columns, left, left) <= enough:
            return step + 1
    return steps
