r"""What a cone claims, in a form that can be checked without trusting whoever found it.

Let :math:`u_i` be the points scaled to unit length. A certificate for the rays R at tolerance
``tol`` holds

- the zero points, and for every other point the leader of its group, at most ``tol`` away from it;
- for every leader that is not a ray, coefficients :math:`h \ge 0` with
  :math:`\|u_i - \sum_k h_k u_k\| \le tol` over the rays: *the rays generate every point*. The other
  points of a group share the combination of their leader, so they may lie up to ``2 tol`` from
  theirs;
- for every ray a witness (see `conecollapse.certificates.witnesses`) that separates it from all
  other leaders by more than ``tol``: *no ray can be left out*;
- or, in place of a witness, the word that the ray is *open*: it is kept as a generator, and nothing
  is claimed about whether it is needed.

Near the tolerance a weaker claim replaces the last one. If i and its twin j are each within ``tol``
of the other's cone, one of them must stay although neither is ``tol`` away from all other points.
Such a ray i (``rays_only``) comes with a leader j (often i itself) and a witness that separates j
by more than ``tol`` from the cone of the other *rays*: without i, j is not generated. If j is not i
itself, no allowance is made for rounding: j must be further away than any residual that would be
accepted. The rays of a merged cone carry the same claim, because the points behind the two cones
are not at hand when they merge.

`check` proves all this with NumPy and, where the points are sparse, SciPy's sparse products. It
shares no code with the solvers. No number in a certificate can widen a claim: ``residual`` is what
its maker measured, and only makes the claim stricter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, point_name, quoted
from conecollapse._types import BoolArray, FloatArray, IntArray, Sparse
from conecollapse.certificates import form
from conecollapse.certificates.witnesses import KINDS, Witnesses

TOL_PRECISION = 1e-6  # residuals are compared with tol to this relative precision


@dataclass(frozen=True)
class Certificate:
    """The claims about one set of points; see the module's text for what each proves."""

    tol: float
    # no point is further from its leader, no leader from its combination; at most tol
    residual: float
    n_points: int
    dim: int
    rays: IntArray  # (c,) point indices, increasing
    leader: IntArray  # (n_points,) leader of each point's group; -1 for a zero point
    coefficients: Sparse  # (n_points, c); rows of leaders that are not rays, the others are empty
    # (c,) the witness separates from the cone of the other rays, not of all other points
    rays_only: BoolArray
    # (c,) the point that the witness separates: the ray itself, unless rays_only
    separated: IntArray
    # families that together have one witness for each ray that is not open
    witnesses: tuple[Witnesses, ...]
    open: BoolArray  # (c,) kept as a generator without proof that it is needed


@dataclass(frozen=True)
class ApproximateCertificate:
    """Claim of an epsilon-cone: combinations of the rays come within ``tol`` of every point.

    Distances are those of unit points (``weighting="unit"``), or those of the points themselves in
    units of the longest (``"mass"``).
    """

    tol: float
    n_points: int
    dim: int
    rays: IntArray  # (c,) point indices, in the order they were chosen
    weighting: str
    longest: float  # length of the longest point
    coefficients: Sparse  # (n_points, c), of unit points


@dataclass(frozen=True)
class SampledCertificate:
    """Claim of some rays among all: each row of G is a witness of its ray, positive there and at
    most 0 on every point that is further than ``2 tol`` from it."""

    tol: float
    n_points: int
    dim: int
    rays: IntArray  # (c,) point indices, increasing
    G: FloatArray  # (c, dim)


AnyCertificate = Certificate | ApproximateCertificate | SampledCertificate


@dataclass(frozen=True)
class Verdict:
    """What `check` measured when every claim held."""

    n_points: int
    n_rays: int
    tol: float  # that the claims were judged against
    # of a point from its combination of rays (weighted, for a mass-weighted epsilon-cone); NaN of a
    # sample of the rays, which claims nothing about the other points
    largest_residual: float
    # proven lower bound on a ray's distance from the cone of the others; None: not claimed
    smallest_distance: float | None
    # rays that are proven clear of the other rays, but not of all other points
    n_rays_only: int = 0
    # rays without which another point is not generated; `smallest_distance` is not about these
    n_needed: int = 0
    # rays that nothing is claimed about but that they are kept; `smallest_distance` is not about
    # these
    n_open: int = 0
    weighting: str = "unit"

    def __str__(self) -> str:
        return self.sentence("points")

    def sentence(self, points: str) -> str:
        """All of it in one sentence, in which the points are called ``points``."""
        unit = "" if self.weighting == "unit" else f" of the longest of the {points}"
        if np.isnan(self.largest_residual):
            return (
                f"{self.n_rays} of the {self.n_points} {points} are rays, each at least"
                f" {self.smallest_distance:.3g} away from the cone of the others (tol ="
                f" {self.tol:.3g}); there may be more."
            )
        rays = "1 ray generates" if self.n_rays == 1 else f"{self.n_rays} rays generate"
        proven = (
            f"{rays} all {self.n_points} {points} to within {self.largest_residual:.3g}{unit} (tol"
            f" = {self.tol:.3g})"
        )
        if not self.n_open:
            return f"{proven}{self._apart(points)}."
        count = "1 of the rays is" if self.n_open == 1 else f"{self.n_open} of the rays are"
        return f"{proven}{self._apart(points)}. {count} open: not proven to be needed."

    def _apart(self, points: str) -> str:
        """What is proven about the distances between the rays."""
        if self.smallest_distance is None or self.n_rays == 1:
            return ""
        weak = f" ({self.n_rays_only} of them: of the other rays)" if self.n_rays_only else ""
        needed = (
            f", but for {self.n_needed} without which another of the {points} would not be"
            " generated"
            if self.n_needed
            else ""
        )
        each = "each" if not self.n_open else f"each of {self.n_rays - self.n_open}"
        return (
            f", and {each} is at least {self.smallest_distance:.3g} away from the cone of the"
            f" others{weak}{needed}"
        )


