"""The certified cone: its rays are the extreme rays, whatever the points look like."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cones import brute_force, cone_by_supports, planted, unit
from conftest import seeds
from hypothesis import example, given
from hypothesis import strategies as st

from conecollapse import Cone, collapse
from conecollapse._linalg import unit_rows
from conecollapse.certificates import Vectors
from conecollapse.geometry import certified
from conecollapse.geometry.certified import Decisions, conclude, decide, group
from conecollapse.geometry.certified.cost import Budget
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.inside import inside_known
from conecollapse.geometry.certified.lead import largest_products
from conecollapse.geometry.certified.search import RAY, REDUNDANT, UNDECIDED, search
from conecollapse.geometry.cone import BLOCK_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_rays_equal_brute_force_on_500_planted_cones(chunk):
    for seed in range(50 * chunk, 50 * chunk + 50):
        rng = np.random.default_rng(seed)
        dim = 2 + seed % 59
        P = planted(
            rng, dim, n_rays=int(rng.integers(1, 2 * dim)), n_inside=int(rng.integers(0, 60))
        )
        cone = Cone.from_points(P)
        assert cone.ray_indices.tolist() == oracle(P).tolist(), f"seed {seed}, dim {dim}"
        cone.verify(P)


@st.composite
def awkward_points(draw):
    """Points on faces, duplicates at other scales, zero rows, low rank, small integers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, n_rays = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    kind = draw(st.sampled_from(["random", "integer", "sparse", "low rank", "orthant"]))
    rays = {
        "random": lambda: rng.random((n_rays, dim)),
        "integer": lambda: rng.integers(0, 4, (n_rays, dim)).astype(float),
        "sparse": lambda: rng.random((n_rays, dim)) * (rng.random((n_rays, dim)) < 0.4),
        "low rank": lambda: rng.random((n_rays, min(2, dim))) @ rng.random((min(2, dim), dim)),
        "orthant": lambda: np.eye(dim)[rng.integers(0, dim, n_rays)],
    }[kind]()
    rays = rays[rays.any(axis=1)] if rays.any() else np.ones((1, dim))
    weights = rng.random((draw(st.integers(0, 8)), len(rays))) * (rng.random(len(rays)) < 0.5)
    parts = [rays, weights @ rays, np.zeros((draw(st.integers(0, 2)), dim))]
    P = np.vstack([*parts, rays[: draw(st.integers(0, 3))]])
    scales = 10.0 ** rng.uniform(-9, 9, len(P)) if draw(st.booleans()) else np.ones(len(P))
    return (P * scales[:, None])[rng.permutation(len(P))]


def oracle(P):
    """Brute force after zeros and colinear points are set aside by plain comparison."""
    nonzero = np.flatnonzero(P.any(axis=1))
    U = unit(P[nonzero])
    leaders: list[int] = []
    for i in range(len(U)):
        if not (np.linalg.norm(U[leaders] - U[i], axis=1) <= 1e-8).any():
            leaders.append(i)
    return (
        nonzero[np.array(leaders)[brute_force(U[leaders])]]
        if len(leaders) > 1
        else nonzero[leaders]
    )


@given(awkward_points())
@example(np.array([[1.0, 0.0]]))
@example(np.array([[0.0, 0.0], [2.0, 4.0], [1.0, 2.0]]))
@example(np.ones((3, 1)))
def test_rays_equal_brute_force_on_awkward_points(P):
    """Dense, sparse, and by supports alone."""
    wanted, S = oracle(P).tolist(), sp.csr_array(P)
    for cone in (Cone.from_points(P), Cone.from_points(S), cone_by_supports(S)):
        assert cone.ray_indices.tolist() == wanted
        cone.verify(S)


def circle(angles, slanted=((1, 0, 0), (0, 1, 0), (0, 0, 1))):
    return np.column_stack([2 + np.cos(angles), 2 + np.sin(angles), np.ones(len(angles))]) @ slanted


def curve(n):
    t = 2 * np.pi * np.arange(n) / n
    return 1.5 + np.stack([f(j * t) for j in (1, 2) for f in (np.cos, np.sin)], axis=1)


def noisy_mixtures(rng):
    """With noise of the size of the tolerance: settled in bulk, not one by one."""
    rays = rng.random((10, 12))
    inside = rng.dirichlet(np.ones(10), 600) @ rays + 2e-9 * rng.standard_normal((600, 12))
    return np.abs(np.vstack([rays, inside]))


