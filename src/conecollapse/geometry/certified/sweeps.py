"""Points with very many contained points, such as a word that nearly every document has: cyclic
coordinate descent.

An active set for such a point would hold a dense factorization of thousands of columns. It is also
slow for a point with hundreds of coordinates, and a few sweeps prove most of these to be rays in a
tenth of the time. Descent over one sparse column after the other,

.. math:: h_j \\leftarrow \\max\\Big(0,\\ h_j + \\frac{r \\cdot q_j}{\\|q_j\\|^2}\\Big), \\qquad r =
   x - \\sum_j h_j q_j ,

costs one pass over the entries for each sweep, and it need not converge. As soon as the residual is
small enough ``x`` is inside, and as soon as a functional with ``f . x > 0`` and no positive product
with a column is found, ``x`` is a ray. One more pass makes such a functional of a residual: it only
*raises* coefficients, of each column that has a positive product when its turn comes. All entries
are non-negative, so every other product falls as well, and in the end none is positive. What this
costs of ``r . x`` is little long before the descent has converged.

Inside, descent is fast at first and then creeps; now and then the combination is made exact in one
go (`polish`).

Only few columns have a coefficient at the end. Between two looks at all of them, sweeps go over
those that have one or whose product with the residual was positive at the last look.

Such a point may contain most of all entries, so the columns are read where they are stored
(`lists`).
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.factor import dot
from conecollapse.geometry.certified.lists import add_times, product_with
from conecollapse.geometry.certified.polish import polish

# the second where an active set follows, which takes at least as long
MAX_LOOKS, FEW_LOOKS = 500, 40
SWEEPS = 10  # between two looks at all columns
# the combination is polished after this part of the looks, and after twice as many each time
FIRST_POLISH = 8
# share of |r|^2 that f . x must be for an early end: at the optimum f is r, and f . x is all of it
LEAD = 0.05
# a distance that is this many times the residual that counts as zero is enough, too
CLEAR_LEAD = 1e5


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
