"""The checker: every claim of a certificate, proven or refused, without a line of the solvers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError, point_name
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import form
from conecollapse.certificates.claims import (
    TOL_PRECISION,
    AnyCertificate,
    ApproximateCertificate,
    Certificate,
    SampledCertificate,
    Verdict,
    plain,
)
from conecollapse.certificates.meeting import pairs_at_once, pattern_of, pieces, pieces_of
from conecollapse.certificates.witnesses import (
    EPS,
    Combination,
    Support,
    Values,
    Witnesses,
    row_lengths,
    take,
    unit_peak,
)

# points that follow a leader are left where they are if they have less than this part of all
# entries
FEW_OTHERS = 16
# a witness may fall short of tol by this share, so that rounding leaves no gap between "within tol"
# and "proven beyond"
ROOM = 0.01
SCALING_ROUNDING = 1e-12  # two ways of scaling a point to unit length agree to this


def check(P: Points, rays: Points | None, certificate: Any, tol: float | None = None) -> Verdict:
    """Prove every claim of ``certificate`` about the rows of ``P``, or raise `CertificateError`
    naming the first that fails.

    ``rays`` are the unit rays that go with it, if they are at hand; they must be the unit points
    that the certificate names. Claims are judged against ``tol``, by default the one that the
    certificate states.
    """
    c = plain(certificate)
    tol = c.tol if tol is None else tol
    if isinstance(c, SampledCertificate):
        return check_sample([P], rays, c, tol)
    _check_shape(P, c)
    if isinstance(c, Certificate) and any(isinstance(family, Support) for family in c.witnesses):
        P = sp.csr_array(P)
    # what overflows becomes infinite or no number, and is refused as such
    with np.errstate(all="ignore"):
        U, lengths = _unit_rows(P)
        if rays is not None:
            _check_rays(U, rays, c.rays)
        if isinstance(c, ApproximateCertificate):
            worst = _check_guarantee(U, lengths, c, tol)
            return Verdict(c.n_points, len(c.rays), tol, worst, None, weighting=c.weighting)
        check_structure(c, lengths)
        worst = _check_coverage(U, c, tol)
        c = replace(c, coefficients=c.coefficients[:0])  # they are proven, and take room
        points = _points_for(c, U)
        U = take(U, points)
        smallest = min(
            (_check_family(U, points, c, family, tol) for family in c.witnesses), default=np.inf
        )
    return verdict(c, tol, worst, smallest)


def _ray(c: AnyCertificate, k: Any) -> str:
    return f"ray {k} ({point_name(c.rays[k])})"


def check_sample(blocks: Iterable[Points], rays: Any, certificate: Any, tol: float) -> Verdict:
    """Prove every claim of a sample of rays about the points that come in blocks of rows, or raise
    `CertificateError`. ``rays`` are the unit rays."""
    c = plain(certificate)
    assert isinstance(c, SampledCertificate)
    rays = form.floats("unit_rays", rays, (len(c.rays), c.dim))
    G, seen = unit_peak(c.G), 0
    lengths, own = row_lengths(G), np.full(len(rays), np.nan)
    error = (c.dim + 2) * EPS * lengths
    for block in blocks:
        if block.shape[1] != c.dim:
            raise _other_points(c, block.shape)
        for some in pieces(np.arange(block.shape[0]), max(c.dim, len(rays))):
            with np.errstate(all="ignore"):
                U, sizes = _unit_rows(block[some])
            U = U.toarray() if sp.issparse(U) else U
            values = U @ G.T
            k = np.flatnonzero((c.rays >= seen) & (c.rays < seen + len(U)))
            at = c.rays[k] - seen
            far_off(row_lengths(U[at] - rays[k]), c.rays[k])
            own[k] = values[at, k]
            i, k = np.nonzero(~(values <= -error) & (sizes > 0)[:, None])
            off = row_lengths(U[i] - rays[k])
            for a in np.flatnonzero(~(off <= 2 * tol))[:1]:
                raise CertificateError(
                    f"{_ray(c, k[a])}: its witness gives {values[i[a], k[a]]:.3g} on"
                    f" {point_name(seen + i[a])}, which is {off[a]:.3g} away from it."
                )
            seen += len(U)
    if seen != c.n_points:
        raise _other_points(c, (seen, c.dim))
    distance = (own - error) / lengths
    for k in np.flatnonzero(~(distance > tol * (1 - ROOM)))[:1]:
        raise CertificateError(
            f"{_ray(c, k)}: its witness proves a distance of {distance[k]:.3g} only, not more than"
            f" tol = {tol:.3g}."
        )
    return Verdict(c.n_points, len(rays), tol, np.nan, float(distance.min()))


def check_cover(P: Points, rays: Points | None, certificate: Certificate) -> float:
    """As `check`, for all claims but those of the witnesses: these are the points, and the rays
    generate them. The largest residual."""
    _check_shape(P, certificate)
    with np.errstate(all="ignore"):
        U, lengths = _unit_rows(P)
        if rays is not None:
            _check_rays(U, rays, certificate.rays)
        check_structure(certificate, lengths)
        return _check_coverage(U, certificate, certificate.tol)


def _check_shape(P: Points, c: AnyCertificate) -> None:
    if P.shape != (c.n_points, c.dim):
        raise _other_points(c, P.shape)


def _other_points(c: AnyCertificate, shape: tuple[int, ...]) -> CertificateError:
    return CertificateError(
        f"the certificate is about {c.n_points} points in dimension {c.dim}, but P has shape"
        f" {shape}; pass the points that the cone was made from."
    )


def verdict(c: Certificate, tol: float, worst: float, smallest: float) -> Verdict:
    """Of a cone of numerical tolerance. The distance is about the rays that are separated
    themselves."""
    is_needed = c.separated != c.rays
    weak = int((c.rays_only & ~is_needed).sum())
    distance = None if (is_needed | c.open).all() else smallest
    return Verdict(
        c.n_points, len(c.rays), tol, worst, distance, weak, int(is_needed.sum()), int(c.open.sum())
    )


def _unit_rows(P: Points) -> tuple[Points, FloatArray]:
    """The points scaled to unit length and their lengths, in our own words: the solvers' version is
    not trusted here."""
    if sp.issparse(P):
        return _unit_sparse_rows(P)
    U = np.array(P, dtype=np.float64)
    peak = np.abs(U).max(axis=1)
    check_finite(peak)
    U /= np.where(peak > 0, peak, 1.0)[:, None]
    lengths = row_lengths(U)
    U /= np.where(lengths > 0, lengths, 1.0)[:, None]
    return U, lengths * peak


def _unit_sparse_rows(P: Any) -> tuple[Sparse, FloatArray]:
    """As `_unit_rows`, a piece at a time. Places of entries are those of ``P`` where these need no
    change, and the values are our own."""
    P = sp.csr_array(P)
    U = sp.csr_array(
        (P.data.astype(np.float64), _narrow(P.indices, P.shape), _narrow(P.indptr, P.data.shape)),
        shape=P.shape,
    )
    if not _is_canonical(U):
        U = U.copy()
        U.sum_duplicates()
        U.eliminate_zeros()
    sizes, lengths = np.diff(U.indptr), np.zeros(U.shape[0])
    for rows in pieces_of(sizes, pairs_at_once(U)):
        filled = rows[sizes[rows] > 0]
        if len(filled):
            first, counts = U.indptr[filled[0]], sizes[filled]
            values, starts = U.data[first : U.indptr[filled[-1] + 1]], U.indptr[filled] - first
            peak = np.maximum.reduceat(np.abs(values), starts)
            check_finite(peak, filled)
            values /= np.repeat(peak, counts)
            length = np.sqrt(np.add.reduceat(values * values, starts))
            values /= np.repeat(length, counts)
            lengths[filled] = length * peak
    return U, lengths


def check_finite(peak: FloatArray, points: IntArray | None = None) -> None:
    """Refuse the first of the ``points`` (all by default) whose largest entry is infinite or no
    number."""
    for at in np.flatnonzero(~np.isfinite(peak))[:1]:
        raise CertificateError(
            f"{point_name(at if points is None else points[at])}: it has a value that is not finite"
            f" ({peak[at]}); nothing can be proven about it."
        )


def _is_canonical(U: Sparse) -> bool:
    """Whether the columns increase in each row, and no entry is zero; no flag that an array carries
    is read."""
    new_row = np.zeros(U.nnz + 1, bool)
    new_row[U.indptr] = True
    return bool(U.data.all() and ((U.indices[1:] > U.indices[:-1]) | new_row[1:-1]).all())


def _narrow(places: IntArray, bounds: tuple[int, ...]) -> AnyArray:
    """In 32 bits, where these are enough."""
    return (
        places.astype(np.int32, copy=False)
        if max(bounds, default=0) <= np.iinfo(np.int32).max
        else places
    )


def _check_rays(U: Points, rays: Any, points: IntArray) -> None:
    """The stored ``rays`` are the unit points that they should be."""
    shape = (len(points), U.shape[1])
    rays = (
        form.sparse("unit_rays", rays, shape)
        if sp.issparse(rays)
        else form.floats("unit_rays", rays, shape)
    )
    off = np.empty(len(points))
    for some in _row_pieces(U, np.diff(U.indptr)[points] if sp.issparse(U) else points):
        off[some] = row_lengths(U[points[some]] - rays[some])
    far_off(off, points)


def _row_pieces(U: Points, entries: IntArray) -> list[IntArray]:
    """Places of rows that take less room than the points: each has this many ``entries`` if it is
    sparse."""
    return (
        pieces_of(entries, pairs_at_once(U))
        if sp.issparse(U)
        else pieces(np.arange(len(entries)), U.shape[1])
    )


def far_off(off: FloatArray, points: IntArray) -> None:
    """Refuse the first ray whose distance from its point is more than rounding."""
    for k in np.flatnonzero(~(off <= SCALING_ROUNDING))[:1]:
        raise CertificateError(
            f"ray {k} ({point_name(points[k])}): the stored ray is {off[k]:.3g} away from the unit"
            " point."
        )


def _check_guarantee(
    U: Points, lengths: FloatArray, c: ApproximateCertificate, tol: float
) -> float:
    """Every point is within the guaranteed residual of its combination, and the longest point is as
    long as stated."""
    longest = float(lengths.max())
    for k in np.flatnonzero(~(lengths[c.rays] > 0))[:1]:
        raise CertificateError(f"{_ray(c, k)}: it is zero.")
    if not abs(c.longest - longest) <= SCALING_ROUNDING * longest:
        raise CertificateError(
            f"the longest point has length {longest:.6g}, not {c.longest:.6g} as stated."
        )
    for i in np.flatnonzero((lengths == 0) & (np.diff(c.coefficients.indptr) > 0))[:1]:
        raise CertificateError(f"{point_name(i)}: it is zero, but it has coefficients.")
    weights = lengths / longest if c.weighting == "mass" else (lengths > 0).astype(np.float64)
    worst = 0.0
    for rows, distance in _residuals(U, np.arange(c.n_points), np.arange(c.n_points), c):
        residual = weights[rows] * distance
        for a in np.flatnonzero(~(residual <= tol * (1 + TOL_PRECISION)))[:1]:
            raise CertificateError(
                f"{point_name(rows[a])}: its residual is {residual[a]:.3g}, more than tol ="
                f" {tol:.3g}."
            )
        worst = max(worst, float(residual.max(initial=0.0)))
    return worst


def check_structure(c: Certificate, lengths: FloatArray) -> None:
    """Zeros, groups and rows of coefficients are about the points that they should be about."""
    zero = lengths == 0
    everyone = np.arange(c.n_points)
    for i in np.flatnonzero(zero != (c.leader < 0))[:1]:
        raise CertificateError(
            f"{point_name(i)}: the certificate and the data disagree on whether it is zero (length"
            f" {lengths[i]:.3g})."
        )
    for i in np.flatnonzero(~zero & (c.leader[np.maximum(c.leader, 0)] != c.leader))[:1]:
        raise CertificateError(
            f"{point_name(i)}: its group's leader {c.leader[i]} is not a leader."
        )
    for k in np.flatnonzero(c.leader[c.rays] != c.rays)[:1]:
        raise CertificateError(f"{_ray(c, k)}: it does not lead its group of colinear points.")
    for k in np.flatnonzero(~c.rays_only & (c.separated != c.rays))[:1]:
        raise CertificateError(
            f"{_ray(c, k)}: its witness is about another point, {c.separated[k]}."
        )
    for k in np.flatnonzero(c.leader[c.separated] != c.separated)[:1]:
        raise CertificateError(
            f"{_ray(c, k)}: its witness is about {point_name(c.separated[k])}, which does"
            " not lead its group."
        )
    is_ray = np.zeros(c.n_points, bool)
    is_ray[c.rays] = True
    wants_row = (c.leader == everyone) & ~is_ray
    has_row = np.diff(c.coefficients.indptr) > 0
    for i in np.flatnonzero(wants_row & ~has_row)[:1]:
        raise CertificateError(f"{point_name(i)}: it is neither a ray nor represented by rays.")
    for i in np.flatnonzero(has_row & ~wants_row)[:1]:
        raise CertificateError(
            f"{point_name(i)}: it has coefficients, but it is a ray, zero, or represented by its"
            " group's"
            " leader."
        )


def coverage(c: Certificate) -> tuple[IntArray, IntArray, IntArray]:
    """Points that follow a leader; leaders that rays represent; and the followers of such
    leaders."""
    everyone = np.arange(c.n_points)
    is_ray = np.zeros(c.n_points, bool)
    is_ray[c.rays] = True
    members = np.flatnonzero((c.leader >= 0) & (c.leader != everyone))
    represented = np.flatnonzero((c.leader == everyone) & ~is_ray)
    return members, represented, members[~is_ray[c.leader[members]]]


def judge(distance: FloatArray, points: IntArray, c: Certificate, tol: float, what: str) -> float:
    """Distances of points from ``what`` are within tol, and within what the certificate states; the
    largest."""
    for limit, stated in (
        (tol, f"tol = {tol:.3g}"),
        (c.residual + (c.dim + 2) * EPS, f"the residual {c.residual:.3g} that is stated"),
    ):
        for a in np.flatnonzero(~(distance <= limit * (1 + TOL_PRECISION)))[:1]:
            raise CertificateError(
                f"{point_name(points[a])}: it is {distance[a]:.3g} away from {what}, more than"
                f" {stated}."
            )
    return float(distance.max(initial=0.0))


def _check_coverage(U: Points, c: Certificate, tol: float) -> float:
    """Every point is within tol of its leader, every leader of its combination; the largest
    distance of a point from its combination."""
    members, represented, followers = coverage(c)
    worst = 0.0
    for at in _row_pieces(U, 2 * np.diff(U.indptr)[members] if sp.issparse(U) else members):
        rows = members[at]
        worst = max(
            worst,
            judge(row_lengths(U[rows] - U[c.leader[rows]]), rows, c, tol, "its group's leader"),
        )
    for rows, distance in _residuals(U, represented, represented, c):
        worst = max(worst, judge(distance, rows, c, tol, "its combination of rays"))
    for _, distance in _residuals(U, followers, c.leader[followers], c):
        worst = max(worst, float(distance.max(initial=0.0)))
    return worst


def _residuals(
    U: Points, points: IntArray, combined: IntArray, c: Certificate | ApproximateCertificate
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Some of ``points`` at a time, and how far each is from the combination of rays that the point
    ``combined`` has."""
    entries = points
    if sp.issparse(U) and len(points):
        sizes = np.diff(U.indptr)
        entries = (
            sizes[points] + np.minimum(pattern_of(c.coefficients) @ sizes[c.rays], c.dim)[combined]
        )
    for at in _row_pieces(U, entries):
        H = c.coefficients[combined[at]]  # over the rays, and so over the points
        H = sp.csr_array(
            (H.data, c.rays[H.indices].astype(H.indices.dtype), H.indptr),
            shape=(len(at), c.n_points),
        )
        yield points[at], row_lengths(U[points[at]] - H @ U)


