"""Points with very many contained points, such as a word that nearly every document has: cyclic coordinate descent.

An active set for such a point would hold a dense factorization of thousands of columns. It is also slow for a point with hundreds of
coordinates, and a few sweeps prove most of these to be rays in a tenth of the time. Descent over one sparse column after the other,

.. math:: h_j \\leftarrow \\max\\Big(0,\\ h_j + \\frac{r \\cdot q_j}{\\|q_j\\|^2}\\Big), \\qquad r = x - \\sum_j h_j q_j ,

costs one pass over the entries for each sweep, and it need not converge. As soon as the residual is small enough ``x`` is inside, and as
soon as a functional with ``f . x > 0`` and no positive product with a column is found, ``x`` is a ray. One more pass makes such a
functional of a residual: it only *raises* coefficients, of each column that has a positive product when its turn comes. All entries are
non-negative, so every other product falls as well, and in the end none is positive. What this costs of ``r . x`` is little long
before the descent has converged.

Only few columns have a coefficient at the end. Between two looks at all of them, sweeps go over those that have one or whose product with
the residual was positive at the last look.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import dot
from conecollapse.geometry.certified.contained import price

MAX_LOOKS, FEW_LOOKS = 500, 40  # the second where an active set follows, which takes at least as long
SWEEPS = 10  # between two looks at all columns
LEAD = 0.05  # share of |r|^2 that f . x must be for an early end: at the optimum f is r, and f . x is all of it
CLEAR_LEAD = 1e5  # a distance that is this many times the residual that counts as zero is enough, too


@kernel
def descend_by_sweeps(columns, x, zero, looks):  # type: ignore[no-untyped-def]
    """Whether it came to an end within so many ``looks``, the coefficients of the `Contained` columns, and the residual.

    ``zero`` is the share of ``|x|`` up to which the residual counts as zero; then it is returned as zero. Otherwise it has no positive
    product with a column, if it came to an end.
    """
    ptr, value = columns.ptr, columns.value
    n = len(ptr) - 1
    inverse = np.zeros(n)
    for q in range(n):
        inverse[q] = 1.0 / dot(value[ptr[q] : ptr[q + 1]], value[ptr[q] : ptr[q + 1]])
    r, h = x.copy(), np.zeros(n)
    f, raised = np.empty_like(r), np.empty_like(h)
    limit = zero * zero * dot(x, x)
    swept, n_swept = np.arange(n), n
    for look in range(looks):
        for _ in range(SWEEPS if look else 3):
            _sweep(columns, swept[:n_swept], inverse, h, r)
        norm2 = dot(r, r)
        if norm2 <= limit:
            r[:] = 0.0
            return True, h, r
        f[:], raised[:] = r, h
        n_swept = _raise(columns, inverse, (h, r), (raised, f), swept)
        lead = dot(f, x)
        if lead > LEAD * norm2 or (lead > 0.0 and lead * lead > CLEAR_LEAD * CLEAR_LEAD * limit * dot(f, f)):
            return True, raised, f
    return False, h, r


@kernel
def _sweep(columns, swept, inverse, h, r):  # type: ignore[no-untyped-def]
    """Give each of the columns ``swept`` in turn its best coefficient; ``inverse`` are the ``1 / |q|^2``."""
    ptr, place, value = columns
    for q in swept:
        new = max(0.0, h[q] + price(columns, q, r) * inverse[q])
        step = h[q] - new
        if step != 0.0:
            h[q] = new
            for t in range(ptr[q], ptr[q + 1]):
                r[place[t]] += step * value[t]


@kernel
def _raise(columns, inverse, present, copy, swept):  # type: ignore[no-untyped-def]
    """Raise the coefficients of the ``copy`` until its residual has no positive product.

    ``present`` and ``copy`` are coefficients and residual. Fills ``swept`` with the columns that have a coefficient or a positive
    product at present; how many these are.
    """
    ptr, place, value = columns
    (h, r), (raised, f) = present, copy
    n_swept = 0
    for q in range(len(h)):
        g = price(columns, q, r)
        if h[q] > 0.0 or g > 0.0:
            swept[n_swept] = q
            n_swept += 1
        if g > 0.0:  # f is nowhere above r
            g = price(columns, q, f)
            if g > 0.0:
                raised[q] += g * inverse[q]
                for t in range(ptr[q], ptr[q + 1]):
                    f[place[t]] -= g * inverse[q] * value[t]
    return n_swept
