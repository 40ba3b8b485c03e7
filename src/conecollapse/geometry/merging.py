"""rays(A u B) = rays(rays(A) u rays(B)), and what becomes of the certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, pair_distances, residuals
from conecollapse._types import Effort, IntArray, Points
from conecollapse.certificates import Certificate
from conecollapse.geometry.certified import certify

ROUNDING = 4 * float(np.finfo(np.float64).eps)  # of a residual that is measured in another order


def merge_certificates(
    rays_a: Points, a: Certificate, rays_b: Points, b: Certificate, effort: Effort = "exact"
) -> tuple[Certificate, IntArray]:
    """Certificate about the points of ``a`` followed by those of ``b``, and which of the stacked
    rays it keeps.

    The rays alone are certified first. A point with coefficients ``h`` over its own cone's rays
    then has ``h C`` over the merged ones, where the rows of ``C`` express each old ray by the new:
    unit vectors for those that stayed. Residuals add up, so near the tolerance the merged cone may
    guarantee only a larger one. That one becomes its ``tol``, and the rays must be clear of each
    other by it: they are certified again. The rays of the result are proven against each other,
    open or not before; with ``effort="quick"`` some may be left open.
    """
    if sp.issparse(rays_a) and sp.issparse(rays_b):
        U = sp.csr_array(sp.vstack([rays_a, rays_b]))
        U.sort_indices()
    else:
        U = np.vstack([as_dense(part) for part in (rays_a, rays_b)])
    tol = max(a.tol, b.tol)
    while True:
        merged, kept = _merged_at(U, a, b, tol, effort)
        if merged.residual <= merged.tol:
            return merged, kept
        # fewer rays are distinct at it; with the same ones the residual is the same, and we are
        # done
        tol = merged.residual
        if tol >= 1:
            raise InvalidInputError(
                "the tolerances of these cones are too coarse to merge them; make both with a"
                " smaller tol."
            )


def _merged_at(
    U: Points, a: Certificate, b: Certificate, tol: float, effort: Effort
) -> tuple[Certificate, IntArray]:
    """The merged certificate when the stacked rays ``U`` are distinguished at ``tol``, with a bound
    on all residuals, and the rays kept."""
    inner = certify(U, np.ones(U.shape[0]), tol, effort=effort)
    kept = inner.rays
    old = np.concatenate([a.rays, a.n_points + b.rays])

    C = inner.coefficients.tolil()
    C[kept, np.arange(len(kept))] = 1.0
    C = C.tocsr()[inner.leader]  # a ray merged into a colinear one is that one
    H_old = sp.csr_array(sp.block_diag([with_rays(a), with_rays(b)]))
    # rays colinear with one of the other cone: their groups join its group
    moved = np.flatnonzero(inner.leader != np.arange(U.shape[0]))
    over_points = sp.csr_array((C.data, kept[C.indices], C.indptr), shape=(U.shape[0], U.shape[0]))
    # |u - h C R| <= |u - h U| + h |U - C R|, and for the members of a group that joins another
    # |u - v| <= |u - w| + |w - v|:
    # what the old cone left, and what the merge adds
    expressed = float((H_old @ residuals(U, np.arange(U.shape[0]), over_points)).max())
    joined = float(pair_distances(U, moved, inner.leader[moved]).max(initial=0.0))
    residual = max(a.residual, b.residual) + max(expressed, joined) + ROUNDING

    leader = np.concatenate([a.leader, np.where(b.leader >= 0, b.leader + a.n_points, -1)])
    joins = np.arange(len(leader))
    joins[old[moved]] = old[inner.leader[moved]]
    leader = np.where(leader >= 0, joins[leader], -1)
    rays = old[kept]
    needs_coefficients = leader == np.arange(len(leader))
    needs_coefficients[rays] = False
    H = sp.csr_array(sp.diags_array(needs_coefficients.astype(np.float64)) @ (H_old @ C))
    H.eliminate_zeros()
    H.sort_indices()
    merged = replace(
        inner,
        residual=residual,
        n_points=len(leader),
        rays=rays,
        leader=leader,
        rays_only=~inner.open,
        separated=old[inner.separated],
        coefficients=H,
    )
    return merged, kept


def with_rays(c: Certificate) -> sp.csr_array:
    """Coefficients of every leader over the rays, the rays' own included."""
    own = sp.csr_array(
        (np.ones(len(c.rays)), (c.rays, np.arange(len(c.rays)))), shape=c.coefficients.shape
    )
    return sp.csr_array(c.coefficients + own)
