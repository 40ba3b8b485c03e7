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

Witnesses come in three forms, because a dense vector for each ray is often wasteful:

- ``dense``: the vector itself;
- ``metric``: one matrix T and centre for all, ``g_i = T T' (q_i - centre) - offset_i`` with ``q_i = u_i / sum(u_i)``;
- ``support``: a few values on the support of ``u_i`` and one value ``-lift`` everywhere off it (sparse points only).

`check` uses NumPy and, where the points are sparse, SciPy's sparse products. It imports no solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError
from conecollapse._linalg import dense_rows, row_norms, take_rows, unit_rows
from conecollapse._types import BoolArray, FloatArray, IntArray, Points, Sparse

DENSE, METRIC, SUPPORT = 0, 1, 2
BLOCK_ENTRIES = 2**24  # entries of a block of products: 128 MiB in float64; BLAS is fastest on tall blocks
EPS = float(np.finfo(np.float64).eps)
DIGITS = 1e-6  # tolerances are compared to this relative precision


@dataclass(frozen=True)
class Certificate:
    """The claims about one set of points; see the module's text for what each proves."""

    tol: float
    n_points: int
    dim: int
    rays: IntArray  # (c,) point indices, increasing
    leader: IntArray  # (n_points,) leader of each point's group; -1 for a zero point
    rays_only: BoolArray  # (c,) the witness separates from the cone of the other rays, not of all other points
    separated: IntArray  # (c,) the point that the witness separates: the ray itself, unless rays_only
    kind: IntArray  # (c,) DENSE, METRIC or SUPPORT
    G: FloatArray  # (number of DENSE rays, dim)
    T: FloatArray  # (dim, d), shared by METRIC rays
    centre: FloatArray  # (dim,)
    offset: FloatArray  # (number of METRIC rays,)
    F: Sparse  # (number of SUPPORT rays, dim)
    lift: FloatArray  # (number of SUPPORT rays,)
    coefficients: Sparse  # (n_points, c)


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
    coefficients: Sparse  # (n_points, c), of unit points


@dataclass(frozen=True)
class Verdict:
    """What `check` measured when every claim held."""

    n_rays: int
    smallest_distance: float  # of a ray from the cone of the others, proven (not claimed by an epsilon-cone: 0)
    largest_residual: float  # of a point from the cone of the rays


def check(P: Points, certificate: Certificate) -> Verdict:
    """Prove every claim of ``certificate`` about the rows of ``P``, or raise `CertificateError` naming the first that fails."""
    c = certificate
    _check_same_shape(P, c)
    U, norms = unit_rows(P)
    _check_structure(c, norms)
    worst = max(_check_groups(U, c), _check_coefficients(U, c))
    leaders = np.flatnonzero(c.leader == np.arange(c.n_points))
    smallest = np.inf
    for kind, prove in ((DENSE, _prove_dense), (METRIC, _prove_metric), (SUPPORT, _prove_support)):
        family = np.flatnonzero(c.kind == kind)
        for rays_only, against in ((False, leaders), (True, c.rays)):
            rows = np.flatnonzero(c.rays_only[family] == rays_only)
            if len(rows):
                smallest = min(smallest, prove(U, c, family[rows], rows, against))
    return Verdict(len(c.rays), float(smallest), float(worst))


def check_approximate(P: Points, certificate: ApproximateCertificate) -> Verdict:
    """Re-measure the guarantee of an epsilon-cone about the rows of ``P``."""
    c = certificate
    _check_same_shape(P, c)
    _check_non_negative(c.coefficients, (c.n_points, len(c.rays)))
    U, norms = unit_rows(P)
    weights = norms / norms.max() if c.mass else (norms > 0).astype(np.float64)
    rays = U[c.rays]
    worst = 0.0
    for rows in _blocks(np.arange(c.n_points), c.dim):
        residual = weights[rows] * row_norms(U[rows] - c.coefficients[rows] @ rays)
        for a in np.flatnonzero(~(residual <= c.tol * (1 + DIGITS)))[:1]:
            raise CertificateError(f"point {rows[a]}: its residual is {residual[a]:.3g}, more than the {c.tol:.3g} that was guaranteed.")
        worst = max(worst, float(residual.max(initial=0.0)))
    return Verdict(len(c.rays), 0.0, worst)


def _check_same_shape(P: Points, c: Certificate | ApproximateCertificate) -> None:
    if P.shape != (c.n_points, c.dim):
        raise CertificateError(
            f"the certificate is about {c.n_points} points in dimension {c.dim}, but P has shape {P.shape}; "
            "pass the points that the cone was made from."
        )


def _check_non_negative(H: Sparse, shape: tuple[int, int]) -> None:
    if H.shape != shape:
        raise CertificateError(f"the coefficients have shape {H.shape}; expected {shape}.")
    for at in np.flatnonzero(~(np.isfinite(H.data) & (H.data >= 0)))[:1]:
        i = int(np.searchsorted(H.indptr, at, side="right")) - 1
        raise CertificateError(f"point {i}: its coefficient {H.data[at]:.6g} on ray {H.indices[at]} is not a non-negative number.")