def plain(c: Any) -> AnyCertificate:
    """The same certificate made of plain arrays of our own, or `CertificateError` naming the part
    that is not well formed."""
    if type(c) not in (Certificate, ApproximateCertificate, SampledCertificate):
        raise CertificateError(f"this is no certificate but a {type(c).__name__}.")
    n_points, dim = form.count("n_points", c.n_points), form.count("dim", c.dim)
    tol = form.number("tol", c.tol, float(np.finfo(np.float64).tiny), 1.0)
    rays = form.indices("rays", c.rays, None, 0, n_points)
    if not len(rays):
        raise CertificateError("the certificate names no ray; a cone has at least one.")
    if type(c) is SampledCertificate:
        G = form.floats("G", c.G, (len(rays), dim))
        return SampledCertificate(tol, n_points, dim, _increasing(rays), G)
    coefficients = form.sparse("coefficients", c.coefficients, (n_points, len(rays)))
    for at in np.flatnonzero(coefficients.data < 0)[:1]:
        i = int(np.searchsorted(coefficients.indptr, at, side="right")) - 1
        value, ray = coefficients.data[at], coefficients.indices[at]
        raise CertificateError(
            f"{point_name(i)}: its coefficient {value:.6g} on ray {ray} is not a non-negative"
            " number."
        )
    if type(c) is ApproximateCertificate:
        if len(np.unique(rays)) != len(rays):
            form.refuse("rays", "a point is named twice")
        if not (type(c.weighting) is str and c.weighting in ("unit", "mass")):
            form.refuse("weighting", f'it must be "unit" or "mass", not {quoted(c.weighting)}')
        longest = form.number("longest", c.longest, 0.0, float(np.finfo(np.float64).max))
        return ApproximateCertificate(tol, n_points, dim, rays, c.weighting, longest, coefficients)
    is_open = form.flags("open", c.open, len(rays))
    rays_only = form.flags("rays_only", c.rays_only, len(rays))
    for k in np.flatnonzero(is_open & rays_only)[:1]:
        form.refuse(
            "open", f"ray {k} is open, so that it has no witness, but 'rays_only' speaks of one"
        )
    return Certificate(
        tol=tol,
        residual=form.number("residual", c.residual, 0.0, tol * (1 + TOL_PRECISION)),
        n_points=n_points,
        dim=dim,
        rays=_increasing(rays),
        leader=form.indices("leader", c.leader, n_points, -1, n_points),
        coefficients=coefficients,
        rays_only=rays_only,
        separated=form.indices("separated", c.separated, len(rays), 0, n_points),
        witnesses=_families(c.witnesses, is_open, n_points, dim),
        open=is_open,
    )


def _increasing(rays: IntArray) -> IntArray:
    if (np.diff(rays) <= 0).any():
        form.refuse("rays", "the indices must be increasing")
    return rays


def _families(given: Any, is_open: BoolArray, n_points: int, dim: int) -> tuple[Witnesses, ...]:
    if type(given) is not tuple or any(type(family) not in KINDS for family in given):
        form.refuse("witnesses", "they must be a tuple of families of witnesses")
    n_rays = len(is_open)
    families: tuple[Witnesses, ...] = tuple(
        type(family).plain(family, n_rays, n_points, dim) for family in given
    )
    counts = np.bincount(
        np.concatenate([np.zeros(0, np.int64), *(family.of for family in families)]),
        minlength=n_rays,
    )
    for k in np.flatnonzero(is_open & (counts > 0))[:1]:
        form.refuse(
            "witnesses", f"ray {k} has {counts[k]} of them, but it is open; an open ray has none"
        )
    for k in np.flatnonzero(~is_open & (counts != 1))[:1]:
        form.refuse(
            "witnesses",
            f"ray {k} has {counts[k]} of them; each ray needs exactly one, unless it is open",
        )
    return families


def vectors(c: Certificate, U: FloatArray) -> FloatArray:
    """The witnesses of all rays as rows, 0 for open ones, for dense unit points and families that
    are computed as vectors."""
    G = np.zeros((len(c.rays), c.dim))
    for family in c.witnesses:
        assert not hasattr(family, "lift")
        G[family.of] = family.vectors(U, c.rays[family.of], np.arange(len(family.of)))  # type: ignore[union-attr]
    return G
