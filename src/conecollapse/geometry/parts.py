"""The cone of some of the points: rays and certificate, and how two of them become one.

`Part` is what blocks are reduced to on the way to a `Cone`; in it points are numbered from 0 as
they came.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, Effort, FloatArray, Points
from conecollapse.certificates import Certificate, plain
from conecollapse.geometry.certified import certify_points
from conecollapse.geometry.merging import merge_certificates


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
    certificate, kept = merge_certificates(a.rays, mine, b.rays, theirs, effort)
    stack = sp.vstack if sp.issparse(a.rays) and sp.issparse(b.rays) else _dense_stack
    names = None if a.names is None or b.names is None else np.concatenate([a.names, b.names])[kept]
    return Part(a.n_points + b.n_points, stack([a.rays, b.rays])[kept], certificate, names, effort)


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


def _dense_stack(parts: list[Points]) -> FloatArray:
    return np.vstack([as_dense(part) for part in parts])