def _check_structure(c: Certificate, norms: FloatArray) -> None:
    if not len(c.rays):
        raise CertificateError("the certificate names no ray; a cone has at least one.")
    if (np.diff(c.rays) <= 0).any() or c.rays[0] < 0 or c.rays[-1] >= c.n_points:
        raise CertificateError(f"the ray indices must be increasing and lie in 0..{c.n_points - 1}.")
    zero = norms == 0
    for i in np.flatnonzero(zero != (c.leader < 0))[:1]:
        raise CertificateError(f"point {i}: the certificate and the data disagree on whether it is zero (norm {norms[i]:.3g}).")
    bad = np.flatnonzero(~zero & (c.leader[np.maximum(c.leader, 0)] != c.leader))
    for i in bad[:1]:
        raise CertificateError(f"point {i}: its group's leader {c.leader[i]} is not a leader.")
    for k in np.flatnonzero(c.leader[c.rays] != c.rays)[:1]:
        raise CertificateError(f"ray {k} (point {c.rays[k]}): it does not lead its group of colinear points.")
    for k in np.flatnonzero(~c.rays_only & (c.separated != c.rays))[:1]:
        raise CertificateError(f"ray {k} (point {c.rays[k]}): its witness is about another point, {c.separated[k]}.")
    _check_non_negative(c.coefficients, (c.n_points, len(c.rays)))
    sizes = [(c.kind == kind).sum() for kind in (DENSE, METRIC, SUPPORT)]
    if sizes != [len(c.G), len(c.offset), len(c.lift)] or sum(sizes) != len(c.rays):
        raise CertificateError(f"the certificate has {len(c.rays)} rays but witnesses for {sum(sizes)}.")


def _check_groups(U: Points, c: Certificate) -> float:
    """Every point is within tol of its group's leader."""
    worst = 0.0
    members = np.flatnonzero((c.leader >= 0) & (c.leader != np.arange(c.n_points)))
    for rows in _blocks(members, c.dim):
        distance = row_norms(U[rows] - U[c.leader[rows]])
        for a in np.flatnonzero(~(distance <= c.tol * (1 + DIGITS)))[:1]:
            i = rows[a]
            raise CertificateError(
                f"point {i}: it is {distance[a]:.3g} away from its group's leader {c.leader[i]}, more than tol = {c.tol:.3g}."
            )
        worst = max(worst, float(distance.max(initial=0.0)))
    return worst


def _check_coefficients(U: Points, c: Certificate) -> float:
    """Every leader that is not a ray is within tol of its combination of rays."""
    is_ray = np.zeros(c.n_points, bool)
    is_ray[c.rays] = True
    others = np.flatnonzero((c.leader == np.arange(c.n_points)) & ~is_ray)
    for i in others[np.diff(c.coefficients.indptr)[others] == 0][:1]:
        raise CertificateError(f"point {i}: it is neither a ray nor represented by rays.")
    rays = U[c.rays]
    worst = 0.0
    for rows in _blocks(others, c.dim):
        residual = row_norms(U[rows] - c.coefficients[rows] @ rays)
        for a in np.flatnonzero(~(residual <= c.tol * (1 + DIGITS)))[:1]:
            raise CertificateError(f"point {rows[a]}: its coefficients leave a residual of {residual[a]:.3g}, more than tol = {c.tol:.3g}.")
        worst = max(worst, float(residual.max(initial=0.0)))
    return worst


def _prove_dense(U: Points, c: Certificate, rays: IntArray, rows: IntArray, against: IntArray) -> float:
    return _separate_all(U, c, rays, against, lambda part: c.G[rows[part]])


def _prove_metric(U: Points, c: Certificate, rays: IntArray, rows: IntArray, against: IntArray) -> float:
    def witnesses(part: IntArray) -> FloatArray:
        Q = dense_rows(U, c.rays[rays[part]])
        Q = Q / Q.sum(axis=1, keepdims=True) - c.centre
        return (Q @ c.T) @ c.T.T - c.offset[rows[part], None]

    return _separate_all(U, c, rays, against, witnesses)


def _separate_all(U: Points, c: Certificate, rays: IntArray, against: IntArray, witnesses: Callable[[IntArray], FloatArray]) -> float:
    V = take_rows(U, against)
    parts = _blocks(np.arange(len(rays)), len(against))
    buffer = np.empty((len(parts[0]), len(against)))  # for the products of any one part: memory is touched once
    return min(_separate(witnesses(part), V, against, U, c, rays[part], buffer) for part in parts)


