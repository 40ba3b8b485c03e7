r"""Vertex component analysis (Nascimento & Dias 2005): extremes of random directions that the
chosen points do not see.

Points are projected on their best r-dimensional subspace and scaled so that their product with the
mean is one: mixtures then lie in a simplex whose vertices are the pure points. A random direction
orthogonal to the vertices found so far is extreme at another vertex. The directions are random, so
different seeds give different points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conecollapse._checks import as_points, check_count
from conecollapse._linalg import largest
from conecollapse._types import IntArray
from conecollapse.geometry.scaling import scaled_points
from conecollapse.geometry.subspace import best_subspace


def vca(P: Any, n_rays: int, rng: np.random.Generator, scaling: str = "raw") -> IntArray:
    """Indices of ``n_rays`` rows of ``P`` by vertex component analysis.

    >>> import numpy as np
    >>> from conecollapse.geometry.vca import vca
    >>> sorted(
    ...     vca([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], 3, np.random.default_rng(0)).tolist()
    ... )
    [0, 1, 3]
    """
    points = as_points(P)
    n_rays = min(check_count(n_rays, "n_rays"), *points.shape)
    Q = scaled_points(points, scaling)
    Z = np.asarray(Q @ best_subspace(Q, n_rays))
    height = Z @ Z.mean(axis=0)
    # the others are zero, or outliers far from every mixture
    usable = height > 1e-6 * float(height.max(initial=0.0))
    Z = np.where(usable[:, None], Z / np.where(usable, height, 1.0)[:, None], 0.0)
    found = np.zeros((0, n_rays))
    chosen: list[int] = []
    for _ in range(n_rays):
        direction = rng.standard_normal(n_rays)
        direction -= np.linalg.pinv(found) @ (found @ direction)
        value = np.abs(Z @ direction)
        value[chosen] = -1.0
        i = largest(value)
        chosen.append(i)
        found = np.vstack([found, Z[i]])
    return np.array(chosen, np.int64)