def _points_for(c: Certificate, U: Points) -> IntArray:
    """The points that witnesses are multiplied with: leaders, or all where a copy without the
    others would not pay."""
    everyone = np.arange(c.n_points)
    is_leader = c.leader == everyone
    few_others = sp.issparse(U) and FEW_OTHERS * int(np.diff(U.indptr)[~is_leader].sum()) <= U.nnz
    needs_all = any(isinstance(family, Combination) for family in c.witnesses)
    return everyone if needs_all or few_others else everyone[is_leader]


def _check_family(
    U: Points, points: IntArray, c: Certificate, family: Witnesses, tol: float
) -> float:
    """Every witness of a family separates its ray; the smallest distance proven. The rows of ``U``
    are these ``points``, among them all leaders."""
    place = np.searchsorted(points, c.rays)
    if isinstance(family, Support):
        for a in family.stray(U, place[family.of])[:1]:
            k = family.of[a]
            raise CertificateError(f"{_ray(c, k)}: its witness has values off the point's support.")
    smallest = np.inf
    for rays_only, others in ((False, points[c.leader[points] == points]), (True, c.rays)):
        which = np.flatnonzero(c.rays_only[family.of] == rays_only)
        if not len(which):
            continue
        some = family if len(which) == len(family.of) else family.take(which)
        columns = np.union1d(others, c.separated[some.of]) if rays_only else points
        counted = np.isin(columns, others)
        distance = np.full(len(some.of), np.nan)
        for values in some.values(U, place[some.of], np.searchsorted(points, columns)):
            which = values.which
            distance[which] = np.fmax(
                distance[which], separate(values, some.of[which], columns, counted, c, tol)
            )
            del values  # before the next ones are made
        smallest = min(smallest, smallest_of(distance, some.of, c))
    return smallest


