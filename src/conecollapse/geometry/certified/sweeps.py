r"""One sparse point over others: cyclic coordinate descent, and a polish at its end.

The point may be a word that nearly every document has, and the columns thousands: an active set
would hold a dense factorization of them. Descent over one sparse column after the other,

.. math:: h_j \leftarrow \max\Big(0,\ h_j + \frac{r \cdot q_j}{\|q_j\|^2}\Big), \qquad r =
   x - \sum_j h_j q_j ,

costs one pass over the entries for each sweep, and it need not converge. As soon as the residual is
small enough ``x`` is inside, and as soon as a functional with ``f . x > 0`` and no positive product
with a column is found, ``x`` is a ray. One more pass makes such a functional of a residual: it only
*raises* coefficients, of each column that has a positive product when its turn comes. All entries
are non-negative, so every other product falls as well, and in the end none is positive. What this
costs of ``r . x`` is little long before the descent has converged.

Only few columns have a coefficient at the end. Between two looks at all of them, sweeps go over
those that have one or whose product with the residual was positive at the last look.

Such a point may contain most of all entries, so the columns are read where they are stored
(`lists`).

*The polish.* Descent comes near an interior point quickly, and then creeps. But a
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
from conecollapse._nnls.factor import dot
from conecollapse.geometry.certified.lists import add_times, product_with

# looks at all columns: few where points are mostly filled, because the dense search soon decides
# what is left (`supports`)
MAX_LOOKS, FEW_LOOKS = 500, 40
SWEEPS = 10  # between two looks at all columns
# the combination is polished after this part of the looks, and after twice as many each time
FIRST_POLISH = 8
# share of |r|^2 that f . x must be for an early end: at the optimum f is r, and f . x is all of it
LEAD = 0.05
# a distance that is this many times the residual that counts as zero is enough, too
CLEAR_LEAD = 1e5
ROUNDS = 8  # changes in a row
SHORT = 0.25  # a change of which less than this part can be made is not worth another one
WITHIN = 0.95  # share of the largest change that keeps all coefficients positive
SOLVED = 1e-4  # share of the residual that conjugate gradients leave


@kernel
def descend_by_sweeps(columns, x, zero, looks):  # type: ignore[no-untyped-def]
    """Whether it came to an end within so many ``looks``, the coefficients of the `Stored` columns,
    and the residual.

    ``x`` and the residual are in the coordinates of the support. ``zero`` is the share of ``|x|``
    up to which the residual counts as zero; then it is returned as zero. Otherwise it has no
    positive product with a column, if it came to an end.
    """
    support, weight, n = columns.support, columns.weight, len(columns.first)
    h, raised, out = np.zeros(n), np.empty(n), np.zeros(len(x))
    r, f, squared = columns.room  # residuals times the weights, and the squared weights
    for t in range(len(x)):
        r[support[t]] = x[t] * weight[support[t]]
        squared[support[t]] = weight[support[t]] ** 2
    limit = zero * zero * dot(x, x)
    swept, n_swept = np.arange(n), n
    for look in range(looks):
        for _ in range(SWEEPS if look else 3):
            _sweep(columns, swept[:n_swept], h, r)
        if look * FIRST_POLISH >= looks and look & (look - 1) == 0:
            polish(columns, swept[:n_swept][h[swept[:n_swept]] > 0.0], h, r, limit, look * SWEEPS)
        norm2, _ = _measure(columns, r, x)
        if norm2 <= limit:
            return True, h, out
        for j in range(n):
            raised[j] = h[j]
        for d in support:
            f[d] = r[d]
        n_swept = _raise(columns, (h, r), (raised, f), swept)
        squares, lead = _measure(columns, f, x)
        if lead > LEAD * norm2 or (
            lead > 0.0 and lead * lead > CLEAR_LEAD * CLEAR_LEAD * limit * squares
        ):
            _take_off(columns, f, out)
            return True, raised, out
    _take_off(columns, r, out)
    return False, h, out


@kernel
def _measure(columns, r, x):  # type: ignore[no-untyped-def]
    """``|r|^2`` and ``r . x`` of a residual that is given times the weights."""
    squares, product = 0.0, 0.0
    for t in range(len(x)):
        value = r[columns.support[t]] / columns.weight[columns.support[t]]
        squares += value * value
        product += value * x[t]
    return squares, product


@kernel
def _take_off(columns, r, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with a residual without the weights."""
    for t in range(len(out)):
        out[t] = r[columns.support[t]] / columns.weight[columns.support[t]]


@kernel
def _sweep(columns, swept, h, r):  # type: ignore[no-untyped-def]
    """Give each of the columns ``swept`` in turn its best coefficient."""
    idx, val, first, last, squared = (
        columns.idx,
        columns.val,
        columns.first,
        columns.last,
        columns.room[2],
    )
    share, gain = columns.share, columns.gain
    for q in swept:
        a, b = first[q], last[q]
        new = max(0.0, h[q] + product_with(idx[a:b], val[a:b], r) * gain[q])
        step = h[q] - new
        if step != 0.0:
            h[q] = new
            add_times(idx[a:b], val[a:b], step * share[q], squared, r)


@kernel
def _raise(columns, present, copy, swept):  # type: ignore[no-untyped-def]
    """Raise the coefficients of the ``copy`` until its residual has no positive product.

    ``present`` and ``copy`` are coefficients and residual. Fills ``swept`` with the columns that
    have a coefficient or a positive product at present; how many these are.
    """
    idx, val, first, last, squared = (
        columns.idx,
        columns.val,
        columns.first,
        columns.last,
        columns.room[2],
    )
    share, gain = columns.share, columns.gain
    (h, r), (raised, f) = present, copy
    n_swept = 0
    for q in range(len(h)):
        a, b = first[q], last[q]
        g = product_with(idx[a:b], val[a:b], r)
        if h[q] > 0.0 or g > 0.0:
            swept[n_swept] = q
            n_swept += 1
        if g > 0.0:  # f is nowhere above r
            g = product_with(idx[a:b], val[a:b], f) * gain[q]
            if g > 0.0:
                raised[q] += g
                add_times(idx[a:b], val[a:b], -g * share[q], squared, f)
    return n_swept


@kernel
def polish(columns, used, h, r, limit, steps):  # type: ignore[no-untyped-def]
    """Change the coefficients ``h`` of the columns ``used``, all of them positive, so that the
    residual ``r`` becomes small.

    ``steps`` of conjugate gradients are made in all, at most; less if the squared length of the
    residual is at most ``limit``.
    """
    z, rate = np.zeros(len(r)), np.empty(len(used))
    for _ in range(ROUNDS):
        steps -= _solve_conjugate(columns, used, h, r, z, limit, steps)
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
def _solve_conjugate(columns, used, h, r, z, limit, steps):  # type: ignore[no-untyped-def]
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