ASKEW = np.array([[1.0, 0.2, 0.1], [0.0, 1.5, 0.3], [0.4, 0.1, 3.0]])
ANGLES = 2 * np.pi * np.random.default_rng(0).random(1500)
KNOWN = {  # points, tolerance, and between which numbers the number of rays lies
    # of the third point the coefficient 1e-16 in the first one is needed by the witness
    "faint": ([[0, 0.82, 0], [1e-8, 0.94, 0], [0, 0.59, 0.59]], 1e-8, (3, 3)),
    "huge and tiny": ([[1e200, 0], [1e200, 1e200], [0, 1e-200], [3e-310, 3e-310]], 1e-8, (2, 2)),
    "circle": (circle(2 * np.pi * np.arange(2000) / 2000), 1e-8, (2000, 2000)),
    # near the tolerance points are deleted one after the other, and the rest generates all
    "fine circle": (circle(2 * np.pi * np.arange(600) / 600, ASKEW), 2e-5, (101, 599)),
    "random circle": (circle(ANGLES), 1e-6, (101, 1499)),
    "random circle, askew": (circle(ANGLES, ASKEW), 1e-6, (101, 1499)),
    "curve in space": (curve(1200), 1e-8, (4, 1199)),  # points lean on points far from them
    "noisy mixtures": (noisy_mixtures(np.random.default_rng(2)), 1e-8, (10, 59)),
    "more dimensions than points": (planted(np.random.default_rng(3), 400, 20, 30), 1e-8, (20, 20)),
    "mostly inside": (planted(np.random.default_rng(4), 20, 60, 600), 1e-8, (60, 60)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_points_with_a_known_number_of_rays(name):
    P, tol, (least, most) = KNOWN[name]
    cone = Cone.from_points(P, tol)
    assert least <= cone.n_rays <= most
    assert cone.verify(P).largest_residual <= cone.tol == tol


def near_families(rng):
    """Points whose distances from the cone of the others run through all decades, flat and in many
    dimensions."""
    d = int(rng.integers(3, 200))
    P = planted(rng, d, int(rng.integers(2, 20)), 15)
    near = P[:10] + 10.0 ** rng.uniform(-15, -5, (len(P[:10]), 1)) * rng.random((len(P[:10]), d))
    B = rng.random((5, d))
    flat = rng.random((12, 5)) @ B * (1 + 10.0 ** rng.uniform(-14, -8) * rng.random((12, d)))
    return np.vstack([P, near, B, flat])


def twins(rng):
    """Two points nearly colinear, with others around."""
    base = rng.random((8, 5)) + 0.1
    gap = 10.0 ** rng.uniform(-9, -7) * rng.standard_normal(base.shape)
    return np.vstack([base, base + gap, base[:4] + base[1:5]])


def small_lattice(rng):
    """With entries of the size of the tolerance."""
    P = rng.integers(0, 3, (8, 4)) * (rng.random((8, 4)) < 0.5)
    return P + rng.choice([0, 0, 5e-9, 1e-8, 1.2e-8], (8, 4))


def faint_supports(rng):
    """Entries of the size of the tolerance off the support: a support says nothing exact about
    them."""
    shape = 10, int(rng.integers(2, 7))
    P = rng.random(shape) * (rng.random(shape) < 0.6)
    return P + 10.0 ** rng.uniform(-9, -7) * (rng.random(shape) < 0.3)


def cloud(rng):
    """All within a few tolerances of each other: the hardest case for a consistent answer."""
    dim = int(rng.integers(2, 6))
    return rng.random(dim) + 0.5 + 3e-8 * rng.standard_normal((12, dim))


def long_tails(rng):
    """The functional on a support with one peak and a long tail is much longer than its values on
    points: its rounding must be covered too."""
    length = int(10 ** rng.uniform(2, 4))
    P = sp.lil_array((4, 12 * length))
    P[0, :length] = np.r_[1.0, np.full(length - 1, 1e-7)]
    P[1, :length] = np.r_[0.5, 0.87, 1e-7 * rng.uniform(0.5, 1.5, length - 2)]
    P[2, length + 5] = P[3, length + 9] = 1.0
    return sp.csr_array(P)


@pytest.mark.parametrize("seed", seeds(30, quick=6))
@pytest.mark.parametrize(
    "make", [near_families, twins, small_lattice, faint_supports, cloud, long_tails]
)
def test_whatever_lies_near_the_tolerance_is_certified(make, seed):
    """Whatever is kept generates the rest and cannot be left out. No tolerance is accepted at which
    a cone is refused by its own verify; where rounding hides too much, a larger one is stated."""
    P = sp.csr_array(make(np.random.default_rng(seed)))
    P = P[np.diff(P.indptr) > 0]
    for tol in (1e-10, 1e-8):
        for points in (P, P.toarray()) if make is not long_tails else (P,):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "rounding hides distances")
                cone = Cone.from_points(points, tol)
            assert cone.tol >= tol
            assert cone.verify(points).tol == cone.tol


def sparse_planted(rng, m, n, density, n_inside):
    rays = sp.random_array(
        (m, n), density=density, rng=rng, data_sampler=lambda size: rng.random(size) + 0.1
    ).tocsr()
    rays = rays[np.diff(rays.indptr) > 0]
    weights = sp.random_array((n_inside, rays.shape[0]), density=3 / rays.shape[0], rng=rng).tocsr()
    return sp.csr_array(sp.vstack([rays, weights @ rays]))


@pytest.mark.parametrize("seed", range(12))
def test_the_support_method_equals_the_dense_method(seed):
    rng = np.random.default_rng(seed)
    P = sparse_planted(
        rng, int(rng.integers(20, 200)), int(rng.integers(40, 120)), rng.uniform(0.01, 0.08), 60
    )
    cone = Cone.from_points(P)
    assert cone.ray_indices.tolist() == Cone.from_points(P.toarray()).ray_indices.tolist()
    cone.verify(P)


def test_a_sparse_cone_verifies_the_same_points_dense_and_the_other_way_round():
    rng = np.random.default_rng(3)
    S = sp.random_array((30, 200), density=0.03, rng=rng).tocsr()
    Cone.from_points(S).verify(S.toarray())
    P = rng.random((20, 5))
    Cone.from_points(P).verify(sp.csr_array(P))


def test_progress_is_reported_and_ends_at_the_total():
    rng = np.random.default_rng(0)
    for P in (rng.random((700, 10)), sp.random_array((200, 100), density=0.03, rng=rng)):
        calls = []
        Cone.from_points(P, progress=lambda *call, calls=calls: calls.append(call))
        assert all(0 <= done <= total for _, done, total in calls)
        assert (
            {stage: done == total for stage, done, total in calls}
            == {stage: True for stage, _, _ in calls}
            != {}
        )


def test_high_dimension_uses_one_product_and_needs_no_dense_witness():
    P = np.random.default_rng(0).random((600, 250))
    cone = Cone.from_points(P)
    assert cone.n_rays == 600
    vectors = [family for family in cone.certificate.witnesses if isinstance(family, Vectors)]
    assert sum(len(family.of) for family in vectors) < 60  # nearly all proven by the shared metric
    cone.verify(P)


@pytest.mark.parametrize("n", [3, 100, 1000, 5000])
@pytest.mark.parametrize("distance", [0.99, 0.9999, 1.0001, 1.002, 1.009, 1.02])
def test_no_gap_between_within_and_beyond_the_tolerance(n, distance):
    """A point at a known distance just below or above tol is either represented or proven, whatever
    the dimension."""
    rng = np.random.default_rng(1)
    rays = unit(rng.random((min(5, n - 1), n)))
    Q, _ = np.linalg.qr(rays.T)
    normal = rng.standard_normal(n)
    normal -= Q @ (Q.T @ normal)
    point = unit(rays.mean(axis=0, keepdims=True))[0] + distance * 1e-8 * normal / np.linalg.norm(
        normal
    )
    P = np.vstack([rays, np.abs(point)])
    cone = Cone.from_points(P)
    assert (cone.n_rays == len(P)) == (distance > 1)
    cone.verify(P)


@pytest.mark.filterwarnings("ignore:P is float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
def test_dtypes(dtype):
    P = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1]]).astype(dtype)
    cone = Cone.from_points(P)
    assert cone.ray_indices.tolist() == oracle(P.astype(float)).tolist()
    cone.verify(P)
    assert Cone.from_points(sp.csr_array(P)).ray_indices.tolist() == cone.ray_indices.tolist()


