r"""The cone of the columns of a table whose inverse is known.

Let :math:`M \ge 0` be invertible. No column is a combination of the others, so all of them are
rays, and row j of :math:`M^{-1}` says so: :math:`g_j \cdot m_k = \delta_{jk}`. Shifted down by a
little, :math:`g_j - s 1`, it is below zero on every other column by more than rounding, which is
what a witness has to be.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import row_lengths
from conecollapse._types import Sparse
from conecollapse.certificates import Certificate, SparseVectors
from conecollapse.geometry.merging import Part

# of each witness, as a share of its length: far above rounding, far below the distances that are
# proven
SHIFT = 1e-10


def part_of_invertible(inverse: Sparse, tol: float) -> Part:
    """The part of the columns of the matrix with this inverse; the rays, which are never formed,
    are not held."""
    n = inverse.shape[0]
    everyone = np.arange(n)
    witnesses = SparseVectors(everyone, sp.csr_array(inverse), SHIFT * row_lengths(inverse))
    certificate = Certificate(
        tol=tol,
        residual=0.0,
        n_points=n,
        dim=n,
        rays=everyone,
        leader=everyone,
        coefficients=sp.csr_array((n, n)),
        rays_only=np.zeros(n, bool),
        separated=everyone,
        witnesses=(witnesses,),
        open=np.zeros(n, bool),
    )
    return Part(n, None, certificate)
