"""rays(A u B) = rays(rays(A) u rays(B)), and what becomes of the certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import pair_distances, residuals
from conecollapse._types import IntArray, Points
from conecollapse.certificates import Certificate
from conecollapse.geometry.certified import certify


def merge_certificates(rays_a: Points, a: Certificate, rays_b: Points, b: Certificate) -> tuple[Certificate, IntArray]:
    """Certificate about the points of ``a`` followed by those of ``b``, and which of the stacked rays it keeps.

    The rays alone are certified first. A point with coefficients ``h`` over its own cone's rays then has ``h C`` over the merged
    ones, where the rows of ``C`` express each old ray by the new: unit vectors for those that stayed.
    """
    if sp.issparse(rays_a) and sp.issparse(rays_b):
        U = sp.csr_array(sp.vstack([rays_a, rays_b]))
        U.sort_indices()
    else:
        U = np.vstack([part.toarray() if sp.issparse(part) else part for part in (rays_a, rays_b)])
    inner = certify(U, np.ones(U.shape[0]), max(a.tol, b.tol))
    kept = inner.rays
    old = np.concatenate([a.rays, a.n_points + b.rays])

    C = inner.coefficients.tolil()
    C[kept, np.arange(len(kept))] = 1.0
    C = C.tocsr()
    C = C[np.where(inner.leader >= 0, inner.leader, 0)]  # a ray merged into a colinear one is that one
    H_old = sp.csr_array(sp.block_diag([with_rays(a), with_rays(b)]))
    # |u - h C R| <= |u - h U| + h |U - C R|: what the old coefficients left, and what expressing the old rays by the new adds
    error = residuals(U, np.arange(U.shape[0]), C, U[kept])
    reach = max(a.reach, b.reach) + float((H_old @ error).max()) + 4 * float(np.finfo(np.float64).eps)

    leader = np.concatenate([a.leader, np.where(b.leader >= 0, b.leader + a.n_points, -1)])
    moved = np.flatnonzero(inner.leader != np.arange(U.shape[0]))  # rays colinear with one of the other cone: their groups join its group
    reach += float(pair_distances(U, moved, inner.leader[moved]).max(initial=0.0))
    joins = np.arange(len(leader))
    joins[old[moved]] = old[inner.leader[moved]]
    leader = np.where(leader >= 0, joins[leader], -1)
    rays = old[kept]
    needs_coefficients = leader == np.arange(len(leader))
    needs_coefficients[rays] = False
    H = sp.csr_array(sp.diags_array(needs_coefficients.astype(np.float64)) @ (H_old @ C))
    H.eliminate_zeros()
    merged = replace(
        inner,
        reach=min(reach, 1.0),
        n_points=len(leader),
        rays=rays,
        leader=leader,
        rays_only=np.ones(len(rays), bool),
        separated=old[inner.separated],
        coefficients=H,
    )
    return merged, kept


def with_rays(c: Certificate) -> sp.csr_array:
    """Coefficients of every leader over the rays, the rays' own included."""
    own = sp.csr_array((np.ones(len(c.rays)), (c.rays, np.arange(len(c.rays)))), shape=c.coefficients.shape)
    return sp.csr_array(c.coefficients + own)
