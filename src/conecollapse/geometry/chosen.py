"""The cone of chosen rows, with a certificate of how near it comes to every point."""

from __future__ import annotations

import numpy as np

from conecollapse._threads import serial_blas
from conecollapse._types import IntArray, Points
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.epsilon import over_rays


def chosen_cone(points: Points, indices: IntArray) -> Cone:
    """The cone of these rows of checked ``points``; `Cone.verify` checks the largest residual of
    all rows."""
    with serial_blas():
        rays, certificate = over_rays(points, np.asarray(indices, np.int64))
    return Cone(rays, certificate)
