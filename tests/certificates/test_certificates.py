"""`verify` believes nothing: every forgery is refused with a message that names it."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from certificate_cases import (
    NAMES,
    cases,
    dense_points,
    is_true,
    parts,
    sparse_points,
    spoil,
    with_part,
)
from cones import planted, unit
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from test_exact import CHECKED

from conecollapse import ApproximateCertificate, Certificate, CertificateError, Cone, ConeFileError
from conecollapse import nnls as least_squares
from conecollapse._linalg import as_dense
from conecollapse.certificates import (
    Combination,
    Metric,
    SparseVectors,
    Support,
    Vectors,
    allowance,
    check,
    departures,
    form,
    meeting,
)


@pytest.fixture(params=["dense", "sparse"])
def case(request):
    P = dense_points() if request.param == "dense" else sparse_points()
    cone = Cone.from_points(P)
    assert cone.n_rays < P.shape[0]
    cone.verify(P)
    return P, cone


def forge(cone, **changes):
    return Cone(cone._rays, dataclasses.replace(cone.certificate, **changes))


def family(cone, kind):
    """Place of the family of this kind, and the family."""
    return next((k, f) for k, f in enumerate(cone.certificate.witnesses) if isinstance(f, kind))


def forge_witness(cone, kind, **changes):
    k, found = family(cone, kind)
    families = list(cone.certificate.witnesses)
    families[k] = dataclasses.replace(found, **changes)
    return forge(cone, witnesses=tuple(families))


def test_all_forms_of_witness_occur_in_these_tests():
    kinds = {
        type(f) for cone, _ in cases().values() for f in getattr(cone.certificate, "witnesses", ())
    }
    assert kinds == {Vectors, Metric, Support, SparseVectors, Combination}
    assert cases()["twins"][0].certificate.rays_only.any()


def one_ray(n_points, dim, **claims):
    """A certificate that says: one ray generates everything."""
    P = np.random.default_rng(0).random((n_points, dim))
    U = P / np.linalg.norm(P, axis=1, keepdims=True)
    c = Cone.from_points(P[:1]).certificate
    others = (np.arange(n_points) > 0).astype(int)
    parts = {
        "n_points": n_points,
        "leader": np.arange(n_points),
        "rays_only": np.array([True]),
        "coefficients": sp.csr_array(
            (U[1:] @ U[0], np.zeros(n_points - 1, int), np.cumsum([0, *others])),
            shape=(n_points, 1),
        ),
    } | claims
    return P, Cone(U[:1], dataclasses.replace(c, **parts))


def test_one_ray_for_any_data_is_refused_in_memory_and_from_a_file(tmp_path):
    """A number in the certificate never widens a claim: neither the stated residual nor a weaker
    kind of witness."""
    P, forged = one_ray(200, 30)
    with pytest.raises(
        CertificateError,
        match=r"point \d+: it is 0\.\d+ away from its combination of rays, more than tol = 1e-08",
    ):
        forged.verify(P)
    forged.save(tmp_path / "cone.npz")
    with pytest.raises(CertificateError, match="more than tol = 1e-08"):
        Cone.load(tmp_path / "cone.npz").verify(P)
    with pytest.raises(
        CertificateError,
        match=r"'residual' is not well formed: it must be a number from 0 to 1e-08, not 1\.0",
    ):
        one_ray(200, 30, residual=1.0)[1].verify(P)


def test_a_wide_tolerance_is_repeated_and_the_callers_own_is_what_counts():
    P, forged = one_ray(200, 30, tol=0.97, residual=0.97)
    verdict = forged.verify(P)  # true, and it says at which tolerance
    assert verdict.tol == 0.97
    assert "(tol = 0.97)" in str(verdict)
    with pytest.raises(CertificateError, match="more than tol = 1e-08"):
        forged.verify(P, tol=1e-8)
    with pytest.raises(ValueError, match="tol"):
        forged.verify(P, tol=0)


def test_a_masked_leader_does_not_switch_the_coverage_off():
    """Comparisons with masked entries are masked, and a masked entry is never an error: only plain
    arrays are looked at."""
    P = dense_points()
    cone = Cone.from_points(P)
    hidden = np.setdiff1d(np.arange(len(P)), cone.ray_indices)
    leader = np.ma.masked_array(cone.certificate.leader, mask=np.isin(np.arange(len(P)), hidden))
    with pytest.raises(
        CertificateError, match="'leader' is not well formed: it must be a plain array of integers"
    ):
        forge(
            cone, leader=leader, coefficients=sp.csr_array(cone.certificate.coefficients.shape)
        ).verify(P)


@pytest.mark.parametrize("flag", [True, False])
def test_no_flag_of_a_sparse_array_is_believed(flag):
    P = dense_points()
    cone = Cone.from_points(P)
    H = cone.certificate.coefficients.copy()
    row = int(np.flatnonzero(np.diff(H.indptr) > 1)[0])
    H.indices[H.indptr[row]] = H.indices[H.indptr[row] + 1]  # the same column twice
    H.has_canonical_format = flag
    with pytest.raises(
        CertificateError,
        match="'coefficients' is not well formed: the columns of a row must increase",
    ):
        forge(cone, coefficients=H).verify(P)


def test_subclasses_and_strangers_are_refused():
    P = dense_points()
    cone = Cone.from_points(P)

    class Mine(type(cone.certificate)):
        pass

    with pytest.raises(CertificateError, match="this is no certificate but a Mine"):
        Cone(
            cone.rays,
            Mine(
                **{
                    f.name: getattr(cone.certificate, f.name)
                    for f in dataclasses.fields(cone.certificate)
                }
            ),
        ).verify(P)
    with pytest.raises(CertificateError, match="families of witnesses"):
        forge(cone, witnesses=[*cone.certificate.witnesses]).verify(P)
    with pytest.raises(
        CertificateError, match=r"ray \d+ has 2 of them; each ray needs exactly one"
    ):
        forge(cone, witnesses=cone.certificate.witnesses * 2).verify(P)
    with pytest.raises(
        CertificateError, match=r"ray \d+ has 0 of them; each ray needs exactly one"
    ):
        forge(cone, witnesses=()).verify(P)


def test_stated_numbers_are_measured_again():
    P = dense_points()
    few = Cone.approximate(P, 0.1, weighting="mass")
    with pytest.raises(
        CertificateError, match=r"the longest point has length .*, not .* as stated"
    ):
        forge(few, longest=few.certificate.longest * 2).verify(P)
    twins, Q = cases()["twins"]
    assert twins.certificate.residual > 1e-10
    with pytest.raises(CertificateError, match=r"more than the residual 0 that is stated"):
        forge(twins, residual=0.0).verify(Q)


def test_coefficients_where_none_belong_are_refused(case):
    """`point_coefficients` reads them, so a verified cone must have none beside those that were
    checked."""
    P, cone = case
    H = cone.certificate.coefficients.tolil()
    H[cone.ray_indices[0], 1] = 0.5
    with pytest.raises(
        CertificateError,
        match=rf"point {cone.ray_indices[0]}: it has coefficients, but it is a ray",
    ):
        forge(cone, coefficients=sp.csr_array(H)).verify(P)


def test_forged_names_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(3), index=["a", "b", "c"])
    cone = Cone.from_points(frame)
    cone.verify(frame)
    cone.verify(np.eye(3))  # no names, nothing to compare
    cone.ray_names = np.array(["a", "x", "c"])
    with pytest.raises(
        CertificateError, match=r"ray 1 \(point 1\): it is called 'x', but 'b' in P"
    ):
        cone.verify(frame)
    cone.ray_names = np.array(["a"])
    with pytest.raises(CertificateError, match="the cone has 1 names for 3 rays"):
        cone.verify(frame)


def test_held_rays_of_a_table_in_blocks_are_checked():
    cone, P = cases()["combination"]
    U = P[cone.ray_indices] / np.linalg.norm(P[cone.ray_indices], axis=1, keepdims=True)
    Cone(U, cone.certificate).verify(lambda: [P.T[:10], P.T[10:]])
    with pytest.raises(
        CertificateError,
        match=r"ray 0 \(point \d+\): the stored ray is 0\.\d+ away from the unit point",
    ):
        Cone(U[::-1].copy(), cone.certificate).verify(lambda: [P.T[:10], P.T[10:]])
    with pytest.raises(CertificateError, match="'unit_rays' is not well formed"):
        Cone(U[1:], cone.certificate).verify(lambda: [P.T])


def test_blocks_are_checked_before_they_are_used():
    cone, P = cases()["combination"]
    spoiled = P.T.copy()
    spoiled[12, 3] = np.nan
    with pytest.raises(ValueError, match="block 1: X has NaN at row 12, column 3"):
        cone.verify(lambda: [spoiled[:10], spoiled[10:]])


def test_too_few_points_are_refused_in_one_sentence():
    cone, P = cases()["combination"]
    for some in (P[:2], P[:, :-1]):
        with pytest.raises(
            CertificateError,
            match=r"the certificate is about \d+ points in dimension \d+, but P has shape",
        ):
            cone.verify(some)


def test_the_largest_residual_is_that_of_every_point():
    """A point that follows a leader shares its combination; its own distance from it is what is
    reported."""
    d = 0.9e-8
    base = np.array([[1.0, 0, 0], [0, 1, 0]])
    # the first is within tol of the rays, the second of the first
    inside = np.array([[1.0, 1, d], [1, 1, 2 * d]])
    P = np.vstack([base, inside])
    cone = Cone.from_points(P)
    assert cone.n_rays == 2
    assert cone.certificate.leader.tolist() == [0, 1, 2, 2]
    assert cone.verify(P).largest_residual == pytest.approx(2 * d / np.sqrt(2), rel=1e-6)


MUTATIONS = 10  # in an example


@functools.cache
def case_of(seed):
    """Points and cones of one draw; those of a few draws are kept."""
    return cases(seed)


MUTANTS = (st.sampled_from(NAMES), st.integers(0, 9), st.integers(0, 2**32 - 1))


@pytest.mark.slow
@settings(max_examples=60)
@given(*MUTANTS)
@example("single", 0, 786)  # an index array of which all is masked
def test_mutated_certificates_are_refused_or_harmless(name, draw, seed):
    """Accepted means true: the rays are the same, and SciPy's NNLS confirms the verdict at the
    tolerance that the caller gave."""
    cone, P = case_of(draw)[name]
    rng = np.random.default_rng(seed)
    given = parts(cone)
    with tempfile.TemporaryDirectory() as folder:
        for k in range(MUTATIONS):
            path, value = given[rng.integers(len(given))]
            changed = with_part(cone, path, spoil(rng, value))
            CHECKED["mutated certificates"] += 1
            try:
                if k % 2:
                    changed = through_file(changed, Path(folder) / "cone.npz")
                found = changed.verify(P, tol=cone.tol)
            except (CertificateError, ConeFileError):
                continue
            CHECKED["of them harmless"] += 1
            assert changed.ray_indices.tolist() == cone.ray_indices.tolist(), path
            assert is_true(found, changed, P), (path, found)


def through_file(cone, file):
    """The cone as it comes back from a file. What `save` would not write is written all the same:
    any array can be in a file."""
    try:
        cone.save(file)
    except (ValueError, TypeError, AttributeError):
        raise ConeFileError("it cannot even be written.") from None
    return Cone.load(file)


@pytest.mark.slow
def test_every_byte_of_a_file_may_change(tmp_path):
    """Archives check their own sums; with these made right again, every change is refused or
    true."""
    file, rng = tmp_path / "cone.npz", np.random.default_rng(0)
    cone, P = cases()["dense"]
    cone.save(file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(150):
        name = list(members)[rng.integers(len(members))]
        content = bytearray(members[name])
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        with zipfile.ZipFile(file, "w") as archive:
            for other, old in members.items():
                archive.writestr(other, bytes(content) if other == name else old)
        try:
            found = Cone.load(file)
            verdict = found.verify(P, tol=cone.tol)
        except (CertificateError, ConeFileError):
            continue
        assert found.ray_indices.tolist() == cone.ray_indices.tolist()
        assert is_true(verdict, found, P)


def test_a_flipped_ray_is_refused(case):
    P, cone = case
    rays = cone.rays.copy()
    rays[[0]] = -rays[[0]]
    with pytest.raises(
        CertificateError,
        match=(
            rf"ray 0 \(point {cone.ray_indices[0]}\): the stored ray is 2 away from the unit point"
        ),
    ):
        Cone(rays, cone.certificate).verify(P)


def test_a_ray_exchanged_for_an_inner_point_is_refused(case):
    P, cone = case
    inner = np.setdiff1d(np.arange(P.shape[0]), cone.ray_indices)[-1]
    rays = cone.ray_indices.copy()
    rays[-1] = inner
    rays = np.sort(rays)
    certificate = dataclasses.replace(cone.certificate, rays=rays, separated=rays)
    U = P / (
        np.linalg.norm(P, axis=1)[:, None]
        if not sp.issparse(P)
        else sp.linalg.norm(P, axis=1)[:, None]
    )
    with pytest.raises(CertificateError, match=r"(ray|point) \d+"):
        Cone(sp.csr_array(U)[rays] if sp.issparse(P) else U[rays], certificate).verify(P)


def test_a_dropped_ray_is_refused(case):
    P, cone = case
    c = cone.certificate
    # a ray that nobody leans on
    k = int(np.flatnonzero(np.diff(c.coefficients.tocsc().indptr) == 0)[0])
    keep = np.arange(cone.n_rays) != k
    families = []
    for found in c.witnesses:
        some = found.take(np.flatnonzero(found.of != k))
        families.append(dataclasses.replace(some, of=some.of - (some.of > k)))
    certificate = dataclasses.replace(
        c,
        rays=c.rays[keep],
        rays_only=c.rays_only[keep],
        separated=c.separated[keep],
        witnesses=tuple(families),
        coefficients=c.coefficients.tocsc()[:, keep].tocsr(),
        open=c.open[keep],
    )
    with pytest.raises(
        CertificateError, match=rf"point {c.rays[k]}: it is neither a ray nor represented by rays"
    ):
        Cone(cone.rays[keep], certificate).verify(P)


def test_an_altered_coefficient_is_refused(case):
    P, cone = case
    H = cone.certificate.coefficients.copy()
    H.data[3] *= 1.001
    point = int(np.searchsorted(H.indptr, 3, side="right")) - 1
    with pytest.raises(
        CertificateError, match=rf"point {point}: it is .* away from its combination of rays"
    ):
        forge(cone, coefficients=H).verify(P)
    H.data[3] = -1.0
    with pytest.raises(
        CertificateError,
        match=(
            rf"point {point}: its coefficient -1 on ray {H.indices[3]} is not a non-negative number"
        ),
    ):
        forge(cone, coefficients=H).verify(P)
    H.data[3] = np.nan
    with pytest.raises(
        CertificateError,
        match="'coefficients' is not well formed: it has a value that is not finite",
    ):
        forge(cone, coefficients=H).verify(P)


def test_a_perturbed_vector_is_refused():
    P = dense_points()
    cone = Cone.from_points(P)
    found = family(cone, Vectors)[1]
    ray = found.of[0]
    for change in (1.0, -1.0):
        G = found.G.copy()
        G[0] += change * np.linalg.norm(G[0])
        with pytest.raises(
            CertificateError, match=rf"ray {ray} \(point {cone.ray_indices[ray]}\): its witness"
        ):
            forge_witness(cone, Vectors, G=G).verify(P)


def test_a_perturbed_metric_is_refused():
    P = dense_points()
    cone = Cone.from_points(P)
    found = family(cone, Metric)[1]
    ray = found.of[0]
    for change in (1.0, -1.0):
        offset = found.offset.copy()
        offset[0] += change * np.abs(offset[0])
        with pytest.raises(
            CertificateError, match=rf"ray {ray} \(point {cone.ray_indices[ray]}\): its witness"
        ):
            forge_witness(cone, Metric, offset=offset).verify(P)
    with pytest.raises(CertificateError, match=r"ray \d+ \(point \d+\): its witness"):
        forge_witness(cone, Metric, T=-found.T[::-1]).verify(P)


def test_a_perturbed_support_is_refused():
    P = sparse_points()
    cone = Cone.from_points(P)
    found = family(cone, Support)[1]
    lift = np.zeros(len(found.lift))  # nothing holds down the points that reach beyond the support
    with pytest.raises(
        CertificateError, match=r"ray \d+ \(point \d+\): its witness gives .* on point \d+"
    ):
        forge_witness(cone, Support, lift=lift).verify(P)
    lift = found.lift.copy()
    lift[0] = -1
    with pytest.raises(CertificateError, match="'lift' is not well formed: entry 0 is negative"):
        forge_witness(cone, Support, lift=lift).verify(P)
    F = found.F.copy()
    F.indices[0] = np.setdiff1d(np.arange(60), P[[cone.ray_indices[found.of[0]]]].indices)[0]
    with pytest.raises(
        CertificateError, match=r"its witness has values off the point's support|must increase"
    ):
        forge_witness(cone, Support, F=F).verify(P)
    F = found.F.copy()
    F.data[0] = -1.0
    with pytest.raises(CertificateError, match=r"ray \d+ \(point \d+\): its witness"):
        forge_witness(cone, Support, F=F).verify(P)


def test_a_combination_of_other_weights_is_refused():
    cone, P = cases()["combination"]
    found = family(cone, Combination)[1]
    for W in (-found.W, found.W[::-1].copy(), np.zeros_like(found.W)):
        for data in (P, lambda: [P.T]):
            with pytest.raises(CertificateError, match=r"ray \d+ \(point \d+\): its witness"):
                forge_witness(cone, Combination, W=W).verify(data)


def test_forged_groups_are_refused(case):
    P, cone = case
    leader = cone.certificate.leader.copy()
    other = np.setdiff1d(np.flatnonzero(leader == np.arange(len(leader))), cone.ray_indices)[0]
    leader[other] = cone.ray_indices[0]
    with pytest.raises(CertificateError, match=rf"point {other}: it has coefficients, but"):
        forge(cone, leader=leader).verify(P)
    H = cone.certificate.coefficients.tolil()
    H[other] = 0.0
    with pytest.raises(
        CertificateError,
        match=rf"point {other}: it is .* away from its group's leader, more than tol",
    ):
        forge(cone, leader=leader, coefficients=sp.csr_array(H)).verify(P)
    leader = cone.certificate.leader.copy()
    leader[other] = -1
    with pytest.raises(
        CertificateError,
        match=rf"point {other}: the certificate and the data disagree on whether it is zero",
    ):
        forge(cone, leader=leader).verify(P)


def test_other_data_is_refused(case):
    P, cone = case
    with pytest.raises(
        CertificateError,
        match=r"the certificate is about \d+ points in dimension \d+, but P has shape",
    ):
        cone.verify(P[:-1])
    Q = (P.toarray() if sp.issparse(P) else P).copy()
    Q[cone.ray_indices[0]] = Q.sum(axis=0)
    with pytest.raises(CertificateError, match=r"(ray|point) \d+"):
        cone.verify(Q)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("rays", lambda c: c.rays[::-1]),
        ("rays", lambda c: c.rays + c.n_points),
        ("rays", lambda c: c.rays.astype(float)),
        ("rays", lambda c: c.rays[:0]),
        ("leader", lambda c: c.leader[:-1]),
        ("leader", lambda c: c.leader + c.n_points),
        ("separated", lambda c: c.separated - c.n_points),
        ("rays_only", lambda c: c.rays_only.astype(int)),
        ("tol", lambda _: np.nan),
        ("tol", lambda _: 2.0),
        ("tol", lambda _: 1),
        ("n_points", lambda _: -1),
        ("n_points", lambda _: True),
        ("dim", lambda _: "x"),
        ("residual", lambda _: np.inf),
        ("residual", lambda _: -1.0),
        ("coefficients", lambda c: c.coefficients[1:]),
        ("coefficients", lambda c: c.coefficients.toarray()),
        ("coefficients", lambda c: sp.csr_matrix(c.coefficients)),
        ("coefficients", lambda c: c.coefficients * np.inf),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_malformed_parts_are_named(part, value):
    P = dense_points()
    cone = Cone.from_points(P)
    with pytest.raises(
        CertificateError, match=rf"the certificate's '{part}' is not well formed|names no ray"
    ):
        forge(cone, **{part: value(cone.certificate)}).verify(P)


def test_the_point_on_which_a_sparse_witness_is_positive_is_named():
    """The third point lies in the support of the second, and the witness of the second is positive
    on it."""
    P = sp.csr_array([[0.0, 0, 1], [1, 1, 0], [1, 0, 0]])
    F = sp.csr_array([[0.0, 0, 1], [0.5, 1, 0], [1, 0, 0]])
    with pytest.raises(
        CertificateError, match=r"ray 1 \(point 1\): its witness gives .* on point 2"
    ):
        forged_rays(P, Support(np.arange(3), F, np.full(3, 5.0))).verify(P)


def test_what_is_found_in_place_of_an_array_is_described():
    with pytest.raises(
        CertificateError, match=r"it must be a plain array of floats of shape \(3\), not list\.$"
    ):
        form.floats("lift", [1.0, 2.0, 3.0], (3,))
    with pytest.raises(CertificateError, match=r"not ndarray of int64 and shape \(3,\)\.$"):
        form.floats("lift", np.arange(3), (3,))


def test_repeated_entries_of_sparse_points_are_added_by_the_checker():
    P = sparse_points()
    cone = Cone.from_points(P)
    halves = sp.csr_array(
        (np.repeat(P.data / 2, 2), np.repeat(P.indices, 2), 2 * P.indptr), shape=P.shape
    )
    assert check(halves, cone._rays, cone.certificate).n_points == P.shape[0]


@pytest.mark.parametrize(
    ("kind", "part", "value"),
    [
        (Vectors, "G", lambda G: G[:, :-1]),
        (Vectors, "G", lambda G: G * np.nan),
        (Vectors, "G", lambda G: G.astype(np.longdouble)),
        (Vectors, "of", lambda of: of + 1000),
        (Metric, "T", lambda T: T[0]),
        (Metric, "T", lambda T: T * np.inf),
        (Metric, "centre", lambda centre: centre[:-1]),
        (Metric, "offset", lambda offset: offset[1:]),
        (Metric, "offset", np.ma.masked_array),
        (Support, "lift", lambda _: np.ones(3)),
        (Support, "F", lambda F: sp.csr_array((1, F.shape[1]))),
        (Combination, "W", lambda W: W[:, 1:]),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_malformed_witnesses_are_named(kind, part, value):
    cone, P = cases()[
        {Vectors: "dense", Metric: "dense", Support: "sparse", Combination: "combination"}[kind]
    ]
    forged = forge_witness(cone, kind, **{part: value(getattr(family(cone, kind)[1], part))})
    with pytest.raises(CertificateError, match=rf"the certificate's '{part}' is not well formed"):
        forged.verify(P)


def forged_rays(P, witnesses, tol=1e-8):
    """All points claimed as rays, with the witnesses given, on top of an honest certificate."""
    c, m = Cone.from_points(P, tol=tol).certificate, P.shape[0]
    U = P.toarray() if sp.issparse(P) else P
    U = U / np.linalg.norm(U, axis=1, keepdims=True)
    everyone = np.arange(m)
    parts = {
        "rays": everyone,
        "separated": everyone,
        "leader": everyone,
        "rays_only": np.zeros(m, bool),
        "coefficients": sp.csr_array((m, m)),
        "open": np.zeros(m, bool),
    }
    return Cone(
        sp.csr_array(U) if sp.issparse(P) else U,
        dataclasses.replace(c, witnesses=(witnesses,), residual=0.0, **parts),
    )


# the third point is 1e-10 from the cone of the others
NEARLY_FLAT = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 1e-10]])


@pytest.mark.parametrize("dtype", [float, np.int64])
def test_a_huge_witness_does_not_overflow_its_way_through(dtype):
    G = np.array([[3, -6, 0], [-6, 3, 0], [-1, -1, 2**32 * 10000]]).astype(dtype)
    with pytest.raises(
        CertificateError, match=r"ray 2 .* proves a distance of|'G' is not well formed"
    ):
        forged_rays(NEARLY_FLAT, Vectors(np.arange(3), G)).verify(NEARLY_FLAT)


def test_a_tiny_support_witness_does_not_underflow_its_way_through():
    F = sp.csr_array(np.diag([1.0, 1.0, 1e-170]))
    P = sp.csr_array(NEARLY_FLAT)
    with pytest.raises(CertificateError, match=r"ray 2 .* proves a distance of"):
        forged_rays(P, Support(np.arange(3), F, np.array([2.0, 2, 0]))).verify(P)


def test_a_tiny_dense_witness_does_not_underflow_its_way_through():
    sign = np.where(np.arange(10_000) % 2, 1.0, -1.0)
    P = np.vstack([1 - 0.015 * sign, 1 + 0.015 * sign])  # 0.03 apart
    G = np.vstack([-sign, sign]) * 1.5e-162
    G[:, 0] = -2.3e-162
    with pytest.raises(CertificateError, match=r"ray 0 .* proves a distance of"):
        forged_rays(P, Vectors(np.arange(2), G), tol=0.1).verify(P)


@pytest.mark.parametrize(
    "nothing",
    [
        Vectors(np.arange(3), np.zeros((3, 3))),
        SparseVectors(np.arange(3), sp.csr_array((3, 3)), np.zeros(3)),
        Support(np.arange(3), sp.csr_array((3, 3)), np.zeros(3)),
        Combination(np.arange(3), np.zeros((3, 3))),
    ],
    ids=lambda family: family.kind,
)
def test_a_witness_of_zeros_proves_no_distance(nothing):
    P = sp.csr_array(np.eye(3))
    with pytest.raises(CertificateError, match=r"ray 0 .* its witness proves a distance of 0 only"):
        forged_rays(P, nothing).verify(P)


@pytest.mark.parametrize("n", [3, 4])
def test_a_support_witness_needs_no_lift_where_no_other_point_has_its_coordinates(n):
    """Products of points without a common coordinate are zero, without rounding, whichever way they
    are computed: dense where they are few, else sparse."""
    P = sp.csr_array(np.eye(n))
    assert forged_rays(P, Support(np.arange(n), P, np.zeros(n))).verify(
        P
    ).smallest_distance == pytest.approx(1.0)


def test_complex_numbers_are_refused():
    P = np.array([[1.0, 0], [1, 1], [0, 2]])
    cone = Cone.from_points(P)
    with pytest.raises(
        CertificateError, match="'coefficients' is not well formed: it must hold floats, under"
    ):
        forge(cone, coefficients=cone.certificate.coefficients * 1j).verify(P)
    with pytest.raises(CertificateError, match="'unit_rays' is not well formed"):
        Cone(cone.rays * (1 + 0j), cone.certificate).verify(P)


def test_the_verdict_measures():
    P = np.array([[1.0, 0], [1, 1], [0, 1]])
    verdict = Cone.from_points(P).verify(P)
    assert verdict.n_rays == 2
    assert 0.1 < verdict.smallest_distance <= 1
    assert verdict.largest_residual < 1e-15


@pytest.mark.parametrize("decades", [-300, -162, 150])
def test_columns_of_any_scale_are_verified_in_blocks(decades):
    """Each column has a unit of its own, so the squares of faint ones beside ordinary ones are not
    lost."""
    rng = np.random.default_rng(0)
    X = planted(rng, 60, 6, 3).T
    scaled = X * np.where(np.arange(9) % 2, 10.0**decades, 1.0)
    cone = Cone.from_samples([scaled[:20], scaled[20:]])
    assert cone.ray_indices.tolist() == Cone.from_samples([X]).ray_indices.tolist()
    for blocks in ([scaled], [scaled[:7], scaled[7:]]):
        assert cone.verify(lambda blocks=blocks: blocks).largest_residual < 1e-12
    cone.verify(scaled.T)


def weak_forgery(P, leader, represented, rays_only, separated, G):
    """Rays 0, 1, ... with these witnesses; ``represented`` are (point, ray, coefficient)."""
    tol, c = 1e-8, len(G)
    points, columns, values = zip(*represented, strict=True)
    H = sp.csr_array((np.array(values), (np.array(points), np.array(columns))), shape=(len(P), c))
    cone = Certificate(
        tol,
        tol,
        len(P),
        P.shape[1],
        np.arange(c),
        np.array(leader),
        H,
        np.array(rays_only),
        np.array(separated),
        (Vectors(np.arange(c), G),),
        np.zeros(c, bool),
    )
    return Cone((P / np.linalg.norm(P, axis=1, keepdims=True))[:c].copy(), cone)


def test_a_point_that_is_generated_anyway_proves_no_ray():
    """It lies within tol of the cone without the ray, if only just: what is granted for rounding
    elsewhere is not granted here."""
    # the third is the sum of the first two
    P = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 0.995e-8 * np.sqrt(2)]])
    G = np.array([[1.0, -10, 0], [-10, 1, 0], [-5e-15, -5e-15, 1]])
    forged = weak_forgery(P, np.arange(4), [(3, 2, 1.0)], [False, False, True], [0, 1, 3], G)
    with pytest.raises(
        CertificateError,
        match=(
            r"ray 2 \(point 2\): its witness \(about point 3\) proves a distance of 9.95e-09 only"
        ),
    ):
        forged.verify(P)


def test_a_follower_proves_no_ray():
    """Followers may lie up to twice tol from the cone of all rays, so being far from some of them
    says nothing."""
    inside = np.array([[np.cos(t), np.sin(t), 0] for t in np.linspace(0.2, 1.3, 5)])
    above = np.array([[1, 1, 0.9e-8 * np.sqrt(2)], [1, 1, 1.8e-8 * np.sqrt(2)]])
    P = np.vstack([[[1.0, 0, 0], [0, 1, 0]], inside, above])
    G = np.vstack([[[1.0, -10, 0], [-10, 1, 0]], np.tile([-5e-15, -5e-15, 1.0], (5, 1))])
    leader = [*range(8), 7]
    forged = weak_forgery(
        P,
        leader,
        [(7, 0, 0.5**0.5), (7, 1, 0.5**0.5)],
        [False] * 2 + [True] * 5,
        [0, 1, *[8] * 5],
        G,
    )
    with pytest.raises(
        CertificateError,
        match=r"ray 2 \(point 2\): its witness is about point 8, which does not lead its group",
    ):
        forged.verify(P)


@pytest.mark.slow
def test_the_distance_is_about_rays_and_not_about_points_that_need_them():
    """A ray may be near the others and still be needed by another point; the verdict counts such
    rays and says so."""
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(400):
        P = 1 + 3e-3 * rng.random((14, 3))
        cone = Cone.from_points(P, 1e-3)
        verdict = cone.verify(P)
        is_needed = cone.certificate.separated != cone.certificate.rays
        assert verdict.n_needed == is_needed.sum()
        if not is_needed.any():
            continue
        seen += 1
        rest = [
            nnls(np.delete(cone.rays, k, axis=0).T, cone.rays[k])[1]
            for k in np.flatnonzero(~is_needed)
        ]
        assert verdict.smallest_distance is None or min(rest) >= verdict.smallest_distance - 1e-12
        assert (
            verdict.smallest_distance is None
            or f"but for {is_needed.sum()} without which another of the points" in str(verdict)
        )
    assert seen


def test_numbers_that_pretend_are_refused():
    P = dense_points()
    cone = Cone.from_points(P)

    class Modest(float):
        def __float__(self):
            return 1e-8

    with pytest.raises(CertificateError, match="'tol' is not well formed"):
        forge(cone, tol=Modest(0.9)).verify(P)


def test_rays_of_an_epsilon_cone_are_not_zero():
    P = np.array([[0.0, 0], [1, 0], [0, 1]])
    H = sp.csr_array(np.array([[0.0, 0, 0], [5, 1, 0], [7, 0, 1]]))
    forged = ApproximateCertificate(0.1, 3, 2, np.arange(3), "unit", 1.0, H)
    with pytest.raises(CertificateError, match=r"ray 0 \(point 0\): it is zero"):
        Cone(P.copy(), forged).verify(P)


def test_both_passes_must_see_the_whole_table():
    cone, P = cases()["combination"]
    passes = iter([[P.T], [P.T[:20]]])
    with pytest.raises(
        CertificateError, match="the blocks had 40 rows in the first pass and 20 in the second"
    ):
        cone.verify(lambda: next(passes))
    with pytest.raises(
        ValueError, match="must give blocks of samples when it is called; it gave NoneType"
    ):
        cone.verify(lambda: None)


@pytest.mark.parametrize("dtype", [">f8", "f4", np.longdouble, "f2"])
def test_rays_of_another_float_type_in_a_file_are_usable_or_refused(dtype, tmp_path):
    P = dense_points()
    cone = Cone.from_points(P)
    cone.save(tmp_path / "cone.npz")
    arrays = dict(np.load(tmp_path / "cone.npz"))
    np.savez(tmp_path / "cone.npz", **(arrays | {"unit_rays": arrays["unit_rays"].astype(dtype)}))
    try:
        found = Cone.load(tmp_path / "cone.npz")
    except ConeFileError:
        assert np.dtype(dtype).itemsize > 8
        return
    assert found.contains(P).shape == (len(P),)
    assert found.rays.dtype == np.float64


def test_small_integers_in_a_certificate_do_not_wrap_when_cones_merge():
    P = dense_points()
    cone = Cone.from_points(np.vstack([P, P + 0.1]))
    small = forge(cone, leader=cone.certificate.leader.astype(np.uint8))
    assert len(cone.merge(small).zero_points) == 0


def test_stored_zeros_among_the_coefficients_are_harmless(case):
    P, cone = case
    H = cone.certificate.coefficients
    lengths = np.where(np.diff(H.indptr) > 0, H.shape[1], 0)  # every ray in every row that has any
    indices = np.tile(np.arange(H.shape[1]), np.count_nonzero(lengths))
    filled = sp.csr_array(
        (H.toarray()[lengths > 0].ravel(), indices, np.concatenate([[0], np.cumsum(lengths)])),
        shape=H.shape,
    )
    assert (filled.data == 0).any()
    forge(cone, coefficients=filled).verify(P)


def test_columns_beyond_the_range_of_32_bits_keep_their_numbers():
    wide = 2**31 + 5
    M = form.csr("M", np.ones(2), np.array([1, wide - 1]), np.array([0, 2]), (1, wide))
    assert M.indices.tolist() == [1, wide - 1]


def test_witnesses_about_rays_only_are_checked(case):
    P, cone = case
    everyone, c = np.arange(cone.n_rays), cone.certificate
    G = -0.1 - unit(P[c.rays].toarray() if sp.issparse(P) else P[c.rays])
    forged = forge(
        cone,
        rays_only=np.ones(cone.n_rays, bool),
        separated=c.rays,
        witnesses=(Vectors(everyone, G),),
    )
    with pytest.raises(
        CertificateError, match=r"ray 0 .* its witness proves a distance of -.* only"
    ):
        forged.verify(P)


@pytest.mark.parametrize(
    "setting",
    [
        {"SPARSE_COST": 1000},  # products with dense witnesses
        {"SPARSE_COST": 0},
        {"SPARSE_COST": 1000, "BLOCK_ENTRIES": 100},  # two at a time
        {"SPARSE_COST": 0, "MANY_PAIRS": 8, "LOOKUP_COST": 0},
        # coordinates share places in the table of patterns
        {"SPARSE_COST": 0, "WIDTH": 4, "LOOKUP_COST": 0, "FIRST_TERMS": 1},
        {"SPARSE_COST": 0, "WIDTH": 4, "LOOKUP_COST": 10**6},
        {"SPARSE_COST": 1000, "FEW_POSTINGS": 40, "POSTINGS_SHARE": 100},  # a few points at a time
        {"SPARSE_COST": 0, "FEW_POSTINGS": 40, "POSTINGS_SHARE": 100},
    ],
    ids=str,
)
@pytest.mark.parametrize("lift", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("kind", [Support, SparseVectors])
def test_a_product_that_is_not_proven_to_be_negative_is_computed_in_full(
    kind, lift, setting, monkeypatch
):
    """Whichever way it is computed: what is left out is at most 0, what is below zero is a bound,
    and the rest agrees to rounding."""
    for name, value in setting.items():
        monkeypatch.setattr(meeting, name, value)
    rng = np.random.default_rng(0)
    U = rng.random((40, 15)) * (rng.random((40, 15)) < 0.5)
    U = sp.csr_array(U[U.any(axis=1)] / np.linalg.norm(U[U.any(axis=1)], axis=1)[:, None])
    rays = np.arange(0, U.shape[0], 3)
    F = U[rays].copy()
    F.data = (
        np.where(rng.random(F.nnz) < 0.3, 1.0, -1.0) * rng.random(F.nnz) * (rng.random(F.nnz) < 0.5)
    )
    lifts, of = lift * rng.random(len(rays)), np.arange(len(rays))
    G = F.toarray() - (
        lifts[:, None] if kind is SparseVectors else lifts[:, None] * (U[rays].toarray() == 0)
    )
    seen, scale = (
        np.zeros((len(rays), U.shape[0]), int),
        np.maximum(np.abs(F.toarray()).max(axis=1), lifts),
    )
    for block in kind(of, F, lifts).values(U, rays, np.arange(U.shape[0])):
        is_stored = (
            as_dense(meeting.pattern_of(block.products)) > 0
            if sp.issparse(block.products)
            else block.products > -np.inf
        )
        found, true = (
            as_dense(block.products),
            (G @ U.T)[block.which, block.places] / scale[block.which, None],
        )
        is_stored &= found > -np.inf
        assert (true[~is_stored] <= 0).all()
        assert (found[is_stored] >= true[is_stored] - 1e-14).all()
        full = is_stored & (found > -block.error[:, None])
        np.testing.assert_allclose(found[full], true[full], atol=1e-14)
        assert (found > 0).any(axis=1).sum() == (true > 1e-14).any(axis=1).sum()
        np.testing.assert_allclose(
            block.lengths, np.linalg.norm(G[block.which], axis=1) / scale[block.which]
        )
        seen[block.which, block.places] += 1
    assert (seen == 1).all()


@pytest.mark.slow
def test_sparse_witnesses_are_judged_in_the_same_way_when_some_points_are_taken_at_a_time():
    """The same verdict for points with each coordinate many times, which are the same points; and a
    witness that is too weak, or positive on one point only, is refused wherever that point is."""
    P = sparse_points()
    whole = Cone.from_points(P).verify(P)
    copies = 2 * meeting.FEW_POSTINGS // P.nnz
    P = sp.csr_array(sp.hstack([P] * copies))
    cone = Cone.from_points(P)
    in_pieces = cone.verify(P)
    assert P.nnz > meeting.postings_at_once(P)
    assert in_pieces.n_rays == whole.n_rays
    assert in_pieces.largest_residual <= in_pieces.tol
    found = family(cone, Support)[1]
    for k in range(len(found.of)):
        F, lift, row = found.F.copy(), found.lift.copy(), slice(*found.F.indptr[k : k + 2])
        F.data[row] *= -1
        with pytest.raises(
            CertificateError, match=rf"ray {found.of[k]} \(point \d+\): its witness"
        ):
            forge_witness(cone, Support, F=F, lift=lift).verify(P)
        F.data[row], lift[k] = 1.0, 0.0  # positive on every point that has one of its coordinates
        if (P[:, F.indices[row]].sum(axis=1) > 0).sum() > 1:
            with pytest.raises(
                CertificateError,
                match=rf"ray {found.of[k]} \(point \d+\): its witness gives .* on point \d+",
            ):
                forge_witness(cone, Support, F=F, lift=lift).verify(P)


@pytest.mark.parametrize("has_zero_sums", [False, True])
def test_products_of_witnesses_name_every_point_that_meets_them(has_zero_sums, monkeypatch):
    """Also where the product is exactly 0, which sparse products leave out, or no number; what does
    not meet a witness is below all."""
    rng = np.random.default_rng(4)
    V = np.where(rng.random((30, 12)) < 0.3, rng.integers(1, 4, (30, 12)), 0.0)
    F = np.where(
        rng.random((9, 12)) < 0.4,
        rng.choice([-1.0, 1.0] if has_zero_sums else [-1.25, 0.0625, 1.5], (9, 12)),
        0.0,
    )
    meets, products = (F > 0) @ (V > 0).T > 0, F @ V.T
    assert (meets & (products == 0)).any() == has_zero_sums
    V[3, 2] = np.nan
    products[F[:, 2] != 0, 3] = np.nan
    meets = (F > 0) @ (V != 0).T > 0
    if not has_zero_sums:
        monkeypatch.setattr(meeting, "_multiplied_at_once", lambda *_: pytest.fail("no sum is 0"))
    found = meeting._multiplied(meeting.Postings.of(sp.csr_array(V)), sp.csr_array(F))
    stored = np.zeros(found.shape, bool)
    stored[np.repeat(np.arange(9), np.diff(found.indptr)), found.indices] = True
    assert stored[meets].all()
    np.testing.assert_array_equal(found.toarray()[meets], products[meets])
    others = found.toarray()[stored & ~meets]
    assert (np.isnan(others) | (others == -np.inf)).all()


def test_rounded_weights_that_sum_to_one_are_optimal_and_others_are_not():
    rng = np.random.default_rng(0)
    H = rng.random((5, 30)) * np.array([[1.0], [3], [10], [0.1], [0.01]])
    X = rng.dirichlet(np.ones(5), 2000) @ H * rng.uniform(0.2, 2, (2000, 1)) + 0.1 * rng.random(30)
    W = least_squares(H.T, X.T, simplex=True)[0].T
    off = departures(X, H, W.astype(np.float32), closed=True)
    assert off.max() <= allowance(H, np.float32)
    assert departures(X, H, W, closed=True).max() <= allowance(H)
    moved = 0.999 * W + 0.001 / 5
    assert np.median(departures(X, H, moved, closed=True)) > 10 * allowance(H, np.float32)