def separate(
    values: Values,
    rays: IntArray,
    columns: IntArray,
    counted: BoolArray,
    c: Certificate,
    tol: float,
) -> FloatArray:
    """Witnesses of ``rays`` are below 0 on the other points and prove more than tol on theirs; the
    distances that they prove.

    Products are with points in ``columns``, of which those that are ``counted`` are the others.
    Where they are not with all of these, they prove no distance for a ray whose point is not among
    them: NaN.
    """
    point = np.searchsorted(columns, c.separated[rays]) - values.start
    # a ray is not one of the others, whether or not it is the point separated
    the_ray = np.searchsorted(columns, c.rays[rays]) - values.start
    columns, counted = columns[values.places], counted[values.places]
    own = values.at(point)
    highest = values.largest(the_ray, counted)
    for a in np.flatnonzero(~(highest + values.error <= 0))[:1]:
        k, worst = rays[a], columns[values.where_largest(int(a), the_ray, counted)]
        raise CertificateError(
            f"{_ray(c, k)}: its witness gives {highest[a]:.3g} on {point_name(worst)}, "
            f"where it must be at most 0 by more than the rounding error {values.error[a]:.1g}."
        )
    distance = (own - values.error) / np.where(values.lengths > 0, values.lengths, np.inf)
    is_here = (point >= 0) & (point < len(columns))
    is_own = c.separated[rays] == c.rays[rays]
    # another point must be too far to be generated without the ray, by the rule that coverage is
    # judged by
    needed = np.where(is_own, tol * (1 - ROOM), tol * (1 + TOL_PRECISION))
    for a in np.flatnonzero(is_here & ~(distance > needed))[:1]:
        k = rays[a]
        about = "" if is_own[a] else f" (about {point_name(c.separated[k])})"
        raise CertificateError(
            f"{_ray(c, k)}: its witness{about} proves a distance of"
            f" {distance[a]:.3g} only, not more than tol = {tol:.3g}."
        )
    return np.where(is_here, distance, np.nan)


def smallest_of(distance: FloatArray, rays: IntArray, c: Certificate) -> float:
    """The smallest of the distances of ``rays`` that are separated themselves. Every ray must have
    one."""
    for k in rays[np.isnan(distance)][:1]:
        raise CertificateError(f"{_ray(c, k)}: its witness proves no distance.")
    return float(distance[c.separated[rays] == c.rays[rays]].min(initial=np.inf))
