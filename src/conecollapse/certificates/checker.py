"""The checker: every claim of a certificate, proven or refused, without a line of the solvers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError
from conecollapse._types import FloatArray, IntArray, Points, Sparse
from conecollapse.certificates.claims import COMBINED, DENSE, METRIC, SUPPORT, ApproximateCertificate, Certificate, Verdict
from conecollapse.certificates.form import check_form

BLOCK_ENTRIES = 2**24  # entries of a block of products: 128 MiB in float64; BLAS is fastest on tall blocks
EPS = float(np.finfo(np.float64).eps)
DIGITS = 1e-6  # residuals are compared with tol to this relative precision
ROOM = 0.01  # a witness may fall short of tol by this share, so that rounding leaves no gap between "within tol" and "proven beyond"
SAME = 1e-12  # two ways of scaling a point to unit length agree to this


def check(P: Points, rays: Points, certificate: Certificate | ApproximateCertificate) -> Verdict:
    """Prove every claim of ``certificate`` about the rows of ``P``, or raise `CertificateError` naming the first that fails.

    ``rays`` are the unit rays that go with it; they must be the unit points that the certificate names.
    """
    c = certificate
    check_form(c)
    if P.shape != (c.n_points, c.dim):
        raise CertificateError(
            f"the certificate is about {c.n_points} points in dimension {c.dim}, but P has shape {P.shape}; "
            "pass the points that the cone was made from."
        )
    if isinstance(c, Certificate) and (c.kind == SUPPORT).any():
        P = sp.csr_array(P)
    U, norms = _unit_rows(P)
    _check_rays(U, rays, c)
    if isinstance(c, ApproximateCertificate):
        return Verdict(len(c.rays), None, _check_guarantee(U, norms, c))
    _check_structure(c, norms)
    worst = max(_check_groups(U, c), _check_coefficients(U, c))
    return Verdict(len(c.rays), _check_witnesses(U, c), float(worst))


def _unit_rows(P: Points) -> tuple[Points, FloatArray]:
    """The points scaled to unit length and their lengths, in our own words: the solvers' version is not trusted here."""
    if sp.issparse(P):
        U = sp.csr_array(P, dtype=np.float64, copy=True)
        U.sum_duplicates()
        U.eliminate_zeros()
        counts = np.diff(U.indptr)
        peak = abs(U).max(axis=1).toarray().ravel()
        U.data /= np.repeat(peak, counts)
        lengths = _row_norms(U)
        U.data /= np.repeat(lengths, counts)
        return U, lengths * peak
    U = np.array(P, dtype=np.float64)
    peak = np.abs(U).max(axis=1)
    U /= np.where(peak > 0, peak, 1.0)[:, None]
    lengths = _row_norms(U)
    U /= np.where(lengths > 0, lengths, 1.0)[:, None]
    return U, lengths * peak