def test_float32_points_are_warned_about():
    """Rounding turns combinations into rays when tol is finer than it; the warning says which tol
    treats them as inside."""
    P = planted(np.random.default_rng(1), 6, 5, 20)
    assert Cone.from_points(P).n_rays == 5
    with pytest.warns(
        UserWarning, match=r"P is float32, rounded to about 6e-08 .* Pass tol=1e-06 or larger"
    ):
        assert Cone.from_points(P.astype(np.float32)).n_rays > 5
    assert Cone.from_points(P.astype(np.float32), tol=1e-6).n_rays == 5


def test_scaling_and_permuting_points_permutes_the_rays():
    """Multiples join the group of a ray, and zeros are set aside."""
    rng = np.random.default_rng(6)
    P = planted(rng, 6, 9, 30)
    order = rng.permutation(len(P))
    rays = Cone.from_points(P).ray_indices
    moved = (P * rng.uniform(1e-6, 1e6, (len(P), 1)))[order]
    cone = Cone.from_points(np.vstack([moved, np.zeros((2, 6)), 2 * P[rays]]))
    assert sorted(order[cone.ray_indices]) == rays.tolist()
    assert [order[i] for i, _ in cone.groups] == [rays[j - len(P) - 2] for _, j in cone.groups]
    assert cone.zero_points.tolist() == [len(P), len(P) + 1]