def _separate(G: FloatArray, V: Points, against: IntArray, U: Points, c: Certificate, rays: IntArray, buffer: FloatArray) -> float:
    """The rows of G as witnesses of ``rays``: at most 0 on every row of V but their own, and clearly above 0 on theirs."""
    norms = row_norms(G)
    separated = U[c.separated[rays]]
    own = np.asarray((separated.multiply(G)).sum(axis=1)).ravel() if sp.issparse(U) else np.einsum("ij,ij->i", G, separated)
    values = np.asarray((V @ G.T).T) if sp.issparse(V) else np.matmul(G, V.T, out=buffer[: len(G)])
    here = np.arange(len(rays))
    place = np.searchsorted(against, c.rays[rays])
    values[here, place] = -np.inf  # a ray is not one of the others, whether or not it is the point separated
    highest = values.max(axis=1)
    # a dot product of n terms is wrong by at most about n roundoffs; |u| = 1
    error = (c.dim + 2) * EPS * norms
    for a in np.flatnonzero(~(highest + error <= 0))[:1]:
        raise _positive(c, rays[a], highest[a], against[int(np.argmax(values[a]))], error[a])
    return _clear(c, rays, (own - error) / np.where(norms > 0, norms, np.inf))


def _positive(c: Certificate, ray: int, value: float, point: int, error: float) -> CertificateError:
    return CertificateError(
        f"ray {ray} (point {c.rays[ray]}): its witness gives {value:.3g} on point {point}, "
        f"where it must be at most 0 by more than the rounding error {error:.1g}."
    )


def _clear(c: Certificate, rays: IntArray, distance: FloatArray) -> float:
    for a in np.flatnonzero(~(distance > c.tol * (1 - DIGITS)))[:1]:
        k = rays[a]
        about = "" if c.separated[k] == c.rays[k] else f" (about point {c.separated[k]})"
        raise CertificateError(
            f"ray {k} (point {c.rays[k]}): its witness{about} proves a distance of {distance[a]:.3g} only, not more than tol = {c.tol:.3g}."
        )
    return float(distance.min())


def _prove_support(U: Sparse, c: Certificate, rays: IntArray, rows: IntArray, against: IntArray) -> float:
    """Witnesses ``f - lift`` off the support: ``g . u_j = f . u_j - lift (mass of u_j off supp u_i)``.

    Only pairs whose supports meet inside f can fail, and the sparse product lists exactly those.
    """
    V = take_rows(U, against)
    mass = np.asarray(V.sum(axis=1)).ravel()
    Vt = V.T.tocsr()
    F, lift = take_rows(c.F, rows), c.lift[rows]
    own_rows = U[c.rays[rays]]
    pattern = sp.csr_array((np.ones(own_rows.nnz), own_rows.indices, own_rows.indptr), shape=own_rows.shape)
    _check_support(F, lift, pattern, rays, c)
    own = np.asarray(F.multiply(U[c.separated[rays]]).sum(axis=1)).ravel()
    f_norms = row_norms(F)
    norms = np.sqrt(f_norms**2 + lift**2 * (c.dim - np.diff(own_rows.indptr)))
    error = (np.diff(V.indptr).max(initial=0) + 2) * EPS * (f_norms + lift * mass.max(initial=0.0))
    place = np.searchsorted(against, c.rays[rays])
    smallest = np.inf
    for part in _blocks(np.arange(len(rays)), 8192):
        values = (F[part] @ Vt).tocoo()
        row, column = values.coords
        keep = (values.data > -error[part[row]]) & (column != place[part[row]])
        row, column, value = row[keep], column[keep], values.data[keep]
        inside = (pattern[part] @ Vt).tocsr()
        inside.sort_indices()
        key = np.repeat(np.arange(len(part)), np.diff(inside.indptr)) * len(against) + inside.indices
        within = inside.data[np.searchsorted(key, row * len(against) + column)]
        total = value - lift[part[row]] * (mass[column] - within)
        for a in np.flatnonzero(~(total + error[part[row]] <= 0))[:1]:
            raise _positive(c, rays[part[row[a]]], total[a], against[column[a]], error[part[row[a]]])
        smallest = min(smallest, _clear(c, rays[part], (own[part] - error[part]) / norms[part]))
    return float(smallest)


def _check_support(F: Sparse, lift: FloatArray, pattern: Sparse, rays: IntArray, c: Certificate) -> None:
    """Each functional stays on its ray's support, each lift is a number >= 0, and the witness is about the ray itself."""
    used = abs(F).sign()
    stray = (used - used.multiply(pattern)).tocsr()
    stray.eliminate_zeros()
    problems = {
        "its witness has values off the point's support": np.diff(stray.indptr) > 0,
        "its witness's lift is not a non-negative number": ~(np.isfinite(lift) & (lift >= 0)),
        "a witness by support must be about the ray itself": c.separated[rays] != c.rays[rays],
    }
    for text, where in problems.items():
        for a in np.flatnonzero(where)[:1]:
            raise CertificateError(f"ray {rays[a]} (point {c.rays[rays[a]]}): {text}.")


def _blocks(rows: IntArray, width: int) -> list[IntArray]:
    """``rows`` in pieces whose product with ``width`` columns stays near BLOCK_ENTRIES."""
    step = max(1, BLOCK_ENTRIES // max(width, 1))
    return [rows[a : a + step] for a in range(0, len(rows), step)]
