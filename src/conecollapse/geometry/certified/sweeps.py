"""Points with very many contained points, such as a word that nearly every document has: cyclic coordinate descent.

An active set for such a point would hold a dense factorization of thousands of columns. Descent over one sparse column after the other,

.. math:: h_j \\leftarrow \\max\\Big(0,\\ h_j + \\frac{r \\cdot q_j}{\\|q_j\\|^2}\\Big), \\qquad r = x - \\sum_j h_j q_j ,

costs one pass over the entries for each sweep, and it need not converge: as soon as the residual has a larger
product with ``x`` than with any other point, ``r . x > max_j r . q_j``, it is a functional that proves ``x`` a ray, and as soon as it is
small enough ``x`` is inside.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import dot

MAX_SWEEPS = 2000
LOOK_EVERY = 5  # sweeps between two looks at the residual
LEAD = 0.05  # share of |r|^2 by which x must lead for an early end: at the optimum it leads by all of it


@kernel
def descend_by_sweeps(lists, contained, position, x, zero):  # type: ignore[no-untyped-def]
    """Whether it came to an end, coefficients of the contained points (in slice coordinates), and the residual.

    ``lists`` are those of `support`, ``position`` maps a coordinate of ``x`` to its place, and ``zero`` is the share of ``|x|`` up to which
    the residual counts as zero.
    """
    ptr, idx, val, sums = lists.ptr, lists.idx, lists.val, lists.sums
    r = x.copy()
    h = np.zeros(len(contained))
    length2 = np.zeros(len(contained))
    for q in range(len(contained)):
        j = contained[q]
        for t in range(ptr[j], ptr[j + 1]):
            length2[q] += (val[t] / sums[j]) ** 2
    limit = zero * zero * dot(x, x)
    for sweep in range(MAX_SWEEPS):
        highest = -np.inf
        look = sweep % LOOK_EVERY == LOOK_EVERY - 1
        for q in range(len(contained)):
            j = contained[q]
            g = 0.0
            for t in range(ptr[j], ptr[j + 1]):
                g += r[position[idx[t]]] * val[t]
            g /= sums[j]
            if look:
                highest = max(highest, g)
            else:
                new = max(0.0, h[q] + g / length2[q])
                step = (h[q] - new) / sums[j]
                if step != 0.0:
                    h[q] = new
                    for t in range(ptr[j], ptr[j + 1]):
                        r[position[idx[t]]] += step * val[t]
        if look:
            norm2 = dot(r, r)
            if norm2 <= limit or dot(r, x) - highest > LEAD * norm2:
                return True, h, r
    return False, h, r