def test_moreau_the_residual_of_a_projection_separates_the_point_from_the_cone():
    rng = np.random.default_rng(7)
    cone = Cone.from_points(planted(rng, 6, 10, 10))
    Y = rng.standard_normal((50, 6))
    R = Y - cone.project(Y)
    # the parts are orthogonal
    assert np.abs(np.einsum("ij,ij->i", R, cone.project(Y))).max() < 1e-10
    assert (R @ cone.rays.T).max() < 1e-10  # and the residual is in the polar cone
    np.testing.assert_allclose(
        cone.residuals(Y), np.linalg.norm(R, axis=1) / np.linalg.norm(Y, axis=1), atol=1e-10
    )
    np.testing.assert_allclose(cone.coefficients(Y) @ cone.rays, cone.project(Y), atol=1e-12)
    assert (cone.coefficients(Y) >= 0).all()


def test_a_cone_contains_its_points_and_their_combinations_and_not_what_is_outside():
    rng = np.random.default_rng(8)
    P = planted(rng, 5, 7, 20)
    for points in (P, sp.csr_array(P)):
        cone = Cone.from_points(points)
        assert cone.contains(points).all()
        assert cone.contains(rng.random((9, len(P))) @ P).all()
        assert not cone.contains(-P).any()
        assert cone.contains(np.zeros((1, 5))).all()
    P = planted(np.random.default_rng(8), 5, 20, 30) * np.logspace(-3, 0, 50)[:, None]
    for weighting in ("unit", "mass"):
        near = Cone.approximate(P, 0.1, weighting=weighting)
        assert near.contains(P).all()
        assert not near.contains(P, tol=1e-8).all()


def test_names_of_a_frame_are_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 0], [1, 1], [0, 1]], index=["a", "b", "c"])
    assert Cone.from_points(frame).ray_names.tolist() == ["a", "c"]
    assert collapse(frame).ray_names.tolist() == ["a", "c"]
    assert Cone.from_points(frame.set_axis([7, 8, 9])).ray_names.tolist() == [7, 9]
    assert Cone.from_points(frame.convert_dtypes()).n_rays == 2
    nested = frame.set_axis(pandas.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]))
    assert Cone.from_points(nested).ray_names.tolist() == [("a", 1), ("b", 1)]
    with pytest.raises(ValueError, match=r"column 'gene' of P holds .* values, not numbers"):
        Cone.from_points(frame.assign(gene="x"))
    with pytest.raises(ValueError, match="P has NaN at row 1, column 1"):
        Cone.from_points(
            frame.convert_dtypes().mask([[False, False], [False, True], [False, False]])
        )


def test_results_repeat_and_do_not_depend_on_threads():
    P = planted(np.random.default_rng(9), 15, 40, 200)
    one, two, again = (Cone.from_points(P, n_jobs=n) for n in (1, 2, 2))
    assert one.ray_indices.tolist() == two.ray_indices.tolist()
    for mine, other in zip(two.certificate.witnesses, again.certificate.witnesses, strict=True):
        everyone = np.arange(len(mine.of))
        U = two.rays
        np.testing.assert_array_equal(
            mine.vectors(U, mine.of, everyone), other.vectors(U, other.of, everyone)
        )


