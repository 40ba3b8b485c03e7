r"""Sweeps of coordinate descent over the rows of a small factor of few components, one coordinate
of all rows at a time.

In units of the diagonal of G, coordinate k of a row w has its minimum at

.. math:: w_k \leftarrow \max\Big(0,\ \frac{c_k}{G_{kk}} + \sum_j \Big(\delta_{kj} -
   \frac{G_{kj}}{G_{kk}}\Big) w_j\Big) ,

which is one product of a short vector with the transposed rows of W and C. For few components and
thousands of rows NumPy takes as long for it as the kernels of `conecollapse.factorization.hals` do,
and there is nothing to compile.
"""

from __future__ import annotations

import numpy as np

from conecollapse._types import AnyArray

# of a factor, up to which and below which it is small: beyond that the kernels are quicker
COMPONENTS, ENTRIES = 12, 2**14


def is_small(W: AnyArray) -> bool:
    """Whether these sweeps are meant for the factor W."""
    return W.shape[1] <= COMPONENTS and W.size < ENTRIES


def sweep_small(W: AnyArray, G: AnyArray, C: AnyArray, sweeps: int) -> AnyArray:
    """``W`` after ``sweeps`` rounds of coordinate descent on every row for ``w G w' - 2 c w'``, w
    >= 0."""
    n, r = W.shape
    diagonal = G.diagonal()
    moves = diagonal > 0
    inverse = np.divide(1.0, diagonal, out=np.zeros(r), where=moves)[:, None]
    stacked = np.concatenate([W.T, C.T * inverse])
    weights = np.hstack([np.eye(r) - G * inverse, np.eye(r)])
    coordinates = [(weights[k], stacked[k]) for k in np.flatnonzero(moves)]
    minimum = np.empty(n)
    for _ in range(sweeps):
        for weight, w in coordinates:
            np.dot(weight, stacked, out=minimum)
            np.maximum(minimum, 0.0, out=w)
    return np.array(stacked[:r].T, W.dtype, order="C")
