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
from conecollapse.geometry.certified.contained import price

MAX_LOOKS = 500
SWEEPS = 10  # between two looks at all columns
LEAD = 0.05  # share of |r|^2 by which x must lead for an early end: at the optimum it leads by all of it
CLEAR_LEAD = 1e5  # a lead that proves this many times the residual that counts as zero is enough, too


@kernel
def descend_by_sweeps(columns, x, zero):  # type: ignore[no-untyped-def]
    """Whether it came to an end, the coefficients of the `Contained` columns, and the residual.

    ``zero`` is the share of ``|x|`` up to which the residual counts as zero; then it is returned as zero.
    """
    ptr, place, value = columns
    n = len(ptr) - 1
    length2 = np.zeros(n)
    for q in range(n):
        length2[q] = dot(value[ptr[q] : ptr[q + 1]], value[ptr[q] : ptr[q + 1]])
    r, h = x.copy(), np.zeros(n)
    limit = zero * zero * dot(x, x)
    swept, n_swept = np.arange(n), n
    for look in range(MAX_LOOKS):
        for _ in range(SWEEPS if look else 3):
            for a in range(n_swept):
                q = swept[a]
                new = max(0.0, h[q] + price(columns, q, r) / length2[q])
                step = h[q] - new
                if step != 0.0:
                    h[q] = new
                    for t in range(ptr[q], ptr[q + 1]):
                        r[place[t]] += step * value[t]
        highest, n_swept = -np.inf, 0
        for q in range(n):
            g = price(columns, q, r)
            highest = max(highest, g)
            if h[q] > 0.0 or g > 0.0:
                swept[n_swept] = q
                n_swept += 1
        norm2 = dot(r, r)
        lead = dot(r, x) - highest
        if norm2 <= limit:
            r[:] = 0.0
            return True, h, r
        if lead > LEAD * norm2 or (lead > 0.0 and lead * lead > CLEAR_LEAD * CLEAR_LEAD * limit * norm2):
            return True, h, r
    return False, h, r