@pytest.mark.slow
def test_words_that_every_document_has_are_decided_by_sweeps():
    """Two points that contain all others: one is their sum, so inside; of the other no one but
    itself has the last coordinate's share."""
    rng = np.random.default_rng(0)
    words = sp.random_array((900, 400), density=0.02, rng=rng).tocsr()
    words = words[np.diff(words.indptr) > 0]
    inside = rng.random((1, words.shape[0])) @ words
    outside = np.where(np.arange(400) % 2, 1.0, 1e-3)[None, :]
    P = sp.csr_array(sp.vstack([words, sp.csr_array(inside), sp.csr_array(outside)]))
    cone = Cone.from_points(P)
    assert words.shape[0] not in cone.ray_indices
    assert words.shape[0] + 1 in cone.ray_indices
    assert cone.verify(P).n_open == 0  # which proves the other points, too


def test_where_rounding_hides_a_ray_a_larger_tolerance_is_certified_and_said(monkeypatch):
    def spoil(U, tol, *rest):  # as if rounding spoiled the proof of a weak ray
        proof = conclude(U, tol, *rest)
        return dataclasses.replace(proof, unproven=[0] if tol <= 1e-8 else [])

    monkeypatch.setattr(certified, "conclude", spoil)
    P = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 2e-8], [1, 1.3, 2.5e-8]])
    with pytest.warns(
        UserWarning,
        match=(
            r"rounding hides distances near 1e-08 between these points; .* certified at tol = 1e-07"
            r" instead"
        ),
    ):
        cone = Cone.from_points(P)
    assert cone.tol == pytest.approx(1e-7)
    cone.verify(P)


def test_many_points_are_projected_in_blocks():
    rng = np.random.default_rng(8)
    cone = Cone.from_points(planted(rng, 4, 7, 7))
    Y = rng.standard_normal((BLOCK_ROWS + 5, 4))
    last = slice(BLOCK_ROWS - 5, None)
    np.testing.assert_allclose(cone.project(Y)[last], cone.project(Y[last]), atol=1e-14)
    np.testing.assert_allclose(cone.residuals(Y)[last], cone.residuals(Y[last]), atol=1e-14)
    assert cone.coefficients(Y).shape == (BLOCK_ROWS + 5, 7)


def test_the_bound_on_products_of_rounded_points_holds_where_every_rounding_errs_most():
    # rounded down by nearly half a unit, and so is the square of what remains
    z = 1 + 1998 * 2.0**-23 + 0.999 * 2.0**-24
    largest, error = largest_products(np.array([[z], [z]], np.float32), np.array([z, z]))
    assert (largest >= z * z).all()
    assert (largest - 2 * error <= z * z).all()


def test_leads_that_float32_does_not_resolve_are_left_to_the_search():
    """Neighbours on a fine circle lead by less than float32's digits."""
    t = np.concatenate([2 * np.pi * np.arange(200) / 200, 2 + 1e-3 * np.arange(300)])
    U, _ = unit_rows(np.column_stack([2 + np.cos(t), 2 + np.sin(t), np.ones(500)]))
    quick = decide(U, 1e-8, budget=Budget.cheap())
    assert not quick.sure[201:499].any()
    assert decide(U, 1e-8, known=quick).sure[201:499].mean() > 0.9


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_shares_that_are_decided_at_different_places_give_the_same_cone(kind):
    """Each over all points; combinations over points that another share deleted are expressed once
    more."""
    rng = np.random.default_rng(4)
    P = planted(rng, 12, 30, 60)
    P = P if kind == "dense" else sp.csr_array(P * (rng.random(P.shape) < 0.4))
    P = P if kind == "dense" else P[np.diff(P.indptr) > 0]
    U = unit_rows(P)[0]
    U = U[group(U, np.ones(U.shape[0]), 1e-8)[0] == np.arange(U.shape[0])]
    whole = conclude(U, 1e-8, decide(U, 1e-8))
    shares = np.array_split(rng.permutation(U.shape[0]), 3)
    together = conclude(U, 1e-8, Decisions.join([decide(U, 1e-8, share) for share in shares]))
    np.testing.assert_array_equal(together.rays, whole.rays)
    everyone = np.arange(U.shape[0])
    certificate = together.certificate(U, everyone, everyone, 0.0, 1e-8)
    Cone(U[together.rays], certificate).verify(U)


