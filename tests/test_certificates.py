"""`verify` believes nothing: every forgery is refused with a message that names it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from cones import planted

from conecollapse import CertificateError, Cone
from conecollapse.certificates import DENSE, METRIC, SUPPORT


def dense_points():
    return planted(np.random.default_rng(0), 8, 40, 30)


def sparse_points():
    rng = np.random.default_rng(1)
    P = sp.random_array((80, 60), density=0.05, rng=rng, data_sampler=lambda size: rng.random(size) + 0.1).tocsr()
    P = P[np.diff(P.indptr) > 0]
    return sp.csr_array(sp.vstack([P, P[:20] + P[20:40]]))


@pytest.fixture(params=["dense", "sparse"])
def case(request):
    P = dense_points() if request.param == "dense" else sparse_points()
    cone = Cone.from_points(P)
    assert cone.n_rays < P.shape[0]
    cone.verify(P)
    return P, cone


def forge(cone, **changes):
    return Cone(cone.rays, dataclasses.replace(cone.certificate, **changes))


def test_all_forms_of_witness_occur_in_these_tests():
    dense, sparse = Cone.from_points(dense_points()).certificate, Cone.from_points(sparse_points()).certificate
    assert {DENSE, METRIC} <= set(dense.kind.tolist())
    assert SUPPORT in sparse.kind


def test_a_flipped_ray_is_refused(case):
    P, cone = case
    rays = cone.rays.copy()
    rays[[0]] = -rays[[0]]
    with pytest.raises(CertificateError, match=rf"ray 0 \(point {cone.ray_indices[0]}\): the stored ray is 2 away from the unit point"):
        Cone(rays, cone.certificate).verify(P)


def test_a_ray_exchanged_for_an_inner_point_is_refused(case):
    P, cone = case
    inner = np.setdiff1d(np.arange(P.shape[0]), cone.ray_indices)[-1]
    rays = cone.ray_indices.copy()
    rays[-1] = inner
    rays = np.sort(rays)
    certificate = dataclasses.replace(cone.certificate, rays=rays, separated=rays, coefficients=cone.certificate.coefficients)
    U = P / (np.linalg.norm(P, axis=1)[:, None] if not sp.issparse(P) else sp.linalg.norm(P, axis=1)[:, None])
    with pytest.raises(CertificateError, match=r"(ray|point) \d+"):
        Cone(sp.csr_array(U)[rays] if sp.issparse(P) else U[rays], certificate).verify(P)


def test_a_dropped_ray_is_refused(case):
    P, cone = case
    c = cone.certificate
    k = int(np.flatnonzero(np.diff(c.coefficients.tocsc().indptr) == 0)[0])  # a ray that nobody leans on
    keep = np.arange(cone.n_rays) != k
    family = np.flatnonzero(c.kind == c.kind[k]).tolist().index(k)
    parts = {"G": c.G, "offset": c.offset, "lift": c.lift, "F": c.F}
    mine = {DENSE: ["G"], METRIC: ["offset"], SUPPORT: ["lift", "F"]}[int(c.kind[k])]
    for name in mine:
        parts[name] = parts[name][np.arange(parts[name].shape[0]) != family]
    certificate = dataclasses.replace(
        c, rays=c.rays[keep], rays_only=c.rays_only[keep], separated=c.separated[keep], kind=c.kind[keep],
        coefficients=c.coefficients.tocsc()[:, keep].tocsr(), **parts,
    )  # fmt: skip
    with pytest.raises(CertificateError, match=rf"point {c.rays[k]}: it is neither a ray nor represented by rays"):
        Cone(cone.rays[keep], certificate).verify(P)


def test_an_altered_coefficient_is_refused(case):
    P, cone = case
    H = cone.certificate.coefficients.copy()
    H.data[3] *= 1.001
    point = int(np.searchsorted(H.indptr, 3, side="right")) - 1
    with pytest.raises(CertificateError, match=rf"point {point}: its coefficients leave a residual of"):
        forge(cone, coefficients=H).verify(P)
    H.data[3] = -1.0
    with pytest.raises(CertificateError, match=rf"point {point}: its coefficient -1 on ray {H.indices[3]} is not a non-negative number"):
        forge(cone, coefficients=H).verify(P)
    H.data[3] = np.nan
    with pytest.raises(CertificateError, match=rf"point {point}: its coefficient nan on ray"):
        forge(cone, coefficients=H).verify(P)


def test_a_perturbed_dense_witness_is_refused():
    P = dense_points()
    cone = Cone.from_points(P)
    ray = int(np.flatnonzero(cone.certificate.kind == DENSE)[0])
    for change in (1.0, -1.0):
        G = cone.certificate.G.copy()
        G[0] += change * np.linalg.norm(G[0])
        with pytest.raises(CertificateError, match=rf"ray {ray} \(point {cone.ray_indices[ray]}\): its witness"):
            forge(cone, G=G).verify(P)


def test_a_perturbed_metric_witness_is_refused():
    P = dense_points()
    cone = Cone.from_points(P)
    ray = int(np.flatnonzero(cone.certificate.kind == METRIC)[0])
    for change in (1.0, -1.0):
        offset = cone.certificate.offset.copy()
        offset[0] += change * np.abs(offset[0])
        with pytest.raises(CertificateError, match=rf"ray {ray} \(point {cone.ray_indices[ray]}\): its witness"):
            forge(cone, offset=offset).verify(P)
    with pytest.raises(CertificateError, match=r"ray \d+ \(point \d+\): its witness"):
        forge(cone, T=-cone.certificate.T[::-1]).verify(P)


def test_a_perturbed_support_witness_is_refused():
    P = sparse_points()
    cone = Cone.from_points(P)
    c = cone.certificate
    rays = np.flatnonzero(c.kind == SUPPORT)
    lift = c.lift.copy()
    lift[:] = 0.0  # nothing holds down the points that reach beyond the support
    with pytest.raises(CertificateError, match=r"ray \d+ \(point \d+\): its witness gives .* on point \d+"):
        forge(cone, lift=lift).verify(P)
    lift = c.lift.copy()
    lift[0] = -1
    with pytest.raises(CertificateError, match=rf"ray {rays[0]} \(point {cone.ray_indices[rays[0]]}\): its witness's lift is negative"):
        forge(cone, lift=lift).verify(P)
    F = c.F.copy()
    F.indices[0] = np.setdiff1d(np.arange(60), P[[cone.ray_indices[rays[0]]]].indices)[0]
    with pytest.raises(CertificateError, match=r"its witness has values off the point's support"):
        forge(cone, F=F).verify(P)
    F = c.F.copy()
    F.data[0] = -1.0
    with pytest.raises(CertificateError, match=r"ray \d+ \(point \d+\): its witness"):
        forge(cone, F=F).verify(P)


def test_forged_groups_are_refused(case):
    P, cone = case
    leader = cone.certificate.leader.copy()
    other = np.setdiff1d(np.flatnonzero(leader == np.arange(len(leader))), cone.ray_indices)[0]
    leader[other] = cone.ray_indices[0]
    with pytest.raises(CertificateError, match=rf"point {other}: it is .* away from its group's leader {cone.ray_indices[0]}"):
        forge(cone, leader=leader).verify(P)
    leader = cone.certificate.leader.copy()
    leader[other] = -1
    with pytest.raises(CertificateError, match=rf"point {other}: the certificate and the data disagree on whether it is zero"):
        forge(cone, leader=leader).verify(P)


def test_other_data_is_refused(case):
    P, cone = case
    with pytest.raises(CertificateError, match=r"the certificate is about \d+ points in dimension \d+, but P has shape"):
        cone.verify(P[:-1])
    Q = (P.toarray() if sp.issparse(P) else P).copy()
    Q[cone.ray_indices[0]] = Q.sum(axis=0)
    with pytest.raises(CertificateError, match=r"(ray|point) \d+"):
        cone.verify(Q)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("rays", lambda c: c.rays[::-1]), ("rays", lambda c: c.rays + c.n_points), ("rays", lambda c: c.rays.astype(float)),
        ("rays", lambda c: c.rays[:0]), ("leader", lambda c: c.leader[:-1]), ("leader", lambda c: c.leader + c.n_points),
        ("separated", lambda c: c.separated - c.n_points), ("kind", lambda c: c.kind + 1), ("kind", lambda c: c.kind[1:]),
        ("rays_only", lambda c: c.rays_only.astype(int)), ("G", lambda c: c.G[:, :-1]), ("G", lambda c: c.G * np.nan),
        ("T", lambda c: c.T[0]), ("T", lambda c: c.T * np.inf), ("centre", lambda c: c.centre[:-1]), ("offset", lambda c: c.offset[1:]),
        ("lift", lambda _: np.ones(3)), ("tol", lambda _: np.nan), ("tol", lambda _: 2.0), ("n_points", lambda _: -1),
        ("dim", lambda _: "x"), ("reach", lambda _: np.inf),
        ("coefficients", lambda c: c.coefficients[1:]), ("coefficients", lambda c: c.coefficients.toarray()),
        ("coefficients", lambda c: c.coefficients * np.inf), ("F", lambda c: sp.csr_array((1, c.dim))),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value")
def test_malformed_parts_are_named(part, value):
    P = dense_points()
    cone = Cone.from_points(P)
    with pytest.raises(CertificateError, match=rf"the certificate's '{part}' is not well formed|names no ray|witnesses|'G'|'offset'"):
        forge(cone, **{part: value(cone.certificate)}).verify(P)


def forged_rays(P, tol=1e-8, **witness):
    """All points claimed as rays, with the witnesses given, on top of an honest certificate."""
    c, m, n = Cone.from_points(P, tol=tol).certificate, *P.shape
    U = P.toarray() if sp.issparse(P) else P
    U = U / np.linalg.norm(U, axis=1, keepdims=True)
    parts = {
        "rays": np.arange(m), "separated": np.arange(m), "leader": np.arange(m), "kind": np.zeros(m, int), "rays_only": np.zeros(m, bool),
        "coefficients": sp.csr_array((m, m)), "offset": np.zeros(0), "lift": np.zeros(0), "G": np.zeros((0, n)), "F": sp.csr_array((0, n)),
        "T": np.zeros((n, 0)), "centre": np.zeros(n),
    } | witness  # fmt: skip
    return Cone(sp.csr_array(U) if sp.issparse(P) else U, dataclasses.replace(c, **parts))


NEARLY_FLAT = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 1e-10]])  # the third point is 1e-10 from the cone of the others


@pytest.mark.parametrize("dtype", [float, np.int64])
def test_a_huge_witness_does_not_overflow_its_way_through(dtype):
    G = np.array([[3, -6, 0], [-6, 3, 0], [-1, -1, 2**32 * 10000]]).astype(dtype)
    with pytest.raises(CertificateError, match=r"ray 2 .* proves a distance of|'G' is not well formed"):
        forged_rays(NEARLY_FLAT, G=G).verify(NEARLY_FLAT)


def test_a_tiny_support_witness_does_not_underflow_its_way_through():
    F = sp.csr_array(np.diag([1.0, 1.0, 1e-170]))
    P = sp.csr_array(NEARLY_FLAT)
    with pytest.raises(CertificateError, match=r"ray 2 .* proves a distance of"):
        forged_rays(P, F=F, lift=np.array([2.0, 2, 0]), kind=np.full(3, SUPPORT)).verify(P)


def test_a_tiny_dense_witness_does_not_underflow_its_way_through():
    sign = np.where(np.arange(10_000) % 2, 1.0, -1.0)
    P = np.vstack([1 - 0.015 * sign, 1 + 0.015 * sign])  # 0.03 apart
    G = np.vstack([-sign, sign]) * 1.5e-162
    G[:, 0] = -2.3e-162
    with pytest.raises(CertificateError, match=r"ray 0 .* proves a distance of"):
        forged_rays(P, tol=0.1, G=G).verify(P)


def test_complex_numbers_are_refused():
    P = np.array([[1.0, 0], [1, 1], [0, 2]])
    cone = Cone.from_points(P)
    with pytest.raises(CertificateError, match="'coefficients' is not well formed: it must hold floats"):
        forge(cone, coefficients=cone.certificate.coefficients * 1j).verify(P)
    with pytest.raises(CertificateError, match="the rays are complex128"):
        Cone(cone.rays * (1 + 0j), cone.certificate).verify(P)


def test_the_verdict_measures():
    P = np.array([[1.0, 0], [1, 1], [0, 1]])
    verdict = Cone.from_points(P).verify(P)
    assert verdict.n_rays == 2
    assert 0.1 < verdict.smallest_distance <= 1
    assert verdict.largest_residual < 1e-15
