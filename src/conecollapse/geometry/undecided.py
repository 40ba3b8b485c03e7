"""The cone of a set of points before anything is decided about them.

Points of the same direction are one, and every direction stays among the rays as an open point. The cone is the same as that of the exact
method; which of its rays the others generate is not asked, so that it costs a few passes over the points. `Cone.prove` goes on from it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import pair_distances, take_rows, unit_rows
from conecollapse._types import Points
from conecollapse.certificates import Certificate
from conecollapse.geometry.certified import group
from conecollapse.geometry.cone import Cone


def undecided(P: Points, tol: float) -> Cone:
    """The cone of checked points with a ray for every direction, all of them open.

    Examples
    --------
    >>> cone = undecided(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 3.0]]), 1e-8)
    >>> cone.ray_indices, cone.open_points
    (array([0, 1, 2]), array([0, 1, 2]))
    >>> cone.prove([[1, 0], [1, 1], [0, 2], [0, 3]]).ray_indices
    array([0, 2])
    """
    U, lengths = unit_rows(P)
    leader, leaders = group(U, lengths, tol)
    members = np.flatnonzero((leader >= 0) & (leader != np.arange(len(leader))))
    no_ray = np.zeros(len(leaders), bool)
    certificate = Certificate(
        tol=tol,
        residual=float(pair_distances(U, members, leader[members]).max(initial=0.0)),
        n_points=len(leader),
        dim=U.shape[1],
        rays=leaders,
        leader=leader,
        coefficients=sp.csr_array((len(leader), len(leaders))),
        rays_only=no_ray,
        separated=leaders,
        witnesses=(),
        open=~no_ray,
    )
    return Cone(take_rows(U, leaders), certificate)