def _row_norms(R: Points) -> FloatArray:
    if sp.issparse(R):
        return np.sqrt(np.asarray(R.multiply(R).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", R, R))


def _check_rays(U: Points, rays: Points, c: Certificate | ApproximateCertificate) -> None:
    if rays.shape != (len(c.rays), c.dim) or rays.dtype.kind != "f":
        raise CertificateError(
            f"the rays are {rays.dtype} of shape {rays.shape}; the certificate speaks of floats of {(len(c.rays), c.dim)}."
        )
    off = _row_norms(U[c.rays] - rays)
    for k in np.flatnonzero(~(off <= SAME))[:1]:
        raise CertificateError(f"ray {k} (point {c.rays[k]}): the stored ray is {off[k]:.3g} away from the unit point.")


def _check_guarantee(U: Points, norms: FloatArray, c: ApproximateCertificate) -> float:
    """Every point is within the guaranteed residual of its combination."""
    weights = norms / norms.max() if c.mass else (norms > 0).astype(np.float64)
    rays = U[c.rays]
    worst = 0.0
    for rows in _blocks(np.arange(c.n_points), c.dim):
        residual = weights[rows] * _row_norms(U[rows] - c.coefficients[rows] @ rays)
        for a in np.flatnonzero(~(residual <= c.tol * (1 + DIGITS)))[:1]:
            raise CertificateError(f"point {rows[a]}: its residual is {residual[a]:.3g}, more than the {c.tol:.3g} that was guaranteed.")
        worst = max(worst, float(residual.max(initial=0.0)))
    return worst


def _check_structure(c: Certificate, norms: FloatArray) -> None:
    zero = norms == 0
    for i in np.flatnonzero(zero != (c.leader < 0))[:1]:
        raise CertificateError(f"point {i}: the certificate and the data disagree on whether it is zero (norm {norms[i]:.3g}).")
    for i in np.flatnonzero(~zero & (c.leader[np.maximum(c.leader, 0)] != c.leader))[:1]:
        raise CertificateError(f"point {i}: its group's leader {c.leader[i]} is not a leader.")
    for k in np.flatnonzero(c.leader[c.rays] != c.rays)[:1]:
        raise CertificateError(f"ray {k} (point {c.rays[k]}): it does not lead its group of colinear points.")
    for k in np.flatnonzero(~c.rays_only & (c.separated != c.rays))[:1]:
        raise CertificateError(f"ray {k} (point {c.rays[k]}): its witness is about another point, {c.separated[k]}.")


def _check_groups(U: Points, c: Certificate) -> float:
    """Every point is within tol of its group's leader."""
    worst = 0.0
    members = np.flatnonzero((c.leader >= 0) & (c.leader != np.arange(c.n_points)))
    for rows in _blocks(members, c.dim):
        distance = _row_norms(U[rows] - U[c.leader[rows]])
        for a in np.flatnonzero(~(distance <= max(c.tol, c.reach) * (1 + DIGITS)))[:1]:
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
        residual = _row_norms(U[rows] - c.coefficients[rows] @ rays)
        for a in np.flatnonzero(~(residual <= max(c.tol, c.reach) * (1 + DIGITS)))[:1]:
            raise CertificateError(f"point {rows[a]}: its coefficients leave a residual of {residual[a]:.3g}, more than tol = {c.tol:.3g}.")
        worst = max(worst, float(residual.max(initial=0.0)))
    return worst


def _check_witnesses(U: Points, c: Certificate) -> float:
    """Every ray is clear of the others; the smallest distance proven."""
    leaders = np.flatnonzero(c.leader == np.arange(c.n_points))
    smallest, proven = np.inf, 0
    families = ((DENSE, _prove_dense), (METRIC, _prove_metric), (SUPPORT, _prove_support), (COMBINED, _prove_combined))
    for kind, prove in families:
        family = np.flatnonzero(c.kind == kind)
        for rays_only, against in ((False, leaders), (True, c.rays)):
            rows = np.flatnonzero(c.rays_only[family] == rays_only)
            if len(rows):
                smallest = min(smallest, prove(U, c, family[rows], rows, against))
                proven += len(rows)
    if proven != len(c.rays):
        raise CertificateError(f"only {proven} of {len(c.rays)} rays come with a witness.")
    return float(smallest)


def _prove_dense(U: Points, c: Certificate, rays: IntArray, rows: IntArray, against: IntArray) -> float:
    return _separate_all(U, c, rays, against, lambda part: c.G[rows[part]])


def _prove_metric(U: Points, c: Certificate, rays: IntArray, rows: IntArray, against: IntArray) -> float:
    def witnesses(part: IntArray) -> FloatArray:
        Q = U[c.rays[rays[part]]]
        Q = Q.toarray() if sp.issparse(Q) else Q
        Q = Q / Q.sum(axis=1, keepdims=True) - c.centre
        return (Q @ c.T) @ c.T.T - c.offset[rows[part], None]

    return _separate_all(U, c, rays, against, witnesses)


def _prove_combined(U: Points, c: Certificate, rays: IntArray, rows: IntArray, against: IntArray) -> float:
    # whatever rounding does to W U, the vector that comes out is the witness
    return _separate_all(U, c, rays, against, lambda part: np.asarray((U.T @ c.W[rows[part]].T).T))


def _separate_all(U: Points, c: Certificate, rays: IntArray, against: IntArray, witnesses: Callable[[IntArray], FloatArray]) -> float:
    V = _take(U, against)
    parts = _blocks(np.arange(len(rays)), len(against))
    buffer = np.empty((len(parts[0]), len(against)))  # for the products of any one part: memory is touched once
    return min(_separate(witnesses(part), V, against, U, c, rays[part], buffer) for part in parts)


def _separate(G: FloatArray, V: Points, against: IntArray, U: Points, c: Certificate, rays: IntArray, buffer: FloatArray) -> float:
    """The rows of G as witnesses of ``rays``: at most 0 on every row of V but their own, and clearly above 0 on theirs."""
    G = G / np.where(np.abs(G).max(axis=1) > 0, np.abs(G).max(axis=1), 1.0)[:, None]  # so that no square is lost
    norms = _row_norms(G)
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
    for a in np.flatnonzero(~(distance > c.tol * (1 - ROOM)))[:1]:
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
    V = _take(U, against)
    mass = np.asarray(V.sum(axis=1)).ravel()
    Vt = V.T.tocsr()
    F, lift = c.F[rows], c.lift[rows]
    F.eliminate_zeros()
    peak = np.maximum(abs(F).max(axis=1).toarray().ravel(), lift)
    peak = np.where(peak > 0, peak, 1.0)  # so that no square is lost
    F.data /= np.repeat(peak, np.diff(F.indptr))
    lift = lift / peak
    own_rows = U[c.rays[rays]]
    pattern = sp.csr_array((np.ones(own_rows.nnz), own_rows.indices, own_rows.indptr), shape=own_rows.shape)
    _check_support(F, lift, pattern, rays, c)
    own = np.asarray(F.multiply(U[c.separated[rays]]).sum(axis=1)).ravel()
    f_norms = _row_norms(F)
    norms = np.sqrt(f_norms**2 + lift**2 * (c.dim - np.diff(own_rows.indptr)))
    error = (np.diff(V.indptr).max(initial=0) + 2) * EPS * (f_norms + lift * mass.max(initial=0.0))
    place = np.searchsorted(against, c.rays[rays])
    smallest = np.inf
    work = pattern @ np.diff(Vt.indptr)  # entries that each row of the products can have
    for part in np.split(np.arange(len(rays)), np.flatnonzero(np.diff(np.cumsum(work) // BLOCK_ENTRIES)) + 1):
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
        smallest = min(smallest, _clear(c, rays[part], (own[part] - error[part]) / np.where(norms[part] > 0, norms[part], np.inf)))
    return float(smallest)


def _check_support(F: Sparse, lift: FloatArray, pattern: Sparse, rays: IntArray, c: Certificate) -> None:
    """Each functional stays on its ray's support, each lift is >= 0, and the witness is about the ray itself."""
    used = abs(F).sign()
    stray = (used - used.multiply(pattern)).tocsr()
    stray.eliminate_zeros()
    problems = {
        "its witness has values off the point's support": np.diff(stray.indptr) > 0,
        "its witness's lift is negative": lift < 0,
        "a witness by support must be about the ray itself": c.separated[rays] != c.rays[rays],
    }
    for text, where in problems.items():
        for a in np.flatnonzero(where)[:1]:
            raise CertificateError(f"ray {rays[a]} (point {c.rays[rays[a]]}): {text}.")


def _take(U: Points, rows: IntArray) -> Points:
    return U if len(rows) == U.shape[0] else U[rows]


def _blocks(rows: IntArray, width: int) -> list[IntArray]:
    """``rows`` in pieces whose product with ``width`` columns stays near BLOCK_ENTRIES."""
    step = max(1, BLOCK_ENTRIES // max(width, 1))
    return [rows[a : a + step] for a in range(0, len(rows), step)]