def test_what_a_quick_cone_has_proven_is_not_asked_again():
    P = np.vstack([np.eye(4), np.ones((1, 4)), np.eye(4)[:1] + 1e-12])
    cone = Cone.from_points(P)
    leaders = np.flatnonzero(cone.certificate.leader == np.arange(len(P)))
    known = Decisions.from_certificate(cone.certificate, leaders)
    assert known.sure.tolist() == [True] * 4 + [False]
    S, h = known.combination[4]
    np.testing.assert_allclose(h @ (P / np.linalg.norm(P, axis=1)[:, None])[leaders][S], P[4] / 2)
    assert not known.undecided.any()
    assert sum(len(family.of) for family in known.families) == 4


@pytest.mark.parametrize(("n_rays", "dim", "terms"), [(60, 12, 60), (40, 25, 40), (30, 30, 5)])
def test_mixtures_are_found_inside_the_cone_of_known_rays(n_rays, dim, terms):
    rng, n = np.random.default_rng(0), 1500
    R = rng.gamma(1.0, size=(n_rays, dim))
    W = rng.exponential(size=(n, n_rays)) * (np.argsort(rng.random((n, n_rays)), axis=1) < terms)
    outside = np.vstack([-R[:5], R[:5] - R[5:10]])
    Z = np.vstack([R, W @ R, outside])
    found = inside_known(Z, np.arange(n_rays), np.arange(n_rays, len(Z)))
    assert 0.93 * n <= len(found) <= n  # nearly all mixtures, and nothing else
    for i, (S, h) in found.items():
        assert i < n_rays + n
        assert (h > 0).all()
        np.testing.assert_allclose(h @ Z[S], Z[i], rtol=0, atol=1e-9 * np.linalg.norm(Z[i]))


def test_where_few_points_are_inside_known_rays_only_a_sample_is_asked():
    """And none where there are few points: the search takes less time."""
    rng = np.random.default_rng(1)
    Z = np.vstack([np.eye(8)[:7], rng.random((20_000, 8)), np.eye(8, 7).T * 2])
    assert len(inside_known(Z, np.arange(7), np.arange(7, len(Z)))) < 10
    assert inside_known(Z, np.arange(7), np.arange(7, 400)) == {}


@pytest.mark.parametrize("n_known", [0, 5])
def test_the_search_decides_points_in_general_position_by_itself(n_known):
    """Nothing is left to `settle`: each ray has a functional of which it is the only maximiser,
    each other point a combination."""
    rng = np.random.default_rng(3)
    rays, inside = (
        rng.gamma(1.0, size=(30, 6)),
        rng.random((40, 30)) * (rng.random((40, 30)) < 0.2) + 1e-3,
    )
    U = unit(np.vstack([rays, inside @ rays]))
    is_ray = np.isin(np.arange(70), brute_force(U))
    frame, status = Frame.of(U), np.full(70, UNDECIDED)
    status[np.flatnonzero(is_ray)[:n_known]] = RAY
    functionals, combinations = search(frame, status, np.flatnonzero(status == UNDECIDED))
    np.testing.assert_array_equal(status, np.where(is_ray, RAY, REDUNDANT))
    assert set(functionals) == set(np.flatnonzero(is_ray)[n_known:])
    for i, functional in functionals.items():
        assert np.argmax(frame.Z @ functional) == i
    for i, (S, h) in combinations.items():
        assert i not in S
        np.testing.assert_allclose(h @ frame.lifted[S], frame.lifted[i], atol=1e-8)


def test_products_are_bounded_tile_by_tile():
    """Bounds hold for the largest product with another point, and are tight; the same for a share
    of the points."""
    Z = np.random.default_rng(2).standard_normal((23, 3))
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    # nearly equal points: the lead of one over the other is below float32's digits
    Z = np.vstack([Z, Z[[3, 9, 14]] * (1 + 1e-9)])
    G, share = Z @ Z.T, np.array([25, 3, 4, 0, 14, 9])
    np.fill_diagonal(G, -np.inf)
    single, norms = Z.astype(np.float32), np.linalg.norm(Z, axis=1)
    largest, error = largest_products(single, norms, tile=(4, 5))
    assert (largest >= G.max(axis=1)).all()
    assert (largest <= G.max(axis=1) + 2 * error).all()
    assert error.max() < 1e-5
    some, bounds = largest_products(single, norms, share, tile=(4, 5))
    assert (some >= G.max(axis=1)[share]).all()
    assert (some <= G.max(axis=1)[share] + 2 * bounds).all()
