"""Points with very many contained points, such as a word that nearly every document has: cyclic coordinate descent.

An active set for such a point would hold a dense factorization of thousands of columns. Descent over one sparse column after the other,

.. math:: h_j \\leftarrow \\max\\Big(0,\\ h_j + \\frac{r \\cdot q_j}{\\|q_j\\|^2}\\Big), \\qquad r = x - \\sum_j h_j q_j ,

costs one pass over the entries for each sweep, and it need not converge: as soon as the residual has a larger
product with ``x`` than with any other point, ``r . x > max_j r . q_j``, it is a functional that proves ``x`` a ray, and as soon as it is
small enough ``x`` is inside. Only few columns have a coefficient at the end. Between two looks at all of them, sweeps go over those that
have one or whose product with the residual was positive at the last look.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import dot

MAX_LOOKS = 500
SWEEPS = 10  # between two looks at all columns
LEAD = 0.05  # share of |r|^2 by which x must lead for an early end: at the optimum it leads by all of it
CLEAR_LEAD = 1e5  # a lead that proves this many times the residual that counts as zero is enough, too


@kernel(fastmath={"reassoc", "contract", "nsz"})
def descend_by_sweeps(lists, contained, position, x, zero):  # type: ignore[no-untyped-def]
    """Whether it came to an end, coefficients of the contained points (in slice coordinates), and the residual.

    ``lists`` are those of `support`, ``position`` maps a coordinate of ``x`` to its place, and ``zero`` is the share of ``|x|`` up to which
    the residual counts as zero.
    """
    n = len(contained)
    ptr = np.zeros(n + 1, np.int64)
    for q in range(n):
        ptr[q + 1] = ptr[q] + lists.ptr[contained[q] + 1] - lists.ptr[contained[q]]
    place, value, length2 = np.empty(ptr[n], np.int32), np.empty(ptr[n]), np.zeros(n)
    for q in range(n):
        first = lists.ptr[contained[q]]
        for t in range(ptr[q], ptr[q + 1]):
            place[t] = position[lists.idx[first + t - ptr[q]]]
            value[t] = lists.val[first + t - ptr[q]] / lists.sums[contained[q]]
            length2[q] += value[t] * value[t]
    r, h = x.copy(), np.zeros(n)
    limit = zero * zero * dot(x, x)
    swept, n_swept = np.arange(n), n
    for look in range(MAX_LOOKS):
        for _ in range(SWEEPS if look else 3):
            for a in range(n_swept):
                q = swept[a]
                g = 0.0
                for t in range(ptr[q], ptr[q + 1]):
                    g += r[place[t]] * value[t]
                new = max(0.0, h[q] + g / length2[q])
                step = h[q] - new
                if step != 0.0:
                    h[q] = new
                    for t in range(ptr[q], ptr[q + 1]):
                        r[place[t]] += step * value[t]
        highest, n_swept = -np.inf, 0
        for q in range(n):
            g = 0.0
            for t in range(ptr[q], ptr[q + 1]):
                g += r[place[t]] * value[t]
            highest = max(highest, g)
            if h[q] > 0.0 or g > 0.0:
                swept[n_swept] = q
                n_swept += 1
        norm2 = dot(r, r)
        lead = dot(r, x) - highest
        if norm2 <= limit or lead > LEAD * norm2 or (lead > 0.0 and lead * lead > CLEAR_LEAD * CLEAR_LEAD * limit * norm2):
            return True, h, r
    return False, h, r
