"""What a cone claims, in a form that can be checked without trusting whoever found it.

Let ``u_i`` be the points scaled to unit length. A certificate for the rays ``R`` at tolerance ``tol`` holds

- the zero points, and for every other point the leader of its group, at most ``tol`` away from it;
- for every leader that is not a ray, coefficients ``h >= 0`` with ``|u_i - sum_k h_k u_k| <= tol`` over the rays:
  *the rays generate every point*;
- for every ray a witness ``g`` with ``g . u_i > 0 >= g . u_j`` for every other leader j. For any ``y`` in the cone of the
  others ``|g| |u_i - y| >= g . (u_i - y) >= g . u_i``, so the ray is at least ``g . u_i / |g|`` away from that cone. That number
  must exceed ``tol``: *no ray can be left out*.

Near the tolerance a weaker claim replaces the last one. If i and its twin j are each within ``tol`` of the other's cone, one of
them must stay although neither is ``tol`` away from all other points. Such a ray i (``rays_only``) comes with a point j (often
i itself) and a witness that separates j by more than ``tol`` from the cone of the other *rays*: without i, j is not generated.
The rays of a merged cone carry the same claim, because the points behind the two cones are not at hand when they merge.

Witnesses come in four forms, because a dense vector for each ray is often wasteful:

- ``dense``: the vector itself;
- ``metric``: one matrix T and centre for all, ``g_i = T T' (q_i - centre) - offset_i`` with ``q_i = u_i / sum(u_i)``;
- ``support``: a few values on the support of ``u_i`` and one value ``-lift`` everywhere off it (sparse points only);
- ``combined``: weights of the points, ``g_i = sum_j W_ij u_j``, whose size does not depend on the dimension. For points in very many
  dimensions, which are seen a block of coordinates at a time.

`checker` proves all this with NumPy and, where the points are sparse, SciPy's sparse products. It shares no code with the solvers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from conecollapse._types import BoolArray, FloatArray, IntArray, Sparse

DENSE, METRIC, SUPPORT, COMBINED = 0, 1, 2, 3


@dataclass(frozen=True)
class Certificate:
    """The claims about one set of points; see the module's text for what each proves."""

    tol: float
    reach: float  # no residual of a group or of coefficients was larger; beyond tol only after merging, where errors add up
    n_points: int
    dim: int
    rays: IntArray  # (c,) point indices, increasing
    leader: IntArray  # (n_points,) leader of each point's group; -1 for a zero point
    rays_only: BoolArray  # (c,) the witness separates from the cone of the other rays, not of all other points
    separated: IntArray  # (c,) the point that the witness separates: the ray itself, unless rays_only
    kind: IntArray  # (c,) DENSE, METRIC, SUPPORT or COMBINED
    G: FloatArray  # (number of DENSE rays, dim)
    T: FloatArray  # (dim, d), shared by METRIC rays
    centre: FloatArray  # (dim,)
    offset: FloatArray  # (number of METRIC rays,)
    F: Sparse  # (number of SUPPORT rays, dim)
    lift: FloatArray  # (number of SUPPORT rays,)
    coefficients: Sparse  # (n_points, c)
    W: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (number of COMBINED rays, n_points)


@dataclass(frozen=True)
class ApproximateCertificate:
    """Claim of an epsilon-cone: combinations of the rays come within ``tol`` of every point.

    Distances are those of unit points or, with ``mass``, of the points themselves in units of the longest.
    """

    tol: float
    n_points: int
    dim: int
    rays: IntArray  # (c,) point indices, in the order they were chosen
    mass: bool
    longest: float  # length of the longest point
    coefficients: Sparse  # (n_points, c), of unit points


@dataclass(frozen=True)
class Verdict:
    """What `check` measured when every claim held."""

    n_rays: int
    smallest_distance: float | None  # proven lower bound on a ray's distance from the cone of the others; None: not claimed
    largest_residual: float  # of a point from its combination of rays (weighted, for a mass-weighted epsilon-cone)
