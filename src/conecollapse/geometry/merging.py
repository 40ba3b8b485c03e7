"""Cones of some of the points, and how two of them become one: rays(A u B) = rays(rays(A) u
rays(B)).

`Part` is what blocks are reduced to on the way to a `Cone`: rays and certificate, in which points
are numbered from 0 as they came. `merge` says what becomes of the certificates.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, pair_distances, residuals
from conecollapse._types import AnyArray, Effort, IntArray, Points
from conecollapse.certificates import Certificate, plain
from conecollapse.geometry.certified import certify, certify_points

ROUNDING = 4 * float(np.finfo(np.float64).eps)  # of a residual that is measured in another order


@dataclass(frozen=True)
class Part:
    """Rays and certificate of some points; neither where all of them are zero."""

    n_points: int
    rays: Points | None = None  # unit rows; None also where they are too many to hold
    certificate: Certificate | None = None
    names: AnyArray | None = None  # of the rays
    effort: Effort = "exact"  # that its merges are made with

    def whole(self) -> tuple[Points | None, Certificate, AnyArray | None]:
        """Rays, certificate and names; refused where all points are zero."""
        if self.certificate is None:
            raise InvalidInputError(
                f"all {self.n_points} points are zero; a cone needs at least one point that is not."
            )
        return self.rays, self.certificate, self.names


def part_of(
    points: Points, tol: float, names: AnyArray | None = None, effort: Effort = "exact"
) -> Part:
    """The part of checked points; ``names`` are theirs."""
    if not (points.data if sp.issparse(points) else points).any():
        return Part(points.shape[0], effort=effort)
    rays, certificate = certify_points(points, tol, effort=effort)
    return Part(
        points.shape[0],
        rays,
        certificate,
        None if names is None else names[certificate.rays],
        effort,
    )


def merge(a: Part, b: Part) -> Part:
    """The part of the points of ``a`` followed by those of ``b``: rays(A u B) = rays(rays(A) u
    rays(B))."""
    if a.certificate is None or b.certificate is None:
        return _beside_zeros(a, b)
    mine, theirs = plain(a.certificate), plain(b.certificate)
    assert isinstance(mine, Certificate)
    assert isinstance(theirs, Certificate)
    effort: Effort = "quick" if "quick" in (a.effort, b.effort) else "exact"
    U = stacked([a.rays, b.rays])
    certificate, kept = merge_certificates(U, mine, theirs, effort)
    names = None if a.names is None or b.names is None else np.concatenate([a.names, b.names])[kept]
    return Part(a.n_points + b.n_points, U[kept], certificate, names, effort)


def _beside_zeros(a: Part, b: Part) -> Part:
    """One of the two has zero points only: the other's points are numbered after or before them."""
    n_points = a.n_points + b.n_points
    part, before, after = (a, 0, b.n_points) if b.certificate is None else (b, a.n_points, 0)
    c = part.certificate
    if c is None:
        return Part(n_points, effort=part.effort)
    H = c.coefficients
    indptr = np.concatenate(
        [np.zeros(before, H.indptr.dtype), H.indptr, np.full(after, H.indptr[-1])]
    )
    certificate = replace(
        c,
        n_points=n_points,
        rays=c.rays + before,
        leader=np.concatenate(
            [
                np.full(before, -1),
                np.where(c.leader >= 0, c.leader + before, -1),
                np.full(after, -1),
            ]
        ),
        separated=c.separated + before,
        coefficients=sp.csr_array((H.data, H.indices, indptr), shape=(n_points, H.shape[1])),
    )
    return Part(n_points, part.rays, certificate, part.names, part.effort)


def warn_if_too_coarse(dtype: Any, tol: float) -> None:
    """Points in float32 or float16 carry rounding of their own, which turns points inside the cone
    into rays."""
    if dtype.kind == "f" and np.finfo(dtype).eps / 2 > tol:
        rounding = float(np.finfo(dtype).eps) / 2
        warnings.warn(
            f"P is {dtype}, rounded to about {rounding:.0e} of each entry, but tol = {tol:.0e}: a"
            " point that is a combination of others only up to that rounding counts as a ray. Pass"
            f" tol={20 * rounding:.0e} or larger to treat it as inside.",
            stacklevel=3,
        )


def stacked(parts: Sequence[Points]) -> Points:
    """Points below each other: a CSR array with increasing coordinates if all are sparse."""
    if len(parts) == 1:
        return parts[0]
    if not all(sp.issparse(part) for part in parts):
        return np.vstack([as_dense(part) for part in parts])
    U = sp.csr_array(sp.vstack(parts))
    U.sort_indices()
    return U


def merge_certificates(
    U: Points, a: Certificate, b: Certificate, effort: Effort = "exact"
) -> tuple[Certificate, IntArray]:
    """Certificate about the points of ``a`` followed by those of ``b``, and which of their rays
    ``U``, one below the other, it keeps.

    The rays alone are certified first. A point with coefficients ``h`` over its own cone's rays
    then has ``h C`` over the merged ones, where the rows of ``C`` express each old ray by the new:
    unit vectors for those that stayed. Residuals add up, so near the tolerance the merged cone may
    guarantee only a larger one. That one becomes its ``tol``, and the rays must be clear of each
    other by it: they are certified again. The rays of the result are proven against each other,
    open or not before; with ``effort="quick"`` some may be left open.
    """
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
